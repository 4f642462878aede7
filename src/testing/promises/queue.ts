/** Promises about waiting: first come, first served, with notifications or without, and past dead waiters. */
import assert from "node:assert/strict";
import type { Backend, Claim } from "../../contract/backend.ts";
import { type ConformancePromise, promise } from "./promise.ts";

export const queuePromises: readonly ConformancePromise[] = [
  promise("grants waiting claims in the order in which they came, even when no message arrives", async (trial) => {
    const backends = [await trial.open(), await trial.open()];
    const claims = Array.from({ length: 6 }, () => trial.claim());
    const backendOf = (claim: Claim): Backend => backends[claims.indexOf(claim) % 2] as Backend;
    for (const claim of claims) await backendOf(claim).attempt(claim);
    for (const [turn, holder] of claims.entries()) {
      // The last asks first: a store that serves the one that asks would fail here.
      const tempt = async (why: string): Promise<void> => {
        for (const waiter of claims.slice(turn + 1).toReversed()) await trial.refused(backendOf(waiter), waiter, why);
      };
      await tempt(`claim ${turn + 1} of ${claims.length} is next`);
      await trial.grantedAtLast(backendOf(holder), holder);
      await tempt(`claim ${turn + 1} of ${claims.length} holds`);
      await backendOf(holder).release(holder);
    }
    await trial.nothingLeft(backends[0] as Backend);
  }),

  promise("lets no claim pass the queue, not even one that does not queue", async (trial) => {
    const [a, b] = [await trial.open(), await trial.open()];
    const [holder, waiter] = [trial.claim(), trial.claim()];
    await trial.granted(a, holder);
    await trial.refused(b, waiter, "the lock is held");
    await a.release(holder);
    await trial.refused(a, trial.claim({ queues: false }), "another claim waits already");
    await trial.grantedAtLast(b, waiter);
  }),

  promise("keeps one place for a claim that asks again while it waits", async (trial) => {
    const backend = await trial.open();
    const [holder, first, second] = [trial.claim(), trial.claim(), trial.claim()];
    await trial.granted(backend, holder);
    const places: (number | undefined)[] = [];
    for (const claim of [first, second, first, second, first]) {
      places.push((await trial.refused(backend, claim, "the lock is held")).position);
    }
    assert.deepEqual(places, [1, 2, 1, 2, 1]);
    assert.equal((await backend.query(trial.name)).pending.length, 2, "two wait");
    for (const claim of [first, second, holder]) await backend.release(claim);
  }),

  promise("moves the others up when a waiting claim leaves", async (trial) => {
    const [a, b] = [await trial.open(), await trial.open()];
    const [holder, first, second] = [trial.claim(), trial.claim(), trial.claim()];
    await trial.granted(a, holder);
    await trial.refused(a, first, "the lock is held");
    await trial.refused(b, second, "the lock is held");
    await a.release(first);
    // A copy of the store that is a moment behind may still show the one that left.
    await trial.eventually("the second is next", async () => {
      const { position } = await trial.refused(b, second, "the lock is held");
      return position === 1 || undefined;
    });
    await a.release(holder);
    await trial.grantedAtLast(b, second);
  }),

  promise("gives up the place of a waiting claim that asks without queueing, and never its lease", async (trial) => {
    const [a, b] = [await trial.open(), await trial.open()];
    const [holder, first, second] = [trial.claim(), trial.claim(), trial.claim()];
    const leaving = { ...first, queues: false };
    await trial.granted(a, holder);
    await trial.refused(b, first, "the lock is held");
    await trial.refused(a, second, "the lock is held");
    await trial.refused(b, leaving, "the lock is held");
    assert.ok((await a.query(trial.name)).pending.length <= 1, "it waits no longer");
    await a.release(holder);
    await trial.grantedAtLast(a, second);
    await a.release(second);
    const { fence } = await trial.granted(b, first);
    assert.equal((await trial.granted(b, leaving)).fence, fence, "it is the same lease");
    await b.release(first);
    await trial.nothingLeft(a);
  }),

  promise("brings a waiter news when its turn has come", async (trial) => {
    const [a, b] = [await trial.open(), await trial.open()];
    const [holder, waiter] = [trial.claim(), trial.claim()];
    await trial.granted(a, holder);
    await trial.refused(b, waiter, "the lock is held");
    const news = watch(b, waiter, new AbortController().signal);
    await trial.sleep(trial.ttlMs / 5);
    await a.release(holder);
    await trial.within("news of the release", news);
    await trial.grantedAtLast(b, waiter);
  }),

  promise("trusts a grant that came as news no longer than the store keeps it", async (trial) => {
    const [a, b] = [await trial.open(), await trial.open()];
    const holder = trial.claim();
    const waiter = trial.brief();
    await trial.granted(a, holder);
    await trial.refused(b, waiter, "the lock is held");
    const askedMs = trial.clock.now();
    const news = watch(b, waiter, new AbortController().signal);
    await trial.sleep(trial.ttlMs / 5);
    await a.release(holder);
    trial.inTime(askedMs);
    const granted = await trial.within("news of the release", news);
    if (granted === undefined) return;
    const fromMs = granted.fromMs ?? askedMs;
    assert.ok(fromMs <= trial.clock.now(), "trust counts from an instant that has passed");
    await trial.keptUntil(fromMs + (granted.ttlMs ?? waiter.ttlMs), a, () => trial.claim({ queues: false }));
  }),

  promise("ends a watch when its signal aborts, and keeps the claim's place", async (trial) => {
    const [a, b] = [await trial.open(), await trial.open()];
    const [holder, first, second] = [trial.claim(), trial.claim(), trial.claim()];
    await trial.granted(a, holder);
    await trial.refused(b, first, "the lock is held");
    await trial.refused(a, second, "the lock is held");
    const stop = new AbortController();
    const news = watch(b, first, stop.signal);
    await trial.sleep(trial.ttlMs / 10);
    stop.abort();
    assert.equal(await trial.within("the watch ends", news), undefined);
    assert.equal(await trial.within("no watch begins", watch(b, first, AbortSignal.abort())), undefined);
    assert.equal((await trial.refused(b, first, "the lock is held")).position, 1);
    await a.release(holder);
    await trial.refused(a, second, "the first waiter is ahead");
    await trial.grantedAtLast(b, first);
  }),

  promise("does not leave a watch hanging when the grant came before it", async (trial) => {
    const [a, b] = [await trial.open(), await trial.open()];
    const [holder, waiter] = [trial.claim(), trial.claim()];
    await trial.granted(a, holder);
    await trial.refused(b, waiter, "the lock is held");
    await a.release(holder);
    await trial.within("news", watch(b, waiter, new AbortController().signal));
    await trial.grantedAtLast(b, waiter);
  }),

  promise("lets the living pass a waiter that died", async (trial) => {
    const [a, dead, b] = [await trial.open(), await trial.open(), await trial.open()];
    const holder = trial.claim();
    await trial.granted(a, holder);
    await trial.refused(dead, trial.brief(), "the lock is held");
    await trial.crash(dead);
    const waiter = trial.brief();
    await trial.refused(b, waiter, "the lock is held");
    await a.release(holder);
    await trial.grantedAtLast(b, waiter);
  }),

  promise("hands over in one step: swap() releases one claim and attempts the next", async (trial) => {
    const backend = await trial.open();
    const [first, second] = [trial.claim(), trial.claim()];
    const before = await trial.granted(backend, first);
    const after = await swap(backend, first, second);
    assert.ok(after.granted, "no claim waits, so the next one holds");
    assert.ok(after.fence >= before.fence + BigInt(before.run), "with fences of its own");
    const again = await swap(backend, first, second);
    assert.ok(again.granted && again.fence === after.fence, "asked again, it answers the same");
    assert.deepEqual(
      (await backend.renew([first, second])).map(({ held }) => held),
      [false, true],
    );
  }),

  promise("lets those who wait go first in a swap()", async (trial) => {
    const [a, b] = [await trial.open(), await trial.open()];
    const [first, waiter, second] = [trial.claim(), trial.claim(), trial.claim()];
    await trial.granted(a, first);
    await trial.refused(b, waiter, "the lock is held");
    const answer = await swap(a, first, second);
    assert.equal(answer.granted, false, "another claim waited before");
    await trial.grantedAtLast(b, waiter);
    await b.release(waiter);
    await trial.grantedAtLast(a, second);
  }),
];

function watch(backend: Backend, claim: Claim, signal: AbortSignal): ReturnType<NonNullable<Backend["watch"]>> {
  if (backend.watch === undefined) assert.fail("the backend has no watch(): decline the promise, and say why");
  return backend.watch(claim, signal);
}

function swap(backend: Backend, held: Claim, next: Claim): ReturnType<NonNullable<Backend["swap"]>> {
  if (backend.swap === undefined) assert.fail("the backend has no swap(): decline the promise, and say why");
  return backend.swap(held, next);
}
