/** Promises about the hint to a holder that its lock is wanted: sent when the queue begins, and said with grants and renewals. */
import assert from "node:assert/strict";
import type { Backend, Claim } from "../../contract/backend.ts";
import type { Trial } from "../trial.ts";
import { type ConformancePromise, promise as plainPromise } from "./promise.ts";

const promise = (sentence: string, body: (trial: Trial) => Promise<void>): ConformancePromise =>
  plainPromise(sentence, body, "wanted");

export const wantedPromises: readonly ConformancePromise[] = [
  promise(
    "tells the holder that a claim queues for its lock, and nothing of one that does not queue",
    async (trial) => {
      const [a, b] = [await trial.open(), await trial.open()];
      const wanted = listen(a);
      const [holder, waiter] = [trial.claim(), trial.claim()];
      const other = trial.claim({ name: `${trial.name}/other` });
      for (const claim of [holder, other]) {
        await trial.granted(a, claim);
        a.expectWanted?.(claim);
      }
      await trial.refused(b, trial.claim({ queues: false }), "the lock is held");
      assert.deepEqual(await bits(a, [holder, other]), [false, false], "a try does not queue");
      assert.deepEqual(wanted, []);
      await trial.refused(b, waiter, "the lock is held");
      await trial.eventually("the holder learns of it", () => (wanted.length > 0 ? true : undefined));
      assert.deepEqual([...new Set(wanted)], [holder.id]);
      await b.release(waiter);
    },
  ),

  promise("says with a grant and with a renewal that a claim queues", async (trial) => {
    const [a, b] = [await trial.open(), await trial.open()];
    const [holder, next, last] = [trial.claim(), trial.claim(), trial.claim()];
    const { wanted, mayLinger } = await trial.granted(a, holder);
    assert.equal(wanted ?? false, false, "nothing queues yet");
    assert.equal(mayLinger, true, "a lease whose holder learns that it is wanted may be kept for a while");
    a.expectWanted?.(holder);
    assert.deepEqual(await bits(a, [holder]), [false]);
    await trial.refused(b, next, "the lock is held");
    assert.deepEqual(await bits(a, [holder]), [true], "one queues");
    await trial.refused(a, last, "the lock is held");
    await a.release(holder);
    assert.equal((await trial.grantedAtLast(b, next)).wanted, true, "another queued when it was granted");
    b.expectWanted?.(next);
    await a.release(last);
    assert.deepEqual(await bits(b, [next]), [false], "none queues any more");
  }),

  promise("tells all readers that a writer waits", async (trial) => {
    const [a, b, c] = [await trial.open(), await trial.open(), await trial.open()];
    const readers = [trial.claim({ mode: "shared" }), trial.claim({ mode: "shared" })] as const;
    const heard = [listen(a), listen(b)];
    await trial.granted(a, readers[0]);
    await trial.granted(b, readers[1]);
    a.expectWanted?.(readers[0]);
    b.expectWanted?.(readers[1]);
    await trial.refused(c, trial.claim(), "readers hold the lock");
    await trial.eventually("both readers learn of it", () => (heard.every((ids) => ids.length > 0) ? true : undefined));
    assert.deepEqual(
      heard.map((ids) => [...new Set(ids)]),
      readers.map(({ id }) => [id]),
    );
    assert.deepEqual([await bits(a, [readers[0]]), await bits(b, [readers[1]])], [[true], [true]]);
  }),

  promise("tells the oldest of several holders that a claim waits for a place", async (trial) => {
    const [a, b] = [await trial.open(), await trial.open()];
    const wanted = listen(a);
    const holders = [trial.claim({ limit: 2 }), trial.claim({ limit: 2 })];
    for (const claim of holders) {
      await trial.granted(a, claim);
      a.expectWanted?.(claim);
    }
    await trial.refused(b, trial.claim({ limit: 2 }), "two hold the lock");
    await trial.eventually("the oldest learns of it", () => (wanted.length > 0 ? true : undefined));
    assert.deepEqual(await bits(a, holders), [true, false]);
    assert.deepEqual([...new Set(wanted)], [holders[0]?.id]);
  }),
];

/** The claims that are wanted, as the backend reports them. */
function listen(backend: Backend): string[] {
  const wanted: string[] = [];
  if (backend.listen === undefined) assert.fail("the backend has no listen(), through which it would say it");
  backend.listen({ lost: () => undefined, doubt: () => undefined, wanted: (id) => wanted.push(id) });
  return wanted;
}

async function bits(backend: Backend, claims: readonly Claim[]): Promise<readonly boolean[]> {
  const renewals = await backend.renew(claims);
  return renewals.map((renewal) => (renewal.held === true ? (renewal.wanted ?? false) : assert.fail("not renewed")));
}
