/** Promises about outcomes: kept with the release, in one step, for those who want them instead of the lock. */
import assert from "node:assert/strict";
import type { Backend, Claim, KeptOutcome, Outcome } from "../../contract/backend.ts";
import { OUTCOME_BYTES_MAX, OUTCOME_KEEP_MIN_MS } from "../../contract/claim.ts";
import type { Trial } from "../trial.ts";
import { type ConformancePromise, promise as plainPromise } from "./promise.ts";
import { watched } from "./watched.ts";

const promise = (sentence: string, body: (trial: Trial) => Promise<void>): ConformancePromise =>
  plainPromise(sentence, body, "outcomes");

export const outcomePromises: readonly ConformancePromise[] = [
  promise("keeps an outcome with a release, and answers with it those who want one", async (trial) => {
    const [a, b] = [await trial.open(), await trial.open()];
    const worker = wanting(trial, { holder: "web-3:812" });
    const { fence } = await trial.granted(a, worker);
    assert.equal((await a.inspect(trial.name)).outcome, undefined, "none is kept before");
    assert.equal(await a.release(worker, outcome(trial, "first", fence)), "held");
    for (const backend of [a, b]) {
      const kept = await done(trial, backend, wanting(trial));
      assert.deepEqual([kept.value, kept.fence, kept.holder], ["first", fence, "web-3:812"]);
      assert.ok(kept.ageMs >= 0 && kept.ageMs < trial.patienceMs, `${kept.ageMs} ms old`);
      assert.ok(kept.remainingMs > 0 && kept.remainingMs <= 2 * trial.patienceMs, `${kept.remainingMs} ms remain`);
      assert.equal((await backend.inspect(trial.name)).outcome?.value, "first");
    }
    await trial.nothingLeft(a);
    const next = trial.claim();
    const { fence: later } = await trial.granted(b, next);
    assert.ok(later > fence, "the lock itself is free, and its fences rise");
    assert.equal((await done(trial, a, wanting(trial))).value, "first", "also while the lock is held");
    assert.equal(await b.release(next, outcome(trial, "second", later)), "held");
    assert.equal((await done(trial, a, wanting(trial))).value, "second", "a later one replaces it");
  }),

  promise("keeps no outcome of a claim that does not hold the lock", async (trial) => {
    const [a, b] = [await trial.open(), await trial.open()];
    const [holder, waiter, forced] = [trial.claim(), trial.claim(), trial.claim()];
    const { fence: first } = await trial.granted(a, holder);
    await trial.refused(b, waiter, "the lock is held");
    assert.equal(await b.release(waiter, outcome(trial, "of a waiter", first)), "queued");
    assert.equal(await b.release(trial.claim(), outcome(trial, "of a stranger", first)), "absent");
    assert.equal(await a.release(holder), "held");
    assert.equal(await a.release(holder, outcome(trial, "too late", first)), "absent");
    await trial.granted(a, holder);
    assert.equal(await a.release(holder, outcome(trial, "of an earlier lease", first)), "absent");
    assert.equal(await a.release(holder), "absent", "a late attempt had taken the lock again: that lease is over, too");
    const { fence } = await trial.granted(a, forced);
    assert.equal(await b.forceRelease(trial.name, fence, "ops", "stuck"), true);
    assert.equal(await a.release(forced, outcome(trial, "of a lease that was ended by force", fence)), "absent");
    assert.equal((await b.inspect(trial.name)).outcome, undefined);
    await trial.granted(b, wanting(trial));
  }),

  promise("answers a release with an outcome that is asked for again as it did the first time", async (trial) => {
    const [a, b] = [await trial.open(), await trial.open()];
    const [worker, successor] = [trial.claim(), trial.claim()];
    const { fence } = await trial.granted(a, worker);
    assert.equal(await a.release(worker, outcome(trial, "once", fence)), "held");
    assert.equal(await a.release(worker, outcome(trial, "once", fence)), "held", "its reply may have been lost");
    await trial.granted(b, successor);
    assert.equal(
      await a.release(worker, outcome(trial, "once", fence)),
      "held",
      "also when the lock has another holder",
    );
    assert.equal(await b.release(successor), "held", "which held it until now");
    assert.equal(await a.release(worker), "absent", "a release without the outcome knows nothing of it");
  }),

  promise("brings news to all who wait for an outcome, and the lock to the next who does not", async (trial) => {
    const [a, b] = [await trial.open(), await trial.open()];
    const worker = trial.claim();
    const [first, plain, second] = [wanting(trial), trial.claim(), wanting(trial)];
    const { fence } = await trial.granted(a, worker);
    for (const [backend, claim] of [
      [b, first],
      [a, plain],
      [a, second],
    ] as const) {
      await trial.refused(backend, claim, "the lock is held");
    }
    const stop = new AbortController();
    const news = [watched(b, first, stop.signal), watched(a, second, stop.signal)];
    await trial.sleep(trial.ttlMs / 5);
    assert.equal(await a.release(worker, outcome(trial, "news", fence)), "held");
    for (const one of news) assert.equal(await trial.within("news of the outcome", one), undefined, "not a grant");
    assert.equal((await done(trial, b, first)).value, "news");
    assert.equal((await done(trial, a, second)).value, "news");
    await trial.grantedAtLast(a, plain);
    assert.deepEqual((await b.query(trial.name)).pending, [], "who has an outcome waits no longer");
    await a.release(plain);
  }),

  promise("keeps an outcome for as long as was asked, and no longer", async (trial) => {
    const [a, b] = [await trial.open(), await trial.open()];
    const worker = trial.claim();
    const { fence } = await trial.granted(a, worker);
    const keepMs = Math.max(OUTCOME_KEEP_MIN_MS, trial.ttlMs);
    const sentMs = trial.clock.now();
    assert.equal(await a.release(worker, { value: "for a while", keepMs, fence }), "held");
    for (;;) {
      const answer = await b.attempt(wanting(trial, { queues: false }));
      const nowMs = trial.clock.now();
      if (nowMs >= sentMs + keepMs - trial.slackMs) break;
      assert.equal(answer.granted ? "granted" : answer.outcome?.value, "for a while");
      await trial.sleep(keepMs / 10);
    }
    await trial.eventually("its time is over", async () =>
      (await b.inspect(trial.name)).outcome === undefined ? true : undefined,
    );
  }),

  promise("removes an outcome by the fence of its lease, and nothing else", async (trial) => {
    const [a, b] = [await trial.open(), await trial.open()];
    if (b.forget === undefined) assert.fail("the backend keeps outcomes and has no forget()");
    const [worker, successor] = [trial.claim(), trial.claim()];
    const { fence } = await trial.granted(a, worker);
    assert.equal(await b.forget(trial.name, fence), false, "a lease is no outcome");
    await a.release(worker, outcome(trial, "wrong", fence));
    const { fence: later } = await trial.granted(a, successor);
    for (const wrong of [fence - 1n, fence + 1n, later]) assert.equal(await b.forget(trial.name, wrong), false);
    assert.equal(await b.forget(`${trial.name}/other`, fence), false);
    assert.equal((await a.inspect(trial.name)).outcome?.value, "wrong");
    assert.equal(await b.forget(trial.name, fence), true);
    assert.equal(await b.forget(trial.name, fence), false, "it is gone");
    assert.equal((await a.inspect(trial.name)).outcome, undefined);
    assert.equal((await a.renew([successor]))[0]?.held, true, "the holder of now still holds");
    await trial.refused(b, wanting(trial), "the lock is held and has no outcome");
  }),

  promise("keeps outcomes as they are: long ones, empty ones, and any characters", async (trial) => {
    const backend = await trial.open();
    const special = '{"text":"é ☃ 𝒳 \\u0000","lines":"a\nb\r\n\t"}\0';
    for (const value of ["", special, "x".repeat(OUTCOME_BYTES_MAX)]) {
      const worker = trial.claim();
      const { fence } = await trial.granted(backend, worker);
      assert.equal(await backend.release(worker, outcome(trial, value, fence)), "held");
      assert.ok(
        (await done(trial, backend, wanting(trial))).value === value,
        `${value.length} characters as they were`,
      );
    }
  }),
];

function wanting(trial: Trial, change: Partial<Claim> = {}): Claim {
  return trial.claim({ wantsOutcome: true, ...change });
}

/** Kept for longer than the check takes; the check removes it in the end. */
function outcome(trial: Trial, value: string, fence: bigint): Outcome {
  return { value, keepMs: Math.max(OUTCOME_KEEP_MIN_MS, 2 * trial.patienceMs), fence };
}

async function done(trial: Trial, backend: Backend, claim: Claim): Promise<KeptOutcome> {
  const answer = await trial.refused(backend, claim, "the lock has an outcome");
  assert.equal(answer.position, undefined, "nothing is queued");
  return answer.outcome ?? assert.fail("refused without the outcome that is kept");
}
