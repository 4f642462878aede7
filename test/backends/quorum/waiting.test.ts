/** What a waiter costs the holder and the members, and what it may not cost them. */
import { expect, test } from "vitest";
import type { Backend, Claim } from "../../../src/contract/backend.ts";
import { createLocks } from "../../../src/core/locks.ts";
import { type FakeClock, seeded } from "../../../src/testing/index.ts";
import { newClaim, startServers } from "./servers.ts";
import { type FakeMember, fakeQuorum, granted } from "./fake-members.ts";

const name = "lock";

/** Waits as the core does, until `endMs`. */
async function wait(backend: Backend, claim: Claim, clock: FakeClock, endMs: number): Promise<void> {
  while (clock.now() < endMs) {
    const answer = await backend.attempt(claim).catch(() => undefined);
    if (answer?.granted === true) return;
    const over = new AbortController();
    clock.setTimer(() => over.abort(), answer?.retryMs ?? 100);
    await backend.watch?.(claim, over.signal);
  }
}

async function pass(
  clock: FakeClock,
  ms: number,
  stepMs: number,
  step: () => unknown = () => undefined,
): Promise<void> {
  for (let passedMs = 0; passedMs < ms; passedMs += stepMs) {
    await step();
    await clock.advance(stepMs);
  }
}

function votes(fakes: readonly FakeMember[]): number {
  return fakes.reduce((sum, { asked }) => sum + asked.vote, 0);
}

test("S141: a rolling restart ends no lease, though others wait for the lock all the time", async () => {
  const { clock, fakes, open } = fakeQuorum(5);
  const [a, b] = [open({ memberWait: 100 }), open({ memberWait: 100, chance: seeded(2) })];
  const claim = newClaim({ name, holder: "a:1", ttlMs: 3000 });
  await granted(a, claim);
  const waiting = wait(b, newClaim({ name, holder: "b:1", ttlMs: 3000, queues: true }), clock, clock.now() + 60_000);
  for (const fake of fakes) {
    // It comes back empty. Others get to it first, without success, and with greater ballots.
    fake.restart();
    for (let renewals = 0; renewals < 6; renewals++) {
      await pass(clock, 1000, 100);
      expect((await a.renew([claim]))[0]?.held).toBe(true);
    }
  }
  expect(fakes.map(({ holders }) => holders)).toEqual(["a:1", "a:1", "a:1", "a:1", "a:1"]);
  expect(await a.release(claim)).toBe("held");
  await clock.advance(60_000);
  await waiting;
});

test("S171: false hints of a release make a waiter ask no more often than its own backoff does", async () => {
  const { clock, fakes, open } = fakeQuorum(3);
  const wakes = fakes.map(() => new Set<() => void>());
  for (const [at, { member }] of fakes.entries()) {
    member.freed = (_, wake) => {
      wakes[at]!.add(wake);
      return () => wakes[at]!.delete(wake);
    };
  }
  const [a, b] = [open(), open({ chance: seeded(2) })];
  const claim = newClaim({ name, ttlMs: 30_000 });
  await granted(a, claim);
  const waiting = wait(b, newClaim({ name, ttlMs: 30_000, queues: true }), clock, clock.now() + 20_000);
  await pass(clock, 2000, 10);
  const before = votes(fakes);
  // A storm: every millisecond each member says that the lock is free.
  await pass(clock, 10_000, 1, () => wakes.forEach((set) => set.forEach((wake) => wake())));
  expect(votes(fakes) - before).toBeLessThan(3 * 10 * 4);
  // And a true one still works within the backoff.
  await a.release(claim);
  await pass(clock, 3000, 1, () => wakes.forEach((set) => set.forEach((wake) => wake())));
  expect(fakes.filter(({ holders }) => holders !== "").length).toBeGreaterThanOrEqual(2);
  await waiting;
});

test("a wait that its caller ended hears no later hint: it leaves no timer behind", async () => {
  const { clock, fakes, open } = fakeQuorum(3);
  const wakes: (() => void)[] = [];
  for (const { member } of fakes) {
    member.freed = (_, wake) => {
      wakes.push(wake);
      return () => undefined;
    };
  }
  const [a, b] = [open(), open({ chance: seeded(2) })];
  await granted(a, newClaim({ name, ttlMs: 30_000 }));
  const claim = newClaim({ name, ttlMs: 30_000, queues: true });
  expect((await b.attempt(claim)).granted).toBe(false);
  const over = new AbortController();
  const waiting = b.watch!(claim, over.signal);
  over.abort();
  await waiting;
  const before = clock.timers;
  for (const wake of wakes) wake();
  expect([wakes.length, clock.timers]).toEqual([3, before]);
});

test("half of an even number of members is no majority: there are never two holders", async () => {
  for (const count of [2, 4]) {
    const { clock, fakes, open } = fakeQuorum(count);
    const [a, b] = [open({ memberWait: 100 }), open({ memberWait: 100, chance: seeded(2) })];
    const half = fakes.slice(count / 2);
    for (const fake of half) fake.isCutOff = true;
    const first = a.attempt(newClaim({ name, holder: "a:1" })).catch(() => undefined);
    await clock.advance(200);
    expect(await first).not.toMatchObject({ granted: true });
    // What half of the members granted is not enough for a renewal either.
    for (const fake of half) fake.isCutOff = false;
    const claim = newClaim({ name: "other", holder: "a:1" });
    await granted(a, claim);
    for (const fake of half) fake.isCutOff = true;
    const renewal = a.renew([claim]);
    await clock.advance(200);
    expect((await renewal)[0]?.held).toBe("unknown");
    const second = b.attempt(newClaim({ name: "other", holder: "b:1" })).catch(() => undefined);
    await clock.advance(200);
    expect(await second).not.toMatchObject({ granted: true });
  }
});

test("a vote that arrives at the member after its release is withdrawn when its answer comes", async () => {
  const { clock, fakes, open } = fakeQuorum(3);
  const late = fakes[2]!;
  const vote = late.member.vote.bind(late.member);
  let arrives = (): void => undefined;
  // The question is on its way for longer than the round lasts, and is overtaken by the release.
  late.member.vote = (claim, ballot) =>
    new Promise((resolve, reject) => {
      arrives = () => void vote(claim, ballot).then(resolve, reject);
    });
  for (const fake of fakes.slice(0, 2)) await fake.member.vote(newClaim({ name, holder: "rival:1" }), 1n);
  const backend = open({ memberWait: 100 });
  expect(await backend.attempt(newClaim({ name, holder: "a:1" }))).toMatchObject({ granted: false });
  await clock.advance(50);
  expect(late.holders).toBe("");
  const released = late.asked.release;
  arrives();
  await clock.advance(10);
  expect(late.asked.vote).toBe(1);
  expect(late.asked.release).toBeGreaterThan(released);
  expect(late.holders).toBe("");
});

test("S142: a try on a free lock gets it, though another request of its process waits and has not retried yet", async () => {
  const { clock, open } = fakeQuorum(3);
  const rival = open();
  const claim = newClaim({ name, holder: "b:1" });
  await granted(rival, claim);
  const locks = createLocks(open({ chance: seeded(2) }), { clock });
  const waiting = locks.acquire(name, { wait: "1m" });
  await clock.settle();
  expect(await locks.tryAcquire(name)).toBeNull();
  // These members send no hint that the lock is free.
  expect(await rival.release(claim)).toBe("held");
  const lease = await locks.tryAcquire(name);
  expect(lease?.remaining()).toBeGreaterThan(0);
  await lease!.release();
  await clock.advance(5000);
  await (await waiting).release();
});

test("S142: so it is on real servers, and a busy lock is busy to a thousand tries by one round of votes", async () => {
  await using servers = await startServers(3);
  const rivals = createLocks(servers.quorum({ memberWait: "60s" }));
  const rival = await rivals.acquire(name);
  const inner = servers.quorum({ memberWait: "60s" });
  const asked = { waiting: 0, trying: 0 };
  // The waiter is not woken, and retries only after the test: no other claim splits the votes of a try.
  const backend: Backend = {
    name: "quorum",
    attempt: async (one) => {
      asked[one.queues ? "waiting" : "trying"]++;
      const answer = await inner.attempt(one);
      return answer.granted ? answer : { ...answer, retryMs: 600_000 };
    },
    renew: (claims, fences) => inner.renew(claims, fences),
    release: (one) => inner.release(one),
    query: (prefix) => inner.query(prefix),
    inspect: (name) => inner.inspect(name),
    forceRelease: (...force) => inner.forceRelease(...force),
    listen: (listener) => inner.listen?.(listener),
    close: () => inner.close(),
  };
  const locks = createLocks(backend);
  const stop = new AbortController();
  const waiting = locks.acquire(name, { wait: "10m", signal: stop.signal }).catch((error: unknown) => error);
  const tries = Array.from({ length: 1000 }, () => locks.tryAcquire(name, { timeout: "1m" }));
  expect(new Set(await Promise.all(tries))).toEqual(new Set([null]));
  expect(asked).toEqual({ waiting: 1, trying: 1 });
  expect(await rival.release()).toBe("released");
  const lease = await locks.tryAcquire(name, { timeout: "1m" });
  expect(lease?.remaining()).toBeGreaterThan(0);
  expect(asked).toEqual({ waiting: 1, trying: 2 });
  stop.abort(new Error("enough"));
  expect(await waiting).toMatchObject({ message: "enough" });
  expect(await lease!.release()).toBe("released");
  await locks.close();
  await rivals.close();
});
