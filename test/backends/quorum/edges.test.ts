/** A quorum at its edges: what comes after an end, what is kept until when, and how members' different answers become one. */
import { describe, expect, test } from "vitest";
import type { Backend, Claim, LockState, Vote } from "../../../src/contract/backend.ts";
import { driftMs } from "../../../src/contract/answer.ts";
import type { Timer } from "../../../src/contract/clock.ts";
import { askMembers } from "../../../src/backends/quorum/ask-members.ts";
import { Backoff } from "../../../src/backends/quorum/backoff.ts";
import { clocksOff } from "../../../src/backends/quorum/clock-offsets.ts";
import type { MemberLink } from "../../../src/backends/quorum/member-link.ts";
import { type QuorumOptions, toSettings } from "../../../src/backends/quorum/options.ts";
import { PendingCalls } from "../../../src/backends/quorum/pending-calls.ts";
import { quorum } from "../../../src/backends/quorum/index.ts";
import { FakeClock } from "../../../src/testing/index.ts";
import { failure, FakeMember, fakeQuorum, granted } from "./fake-members.ts";
import { newClaim } from "./servers.ts";

const name = "lock";

/** Members that know their rounds by the claim's id, as stores do that another process may ask. */
function recalling(fakes: readonly FakeMember[]): { recalls: number } {
  const counted = { recalls: 0 };
  for (const { member } of fakes) {
    const vote = member.vote.bind(member);
    const rounds: { readonly id: string; readonly ballot: bigint }[] = [];
    member.recall = async (_, id) => {
      counted.recalls++;
      return rounds.find((round) => round.id.startsWith(id));
    };
    member.vote = (round, ballot) => {
      rounds.push({ id: round.id, ballot });
      return vote(round, ballot);
    };
  }
  return counted;
}

describe("a claim that another process began", () => {
  test("is released by the process that resumes it, also where that has asked nothing else before", async () => {
    const { fakes, open } = fakeQuorum(3);
    const counted = recalling(fakes);
    const claim = newClaim({ name });
    await granted(open(), claim);
    const other = open();
    // A process that does not say that it resumes anything asks no member.
    expect([await other.release(claim), counted.recalls]).toEqual(["absent", 0]);
    expect(fakes.map(({ holders }) => holders)).toEqual([claim.holder, claim.holder, claim.holder]);
    expect(await other.release({ ...claim, resumes: true })).toBe("held");
    expect(fakes.map(({ holders }) => holders)).toEqual(["", "", ""]);
    expect(await other.release({ ...newClaim({ name }), resumes: true })).toBe("absent");
  });
});

test("a claim that asks again is not granted by what its process remembers, without a majority", async () => {
  const { clock, fakes, open } = fakeQuorum(3);
  const backend = open({ memberWait: 100 });
  const claim = newClaim({ name, ttlMs: 2000 });
  await granted(backend, claim);
  // No member can say it now.
  for (const fake of fakes) fake.isCutOff = true;
  const asking = Promise.allSettled([backend.attempt(claim)]);
  await clock.advance(200);
  expect(await asking).toMatchObject([{ status: "rejected" }]);
});

describe("a release", () => {
  /** Three members that a lease of 2 s, with a lock delay of 3 s, cannot be released at. */
  async function unsure(): Promise<{ clock: FakeClock; fakes: readonly FakeMember[]; backend: Backend; claim: Claim }> {
    const { clock, fakes, open } = fakeQuorum(3);
    const backend = open({ memberWait: 100 });
    const claim = newClaim({ name, ttlMs: 2000, lockDelayMs: 3000 });
    await granted(backend, claim);
    for (const fake of fakes) fake.isCutOff = true;
    const released = failure(backend.release(claim));
    await clock.advance(100);
    await released;
    return { clock, fakes, backend, claim };
  }

  test("that stays unknown is known to the process until the members have let go, and not longer", async () => {
    const { clock, backend, claim } = await unsure();
    await clock.advance(4900);
    const again = failure(backend.release(claim));
    await clock.advance(99);
    let isOver = false;
    void again.then(() => (isOver = true));
    await clock.settle();
    expect(isOver).toBe(false);
    await clock.advance(1);
    await again;
    await clock.advance(5001);
    expect(await backend.release(claim)).toBe("absent");
  });

  test("that members did not get is sent until the lease and its lock delay are over there, and not longer", async () => {
    const { clock, fakes } = await unsure();
    const sent = (): number[] => fakes.map(({ asked }) => asked.release);
    await clock.advance(3000);
    const before = sent();
    await clock.advance(1900);
    for (const [at, count] of sent().entries()) expect(count).toBeGreaterThan(before[at]!);
    await clock.advance(3000);
    const last = sent();
    await clock.advance(10_000);
    expect(sent()).toEqual(last);
    expect(clock.timers).toBe(0);
  });

  test("that comes when a round has just been lost ends the claim: no member is asked again with a higher ballot", async () => {
    const { clock, fakes, open } = fakeQuorum(3);
    const answer: ((vote: Vote) => void)[] = [];
    for (const [at, { asked, member }] of fakes.entries()) {
      member.vote = () => {
        asked.vote++;
        return new Promise((resolve) => (answer[at] = resolve));
      };
    }
    const backend = open();
    const claim = newClaim({ name });
    const attempt = backend.attempt(claim);
    await clock.settle();
    answer[0]!({ vote: "low", fence: 2n ** 60n });
    answer[1]!({ vote: "low", fence: 2n ** 60n });
    // Both votes are read before this goes on, and the attempt has not learned of it yet.
    await Promise.resolve();
    expect(await backend.release(claim)).toBe("queued");
    expect(await attempt).toEqual({ granted: false, heldBy: [] });
    await clock.settle();
    expect(fakes.map(({ asked }) => asked.vote)).toEqual([1, 1, 1]);
  });
});

describe("what a member has not let go of", () => {
  const leftovers = (clock: FakeClock): PendingCalls => {
    const { member } = new FakeMember(clock);
    return new PendingCalls({ ...member, release: () => new Promise(() => {}) }, clock, (answer) => answer);
  };

  test("is kept for a thousand claims at most, the youngest", () => {
    const pending = leftovers(new FakeClock());
    for (let at = 1; at <= 1000; at++) pending.cleanUp(newClaim({ name: `lock ${at}` }), false);
    expect([pending.locks.length, pending.locks[0]]).toEqual([1000, "lock 1"]);
    pending.cleanUp(newClaim({ name: "lock 1001" }), false);
    expect([pending.locks.length, pending.locks[0], pending.locks.at(-1)]).toEqual([1000, "lock 2", "lock 1001"]);
  });

  test("is forgotten when its time there is over and another comes", async () => {
    const clock = new FakeClock();
    const pending = leftovers(clock);
    pending.cleanUp(newClaim({ name: "a", ttlMs: 1000, lockDelayMs: 500 }), false);
    await clock.advance(1499);
    pending.cleanUp(newClaim({ name: "b", ttlMs: 1000 }), false);
    expect(pending.locks).toEqual(["a", "b"]);
    await clock.advance(1);
    pending.cleanUp(newClaim({ name: "c", ttlMs: 1000 }), false);
    expect(pending.locks).toEqual(["b", "c"]);
  });
});

describe("a renewal", () => {
  test("tells a member that lost the lease what it is now for people, and not what it was before", async () => {
    const { clock, fakes, open } = fakeQuorum(3);
    const backend = open();
    const claim = newClaim({ name, meta: { step: "1" } });
    await granted(backend, claim);
    const shownAgain = async (next: Claim): Promise<unknown> => {
      await backend.renew([next]);
      fakes[0]!.restart();
      await backend.renew([claim]);
      await clock.settle();
      return fakes[0]!.store.query("").held.map(({ meta }) => meta);
    };
    expect(await shownAgain({ ...claim, meta: { step: "2" }, changed: true })).toEqual([{ step: "2" }]);
    // A longer ttl changes nothing that is for people.
    expect(await shownAgain({ ...claim, meta: { step: "3" }, ttlMs: 30_000 })).toEqual([{ step: "2" }]);
  });

  test("that a majority confirmed in time stays confirmed while another lease of the same request is waited for", async () => {
    const { clock, fakes, open } = fakeQuorum(3);
    const backend = open({ memberWait: "10s" });
    const [sure, split] = [newClaim({ name, ttlMs: 1000 }), newClaim({ name: "other", ttlMs: 30_000 })];
    await granted(backend, sure);
    await granted(backend, split);
    const lost = fakes[1]!.store.query("other").held[0]!;
    await fakes[1]!.member.forceRelease("other", lost.fence, "ops", "stuck");
    fakes[2]!.replyMs = 5000;
    const sentAtMs = clock.now();
    const renewed = backend.renew([sure, split]);
    await clock.advance(5000);
    expect(await renewed).toEqual([
      { held: true, fromMs: sentAtMs },
      { held: true, fromMs: sentAtMs },
    ]);
  });
});

test.each([
  [-1, 2],
  [0, 1],
])(
  "a member without the lease is asked for it again before trust in it ends, and not at that instant: %i ms",
  async (byMs, votes) => {
    const { clock, fakes, open } = fakeQuorum(3);
    const backend = open({ memberWait: "10s" });
    const claim = newClaim({ name, ttlMs: 1000 });
    await granted(backend, claim);
    fakes[2]!.restart();
    fakes[2]!.replyMs = 1000 - driftMs(1000) + byMs;
    expect(await backend.renew([claim])).toMatchObject([{ held: true }]);
    await clock.advance(2000);
    expect(fakes[2]!.asked.vote).toBe(votes);
  },
);

describe("options", () => {
  const opened = (options: QuorumOptions): unknown => {
    try {
      return fakeQuorum(3).open(options).name;
    } catch (error) {
      return (error as Error).name;
    }
  };

  test.each([
    ["memberWait", "60s", "60001ms"],
    ["maxTtl", "24h", "25h"],
  ] as const)("%s is at most %s", (option, last, next) => {
    expect([opened({ [option]: last }), opened({ [option]: next })]).toEqual(["quorum", "TypeError"]);
  });
});

describe("members that are not much slower than a majority are heard, too", () => {
  test.each([
    [0, 20],
    [100, 320],
  ])("after a majority that took %i ms, until %i ms have passed", async (tookMs, lastMs) => {
    const heard = async (slowMs: number): Promise<number> => {
      const clock = new FakeClock();
      const links = [tookMs, tookMs, slowMs].map((replyMs, at) => ({
        label: `m${at}`,
        replyMs,
      })) as unknown as MemberLink[];
      const settings = toSettings({ clock, memberWait: 1000 });
      const asking = askMembers(
        links,
        settings,
        name,
        (link) =>
          new Promise<void>((resolve) => {
            const { replyMs } = link as unknown as { readonly replyMs: number };
            if (replyMs === 0) resolve();
            else clock.setTimer(resolve, replyMs);
          }),
      );
      await clock.advance(1000);
      expect(clock.timers).toBe(0);
      return (await asking).length;
    };
    expect([await heard(lastMs - 1), await heard(lastMs + 1)]).toEqual([3, 2]);
  });
});

describe("a member whose clock is off", () => {
  const clock = new FakeClock();
  const ownMs = clock.wall() - clock.now();
  const off = (...offMs: readonly number[]): readonly number[] => {
    const members = offMs.map((ms) => ({ ms, offset: { fromMs: ownMs + ms, toMs: ownMs + ms } }));
    return [...clocksOff(members, 2000, clock)].map(({ ms }) => ms);
  };

  test("is the one that is far from the middle one; of an even number our own clock is one, too", () => {
    expect(off(0, 5000)).toEqual([5000]);
    expect(off(-5000, 0)).toEqual([-5000]);
    expect(off(0, 10, 5000)).toEqual([5000]);
    expect(off(0, 10, 5000, 5010)).toEqual([5000, 5010]);
    expect(off(5000, 5010, 5020, 0)).toEqual([0]);
    expect(off(0, 5000, 5010, 5020, 5030)).toEqual([0]);
    expect(off(0, 10, 20, 5000, 5010, 5020)).toEqual([5000, 5010, 5020]);
  });

  test("at the very limit it is not, and one alone never is", () => {
    expect([off(0, 2000), off(0, 2001), off(-2001, 0, 0), off(9000)]).toEqual([[], [2001], [-2001], []]);
  });
});

describe("a process that releases", () => {
  test.each([
    [0, true],
    [1, false],
    [2, false],
  ])("where %i others wait, has the lock again at once: %s", async (waiters, again) => {
    const { fakes, open } = fakeQuorum(3);
    for (const { member } of fakes) {
      const vote = member.vote.bind(member);
      member.vote = async (claim, ballot) => ({ ...(await vote(claim, ballot)), waiters }) as Vote;
    }
    const backend = open();
    const held = newClaim({ name });
    await granted(backend, held);
    const answer = await backend.swap!(held, newClaim({ name, queues: true }));
    expect([answer.granted, answer.released]).toEqual([again, "held"]);
    // One that would not wait has no use for a pause.
    const [other, last] = [newClaim({ name: "other" }), newClaim({ name: "other", queues: false })];
    await granted(backend, other);
    expect((await backend.swap!(other, last)).granted).toBe(true);
  });
});

describe("what is shown of a lock", () => {
  function showing(count: number, shown: (at: number, state: LockState) => LockState): Backend {
    const { fakes, open } = fakeQuorum(count);
    for (const [at, { member }] of fakes.entries()) {
      const inspect = member.inspect.bind(member);
      member.inspect = async (lock) => shown(at, await inspect(lock));
    }
    return open();
  }

  test.each([
    [[5000, 100, 9000, 20_000, 1000], 5000],
    [[1, 2, 3, 4, 5], 3],
    [[5, 4, 3, 2, 1], 3],
    [[10, 9, 8, 0, 0], 8],
    [[0, 0, 0, 9, 10], undefined],
  ] as const)("is in quarantine until a majority votes again: %j", async (quarantines, quarantineMs) => {
    const backend = showing(5, (at, state) => ({ ...state, quarantineMs: quarantines[at] }));
    expect((await backend.inspect(name)).quarantineMs).toBe(quarantineMs);
  });

  test("is what most members say; of as many, what those say that hold it longest", async () => {
    const said = (...members: readonly (readonly [string, number])[]): Promise<LockState> => {
      const backend = showing(members.length, (at, state) => ({
        ...state,
        held: state.held.map((holding) => ({
          ...holding,
          meta: { step: members[at]![0] },
          remainingMs: members[at]![1],
        })),
      }));
      return granted(backend, newClaim({ name })).then(() => backend.inspect(name));
    };
    const step = async (...members: readonly (readonly [string, number])[]): Promise<unknown> =>
      (await said(...members)).held[0]?.meta["step"];
    expect(await step(["old", 9000], ["new", 8000], ["new", 7000])).toBe("new");
    expect(await step(["old", 7000], ["new", 9000], ["old", 6000], ["new", 8000])).toBe("new");
    expect(await step(["new", 9000], ["old", 7000], ["new", 8000], ["old", 6000])).toBe("new");
  });

  test("is held as long as a majority holds it, whatever the longest and the shortest hold", async () => {
    const remaining = [5000, 1000, 3000, 4000, 2000];
    const backend = showing(5, (at, state) => ({
      ...state,
      held: state.held.map((holding) => ({ ...holding, remainingMs: remaining[at]!, heldMs: remaining[at]! })),
    }));
    await granted(backend, newClaim({ name }));
    expect((await backend.inspect(name)).held).toMatchObject([{ remainingMs: 3000, heldMs: 5000 }]);
  });

  test("has no id where the members do not say which claim holds it", async () => {
    const backend = showing(3, (_, state) => ({ ...state, held: state.held.map(({ id: _id, ...rest }) => rest) }));
    await granted(backend, newClaim({ name }));
    expect((await backend.inspect(name)).held.map((holding) => "id" in holding)).toEqual([false]);
  });
});

/** A clock that knows which of its timers keep the process alive. */
class AliveClock extends FakeClock {
  readonly #keeping = new Set<Timer>();

  get keepsAlive(): boolean {
    return this.#keeping.size > 0;
  }

  override setTimer(fn: () => void, ms: number, keepsAlive = false): Timer {
    const timer = super.setTimer(() => {
      this.#keeping.delete(timer);
      fn();
    }, ms);
    if (keepsAlive) this.#keeping.add(timer);
    return timer;
  }

  override clearTimer(timer: Timer): void {
    this.#keeping.delete(timer);
    super.clearTimer(timer);
  }
}

describe("the process stays alive while a caller waits for members that do not answer, and no longer:", () => {
  const calls: Record<string, (backend: Backend, claim: Claim, fence: bigint) => Promise<unknown>> = {
    attempt: (backend) => backend.attempt(newClaim({ name: "another" })),
    renew: (backend, claim) => backend.renew([claim]),
    release: (backend, claim) => backend.release(claim),
    query: (backend) => backend.query(""),
    inspect: (backend) => backend.inspect(name),
    "forced release": (backend, _claim, fence) => backend.forceRelease(name, fence, "ops", "stuck"),
  };
  for (const [call, ask] of Object.entries(calls)) {
    test.each([1, 2])(`${call}, %i of three silent`, async (silent) => {
      const clock = new AliveClock();
      const fakes = [0, 1, 2].map(() => new FakeMember(clock));
      const backend = quorum(
        fakes.map(({ member }) => member),
        { clock, memberWait: 1000 },
      );
      const claim = newClaim({ name });
      const { fence } = await granted(backend, claim);
      await clock.settle();
      expect(clock.keepsAlive).toBe(false);
      for (const fake of fakes.slice(0, silent)) fake.replyMs = Infinity;
      for (const fake of fakes.slice(silent)) fake.replyMs = 10;
      let isOver = false;
      const end = (): boolean => (isOver = true);
      void ask(backend, claim, fence).then(end, end);
      let looks = 0;
      while (!isOver && looks++ < 5000) {
        expect(clock.keepsAlive).toBe(true);
        await clock.advance(1);
      }
      expect(isOver).toBe(true);
      expect(clock.keepsAlive).toBe(false);
    });
  }
});

test("a claim that is refused waits twice as long each time, up to a second and to a third of its ttl", () => {
  const held: Vote = { vote: "held", by: "x", fence: 1n, remainingMs: 600_000 };
  const pauses = (ttlMs: number, fraction: number): number[] => {
    const backoff = new Backoff();
    const chance = { id: () => "", fraction: () => fraction };
    return Array.from({ length: 8 }, () => backoff.afterDefeat([held, held], 3, ttlMs, chance));
  };
  expect(pauses(30_000, 0)).toEqual([12.5, 25, 50, 100, 200, 400, 500, 500]);
  expect(pauses(900, 0)).toEqual([12.5, 25, 50, 100, 150, 150, 150, 150]);
});
