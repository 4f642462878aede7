/** Small bugs that lived: each test here is red with one that `npm run mutate` put in and that no other test noticed. */
import { describe, expect, test } from "vitest";
import type { Vote } from "../../../src/contract/backend.ts";
import { systemClock } from "../../../src/contract/clock.ts";
import { ballotAbove, ballotOf, firstFence, Proposer } from "../../../src/backends/quorum/ballot.ts";
import type { MemberLink } from "../../../src/backends/quorum/member-link.ts";
import { ReleaseHints } from "../../../src/backends/quorum/release-hints.ts";
import { Backoff } from "../../../src/backends/quorum/backoff.ts";
import type { Round } from "../../../src/backends/quorum/round.ts";
import { ClaimState } from "../../../src/backends/quorum/claim-state.ts";
import { describe as described, inWords, noQuorum } from "../../../src/backends/quorum/errors.ts";
import { ballotToRaise, heldBy, type NoVote } from "../../../src/backends/quorum/votes.ts";
import { FakeClock } from "../../../src/testing/index.ts";
import { newClaim } from "./servers.ts";
import { failure, granted, fakeQuorum } from "./fake-members.ts";

const name = "lock";

describe("a quorum", () => {
  test("that is closed says so, asks no member, and leaves no timer", async () => {
    const { clock, fakes, open } = fakeQuorum(3);
    const backend = open();
    await backend.close();
    expect(clock.timers).toBe(0);
    expect(await failure(backend.attempt(newClaim({ name })))).toMatchObject({
      message: "The quorum is closed.",
      fatal: true,
    });
    expect(fakes.map(({ asked }) => asked.vote)).toEqual([0, 0, 0]);
  });

  test("takes a member for unfit only when that said that it is none, not when it could not be reached", async () => {
    const { fakes, open } = fakeQuorum(3);
    for (const [at, { member }] of fakes.entries()) {
      let times = 0;
      member.join = () =>
        at === 0 && times++ === 0 ? Promise.reject(new Error("connection refused")) : Promise.resolve({ id: `${at}` });
    }
    const backend = open();
    const claim = newClaim({ name });
    await granted(backend, claim);
    expect(await backend.release(claim)).toBe("held");
    await granted(backend, newClaim({ name }));
    expect(fakes[0]!.asked.vote).toBe(1);
  });

  test("believes no member that renews another number of claims than it was asked for", async () => {
    const { fakes, open } = fakeQuorum(3);
    const backend = open();
    const claim = newClaim({ name });
    await granted(backend, claim);
    for (const { member } of fakes) member.renew = () => Promise.resolve([]);
    expect(await backend.renew([claim])).toMatchObject([{ held: "unknown" }]);
  });

  test("a claim that was released without an answer may be asked for again", async () => {
    const { clock, fakes, open } = fakeQuorum(3);
    const backend = open({ memberWait: 100 });
    const claim = newClaim({ name });
    await granted(backend, claim);
    for (const stage of fakes) stage.isCutOff = true;
    const released = failure(backend.release(claim));
    await clock.advance(100);
    await released;
    for (const stage of fakes) stage.isCutOff = false;
    // The members are asked to let go until they have.
    await clock.advance(2000);
    expect(fakes.map(({ holders }) => holders)).toEqual(["", "", ""]);
    await granted(backend, claim);
  });

  test("leaves a member out whose clock is off, and counts the others as before, whether that one answers or not", async () => {
    const { clock, fakes, open } = fakeQuorum(5);
    const vote = fakes[4]!.member.vote.bind(fakes[4]!.member);
    fakes[4]!.member.vote = async (claim, ballot) => ({
      ...(await vote(claim, ballot)),
      wallMs: clock.wall() + 3_600_000,
    });
    const backend = open({ memberWait: 100 });
    for (const cutOff of [false, true]) {
      // Then it is not heard, and the others are just enough.
      fakes[4]!.isCutOff = cutOff;
      fakes[0]!.isCutOff = cutOff;
      const claim = newClaim({ name });
      await granted(backend, claim);
      expect(await backend.release(claim)).toBe("held");
    }
    // Two of the four others are missing: without the fifth no majority is left.
    fakes[4]!.isCutOff = false;
    fakes[1]!.isCutOff = true;
    const { votes } = await failure(backend.attempt(newClaim({ name })));
    expect(votes.map((each) => each.vote)).toEqual(["unreachable", "unreachable", "granted", "granted", "clock-off"]);
  });

  test("shows a lease that just a majority holds, with those that do not answer, and none of fewer", async () => {
    const { clock, fakes, open } = fakeQuorum(5);
    const backend = open({ memberWait: 100 });
    await granted(backend, newClaim({ name, holder: "me" }));
    const seen = async (): Promise<string[]> => {
      const asking = backend.query("");
      await clock.advance(100);
      return (await asking).held.map(({ holder }) => holder);
    };
    fakes[0]!.restart();
    fakes[1]!.restart();
    expect(await seen()).toEqual(["me"]);
    fakes[2]!.isCutOff = true;
    fakes[3]!.isCutOff = true;
    expect(await seen()).toEqual(["me"]);
    fakes[3]!.isCutOff = false;
    fakes[3]!.restart();
    expect(await seen()).toEqual([]);
  });

  test("a release whose answers came too late is known to the next call", async () => {
    const { clock, fakes, open } = fakeQuorum(3);
    const backend = open({ memberWait: 100 });
    const claim = newClaim({ name });
    await granted(backend, claim);
    for (const stage of fakes) stage.replyMs = 150;
    const released = failure(backend.release(claim));
    await clock.advance(200);
    expect((await released).message).toContain("its release was not confirmed by a majority");
    expect(await backend.release(claim)).toBe("held");
  });

  test("learns from a refusal how far ahead others are, so that it is refused once", async () => {
    const { clock, fakes, open } = fakeQuorum(3);
    const ahead = newClaim({ name });
    const fast = open();
    await granted(fast, ahead);
    await fast.release(ahead);
    const behind = new FakeClock({ nowMs: clock.now(), wallMs: clock.wall() - 30_000 });
    const slow = open({}, behind);
    const votes = async (): Promise<number> => {
      const before = fakes[0]!.asked.vote;
      const claim = newClaim({ name });
      await granted(slow, claim);
      await slow.release(claim);
      await behind.advance(10);
      return fakes[0]!.asked.vote - before;
    };
    expect([await votes(), await votes()]).toEqual([2, 1]);
  });

  test("a claim whose minHold is asked for holds with the second ballot, at all members", async () => {
    const { fakes, open } = fakeQuorum(3);
    const backend = open();
    const claim = newClaim({ name, minHoldMs: 1000, holder: "me" });
    const { fence } = await granted(backend, claim);
    expect(fakes.map(({ holders }) => holders)).toEqual(["me", "me", "me"]);
    for (const { store } of fakes) expect(firstFence(store.query("").held[0]!.fence)).toBe(fence);
    expect(await backend.renew([claim], [fence])).toMatchObject([{ held: true }]);
    expect(await backend.renew([claim], [fence + 64n])).toMatchObject([{ held: false }]);
  });
});

describe("words", () => {
  const silences: readonly (readonly [Vote | NoVote | undefined, string])[] = [
    [undefined, "m too slow (did not answer before the decision)"],
    [{ vote: "granted" }, "m granted"],
    [{ vote: "held", by: "x", fence: 130n, remainingMs: 2000 }, "m held (by x (fence 128), for another 2 s at most)"],
    [{ vote: "low", fence: 130n }, "m refused the ballot (has granted fence 130 before)"],
    [{ vote: "recovering", forMs: 2000 }, "m recovering (lost its data; abstains for 2 s)"],
    [{ vote: "unreachable", cause: new Error("refused") }, "m unreachable (refused)"],
    [{ vote: "unreachable", cause: "refused" }, "m unreachable (refused)"],
    [{ vote: "clock-off", detail: "late" }, "m clock off (late)"],
    [{ vote: "twin", detail: "of n" }, "m no server of its own (of n)"],
  ];
  test.each(silences)("for each kind of answer: %#", (vote, words) => {
    expect(inWords([described("m", vote)])).toBe(words);
  });

  test("several members are one line", () => {
    expect(inWords([described("m", { vote: "granted" }), described("n", undefined)])).toBe(
      "m granted; n too slow (did not answer before the decision)",
    );
  });

  test("only where a member lost its data there is advice how to end its silence", () => {
    const refused = described("m", { vote: "held", by: "x", fence: 130n, remainingMs: 2000 });
    const lost = described("n", { vote: "recovering", forMs: 2000 });
    const say = (...votes: (typeof lost)[]): string => noQuorum("a", 2, votes, false).message;
    expect(say(refused, lost)).toMatch(
      /^Lock "a" needs the votes of 2 of 2 members: m held .*`holdfast doctor --init`\.$/,
    );
    expect(say(refused, refused)).not.toContain("doctor");
  });

  test("who is in the way is one entry for each lease, with its longest times", () => {
    const held = (fence: bigint, remainingMs: number, heldMs?: number): Vote => ({
      vote: "held",
      by: "x",
      fence,
      remainingMs,
      heldMs,
    });
    const lease = { name, mode: "exclusive", limit: 1, holder: "x", meta: {} };
    expect(heldBy(name, [held(130n, 5, 7), { vote: "granted" }, held(140n, 9), held(70n, 1)])).toEqual([
      { ...lease, fence: 128n, remainingMs: 9, heldMs: 7 },
      { ...lease, fence: 64n, remainingMs: 1, heldMs: 0 },
    ]);
  });

  test("of a release that too few members answered name each of them", async () => {
    const { clock, fakes, open } = fakeQuorum(5);
    const backend = open({ memberWait: 100 });
    const claim = newClaim({ name });
    await granted(backend, claim);
    fakes[0]!.restart();
    for (const at of [2, 3, 4]) fakes[at]!.isCutOff = true;
    const released = failure(backend.release(claim));
    await clock.advance(100);
    expect((await released).votes.map(({ vote, detail }) => `${vote} ${detail}`)).toEqual([
      "low did not hold it",
      "granted released",
      "slow has not confirmed",
      "slow has not confirmed",
      "slow has not confirmed",
    ]);
  });

  test("of a renewal that too few members answered name each of them", async () => {
    const { clock, fakes, open } = fakeQuorum(5);
    const backend = open({ memberWait: 100 });
    const claim = newClaim({ name });
    await granted(backend, claim);
    fakes[0]!.replyMs = Infinity;
    fakes[1]!.isCutOff = true;
    fakes[2]!.restart();
    const renewed = backend.renew([claim]);
    await clock.advance(200);
    const [renewal] = await renewed;
    expect(renewal).toMatchObject({ held: "unknown" });
    const { votes } = (
      renewal as { readonly cause: { readonly votes: readonly { readonly vote: string; readonly detail: string }[] } }
    ).cause;
    expect(votes.map(({ vote }) => vote)).toEqual(["slow", "unreachable", "low", "granted", "granted"]);
    expect(votes[0]!.detail).toBe("did not answer in time");
    expect(votes[1]!.detail).toContain("connection refused");
    expect(votes[2]!.detail).not.toBe("");
  });
});

describe("backoff", () => {
  const dice = { id: () => "", fraction: () => 0 };
  const held: Vote = { vote: "held", by: "x", fence: 1n, remainingMs: 60_000 };

  test("hints after which the same holder is still there are believed ever more slowly, and a new holder ends that", () => {
    const backoff = new Backoff();
    const pauses: number[] = [];
    for (let i = 0; i < 8; i++) {
      backoff.afterDefeat([held, held], 3, 30_000, dice);
      pauses.push(backoff.afterHint(dice));
    }
    // The first is that of listening itself.
    expect(pauses).toEqual([1, 1, 51, 101, 201, 401, 801, 1001]);
    backoff.afterDefeat(
      [
        { ...held, fence: 2n },
        { ...held, fence: 2n },
      ],
      3,
      30_000,
      dice,
    );
    expect(backoff.afterHint(dice)).toBe(1);
  });

  test("a process that released leaves the waiters a window for each, and the time of a round", () => {
    const backoff = new Backoff();
    expect(backoff.yieldMs()).toBe(1 + 2 + 0);
    backoff.learn(10, 4);
    expect(backoff.yieldMs()).toBe(1 + 2 * 10 * 5 + 10);
    backoff.learn(1000, 4);
    expect(backoff.yieldMs()).toBe(1 + 500 + 1000);
  });
});

test("who listens for a release does not count itself among those who wait", () => {
  const state = new ClaimState(newClaim({ name }));
  const round = { tookMs: 1, waiters: () => 3 } as Round;
  state.learnFrom(round);
  expect(state.backoff.waiters).toBe(3);
  state.hints = { isListening: true } as ReleaseHints;
  state.learnFrom(round);
  expect(state.backoff.waiters).toBe(2);
  state.hints = { isListening: false } as ReleaseHints;
  state.learnFrom(round);
  expect(state.backoff.waiters).toBe(3);
});

describe("ballots", () => {
  test("are the last of a block of 64", () => {
    expect([firstFence(130n), ballotOf(130n), ballotAbove(130n)]).toEqual([128n, 191n, 255n]);
    expect([firstFence(128n), ballotOf(128n), ballotAbove(128n)]).toEqual([128n, 191n, 255n]);
  });

  test("are the time of day in microseconds, follow a wall clock that is set ahead, and never go back", () => {
    const at = { now: 1_000_000, wall: 1_767_225_600_000 };
    const clock = { ...systemClock, now: () => at.now, wall: () => at.wall };
    const proposer = new Proposer(clock);
    const nowUs = (): bigint => BigInt(at.wall * 1000);
    expect(proposer.next()).toBe(ballotOf(nowUs()));
    at.now += 1000;
    at.wall += 1000;
    expect(proposer.next()).toBe(ballotOf(nowUs()));
    at.wall += 5000;
    const ahead = proposer.next();
    expect(ahead).toBe(ballotOf(nowUs()));
    at.wall -= 10_000;
    expect(proposer.next()).toBe(ahead);
  });
});

describe("what members are asked, and what not:", () => {
  test("another process that resumes a lease finds it once, renews it and releases it", async () => {
    const { fakes, open } = fakeQuorum(3);
    let recalls = 0;
    for (const { member } of fakes) {
      const vote = member.vote.bind(member);
      member.vote = (round, ballot) => {
        // As a store that knows its rounds by the claim's id.
        member.recall = async (_, id) => {
          recalls++;
          return round.id.startsWith(id) ? { id: round.id, ballot } : undefined;
        };
        return vote(round, ballot);
      };
    }
    const claim = newClaim({ name });
    const { fence } = await granted(open(), claim);
    const other = open();
    const resumed = { ...claim, resumes: true };
    expect(await other.renew([resumed], [fence])).toMatchObject([{ held: true }]);
    expect(await other.renew([resumed], [fence])).toMatchObject([{ held: true }]);
    expect(await granted(other, resumed)).toMatchObject({ fence });
    expect(recalls).toBe(3);
    // It has been won already: no member votes for it again, or one that has forgotten it would grant it anew.
    expect(fakes.map(({ asked }) => asked.vote)).toEqual([1, 1, 1]);
    expect(await other.release(resumed)).toBe("held");
    expect(fakes.map(({ holders }) => holders)).toEqual(["", "", ""]);
  });

  test("a renewal that all confirm asks none for its vote again", async () => {
    const { clock, fakes, open } = fakeQuorum(3);
    const backend = open();
    const claim = newClaim({ name });
    await granted(backend, claim);
    expect(await backend.renew([claim])).toMatchObject([{ held: true }]);
    await clock.settle();
    expect(fakes.map(({ asked }) => asked.vote)).toEqual([1, 1, 1]);
  });

  test("a member that was down when the lease was won is not asked to release it", async () => {
    const { clock, fakes, open } = fakeQuorum(3);
    fakes[0]!.member.isDown = () => true;
    const backend = open();
    const claim = newClaim({ name });
    await granted(backend, claim);
    expect(await backend.release(claim)).toBe("held");
    // Nor is one that had no part in a round that was lost.
    fakes[1]!.member.vote = () => Promise.resolve({ vote: "held", by: "another", fence: 1n, remainingMs: 1000 });
    expect((await backend.attempt(newClaim({ name, queues: false }))).granted).toBe(false);
    await clock.settle();
    expect(fakes[0]!.asked.release).toBe(0);
    expect(fakes[2]!.asked.release).toBeGreaterThan(1);
  });

  test("one that goes down between the two rounds of a minHold is asked to release what it granted in the first", async () => {
    const { clock, fakes, open } = fakeQuorum(3);
    const { member } = fakes[2]!;
    member.isDown = () => fakes[2]!.asked.vote > 0;
    const backend = open();
    const claim = newClaim({ name, minHoldMs: 1000 });
    await granted(backend, claim);
    expect(fakes.map(({ asked }) => asked.vote)).toEqual([2, 2, 1]);
    await clock.advance(1000);
    expect(await backend.release(claim)).toBe("held");
    await clock.settle();
    expect(fakes.map(({ holders }) => holders)).toEqual(["", "", ""]);
  });

  test("a force that one member confirms is one, where the other that held the lease is silent", async () => {
    const { clock, fakes, open } = fakeQuorum(3);
    fakes[2]!.isCutOff = true;
    const backend = open({ memberWait: 100 });
    const { fence } = await granted(backend, newClaim({ name }));
    fakes[2]!.isCutOff = false;
    fakes[1]!.replyMs = Infinity;
    const forced = backend.forceRelease(name, fence, "ops", "stuck");
    await clock.advance(200);
    expect(await forced).toBe(true);
    // Where no member held it there was nothing to end, also while one is silent.
    const again = backend.forceRelease(name, fence, "ops", "stuck");
    await clock.advance(200);
    expect(await again).toBe(false);
  });

  test("after several that found the ballot too low, the next one is above the highest of them", () => {
    const low = (fence: bigint): Vote => ({ vote: "low", fence });
    const [highest, lower] = [ballotOf(9n << 20n), ballotOf(5n << 20n)];
    expect(ballotToRaise([low(highest), low(lower)], 3, 2, 1n)).toBe(ballotAbove(highest));
    expect(ballotToRaise([low(lower), low(highest)], 3, 2, 1n)).toBe(ballotAbove(highest));
    expect(ballotToRaise([low(lower)], 3, 2, highest)).toBe(ballotAbove(highest));
  });

  test("of a lease that was won and is lost no member forgets the ballot: its fence was used", async () => {
    const { clock, fakes, open } = fakeQuorum(3);
    const withdrawn: string[] = [];
    for (const { member } of fakes) {
      const withdraw = member.withdraw!.bind(member);
      member.withdraw = (round) => {
        withdrawn.push(round.id);
        return withdraw(round);
      };
    }
    const backend = open();
    const claim = newClaim({ name });
    const { fence } = await granted(backend, claim);
    for (const { member } of fakes.slice(1)) await member.forceRelease(name, ballotOf(fence), "ops", "stuck");
    expect(await backend.renew([claim])).toMatchObject([{ held: false }]);
    await clock.settle();
    expect(fakes.map(({ holders }) => holders)).toEqual(["", "", ""]);
    expect(withdrawn).toEqual([]);
    // One that was lost never was a lease: there it may.
    for (const { member } of fakes.slice(1))
      member.vote = () => Promise.resolve({ vote: "held", by: "another", fence: 1n, remainingMs: 1000 });
    expect((await backend.attempt(newClaim({ name }))).granted).toBe(false);
    await clock.settle();
    expect(withdrawn.length).toBeGreaterThan(0);
  });
});

test("who waits is woken when those that were free and those that have been freed since may be a majority", () => {
  const freed: (() => void)[] = [];
  const links = [0, 1, 2].map((index) => ({
    index,
    member: {
      freed: (_: string, call: () => void) => {
        freed[index] = call;
        return () => {};
      },
    },
  })) as unknown as MemberLink[];
  /** A round in which so many members would have granted. */
  const lost = (free: number): Round =>
    ({ vote: ({ index }: MemberLink) => ({ vote: index < free ? "granted" : "held" }) }) as unknown as Round;
  const wokenBy = (free: number, ...members: number[]): number => {
    const hints = new ReleaseHints();
    hints.listen(links, name, lost(free));
    let woken = 0;
    hints.await(() => woken++);
    for (const member of members) freed[member]!();
    return woken;
  };
  expect(wokenBy(1, 1)).toBe(1);
  expect(wokenBy(1, 0)).toBe(0);
  expect(wokenBy(0, 1)).toBe(0);
  expect(wokenBy(0, 1, 2)).toBe(1);
});

test("members that always have a greater fence are asked with a greater ballot a few times, and not for ever", async () => {
  const { clock, fakes, open } = fakeQuorum(3);
  let last = 2n ** 60n;
  for (const { asked, member } of fakes) {
    Object.assign(member, {
      vote: () => (
        asked.vote++,
        Promise.resolve({ vote: "low", fence: (last += 1000n), wallMs: clock.wall() } as Vote)
      ),
    });
  }
  const attempt = open().attempt(newClaim({ name }));
  void attempt.catch(() => undefined);
  for (let step = 0; step < 200; step++) await clock.advance(10);
  expect(
    await attempt.then(
      ({ granted: is }) => is,
      () => false,
    ),
  ).toBe(false);
  // The first question, and three that are raised.
  expect(fakes.map(({ asked }) => asked.vote)).toEqual([4, 4, 4]);
});

test("what a member fails with is shown, also where it is no error", async () => {
  const { clock, fakes, open } = fakeQuorum(3);
  for (const { member } of fakes) Object.assign(member, { query: () => Promise.reject("in words" as never) });
  const asked = failure(open().query(""));
  await clock.advance(10_000);
  expect((await asked).message).toContain("(in words)");
});
