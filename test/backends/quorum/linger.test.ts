/** `linger` over a quorum: a waiter tells the holder once, not with each round, and the holder does not forget it. */
import { expect, test } from "vitest";
import type { Backend, Claim } from "../../../src/contract/backend.ts";
import { type FakeClock, seeded } from "../../../src/testing/index.ts";
import { newClaim } from "./servers.ts";
import { type FakeMember, fakeQuorum, granted } from "./fake-members.ts";

const name = "lock";
/** Only what is tested ends a lease. */
const LONG = { maxTtl: "20m" } as const;

/** How often each member is asked from now on to tell the holder. Only some reach it. */
function countWants(fakes: readonly FakeMember[], reaches: readonly boolean[] = fakes.map(() => true)): number[] {
  const counts = fakes.map(() => 0);
  for (const [at, { member, store }] of fakes.entries()) {
    const want = async (lock: string): Promise<void> => {
      counts[at]!++;
      if (reaches[at] !== true) throw new Error("connection refused");
      store.want(lock);
    };
    Object.assign(member, { want });
  }
  return counts;
}

/** Asks as the core does, until it is granted or `rounds` are over. */
async function ask(backend: Backend, claim: Claim, clock: FakeClock, rounds: number): Promise<boolean> {
  for (let round = 0; round < rounds; round++) {
    const answer = await backend.attempt(claim);
    if (answer.granted) return true;
    await clock.advance(answer.retryMs ?? 100);
  }
  return false;
}

test("a claim that waits tells the holder once for each lease that is in its way, however often it asks", async () => {
  const { clock, fakes, open } = fakeQuorum(3);
  const counts = countWants(fakes);
  const [a, b, c] = [open(LONG), open({ ...LONG, chance: seeded(2) }), open({ ...LONG, chance: seeded(3) })];
  const lingers = { name, ttlMs: 600_000, lingerMs: 60_000 };
  const first = newClaim(lingers);
  await granted(a, first);
  const waiter = newClaim({ name, ttlMs: 600_000, queues: true });
  expect(await ask(b, waiter, clock, 20)).toBe(false);
  expect(counts).toEqual([1, 1, 1]);
  // Another claim that waits says it for itself.
  const second = newClaim({ ...lingers, queues: true });
  expect(await ask(c, second, clock, 20)).toBe(false);
  expect(counts).toEqual([2, 2, 2]);
  await a.release(first);
  expect(await ask(c, second, clock, 20)).toBe(true);
  expect(await ask(b, waiter, clock, 20)).toBe(false);
  expect(counts).toEqual([3, 3, 3]);
});

test("no message goes to a holder that does not linger, and none comes from a claim that does not queue", async () => {
  const { clock, fakes, open } = fakeQuorum(3);
  const counts = countWants(fakes);
  const [a, b] = [open(LONG), open({ ...LONG, chance: seeded(2) })];
  const plain = newClaim({ name, ttlMs: 600_000 });
  await granted(a, plain);
  await ask(b, newClaim({ name, ttlMs: 600_000, queues: true }), clock, 5);
  const lingers = newClaim({ name: "other", ttlMs: 600_000, lingerMs: 60_000 });
  await granted(a, lingers);
  await ask(b, newClaim({ name: "other", ttlMs: 600_000 }), clock, 5);
  expect(counts).toEqual([0, 0, 0]);
});

test("one member that reaches the holder is enough, and a renewal does not take it back", async () => {
  const { clock, fakes, open } = fakeQuorum(3);
  const counts = countWants(fakes, [false, false, true]);
  const [a, b] = [open(LONG), open({ ...LONG, chance: seeded(2) })];
  const reports: string[] = [];
  a.listen?.({ lost: () => undefined, doubt: () => undefined, wanted: (id) => reports.push(id) });
  const lingers = newClaim({ name, ttlMs: 600_000, lingerMs: 60_000 });
  await granted(a, lingers);
  expect(await a.renew([lingers])).toEqual([expect.not.objectContaining({ wanted: true })]);
  await ask(b, newClaim({ name, ttlMs: 600_000, queues: true }), clock, 5);
  expect(counts).toEqual([1, 1, 1]);
  expect(reports).toEqual([lingers.id]);
  expect(await a.renew([lingers])).toMatchObject([{ held: true, wanted: true }]);
  // It is over with the lease.
  await a.release(lingers);
  const next = newClaim({ name: "next", ttlMs: 600_000, lingerMs: 60_000 });
  await granted(a, next);
  expect(await a.renew([next])).toEqual([expect.not.objectContaining({ wanted: true })]);
});
