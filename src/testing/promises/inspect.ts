/** Promises about looking at one lock: exactly that one, with what its processes say of themselves, and what keeps it taken. */
import assert from "node:assert/strict";
import type { Backend, LocalFacts } from "../../contract/backend.ts";
import type { Trial } from "../trial.ts";
import { type ConformancePromise, promise } from "./promise.ts";

export const inspectPromises: readonly ConformancePromise[] = [
  promise(
    "shows one lock by its exact name: who holds it, who waits in which order, who was forced out",
    async (trial) => {
      const [a, b] = [await trial.open(), await trial.open()];
      const [victim, holder, first, second] = [
        trial.claim(),
        trial.claim({ meta: { job: "7" } }),
        trial.claim(),
        trial.claim(),
      ];
      const { fence: old } = await trial.granted(a, victim);
      await b.forceRelease(trial.name, old, "ops", "stuck");
      const { fence } = await trial.granted(a, holder);
      await trial.granted(a, trial.claim({ name: `${trial.name}/other` }));
      for (const claim of [first, second]) await trial.refused(b, claim, "the lock is held");
      const { held, pending, forced, outcome, quarantineMs } = await b.inspect(trial.name);
      assert.deepEqual(
        held.map((one) => [one.name, one.fence, one.meta, one.remainder]),
        [[trial.name, fence, { job: "7" }, undefined]],
      );
      trial.isIdOf(holder, held[0]?.id);
      assert.deepEqual(
        pending.map(({ name, id, position }) => [name, id, position]),
        [first, second].map(({ id }, ahead) => [trial.name, id, ahead + 1]),
      );
      assert.deepEqual(
        forced.map((one) => [one.name, one.fence, one.by]),
        [[trial.name, old, "ops"]],
      );
      assert.deepEqual([outcome, quarantineMs], [undefined, undefined]);
      const none = await b.inspect(`${trial.name}/none`);
      assert.deepEqual([none.held, none.pending, none.forced], [[], [], []], "a lock that is not in use");
      await a.renew([holder]);
      assert.equal((await b.inspect(trial.name)).held[0]?.id, holder.id, "the claim of a lease that was renewed");
      await a.release(holder);
      await trial.grantedAtLast(b, first);
      trial.isIdOf(first, (await a.inspect(trial.name)).held[0]?.id);
    },
  ),

  promise(
    "says in which order claims were queued, for one lock or for several: the same in every answer",
    async (trial) => {
      const [a, b] = [await trial.open(), await trial.open()];
      const names = [trial.name, `${trial.name}/other`];
      for (const name of names) await trial.granted(a, trial.claim({ name }));
      const waiters = [0, 1, 0, 1].map((at) => trial.claim({ name: names[at]! }));
      for (const [at, claim] of waiters.entries()) {
        await trial.refused(at % 3 === 0 ? a : b, claim, "the lock is held");
        // A store may count milliseconds.
        await trial.sleep(5);
      }
      const orders = async (backend: Backend): Promise<readonly (bigint | undefined)[]> => {
        const found = await Promise.all(names.map((name) => backend.inspect(name)));
        const pending = found.flatMap((state) => state.pending);
        return waiters.map(({ id }) => pending.find((one) => one.id === id)?.order);
      };
      const seen = await orders(a);
      assert.deepEqual(await orders(b), seen, "to all who ask");
      assert.deepEqual(
        seen,
        seen.toSorted((one, other) => (one! < other! ? -1 : 1)),
        "in the order in which they came",
      );
      assert.equal(new Set(seen).size, waiters.length, "and no two the same");
      for (const claim of waiters) await b.attempt(claim);
      assert.deepEqual(await orders(a), seen, "also when they have asked again");
    },
    "waiters",
  ),

  promise("says of a lock that is only kept for its minHold that no claim holds it", async (trial) => {
    const [a, b] = [await trial.open(), await trial.open()];
    const claim = trial.claim({ minHoldMs: trial.ttlMs });
    const { sentMs, fence } = await trial.granted(a, claim);
    await a.release(claim);
    const { held } = await b.inspect(trial.name);
    trial.inTime(sentMs);
    assert.deepEqual(
      held.map((one) => [one.fence, one.remainder]),
      [[fence, "minHold"]],
    );
  }),

  promise("says of a lock that is only kept for its lockDelay that no claim holds it", async (trial) => {
    const [a, b] = [await trial.open(), await trial.open()];
    const claim = trial.brief({ lockDelayMs: trial.ttlMs });
    const { sentMs, fence } = await trial.granted(a, claim);
    // The store may have counted its ttl from any instant up to this one.
    const heardMs = trial.clock.now();
    const [before] = (await b.inspect(trial.name)).held;
    trial.inTime(sentMs);
    assert.equal(before?.remainder, undefined, "it is held");
    await trial.sleep(heardMs + trial.ttlMs * 1.3 - trial.clock.now());
    const { held } = await b.inspect(trial.name);
    trial.inTime(sentMs, 1.9);
    assert.deepEqual(
      held.map((one) => [one.fence, one.remainder]),
      [[fence, "lockDelay"]],
    );
    await trial.grantedAtLast(b, trial.claim());
  }),

  promise("shows what a process says of its own queue, and writes it anew when it has changed", async (trial) => {
    const [a, b] = [await trial.open(), await trial.open()];
    const [before, after] = [facts(trial, 1, 0), facts(trial, 7, 2)];
    const holder = trial.claim({ meta: { job: "1" }, local: { ...before, users: 1 } });
    const waiter = trial.claim({ local: before });
    await trial.granted(a, holder);
    await trial.refused(b, waiter, "the lock is held");
    const state = await a.inspect(trial.name);
    assert.deepEqual([state.held[0]?.local, state.pending[0]?.local], [{ ...before, users: 1 }, before]);
    await a.renew([{ ...holder, meta: { job: "2" }, local: after }]);
    assert.deepEqual(await shownBy(a, trial), [{ job: "1" }, 1], "a renewal without a change writes nothing");
    const changed = { ...holder, meta: { job: "2" }, local: after, changed: true };
    await trial.eventually("the holder's words are written", async () => {
      await a.renew([changed]);
      return (await shownBy(b, trial))[1] === 7 ? true : undefined;
    });
    assert.deepEqual((await b.inspect(trial.name)).held[0]?.local, after);
    assert.deepEqual((await b.inspect(trial.name)).held[0]?.meta, { job: "2" });
    await trial.eventually("the waiter's words are written", async () => {
      await b.attempt({ ...waiter, local: after, changed: true });
      return (await a.inspect(trial.name)).pending[0]?.local?.waiters === 7 ? true : undefined;
    });
    assert.deepEqual((await a.inspect(trial.name)).pending[0]?.local, after);
    assert.equal((await a.renew([holder]))[0]?.held, true, "the lease is none the worse");
    assert.equal(await b.release(waiter), "queued");
    assert.equal(await a.release(holder), "held");
  }),
];

function facts(trial: Trial, waiters: number, users: number): LocalFacts {
  const holds = Array.from({ length: waiters }, (_, at) => ({
    name: `${trial.name}/é ${at}`,
    fence: 2n ** 60n + BigInt(at),
    ...(at % 2 === 1 && { yields: true as const }),
  }));
  return { waiters, users, holds, holdsMore: waiters > 5 };
}

async function shownBy(backend: Backend, { name }: Trial): Promise<readonly [unknown, unknown]> {
  const [holding] = (await backend.inspect(name)).held;
  return [holding?.meta, holding?.local?.waiters];
}
