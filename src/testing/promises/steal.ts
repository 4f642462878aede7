/** Promises about stealing: all leases end and the thief holds, before all who wait, in one step. */
import assert from "node:assert/strict";
import type { Backend, Claim, Granted } from "../../contract/backend.ts";
import type { Trial } from "../trial.ts";
import { type ConformancePromise, promise as plainPromise } from "./promise.ts";

const promise = (sentence: string, body: (trial: Trial) => Promise<void>): ConformancePromise =>
  plainPromise(sentence, body, "steal");

export const stealPromises: readonly ConformancePromise[] = [
  promise("steals a lock from its holder, before all who wait, and says so to all", async (trial) => {
    const [a, b] = [await trial.open(), await trial.open()];
    const [victim, waiter, thief] = [trial.claim(), trial.claim(), trial.claim({ holder: "ops@host" })];
    const { fence: before } = await trial.granted(a, victim);
    await trial.refused(a, waiter, "the lock is held");
    const { fence } = await steal(b, thief);
    assert.ok(fence > before, "with a greater fence");
    assert.equal((await a.renew([victim]))[0]?.held, false, "the victim holds no longer");
    assert.deepEqual(
      (await a.inspect(trial.name)).forced.map((one) => [one.fence, one.by, one.reason]),
      [[before, "ops@host", "deploy 17 hangs"]],
    );
    await trial.refused(a, waiter, "the thief holds the lock");
    assert.equal((await b.renew([thief]))[0]?.held, true);
    assert.equal(await a.release(victim), "absent");
    assert.equal(await b.release(thief), "held");
    await trial.grantedAtLast(a, waiter);
  }),

  promise("steals from all who share a lock, and from what a minHold keeps", async (trial) => {
    const [a, b] = [await trial.open(), await trial.open()];
    const readers = [trial.claim({ mode: "shared" }), trial.claim({ mode: "shared" })];
    for (const reader of readers) await trial.granted(a, reader);
    const thief = trial.claim();
    await steal(b, thief);
    assert.deepEqual(
      (await a.renew(readers)).map(({ held }) => held),
      [false, false],
    );
    await b.release(thief);
    const early = trial.claim({ minHoldMs: 2 * trial.patienceMs });
    await trial.granted(a, early);
    await a.release(early);
    await steal(b, trial.claim());
  }),

  promise(
    "gives a thief that holds the lock the lease that it has, and takes a free one as any claim",
    async (trial) => {
      const [a, b] = [await trial.open(), await trial.open()];
      const [thief, next] = [trial.claim(), trial.claim()];
      const { fence } = await steal(a, thief);
      assert.equal((await steal(a, thief)).fence, fence, "its reply may have been lost");
      assert.deepEqual((await a.inspect(trial.name)).forced, [], "no lease was ended by force");
      await trial.refused(b, next, "the lock is held");
      assert.equal((await steal(b, next)).granted, true, "who waits may steal, too");
      assert.deepEqual((await a.inspect(trial.name)).pending, [], "and waits no longer");
    },
  ),
];

async function steal(backend: Backend, claim: Claim): Promise<Granted> {
  if (backend.steal === undefined) assert.fail("the backend can steal and has no steal()");
  const answer = await backend.steal(claim, "deploy 17 hangs");
  return answer.granted ? answer : assert.fail("the steal was refused");
}
