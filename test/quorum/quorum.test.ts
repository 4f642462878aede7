/** How votes are counted, to the millisecond: members in memory, on a clock that stands still. */
import { describe, expect, test } from "vitest";
import type { Backend, Claim, Granted, Member, Vote } from "../../src/backend.ts";
import { LockBackendError } from "../../src/errors.ts";
import { memory, type MemoryStore, memoryStore } from "../../src/memory/index.ts";
import { quorum, type QuorumOptions } from "../../src/quorum/index.ts";
import { freeInMs, Pace } from "../../src/quorum/pace.ts";
import { FakeClock, seeded } from "../../src/testing/index.ts";
import { newClaim } from "./servers.ts";

type Operation = "vote" | "renew" | "release" | "query" | "forceRelease";

/** A member whose answers can be delayed or withheld; what was asked happens all the same, unless it is cut off. */
class Stage {
  readonly member: Member;
  readonly store: MemoryStore;
  readonly asked: Record<Operation, number> = { vote: 0, renew: 0, release: 0, query: 0, forceRelease: 0 };
  /** How long answers take; `Infinity`: for ever. */
  replyMs = 0;
  isCutOff = false;
  readonly #clock: FakeClock;

  constructor(clock: FakeClock) {
    this.#clock = clock;
    this.store = memoryStore({ clock });
    const inner = memory({ store: this.store });
    this.member = {
      name: "stage",
      attempt: (claim) => inner.attempt(claim),
      vote: (claim, ballot) => this.#answer("vote", () => inner.vote(claim, ballot)),
      renew: (claims) => this.#answer("renew", () => inner.renew(claims)),
      release: (claim) => this.#answer("release", () => inner.release(claim)),
      query: (prefix) => this.#answer("query", () => inner.query(prefix)),
      forceRelease: (...force) => this.#answer("forceRelease", () => inner.forceRelease(...force)),
      listen: (listener) => inner.listen?.(listener),
      close: () => inner.close(),
    };
  }

  get holders(): string {
    const { held } = this.store.query("");
    return held.map(({ holder }) => holder).join("+");
  }

  async #answer<T>(operation: Operation, work: () => Promise<T>): Promise<T> {
    this.asked[operation]++;
    if (this.isCutOff) throw new Error("connection refused");
    const value = await work();
    if (this.replyMs === Infinity) return new Promise<never>(() => undefined);
    if (this.replyMs > 0) await new Promise<void>((resolve) => void this.#clock.setTimer(resolve, this.replyMs));
    return value;
  }
}

interface Play {
  readonly clock: FakeClock;
  readonly stages: readonly Stage[];
  readonly open: (options?: QuorumOptions, clock?: FakeClock) => Backend;
}

function play(count: number): Play {
  const clock = new FakeClock();
  const stages = Array.from({ length: count }, () => new Stage(clock));
  return {
    clock,
    stages,
    open: (options = {}, own = clock) =>
      quorum(
        stages.map(({ member }) => member),
        { clock: own, chance: seeded(1), ...options },
      ),
  };
}

async function granted(backend: Backend, claim: Claim): Promise<Granted> {
  const answer = await backend.attempt(claim);
  if (!answer.granted) throw new Error(`refused: ${JSON.stringify(answer.heldBy.map(({ holder }) => holder))}`);
  return answer;
}

async function failure(promise: Promise<unknown>): Promise<LockBackendError> {
  const error = await promise.then(
    () => undefined,
    (cause: unknown) => cause,
  );
  expect(error).toBeInstanceOf(LockBackendError);
  return error as LockBackendError;
}

const name = "lock";

describe("a round", () => {
  test("is won by a majority, while two of five never answer", async () => {
    const { clock, stages, open } = play(5);
    stages[0]!.replyMs = stages[1]!.replyMs = Infinity;
    const startedMs = clock.now();
    expect(await granted(open(), newClaim({ name }))).toMatchObject({ run: 64, fromMs: startedMs });
    expect(clock.now()).toBe(startedMs);
  });

  test.each([
    [987, true],
    [988, false],
  ])("S37: of a ttl of 1 s, with votes that take %i ms, makes a lease: %s", async (replyMs, isLease) => {
    const { clock, stages, open } = play(3);
    for (const stage of stages) stage.replyMs = replyMs;
    const attempt = open({ memberWait: "5s" })
      .attempt(newClaim({ name, ttlMs: 1000 }))
      .then(
        (answer) => answer.granted,
        (cause: LockBackendError) => cause.message,
      );
    await clock.advance(5000);
    if (isLease) return expect(await attempt).toBe(true);
    expect(await attempt).toMatch(/only after 988 ms, too late for a ttl of 1 s/);
    expect(stages.map(({ holders }) => holders)).toEqual(["", "", ""]);
  });

  test("that is lost leaves nothing behind, also where the vote's answer comes late", async () => {
    const { clock, stages, open } = play(3);
    await granted(open(), newClaim({ name: "warm", ttlMs: 1000 }));
    stages[0]!.replyMs = 400;
    stages[1]!.replyMs = 500;
    const attempt = failure(open({ memberWait: 100 }).attempt(newClaim({ name })));
    await clock.advance(101);
    expect((await attempt).votes.map(({ vote }) => vote)).toEqual(["slow", "slow", "granted"]);
    await clock.advance(2000);
    expect(stages.map(({ holders }) => holders)).toEqual(["", "", ""]);
  });

  test("is raised at once where a member has granted a greater fence, so that a slow clock costs one more round", async () => {
    const { stages, open } = play(3);
    const [early, late] = [newClaim({ name }), newClaim({ name })];
    const ahead = new FakeClock({ wallMs: Date.UTC(2026, 0, 2) });
    const first = await granted(open({ clock: ahead }), early);
    const behind = open();
    for (const { store } of stages)
      for (const { fence } of store.query("").held) store.forceRelease(name, fence, "", "");
    const second = await granted(behind, late);
    expect(second.fence).toBeGreaterThanOrEqual(first.fence + 64n);
  });

  test("leaves no two leases with a fence in common", async () => {
    const { clock, open } = play(3);
    const backend = open();
    let end = 0n;
    for (let times = 0; times < 50; times++) {
      const claim = newClaim({ name });
      const { fence, run } = await granted(backend, claim);
      expect(fence).toBeGreaterThanOrEqual(end);
      end = fence + BigInt(run);
      await backend.release(claim);
      await clock.advance(times % 3);
    }
  });

  test("has a greater fence than all before it, though every member forgot and the claimant is new", async () => {
    const { clock, open } = play(3);
    const first = await granted(open(), newClaim({ name }));
    await clock.advance(1);
    const fresh = [memory({ clock }), memory({ clock }), memory({ clock })];
    const second = await granted(quorum(fresh, { clock }), newClaim({ name }));
    expect(second.fence).toBeGreaterThanOrEqual(first.fence + BigInt(first.run));
  });

  test("tells why each member did not vote, in one message", async () => {
    const { clock, stages, open } = play(5);
    stages[0]!.isCutOff = true;
    stages[1]!.replyMs = Infinity;
    await stages[2]!.member.vote(newClaim({ name, holder: "web-3:812", ttlMs: 2000 }), 1n);
    stages[3]!.member.vote = (): Promise<Vote> => Promise.resolve({ vote: "young", forMs: 12_000 });
    const backend = open({ memberWait: 100, labels: ["a", "b", "c", "d", "e"] });
    // At first nobody knows yet that b hangs.
    expect(await backend.attempt(newClaim({ name }))).toMatchObject({
      granted: false,
      heldBy: [{ holder: "web-3:812" }],
    });
    await clock.advance(200);
    const error = await failure(backend.attempt(newClaim({ name })));
    expect(error.message).toContain('Lock "lock" needs the votes of 3 of 5 members: ');
    expect(error.message).toContain("a unreachable (connection refused); b too slow");
    expect(error.message).toContain("c held (by web-3:812 (fence 0), for another 1.8 s at most); d too young (");
    expect(error.votes.map(({ member, vote }) => `${member} ${vote}`)).toEqual([
      "a unreachable",
      "b slow",
      "c held",
      "d young",
      "e granted",
    ]);
  });
});

test("a member that hangs is not asked again and again, and is used again once it answers", async () => {
  const { clock, stages, open } = play(3);
  const backend = open({ memberWait: 100 });
  stages[0]!.replyMs = Infinity;
  for (let times = 0; times < 200; times++) {
    const claim = newClaim({ name });
    await granted(backend, claim);
    await backend.release(claim);
    await clock.advance(50);
  }
  // Ten seconds have passed, and a probe goes out every second.
  expect(stages[0]!.asked.vote).toBeLessThan(20);
  stages[0]!.replyMs = 0;
  await clock.advance(1500);
  const claim = newClaim({ name, holder: "later:1" });
  await granted(backend, claim);
  expect(stages.map(({ holders }) => holders)).toContain("later:1");
});

test("a member whose first answer is lost for ever is asked to join again", async () => {
  const { clock, stages, open } = play(3);
  for (const [at, { member }] of stages.entries()) {
    let times = 0;
    // As after a connection that broke just then: the client forgets the question.
    member.join = () => (times++ === 0 ? new Promise(() => undefined) : Promise.resolve({ id: `${at}` }));
  }
  const backend = open({ memberWait: 100 });
  const first = failure(backend.attempt(newClaim({ name })));
  await clock.advance(200);
  expect((await first).votes.map(({ vote }) => vote)).toEqual(["slow", "slow", "slow"]);
  await clock.advance(1000);
  expect(await backend.attempt(newClaim({ name }))).toMatchObject({ granted: true });
});

describe("renewal", () => {
  test("counts only within the old trust", async () => {
    const { clock, stages, open } = play(3);
    const claim = newClaim({ name, ttlMs: 1000 });
    const backend = open({ memberWait: "5s" });
    await granted(backend, claim);
    await clock.advance(500);
    for (const stage of stages) stage.replyMs = 490;
    const late = backend.renew([claim]);
    await clock.advance(5000);
    expect((await late)[0]).toMatchObject({
      held: false,
      reason: expect.stringContaining("could no longer be trusted"),
    });
  });

  test("fills up members that were missing, but never one that granted a greater ballot since", async () => {
    const { clock, stages, open } = play(5);
    stages[3]!.isCutOff = stages[4]!.isCutOff = true;
    const backend = open();
    const claim = newClaim({ name, holder: "a:1" });
    await granted(backend, claim);
    stages[3]!.isCutOff = stages[4]!.isCutOff = false;
    // Somebody was granted member 5 for a moment, with a greater ballot.
    const rival = newClaim({ name, holder: "b:1" });
    await stages[4]!.member.vote(rival, BigInt(clock.wall()) * 2000n);
    await stages[4]!.member.release(rival);
    for (let times = 0; times < 3; times++) {
      expect((await backend.renew([claim]))[0]?.held).toBe(true);
      await clock.advance(100);
    }
    expect(stages.map(({ holders }) => holders)).toEqual(["a:1", "a:1", "a:1", "a:1", ""]);
  });

  test("of one lost claim does not harm the others in the batch", async () => {
    const { stages, open } = play(3);
    const backend = open();
    const claims = ["x", "y", "z"].map((each) => newClaim({ name: each }));
    const fences = await Promise.all(claims.map((claim) => granted(backend, claim)));
    for (const { store } of stages) store.forceRelease("y", fences[1]!.fence + 63n, "ops", "test");
    const renewals = await backend.renew([...claims, newClaim()]);
    expect(renewals.map(({ held }) => held)).toEqual([true, false, true, false]);
  });
});

describe("release", () => {
  test("says true where a majority held it until now, false where it did not", async () => {
    const { clock, open } = play(3);
    const backend = open();
    const [kept, ended] = [newClaim({ name }), newClaim({ name: "ended", ttlMs: 1000 })];
    await granted(backend, kept);
    await granted(backend, ended);
    await clock.advance(2000);
    expect(await backend.release(kept)).toBe(true);
    expect(await backend.release(ended)).toBe(false);
    expect(await backend.release(kept)).toBe(false);
  });

  test("rejects where too few answer, and knows when asked again", async () => {
    const { clock, stages, open } = play(3);
    const backend = open({ memberWait: 100 });
    const claim = newClaim({ name });
    await granted(backend, claim);
    stages[0]!.isCutOff = stages[1]!.isCutOff = true;
    const first = failure(backend.release(claim));
    await clock.advance(200);
    expect((await first).votes.map(({ vote }) => vote)).toEqual(["slow", "slow", "granted"]);
    stages[0]!.isCutOff = stages[1]!.isCutOff = false;
    expect(await backend.release(claim)).toBe(true);
  });

  test("goes on in the background where a member cannot be reached, and after a lost round too", async () => {
    const { clock, stages, open } = play(3);
    const backend = open({ memberWait: 100 });
    const claim = newClaim({ name });
    await granted(backend, claim);
    stages[2]!.isCutOff = true;
    expect(await backend.release(claim)).toBe(true);
    expect(stages[2]!.holders).toBe("test:1");
    stages[2]!.isCutOff = false;
    await clock.advance(2000);
    expect(stages[2]!.holders).toBe("");
  });

  test("keeps the lock taken until minHold, but a lost round keeps nothing taken", async () => {
    const { clock, stages, open } = play(3);
    const [a, b] = [open({ memberWait: 100 }), open({ memberWait: 100 })];
    const cron = newClaim({ name, minHoldMs: 5000 });
    await granted(a, cron);
    expect(await a.release(cron)).toBe(true);
    await clock.advance(4900);
    expect(await b.attempt(newClaim({ name }))).toMatchObject({ granted: false });
    await clock.advance(200);
    await granted(b, newClaim({ name, ttlMs: 1000 }));
    await clock.advance(2000);
    stages[0]!.isCutOff = stages[1]!.isCutOff = true;
    await failure(a.attempt(newClaim({ name, minHoldMs: 5000 })));
    await clock.advance(100);
    expect(stages.map(({ holders }) => holders)).toEqual(["", "", ""]);
  });
});

describe("what a majority says", () => {
  test("query() shows a lease once, with its first fence, and not what a lost round left at a minority", async () => {
    const { clock, stages, open } = play(5);
    const backend = open();
    const { fence } = await granted(backend, newClaim({ name, holder: "a:1", meta: { why: "test" }, ttlMs: 8000 }));
    for (const stage of stages.slice(0, 2)) await stage.member.vote(newClaim({ name: "lock-debris" }), 1n);
    await clock.advance(1000);
    const { held, pending, forced } = await backend.query("lock");
    expect(held).toEqual([
      {
        name,
        mode: "exclusive",
        limit: 1,
        holder: "a:1",
        fence,
        heldMs: 1000,
        remainingMs: 7000,
        meta: { why: "test" },
      },
    ]);
    expect([pending, forced]).toEqual([[], []]);
  });

  test("query() counts members that do not answer as possible holders, and needs a majority of answers", async () => {
    const { clock, stages, open } = play(5);
    const backend = open({ memberWait: 100 });
    await granted(backend, newClaim({ name }));
    stages[0]!.replyMs = stages[1]!.replyMs = Infinity;
    const two = backend.query("");
    await clock.advance(200);
    expect((await two).held).toHaveLength(1);
    stages[2]!.isCutOff = true;
    const three = failure(backend.query(""));
    await clock.advance(200);
    expect((await three).message).toMatch(/Needs the answers of 3 of 5 members, and got 2: .*stage#3 unreachable/);
  });

  test("forceRelease() ends the lease by any fence of its run, tells its holder once, and never hits a successor", async () => {
    const { clock, open } = play(3);
    const [a, b] = [open(), open()];
    const lost: string[] = [];
    a.listen?.({ lost: (id, reason) => lost.push(`${id} ${reason}`), doubt: () => undefined });
    const claim = newClaim({ name });
    const { fence } = await granted(a, claim);
    expect(await b.forceRelease(name, fence + 64n, "ops", "stuck")).toBe(false);
    expect(await b.forceRelease(name, fence + 17n, "ops", "stuck")).toBe(true);
    await clock.advance(1);
    expect(lost).toEqual([`${claim.id} broken by force by ops: stuck`]);
    const next = await granted(b, newClaim({ name }));
    expect(await a.forceRelease(name, fence, "ops", "stuck")).toBe(false);
    expect(next.fence).toBeGreaterThan(fence);
    const { forced } = await a.query(name);
    expect(forced.map(({ by, reason, fence: which }) => [by, reason, which])).toEqual([["ops", "stuck", fence]]);
  });
});

describe("the pace of a refused claim", () => {
  const held = (remainingMs: number): Vote => ({ vote: "held", by: "x", fence: 1n, remainingMs });

  test("knows when a majority is free again if nobody renews", () => {
    expect(freeInMs([held(100), held(300), held(200), held(50), held(400)], 5)).toBe(200);
    expect(freeInMs([held(100), held(300), held(200)], 5)).toBe(100);
    expect(freeInMs([held(100), { vote: "granted" }, { vote: "granted" }], 5)).toBe(0);
    expect(freeInMs([held(0), held(0), held(0)], 5)).toBe(Infinity);
  });

  test("doubles with every defeat, up to a second, and is never a busy loop", () => {
    const pace = new Pace();
    const votes = [held(60_000), held(60_000), held(60_000)];
    const pauses = Array.from({ length: 12 }, () => pace.afterDefeat(votes, 5, 30_000, seeded(3)));
    expect(Math.min(...pauses)).toBeGreaterThan(10);
    expect(pauses.at(-1)).toBeGreaterThan(500);
    expect(Math.max(...pauses)).toBeLessThanOrEqual(1000);
  });

  test("spreads split votes further apart each time", () => {
    const pace = new Pace();
    const votes: Vote[] = [held(100), held(100), { vote: "granted" }, { vote: "granted" }];
    const dice = { id: () => "", fraction: () => 0.999 };
    const pauses = Array.from({ length: 10 }, () => pace.afterDefeat(votes, 5, 30_000, dice));
    for (const [index, pause] of pauses.entries()) expect(pause).toBeGreaterThanOrEqual(pauses[index - 1] ?? 0);
    expect(pauses.at(-1)).toBeGreaterThan(200);
  });
});
