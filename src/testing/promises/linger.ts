/** Promises about holds that linger: the store shows that a holder may keep its lease unused, and tells it when another waits. */
import assert from "node:assert/strict";
import type { Trial } from "../trial.ts";
import { type ConformancePromise, promise as plainPromise } from "./promise.ts";

const promise = (sentence: string, body: (trial: Trial) => Promise<void>): ConformancePromise =>
  plainPromise(sentence, body, "linger");

/** Longer than any hand-over takes, also on a machine that is busy with other things. */
const LINGERS = { ttl: "20m", linger: "2m" } as const;

export const lingerPromises: readonly ConformancePromise[] = [
  promise("reserves fences for a lease that lingers, and shows to all how long it may", async (trial) => {
    const [a, b] = [await trial.open(), await trial.open()];
    const claim = trial.claim({ lingerMs: 40 });
    const { run, mayLinger } = await trial.granted(a, claim);
    assert.ok(run > 1, "the next holder in the same process needs a fence of its own");
    assert.equal(mayLinger, true);
    const { heldBy } = await trial.refused(b, trial.claim({ queues: false }), "the lock is held");
    assert.deepEqual(
      heldBy.map(({ lingerMs }) => lingerMs),
      [40],
      "in a refusal",
    );
    const shown = [await b.inspect(trial.name), await b.query(trial.name)];
    assert.deepEqual(
      shown.map(({ held }) => held.map(({ lingerMs }) => lingerMs)),
      [[40], [40]],
      "in inspect() and query()",
    );
    await a.release(claim);
    const other = trial.claim();
    await trial.grantedAtLast(a, other);
    const [holding] = (await b.inspect(trial.name)).held;
    assert.equal(holding?.lingerMs, undefined, "another claim of that process does not linger");
    await a.release(other);
  }),

  promise("serves a waiter, and a try, of another process while a hold lingers", async (trial) => {
    const [a, b] = [await trial.locks(LINGERS), await trial.locks()];
    for (const take of [
      () => b.acquire(trial.name, { wait: "30s" }),
      // Its time is bounded, and the machine may be slower.
      () => trial.eventually("a try has it", async () => (await b.tryAcquire(trial.name)) ?? undefined),
      () => b.acquire(trial.name, { wait: "30s" }),
    ]) {
      const first = await trial.within("it is taken", a.acquire(trial.name));
      await trial.within("released", first.release());
      const again = await trial.within("it is taken in memory", a.acquire(trial.name));
      assert.equal(again.fence, first.fence + 1n, "the next fence of the run");
      await trial.within("released", again.release());
      const taken = await trial.within(
        "an answer",
        take().catch(() => null),
      );
      assert.ok(taken, "a lock that nothing uses is given back");
      assert.ok(taken.fence > again.fence);
      await trial.within("released", taken.release());
    }
  }),
];
