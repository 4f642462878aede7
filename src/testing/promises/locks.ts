/** Promises as a user sees them: the same backend through createLocks(). */
import assert from "node:assert/strict";
import type { Lease } from "../../core/api.ts";
import { LockBackendError, LockLostError, LockTimeoutError } from "../../contract/errors.ts";
import { TooSlowError } from "../trial.ts";
import { type ConformancePromise, promise } from "./promise.ts";

export const locksPromises: readonly ConformancePromise[] = [
  promise("runs functions one at a time, within a process and across, with rising fences", async (trial) => {
    const processes = [await trial.locks(), await trial.locks(), await trial.locks()];
    let inside = 0;
    const fences: bigint[] = [];
    const visit = async ({ fence }: Lease): Promise<void> => {
      assert.equal(++inside, 1, "two inside at once");
      fences.push(fence);
      await trial.sleep(1);
      inside--;
    };
    const visits = processes.flatMap((locks) =>
      Array.from({ length: 5 }, () => locks.run(trial.name, { wait: Infinity }, visit)),
    );
    await trial.within("all had a turn", Promise.all(visits));
    assert.deepEqual(
      fences,
      fences.toSorted((x, y) => Number(x - y)),
    );
    assert.equal(new Set(fences).size, visits.length, "no fence twice");
  }),

  promise("resolves tryAcquire() to null while another process holds the lock", async (trial) => {
    const [a, b] = [await trial.locks(), await trial.locks()];
    const lease = await trial.within("a free lock is taken", a.tryAcquire(trial.name));
    assert.ok(lease, "a free lock is taken");
    assert.equal(await trial.within("an answer", b.tryAcquire(trial.name)), null);
    assert.equal(await trial.within("released", lease.release()), "released");
    assert.ok(await trial.eventually("it is free", async () => (await b.tryAcquire(trial.name)) ?? undefined));
  }),

  promise(
    "never says busy to a reader's try once the writer is gone, also while a reader of its process waits",
    async (trial) => {
      const [a, b] = [await trial.locks(), await trial.locks()];
      for (let turn = 0; turn < 5; turn++) {
        const writer = await trial.within("a free lock is taken", a.acquire(trial.name));
        // With other terms, so the try cannot share its lease.
        const waiting = b.acquire(trial.name, { mode: "shared", meta: { turn: String(turn) }, wait: Infinity });
        assert.equal(
          await trial.within("an answer", b.tryAcquire(trial.name, { mode: "shared" })),
          null,
          "a writer has it",
        );
        assert.equal(await trial.within("released", writer.release()), "released");
        const reader = await trial.within("an answer", b.tryAcquire(trial.name, { mode: "shared" }));
        assert.ok(reader, "the writer is gone, and readers do not shut each other out");
        const other = await trial.within("the other reader is in", waiting);
        await trial.within("released", Promise.all([reader.release(), other.release()]));
      }
    },
  ),

  promise("gives up waiting in time, says who holds the lock, and leaves no claim behind", async (trial) => {
    const [a, b] = [await trial.locks({ holder: "web-3:812" }), await trial.locks()];
    await trial.within("a free lock is taken", a.acquire(trial.name));
    const waiting = b.acquire(trial.name, { wait: Math.round(trial.ttlMs / 2) });
    await assert.rejects(trial.within("the wait ends", waiting), (error: unknown) => {
      const isSilent = error instanceof LockBackendError && !error.fatal;
      if (isSilent) throw new TooSlowError(`the wait was over before the store answered: ${error.message}`);
      assert.ok(error instanceof LockTimeoutError, `a LockTimeoutError, not ${String(error)}`);
      if (error.heldBy.length === 0) throw new TooSlowError("the wait was over before a holder was named");
      assert.match(error.message, /web-3:812/);
      return true;
    });
    await trial.eventually("no claim waits", async () =>
      (await b.query(trial.name)).pending.length === 0 ? true : undefined,
    );
  }),

  promise("stops waiting when the caller's signal aborts, and leaves no claim behind", async (trial) => {
    const [a, b] = [await trial.locks(), await trial.locks()];
    await trial.within("a free lock is taken", a.acquire(trial.name));
    const stop = new AbortController();
    const waiting = b.acquire(trial.name, { wait: Infinity, signal: stop.signal });
    const reason = new Error("no longer wanted");
    await trial.sleep(trial.ttlMs / 10);
    stop.abort(reason);
    await assert.rejects(trial.within("the wait ends", waiting), reason);
    await trial.eventually("no claim waits", async () =>
      (await b.query(trial.name)).pending.length === 0 ? true : undefined,
    );
  }),

  promise("keeps a lease alive for as long as its holder wants it", async (trial) => {
    const [a, b] = [await trial.locks({ ttl: trial.ttlMs }), await trial.locks()];
    let lookedMs = trial.clock.now();
    const lease = await trial.within("a free lock is taken", a.acquire(trial.name));
    for (const untilMs = lookedMs + 3 * trial.ttlMs; lookedMs < untilMs;) {
      await trial.sleep(trial.ttlMs / 5);
      const beforeMs = lookedMs;
      lookedMs = trial.clock.now();
      const asked = b.tryAcquire(trial.name).catch((error: unknown) => {
        trial.inTime(beforeMs, 0.5);
        throw error;
      });
      const rival = await trial.within("an answer", asked);
      // A renewal that leaves after a third of the ttl has as much time as this look had, and must not need more.
      trial.inTime(beforeMs, 0.5);
      assert.equal(rival, null, "a rival got in");
      lease.assertHeld();
    }
    assert.equal(await trial.within("released", lease.release()), "released");
  }),

  promise("takes several locks all or none", async (trial) => {
    const [a, b] = [await trial.locks(), await trial.locks()];
    const names = [`${trial.name}/2`, `${trial.name}/1`] as const;
    const one = await trial.within("a free lock is taken", a.acquire(names[0]));
    assert.equal(await trial.within("an answer", b.tryAcquire(names)), null, "one of them is held");
    const other = await trial.eventually(
      "the other was left free",
      async () => (await a.tryAcquire(names[1])) ?? undefined,
    );
    await trial.within("released", Promise.all([one.release(), other.release()]));
    const both = await trial.within("both are taken", b.acquire(names));
    assert.equal(both.fences.size, 2);
    for (const name of names) assert.equal(await trial.within("an answer", a.tryAcquire(name)), null, "both are held");
  }),

  promise("aborts a holder's signal when its lease was ended by force", async (trial) => {
    const [a, b] = [await trial.locks({ ttl: trial.ttlMs }), await trial.locks()];
    const lease = await trial.within("a free lock is taken", a.acquire(trial.name));
    const { signal, fence } = lease;
    await b.forceRelease(trial.name, { fence, reason: "deploy 17 hangs" });
    await trial.eventually("the signal aborts", () => (signal.aborted ? true : undefined));
    assert.ok(signal.reason instanceof LockLostError);
    assert.equal(signal.reason.fence, fence);
    assert.equal(lease.remaining(), 0);
    assert.throws(() => lease.assertHeld(), LockLostError);
    assert.equal(await trial.within("an answer", lease.release()), "lost");
  }),

  promise("releases everything on close()", async (trial) => {
    const [a, b] = [await trial.locks(), await trial.locks()];
    for (const end of ["/1", "/2"]) await trial.within("a free lock is taken", a.acquire(trial.name + end));
    const waiting = b.acquire(`${trial.name}/1`, { wait: Infinity });
    await trial.within("closed", a.close());
    const lease = await trial.within("the next has it", waiting);
    await trial.within("released", lease.release());
    const { held, pending } = await b.query(trial.name);
    assert.deepEqual([held, pending], [[], []], "nothing is left");
  }),
];
