/** Small bugs that lived: each test here is red with one that `npm run mutate` put in and that no other test noticed. */
import { describe, expect, test } from "vitest";
import type { Vote } from "../../src/backend.ts";
import { systemClock } from "../../src/clock.ts";
import { ballotAbove, ballotOf, firstFence, Proposer } from "../../src/quorum/ballot.ts";
import type { Hints } from "../../src/quorum/hints.ts";
import { Pace } from "../../src/quorum/pace.ts";
import type { Round } from "../../src/quorum/round.ts";
import { Standing } from "../../src/quorum/standing.ts";
import { describe as described, heldBy, inWords, type Silence } from "../../src/quorum/votes.ts";
import { FakeClock } from "../../src/testing/index.ts";
import { newClaim } from "./servers.ts";
import { failure, granted, play } from "./stage.ts";

const name = "lock";

describe("a quorum", () => {
  test("that is closed says so, asks nobody, and leaves no timer", async () => {
    const { clock, stages, open } = play(3);
    const backend = open();
    await backend.close();
    expect(clock.timers).toBe(0);
    expect(await failure(backend.attempt(newClaim({ name })))).toMatchObject({
      message: "The quorum is closed.",
      fatal: true,
    });
    expect(stages.map(({ asked }) => asked.vote)).toEqual([0, 0, 0]);
  });

  test("takes a member for unfit only when that said that it is none, not when it could not be reached", async () => {
    const { stages, open } = play(3);
    for (const [at, { member }] of stages.entries()) {
      let times = 0;
      member.join = () =>
        at === 0 && times++ === 0 ? Promise.reject(new Error("connection refused")) : Promise.resolve({ id: `${at}` });
    }
    const backend = open();
    const claim = newClaim({ name });
    await granted(backend, claim);
    expect(await backend.release(claim)).toBe("held");
    await granted(backend, newClaim({ name }));
    expect(stages[0]!.asked.vote).toBe(1);
  });

  test("believes no member that renews another number of claims than it was asked for", async () => {
    const { stages, open } = play(3);
    const backend = open();
    const claim = newClaim({ name });
    await granted(backend, claim);
    for (const { member } of stages) member.renew = () => Promise.resolve([]);
    expect(await backend.renew([claim])).toMatchObject([{ held: "unknown" }]);
  });

  test("a claim that was released without an answer may be asked for again", async () => {
    const { clock, stages, open } = play(3);
    const backend = open({ memberWait: 100 });
    const claim = newClaim({ name });
    await granted(backend, claim);
    for (const stage of stages) stage.isCutOff = true;
    const released = failure(backend.release(claim));
    await clock.advance(100);
    await released;
    for (const stage of stages) stage.isCutOff = false;
    // The members are asked to let go until they have.
    await clock.advance(2000);
    expect(stages.map(({ holders }) => holders)).toEqual(["", "", ""]);
    await granted(backend, claim);
  });

  test("leaves a member out whose clock is off, and counts the others as before, whether that one answers or not", async () => {
    const { clock, stages, open } = play(5);
    const vote = stages[4]!.member.vote.bind(stages[4]!.member);
    stages[4]!.member.vote = async (claim, ballot) => ({
      ...(await vote(claim, ballot)),
      wallMs: clock.wall() + 3_600_000,
    });
    const backend = open({ memberWait: 100 });
    for (const cutOff of [false, true]) {
      // Then it is not heard, and the others are just enough.
      stages[4]!.isCutOff = cutOff;
      stages[0]!.isCutOff = cutOff;
      const claim = newClaim({ name });
      await granted(backend, claim);
      expect(await backend.release(claim)).toBe("held");
    }
    // Two of the four others are missing: without the fifth no majority is left.
    stages[4]!.isCutOff = false;
    stages[1]!.isCutOff = true;
    const { votes } = await failure(backend.attempt(newClaim({ name })));
    expect(votes.map((each) => each.vote)).toEqual(["unreachable", "unreachable", "granted", "granted", "clock-off"]);
  });

  test("shows a lease that just a majority holds, with those that do not answer, and none of fewer", async () => {
    const { clock, stages, open } = play(5);
    const backend = open({ memberWait: 100 });
    await granted(backend, newClaim({ name, holder: "me" }));
    const seen = async (): Promise<string[]> => {
      const asking = backend.query("");
      await clock.advance(100);
      return (await asking).held.map(({ holder }) => holder);
    };
    stages[0]!.restart();
    stages[1]!.restart();
    expect(await seen()).toEqual(["me"]);
    stages[2]!.isCutOff = true;
    stages[3]!.isCutOff = true;
    expect(await seen()).toEqual(["me"]);
    stages[3]!.isCutOff = false;
    stages[3]!.restart();
    expect(await seen()).toEqual([]);
  });

  test("a release whose answers came too late is known to whoever asks again", async () => {
    const { clock, stages, open } = play(3);
    const backend = open({ memberWait: 100 });
    const claim = newClaim({ name });
    await granted(backend, claim);
    for (const stage of stages) stage.replyMs = 150;
    const released = failure(backend.release(claim));
    await clock.advance(200);
    expect((await released).message).toContain("its release was not confirmed by a majority");
    expect(await backend.release(claim)).toBe("held");
  });

  test("learns from a refusal how far ahead others are, so that it is refused once", async () => {
    const { clock, stages, open } = play(3);
    const ahead = newClaim({ name });
    const fast = open();
    await granted(fast, ahead);
    await fast.release(ahead);
    const behind = new FakeClock({ nowMs: clock.now(), wallMs: clock.wall() - 30_000 });
    const slow = open({}, behind);
    const votes = async (): Promise<number> => {
      const before = stages[0]!.asked.vote;
      const claim = newClaim({ name });
      await granted(slow, claim);
      await slow.release(claim);
      await behind.advance(10);
      return stages[0]!.asked.vote - before;
    };
    expect([await votes(), await votes()]).toEqual([2, 1]);
  });

  test("a claim whose minHold is asked for holds with the second ballot, at all members", async () => {
    const { stages, open } = play(3);
    const backend = open();
    const claim = newClaim({ name, minHoldMs: 1000, holder: "me" });
    const { fence } = await granted(backend, claim);
    expect(stages.map(({ holders }) => holders)).toEqual(["me", "me", "me"]);
    for (const { store } of stages) expect(firstFence(store.query("").held[0]!.fence)).toBe(fence);
    expect(await backend.renew([claim], [fence])).toMatchObject([{ held: true }]);
    expect(await backend.renew([claim], [fence + 64n])).toMatchObject([{ held: false }]);
  });
});

describe("words", () => {
  const silences: readonly (readonly [Vote | Silence | undefined, string])[] = [
    [undefined, "m too slow (was not waited for)"],
    [{ vote: "granted" }, "m granted"],
    [{ vote: "held", by: "x", fence: 130n, remainingMs: 2000 }, "m held (by x (fence 128), for another 2 s at most)"],
    [{ vote: "low", fence: 130n }, "m refused the ballot (has granted fence 130 before)"],
    [
      { vote: "young", forMs: 2000 },
      "m too young (forgot its leases (restart, flush or fail-over) and abstains for 2 s)",
    ],
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
      "m granted; n too slow (was not waited for)",
    );
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
    const { clock, stages, open } = play(5);
    const backend = open({ memberWait: 100 });
    const claim = newClaim({ name });
    await granted(backend, claim);
    stages[0]!.restart();
    for (const at of [2, 3, 4]) stages[at]!.isCutOff = true;
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
    const { clock, stages, open } = play(5);
    const backend = open({ memberWait: 100 });
    const claim = newClaim({ name });
    await granted(backend, claim);
    stages[0]!.replyMs = Infinity;
    stages[1]!.isCutOff = true;
    stages[2]!.restart();
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

describe("pace", () => {
  const dice = { id: () => "", fraction: () => 0 };
  const held: Vote = { vote: "held", by: "x", fence: 1n, remainingMs: 60_000 };

  test("hints after which the same holder is still there are believed ever more slowly, and a new holder ends that", () => {
    const pace = new Pace();
    const pauses: number[] = [];
    for (let i = 0; i < 8; i++) {
      pace.afterDefeat([held, held], 3, 30_000, dice);
      pauses.push(pace.afterHint(dice));
    }
    expect(pauses).toEqual([1, 51, 101, 201, 401, 801, 1001, 1001]);
    pace.afterDefeat(
      [
        { ...held, fence: 2n },
        { ...held, fence: 2n },
      ],
      3,
      30_000,
      dice,
    );
    expect(pace.afterHint(dice)).toBe(1);
  });

  test("whoever released leaves those who wait a window for each, and the time of a round", () => {
    const pace = new Pace();
    expect(pace.courtesyMs()).toBe(1 + 2 + 0);
    pace.note(10, 4);
    expect(pace.courtesyMs()).toBe(1 + 2 * 10 * 5 + 10);
    pace.note(1000, 4);
    expect(pace.courtesyMs()).toBe(1 + 500 + 1000);
  });
});

test("who listens for a release does not count itself among those who wait", () => {
  const standing = new Standing(newClaim({ name }));
  const round = { tookMs: 1, waiters: () => 3 } as Round;
  standing.note(round);
  expect(standing.pace.waiters).toBe(3);
  standing.hints = { isListening: true } as Hints;
  standing.note(round);
  expect(standing.pace.waiters).toBe(2);
  standing.hints = { isListening: false } as Hints;
  standing.note(round);
  expect(standing.pace.waiters).toBe(3);
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
