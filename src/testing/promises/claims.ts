/** Promises about claims: one holds, an answer can be asked for again, and what ended leaves nothing behind. */
import assert from "node:assert/strict";
import type { Backend, Claim } from "../../contract/backend.ts";
import type { Trial } from "../trial.ts";
import { type ConformancePromise, promise } from "./promise.ts";

export const claimPromises: readonly ConformancePromise[] = [
  promise("grants a free lock to one claim and refuses the next", async (trial) => {
    const [a, b] = [await trial.open(), await trial.open()];
    await trial.granted(a, trial.claim());
    await trial.refused(a, trial.claim(), "another claim of the same process holds the lock");
    await trial.refused(b, trial.claim(), "a claim of another process holds the lock");
  }),

  promise("gives a claim that asks again the same lease", async (trial) => {
    const backend = await trial.open();
    const claim = trial.claim();
    const first = await trial.granted(backend, claim);
    const again = await trial.granted(backend, claim);
    assert.deepEqual([again.fence, again.run], [first.fence, first.run], "the same fence and run");
    assert.equal((await backend.query(trial.name)).held.length, 1, "one lease");
    assert.equal(await backend.release(claim), "held");
    await trial.granted(backend, trial.claim());
  }),

  promise("keeps a lease that was asked for again as long as the answer may be trusted", async (trial) => {
    const backend = await trial.open();
    const claim = trial.brief();
    await trial.granted(backend, claim);
    await trial.sleep(trial.ttlMs * 0.6);
    const again = await trial.granted(backend, claim);
    await trial.keptUntil((again.fromMs ?? again.sentMs) + (again.ttlMs ?? claim.ttlMs), backend, () =>
      trial.claim({ queues: false }),
    );
  }),

  promise(
    "releases: says that the claim was held, or that it does not know it, and the lock is free",
    async (trial) => {
      const [a, b] = [await trial.open(), await trial.open()];
      const claim = trial.claim();
      await trial.granted(a, claim);
      assert.equal(await a.release(claim), "held");
      assert.equal(await a.release(claim), "absent", "a second release ends nothing");
      assert.equal(await a.release(trial.claim()), "absent", "the store never knew this claim");
      await trial.granted(b, trial.claim());
    },
  ),

  promise("lets no claim release another's lease", async (trial) => {
    const [a, b] = [await trial.open(), await trial.open()];
    const holder = trial.claim();
    await trial.granted(a, holder);
    assert.equal(await b.release(trial.claim()), "absent");
    const [renewal] = await a.renew([holder]);
    assert.equal(renewal?.held, true, "the holder still holds");
    await trial.refused(b, trial.claim(), "the lock is held");
  }),

  promise("does not let a stale release hurt the successor", async (trial) => {
    const [a, b] = [await trial.open(), await trial.open()];
    const stale = trial.claim();
    await trial.granted(a, stale);
    await a.release(stale);
    // Of the same process too, which may use again what it had for the stale one.
    for (const next of [a, b]) {
      const successor = trial.claim();
      await trial.granted(next, successor);
      assert.equal(await a.release(stale), "absent", "the stale lease ended before");
      const [renewal] = await next.renew([successor]);
      assert.equal(renewal?.held, true, "the successor still holds");
      await trial.refused(next === a ? b : a, trial.claim({ queues: false }), "the successor holds the lock");
      assert.equal(await next.release(successor), "held", "the successor held until now");
    }
  }),

  promise("renews a lease, not a claim: one that has taken the lock again has another", async (trial) => {
    const backend = await trial.open();
    const claim = trial.claim();
    const { fence: before } = await trial.granted(backend, claim);
    assert.equal((await backend.renew([claim], [before]))[0]?.held, true, "the lease is still the same");
    assert.equal(await backend.release(claim), "held");
    const { fence } = await trial.granted(backend, claim);
    assert.notEqual(fence, before);
    assert.equal((await backend.renew([claim], [before]))[0]?.held, false, "that lease is over");
    assert.equal((await backend.renew([claim], [fence]))[0]?.held, true, "and the new one is none the worse");
    assert.equal((await backend.renew([claim]))[0]?.held, true);
  }),

  promise("removes a waiting claim on release", async (trial) => {
    const [a, b] = [await trial.open(), await trial.open()];
    const [holder, waiter, next] = [trial.claim(), trial.claim(), trial.claim()];
    await trial.granted(a, holder);
    await trial.refused(b, waiter, "the lock is held");
    assert.equal(await b.release(waiter), "queued", "it gave up its place, not a lease");
    assert.deepEqual((await a.query(trial.name)).pending, [], "no claim waits");
    await a.release(holder);
    await trial.granted(a, next);
  }),

  promise("keeps nothing of a refused claim that does not queue", async (trial) => {
    const [a, b] = [await trial.open(), await trial.open()];
    const holder = trial.claim();
    await trial.granted(a, holder);
    const answer = await trial.refused(b, trial.claim({ queues: false }), "the lock is held");
    assert.equal(answer.position, undefined, "no place in the queue");
    assert.deepEqual((await a.query(trial.name)).pending, [], "no claim waits");
    await a.release(holder);
    await trial.granted(a, trial.claim({ queues: false }));
  }),

  promise("keeps different locks apart", async (trial) => {
    const backend = await trial.open();
    const names = ["", "/1", "/2"].map((end) => trial.name + end);
    await Promise.all(names.map((name) => trial.granted(backend, trial.claim({ name }))));
  }),

  promise("leaves nothing in the store after everything has ended", async (trial) => {
    const [a, b] = [await trial.open(), await trial.open()];
    const claims = [1, 2, 3, 4].map(() => trial.claim());
    for (const claim of claims) await a.attempt(claim);
    const reader = trial.claim({ mode: "shared" });
    await b.attempt(reader);
    for (const claim of claims) await a.release(claim);
    await b.release(reader);
    await trial.nothingLeft(a);
  }),

  promise("serves a storm of claimants one at a time, every one of them, with rising fences", async (trial) => {
    const backends = await Promise.all([1, 2, 3].map(() => trial.open()));
    const inside = new Set<string>();
    const fences: bigint[] = [];
    const visit = async (backend: Backend, claim: Claim): Promise<void> => {
      const { fence } = await waitFor(trial, backend, claim);
      inside.add(claim.id);
      assert.equal(inside.size, 1, `${inside.size} inside at once`);
      fences.push(fence);
      await trial.sleep(1);
      assert.equal(inside.size, 1, `${inside.size} inside at once`);
      inside.delete(claim.id);
      assert.equal(await backend.release(claim), "held");
    };
    const visitors = backends.flatMap((backend) => Array.from({ length: 8 }, () => visit(backend, trial.claim())));
    await Promise.all(visitors);
    assert.equal(fences.length, visitors.length, "all were served");
    assert.deepEqual(
      fences,
      fences.toSorted((x, y) => Number(x - y)),
      "fences in the order of entry",
    );
    assert.equal(new Set(fences).size, fences.length, "no fence twice");
    await trial.nothingLeft(backends[0] as Backend);
  }),
];

/** Waits as the core does: attempt, then news if the backend brings any, then attempt again. */
async function waitFor(trial: Trial, backend: Backend, claim: Claim): Promise<{ readonly fence: bigint }> {
  return trial.eventually("every claimant is served", async () => {
    const answer = await backend.attempt(claim);
    if (answer.granted) return answer;
    const pause = trial.sleep(trial.ttlMs / 10);
    if (backend.watch === undefined) return pause.then(() => undefined);
    const stop = new AbortController();
    const granted = await Promise.race([backend.watch(claim, stop.signal), pause]);
    stop.abort();
    return granted ?? undefined;
  });
}
