/** The small functions that everything rests on, each at the edges of what it lets through. */
import { describe, expect, test } from "vitest";
import {
  asked,
  driftMs,
  readAnswer,
  readBlockers,
  readCause,
  readLoss,
  readOutcome,
  readRenewal,
  trustedUntilMs,
} from "../../src/contract/answer.ts";
import { got, isArgumentError, ArgumentError } from "../../src/contract/argument-error.ts";
import { mistakenForce, mistakenGrant, mistakenRelease } from "../../src/contract/backend-mistake.ts";
import type { Claim, Granted, Holding, Renewal } from "../../src/contract/backend.ts";
import { SleepDetector, systemClock } from "../../src/contract/clock.ts";
import { machineMs } from "../../src/contract/machine-clock.ts";
import { Deadlines, type Deadline } from "../../src/contract/deadlines.ts";
import { declined, refuseOutcomes } from "../../src/contract/declined.ts";
import {
  asBackendError,
  isA,
  LockBackendError,
  LockClosedError,
  LockLostError,
  LockTimeoutError,
  messageOf,
} from "../../src/contract/errors.ts";
import { toMs } from "../../src/contract/duration.ts";
import { clipped, printable, toPrintableJson } from "../../src/contract/foreign.ts";
import { holdsText, readLocal, writeLocal } from "../../src/contract/local-facts.ts";
import { describeLoss, type LossReason } from "../../src/contract/loss.ts";
import { isSecretName, maskSecrets, secretsOf, withoutSecrets } from "../../src/contract/mask-secrets.ts";
import { onAbort } from "../../src/contract/on-abort.ts";
import { installedVersion, whyUnsupported } from "../../src/contract/peer-version.ts";
import { systemChance } from "../../src/contract/random.ts";
import { within, withinAwake } from "../../src/contract/time-limit.ts";
import { FakeClock } from "../../src/testing/fake-clock.ts";

const NOW = 5000;
const MAX = 2n ** 63n - 1n;
/** Throws whatever is read of it. */
const poison = new Proxy(
  {},
  {
    get() {
      throw new Error("not to be read");
    },
  },
);

function thrownBy(work: () => unknown): unknown {
  try {
    work();
  } catch (error) {
    return error;
  }
  throw new Error("Expected it to throw");
}

describe("an answer of a backend", () => {
  const grant = (change: object): unknown => {
    const read = readAnswer({ granted: true, fence: 5n, run: 1, ...change } as Granted, NOW);
    return typeof read === "object" ? true : read;
  };

  test("is a grant up to the greatest fence, the longest run and this very instant", () => {
    for (const good of [
      { fence: 1n },
      { fence: MAX },
      { fence: MAX - 4n, run: 5 },
      { run: 1_000_000 },
      { ttlMs: 0.5 },
      { fromMs: NOW },
      { fromMs: 0 },
      { fromMs: -5 },
      { wanted: "yes", mayLinger: 1 },
    ])
      expect(grant(good), JSON.stringify(Object.keys(good))).toBe(true);
    for (const bad of [
      { fence: 0n },
      { fence: -1n },
      { fence: MAX + 1n },
      { fence: MAX - 4n, run: 6 },
      { fence: 5 },
      { run: 0 },
      { run: 1.5 },
      { run: "1" },
      { run: undefined },
      { ttlMs: 0 },
      { ttlMs: -1 },
      { ttlMs: Infinity },
      { ttlMs: "5" },
      { fromMs: NOW + 1 },
      { fromMs: Number.NaN },
      { fromMs: -Infinity },
      { fromMs: "5" },
    ])
      expect(grant(bad), JSON.stringify(Object.keys(bad))).toBe("mistaken");
  });

  test("says only what is really said in it", () => {
    expect(
      readAnswer({ granted: true, fence: 5n, run: 2, wanted: 1, mayLinger: "x", sentTwice: {} } as never, NOW),
    ).toEqual({
      granted: true,
      fence: 5n,
      run: 2,
      ttlMs: undefined,
      fromMs: undefined,
      wanted: false,
      mayLinger: false,
      sentTwice: false,
    });
    expect(
      readAnswer({ granted: true, fence: 5n, run: 2, wanted: true, mayLinger: true, sentTwice: true }, NOW),
    ).toMatchObject({
      wanted: true,
      mayLinger: true,
      sentTwice: true,
    });
    const refusal = { granted: false, heldBy: [], position: "1", retryMs: null, quarantineMs: 5 } as never;
    expect(readAnswer(refusal, NOW)).toEqual({
      granted: false,
      heldBy: [],
      outcome: undefined,
      position: undefined,
      retryMs: undefined,
      quarantineMs: 5,
      sentTwice: false,
    });
    expect(readAnswer({ granted: false, heldBy: [], sentTwice: true }, NOW)).toMatchObject({ sentTwice: true });
    for (const none of [undefined, null, {}, { granted: 1 }, { granted: "true" }])
      expect(readAnswer(none as never, NOW)).toBe("none");
    expect(readAnswer(poison as never, NOW)).toBe("mistaken");
  });

  test("has an outcome with all its parts, or is mistaken", () => {
    const kept = { value: "v", fence: 1n, holder: "me", ageMs: 0, remainingMs: 0 };
    expect(readOutcome(kept)).toEqual(kept);
    expect(readAnswer({ granted: false, heldBy: [], outcome: kept }, NOW)).toMatchObject({ outcome: kept });
    for (const change of [
      { value: 5 },
      { fence: 1 },
      { holder: undefined },
      { ageMs: Number.NaN },
      { remainingMs: Infinity },
    ]) {
      expect(readOutcome({ ...kept, ...change } as never)).toBe("mistaken");
      expect(readAnswer({ granted: false, heldBy: [], outcome: { ...kept, ...change } } as never, NOW)).toBe(
        "mistaken",
      );
    }
  });

  test("is trusted for 1 % and 2 ms less than its ttl, from when its question left or from its own instant", () => {
    const claim = { ttlMs: 10_000 } as Claim;
    expect(driftMs(10_000)).toBe(102);
    expect(trustedUntilMs({ granted: true, fence: 1n, run: 1 }, claim, 1000)).toBe(1000 + 10_000 - 102);
    expect(trustedUntilMs({ granted: true, fence: 1n, run: 1, fromMs: 700, ttlMs: 1000 }, claim, 1000)).toBe(1688);
  });

  test("to a renewal counts from its question or from its own instant, which is never of the future", () => {
    const read = (renewal: unknown): unknown => readRenewal([renewal as Renewal], 0, 4000, NOW);
    expect(read({ held: true })).toBe(4000);
    expect(read({ held: true, fromMs: NOW })).toBe(NOW);
    expect(read({ held: true, fromMs: 3000 })).toBe(3000);
    expect(read({ held: true, wanted: true })).toEqual({ wantedFromMs: 4000 });
    expect(read({ held: true, wanted: "x" })).toBe(4000);
    expect(read({ held: false, reason: { kind: "gone" } })).toEqual({ gone: { kind: "gone" } });
    expect(read({ held: false, reason: "so" })).toEqual({ gone: { kind: "other", text: "so" } });
    for (const none of [
      undefined,
      null,
      {},
      { held: 1 },
      { held: "unknown" },
      { held: true, fromMs: NOW + 1 },
      { held: true, fromMs: Number.NaN },
      { held: true, fromMs: "1" },
      poison,
    ])
      expect(read(none)).toBeUndefined();
    expect(readRenewal(undefined, 0, 1, NOW)).toBeUndefined();
    expect(readCause([{ held: "unknown", cause: 7 } as never], 0)).toBe(7);
    expect(readCause([poison as never], 0)).toBeUndefined();
    expect(readCause(undefined, 0)).toBeUndefined();
  });

  test("of who is in the way is brought up to date; what cannot be shown is left out", () => {
    const one = { name: "a", mode: "exclusive", limit: 1, holder: "me", fence: 1n, meta: {} } as const;
    const holding: Holding = { ...one, heldMs: 100, remainingMs: 50 };
    const refused = { granted: false as const, heldBy: [holding] };
    expect(readBlockers(refused, 20).heldBy).toEqual([{ ...one, heldMs: 120, remainingMs: 30 }]);
    expect(readBlockers(refused, 70).heldBy).toEqual([{ ...one, heldMs: 170, remainingMs: 0 }]);
    for (const change of [{ holder: 5 }, { fence: 1 }, { heldMs: Number.NaN }, { remainingMs: Infinity }])
      expect(readBlockers({ granted: false, heldBy: [{ ...holding, ...change } as never] }, 0).heldBy).toEqual([]);
    expect(readBlockers({ granted: false, heldBy: [poison as never] }, 0)).toEqual({ heldBy: [] });
    expect(readBlockers({ granted: false, heldBy: 5 as never }, 0).heldBy).toEqual([]);
  });

  test("that is thrown, or none, or a promise with methods of its own, is a promise like any other", async () => {
    await expect(asked(() => Promise.resolve(5))).resolves.toBe(5);
    await expect(asked(() => 5 as never)).resolves.toBe(5);
    await expect(
      asked(() => {
        throw new Error("thrown");
      }),
    ).rejects.toThrow("thrown");
    const own = Object.assign(Promise.resolve(5), { catch: () => 7 });
    const answer = asked(() => own);
    expect(answer).not.toBe(own);
    await expect(answer).resolves.toBe(5);
    const plain = Promise.resolve(5);
    expect(asked(() => plain)).toBe(plain);
  });
});

test("every reason for a loss has its words", () => {
  const words = (loss: LossReason): string => describeLoss(loss);
  expect(words({ kind: "expired", renewal: "off" })).toBe("its ttl passed and it is not renewed");
  expect(words({ kind: "expired", renewal: "failed", failures: 3 })).toContain("(3 renewals failed)");
  expect(words({ kind: "expired", renewal: "late-majority" })).toContain("before a majority");
  expect(words({ kind: "expired", renewal: "late", lateMs: 99 })).not.toContain("noticed");
  expect(words({ kind: "expired", renewal: "late", lateMs: 100 })).toContain("(noticed 100 ms late: the event loop");
  expect(words({ kind: "expired", renewal: "late", lateMs: 100.4 })).toContain("(noticed 100 ms late: the event loop");
  expect(words({ kind: "minority", gone: 2, members: 3, why: { kind: "gone" } })).toMatch(
    /^2 of 3 members no longer hold it \(the store no longer knows it/,
  );
  expect(words({ kind: "other", text: "so it is" })).toBe("so it is");
  expect(readLoss({ kind: "forced", by: "me", reason: "x" })).toEqual({ kind: "forced", by: "me", reason: "x" });
  for (const strange of [() => 5, poison, 5, null]) expect(readLoss(strange)).toMatchObject({ kind: "other" });
});

describe("the sleep of a machine", () => {
  test.each([
    [1999, false],
    [2000, false],
    [2001, true],
    [-2000, false],
    [-2001, true],
  ])("a lead of the wall clock that changes by %i ms is one: %s", (ms, isOne) => {
    const clock = new FakeClock();
    const sleep = new SleepDetector(clock);
    const { period } = sleep.sentNow();
    clock.suspend(ms);
    const now = sleep.look(clock.now());
    expect(now !== period).toBe(isOne);
    // One that was set back has not slept.
    expect(sleep.sleptMs(period, clock.now())).toBe(isOne && ms > 0 ? ms : 0);
    if (isOne) expect(now.seenAtMs).toBe(clock.now());
  });

  test("clocks that run apart by less than a thousandth never sleep, however long; by more they do, sometime", () => {
    for (const [perSecond, isOne] of [
      [0.9, false],
      [3, true],
    ] as const) {
      const clock = new FakeClock();
      const sleep = new SleepDetector(clock);
      const { period } = sleep.sentNow();
      for (let at = 0; at < 5000; at++) {
        clock.block(1000);
        clock.suspend(perSecond);
        sleep.look(clock.now());
      }
      expect(sleep.look(clock.now()) !== period).toBe(isOne);
    }
  });

  test("looking without a trace changes nothing", () => {
    const clock = new FakeClock();
    const sleep = new SleepDetector(clock);
    const { period } = sleep.sentNow();
    clock.suspend(9000);
    expect(sleep.unseen(() => sleep.look(clock.now()))).not.toBe(period);
    clock.suspend(-9000);
    expect(sleep.look(clock.now())).toBe(period);
  });

  test("the machine's clock is one for all processes, and a clock that was handed in its own", () => {
    const clock = new FakeClock({ nowMs: 77 });
    expect(machineMs(clock)).toBe(77);
    expect(Math.abs(machineMs() - Number(process.hrtime.bigint()) / 1e6)).toBeLessThan(10_000);
    expect(Math.abs(systemClock.wall() - Date.now())).toBeLessThan(10_000);
  });
});

describe("deadlines", () => {
  const stage = (): { clock: FakeClock; rung: number[]; deadlines: Deadlines<Deadline>; one: () => Deadline } => {
    const clock = new FakeClock({ nowMs: 0 });
    const rung: number[] = [];
    const deadlines: Deadlines<Deadline> = new Deadlines<Deadline>(clock, false, (nowMs) => {
      for (let due = deadlines.take(nowMs); due !== undefined; due = deadlines.take(nowMs)) rung.push(nowMs);
    });
    return { clock, rung, deadlines, one: () => ({ atMs: 0, heapIndex: -1 }) };
  };

  test("ring at their time and not before, also those that were moved, each once, with one timer", async () => {
    const { clock, rung, deadlines, one } = stage();
    const entries = [300, 100, 200, 100.5].map((atMs) => {
      const entry = one();
      deadlines.set(entry, atMs);
      return entry;
    });
    expect(clock.timers).toBe(1);
    deadlines.set(entries[1]!, 400);
    await clock.advance(99);
    expect(rung).toEqual([]);
    await clock.advance(3);
    expect(rung).toHaveLength(1);
    await clock.advance(1000);
    expect(rung.slice(1)).toEqual([200, 300, 400]);
    expect([deadlines.size, clock.timers]).toEqual([0, 0]);
  });

  test("one at no time, or after the end, sets no timer", () => {
    const { clock, deadlines, one } = stage();
    deadlines.set(one(), Infinity);
    expect(clock.timers).toBe(0);
    deadlines.set(one(), 5);
    expect(clock.timers).toBe(1);
    deadlines.stop();
    deadlines.set(one(), 1);
    expect(clock.timers).toBe(0);
  });

  test("what one of them throws keeps no other from its time", async () => {
    const clock = new FakeClock({ nowMs: 0 });
    let rings = 0;
    const deadlines: Deadlines<Deadline> = new Deadlines<Deadline>(clock, false, (nowMs) => {
      deadlines.take(nowMs);
      if (++rings === 1) throw new Error("of a user");
    });
    for (const atMs of [10, 20]) deadlines.set({ atMs: 0, heapIndex: -1 }, atMs);
    clock.fire = (timer) => {
      try {
        timer();
      } catch {
        // As Node would tell it.
      }
    };
    await clock.advance(100);
    expect(rings).toBe(2);
  });
});

describe("a time limit", () => {
  test("gives up at its time, and leaves neither timer nor listener", async () => {
    const clock = new FakeClock();
    const never = new Promise<number>(() => {});
    for (const [promise, result] of [
      [Promise.resolve(5), 5],
      [never, undefined],
    ] as const) {
      const limited = within(clock, promise, 100);
      await clock.advance(99);
      expect(clock.timers).toBe(result === undefined ? 1 : 0);
      await clock.advance(1);
      expect(await limited).toBe(result);
      expect(clock.timers).toBe(0);
    }
    const end = new AbortController();
    const ended = within(clock, never, 100, end.signal);
    end.abort();
    expect(await ended).toBeUndefined();
    expect(await within(clock, Promise.resolve(7), Infinity)).toBe(7);
    expect(clock.timers).toBe(0);
  });

  test("counts a standstill of this process for a fifth at most, and begins again with each progress", async () => {
    const clock = new FakeClock();
    const never = new Promise<true>(() => {});
    let isOver: boolean | undefined;
    void withinAwake(clock, never, 1000).then((done) => (isOver = done));
    await clock.settle();
    clock.block(60_000);
    await clock.advance(799);
    expect(isOver).toBeUndefined();
    await clock.advance(1);
    expect(isOver).toBe(false);
    let [progress, slow] = [0, undefined as boolean | undefined];
    void withinAwake(clock, never, 1000, () => progress).then((done) => (slow = done));
    await clock.advance(900);
    progress++;
    await clock.advance(1000);
    expect(slow).toBeUndefined();
    await clock.advance(1000);
    expect(slow).toBe(false);
    expect(await withinAwake(clock, Promise.resolve(true), 1000)).toBe(true);
  });
});

describe("listening to a signal", () => {
  test("calls each once, those that were added while it goes on too, and none that was taken away", () => {
    const controller = new AbortController();
    const { signal } = controller;
    const heard: string[] = [];
    const note = (): void => void heard.push("twice");
    const stops = [note, note].map((fn) => onAbort(signal, fn));
    const stopGone = onAbort(signal, () => heard.push("gone"));
    onAbort(signal, (reason) => {
      heard.push(String(reason));
      stopLater();
      onAbort(signal, () => heard.push("at once"));
    });
    const stopLater = onAbort(signal, () => heard.push("later"));
    stopGone();
    stopGone();
    controller.abort("why");
    controller.abort("again");
    expect(heard).toEqual(["twice", "twice", "why", "at once"]);
    for (const stop of stops) stop();
    expect(() => onAbort(undefined, note)()).not.toThrow();
  });

  test("one that is taken away leaves the others, and the last takes the listener along", () => {
    const { signal } = new AbortController();
    const calls: string[] = [];
    const [add, remove] = [signal.addEventListener.bind(signal), signal.removeEventListener.bind(signal)];
    signal.addEventListener = (...args: Parameters<typeof add>) => (calls.push("add"), add(...args));
    signal.removeEventListener = (...args: Parameters<typeof remove>) => (calls.push("remove"), remove(...args));
    const [first, second] = [onAbort(signal, () => {}), onAbort(signal, () => {})];
    expect(calls).toEqual(["add"]);
    first();
    expect(calls).toEqual(["add"]);
    second();
    expect(calls).toEqual(["add", "remove"]);
    onAbort(signal, () => {})();
    expect(calls).toEqual(["add", "remove", "add", "remove"]);
  });
});

describe("words", () => {
  test("for a duration that is too short say that numbers are milliseconds, and only then", () => {
    const said = (value: unknown, minMs: number): string => messageOf(thrownBy(() => toMs(value, "ttl", { minMs })));
    expect(said(5, 100)).toMatch(/got 5 \(numbers are milliseconds\)$/);
    expect(said(99, 100)).toContain("numbers are milliseconds");
    for (const value of [0, -5, 100.5, "5ms", "5"]) expect(said(value, 100)).not.toContain("numbers are");
  });

  test("for what was got", () => {
    expect([got([]), got({}), got(null), got(undefined), got(() => 5), got(5), got("5"), got(5n)]).toEqual([
      "an array",
      "an object",
      "null",
      "undefined",
      "a function",
      "5",
      '"5"',
      "5",
    ]);
    expect(isArgumentError(new ArgumentError("x"))).toBe(true);
    expect(isArgumentError(new TypeError("x"))).toBe(false);
    expect(isArgumentError({ code: "ERR_LOCK_ARGUMENT" })).toBe(false);
  });

  test("for the mistakes of a backend say what it answered, and are fatal", () => {
    const errors = [
      mistakenGrant("own", "a", { granted: true, fence: 0n, run: 1, ttlMs: undefined }),
      mistakenGrant("own", "a", poison as never),
      mistakenRelease("own", "a", true),
      mistakenForce("own", "a", 5n),
    ];
    expect(errors.map(({ fatal, backend, lock }) => [fatal, backend, lock])).toEqual(
      errors.map(() => [true, "own", "a"]),
    );
    const said = errors.map(({ message }) => message);
    expect(said[0]).toContain("granted it with fence 0n, run 1. ");
    expect(said[1]).toContain("cannot be read (not to be read)");
    expect(said[2]).toContain("answered its release with true");
    expect(said[3]).toContain("answered forceRelease() with 5n");
  });

  test("for what a backend cannot do", () => {
    const can = { outcomes: "it keeps none" } as const;
    expect(declined("own", can, "outcomes", "a")).toMatchObject({ fatal: true, message: 'Lock "a": it keeps none.' });
    expect(declined("own", can, "steal", "a").message).toContain("does not say that it can");
    const claim = { name: "a" } as Claim;
    expect(refuseOutcomes("own", can, claim)).toBeUndefined();
    expect(() => refuseOutcomes("own", can, { ...claim, wantsOutcome: true })).toThrow("it keeps none");
    expect(() => refuseOutcomes("own", can, claim, { value: "", keepMs: 1, fence: 1n })).toThrow("it keeps none");
  });

  test("of errors", () => {
    expect(new LockTimeoutError("a", 5, [], 2000).message).toContain("in quarantine for 2 s; gave up after 5 ms");
    expect(new LockTimeoutError("a", 5, [], 2000)).toMatchObject({
      quarantineMs: 2000,
      waitedMs: 5,
      name: "LockTimeoutError",
    });
    expect(new LockLostError("a", 7n, "so")).toMatchObject({
      fence: 7n,
      reason: "so",
      loss: { kind: "other", text: "so" },
    });
    expect(new LockLostError("a", 7n, { kind: "gone" }, 5).cause).toBe(5);
    expect(new LockClosedError("a").message).toContain('Lock "a" was not acquired: these locks are closed');
    expect(LockClosedError.whileHeld("a").message).toContain('Lock "a" is still held');
    expect(new LockBackendError("own", "a", "b")).toMatchObject({ fatal: false, votes: [], backend: "own", lock: "a" });
    const cause = new Error("refused");
    expect(asBackendError("own", "a", cause)).toMatchObject({
      cause,
      message: 'Lock "a": the own store failed (refused).',
    });
    expect(asBackendError("own", "", cause)).toMatchObject({ message: "the own store failed (refused)." });
    for (const known of [new TypeError("x"), new LockClosedError("a")])
      expect(asBackendError("own", "a", known)).toBe(known);
    expect(messageOf(poison)).toBe("an error that cannot be shown");
    expect([isA(Error, cause), isA(TypeError, cause), isA(Error, 5)]).toEqual([true, false, false]);
    const odd = {
      [Symbol.hasInstance]: () => {
        throw new Error("odd");
      },
    };
    expect(isA(odd as never, cause)).toBe(false);
  });

  test("of others are cut between characters, and made harmless", () => {
    expect([clipped("12345", 5), clipped("123456", 5), clipped("123😀6", 5)]).toEqual(["12345", "1234…", "123…"]);
    expect(printable("a\u00ffb\u0100\u{e0001}")).toBe("aÿbĀ\\u{e0001}");
    expect(printable("\u007f\u2028")).toBe("\\x7f\\u{2028}");
    expect(toPrintableJson({ a: 5n, b: "\u009b\u202e\u{e0001}" })).toBe(
      String.raw`{"a":"5","b":"\u009b\u202e\udb40\udc01"}`,
    );
    expect(toPrintableJson([1], 2)).toBe("[\n  1\n]");
  });
});

test("what a process says of itself is read as from a stranger", () => {
  const holds = Array.from({ length: 17 }, (_, at) => ({ name: `lock ${at}`, fence: 2n ** 62n + BigInt(at) }));
  const facts = { waiters: 0, users: 3, holds: holds.slice(0, 16), holdsMore: false };
  expect(readLocal(JSON.parse(JSON.stringify(writeLocal(facts))))).toEqual(facts);
  // The same locks are the same text, and others another one.
  const texts = [undefined, { ...facts, holds: [] }, facts, { ...facts, waiters: 99 }].map(holdsText);
  expect(texts).toEqual(["", "", texts[2], texts[2]]);
  expect(JSON.parse(texts[2]!)).toHaveLength(facts.holds.length);
  expect(readLocal(writeLocal({ ...facts, holds }))).toEqual({ ...facts, holdsMore: true });
  expect(readLocal(writeLocal({ ...facts, holdsMore: true }))).toEqual({ ...facts, holdsMore: true });
  for (const wrong of [undefined, null, 5, { waiters: -1 }, { waiters: 1.5 }, { users: "3" }, { holds: {} }]) {
    const given = wrong === null || typeof wrong !== "object" ? wrong : { ...(writeLocal(facts) as object), ...wrong };
    expect(readLocal(given)).toBeUndefined();
  }
  const read = (...held: unknown[]): unknown => readLocal({ waiters: 0, users: 0, holds: [held], holdsMore: false });
  // That its waiter yields is said by a 1, and by nothing else.
  for (const [mark, yields] of [
    [1, { yields: true }],
    [0, {}],
    [true, {}],
    ["1", {}],
  ] as const)
    expect(read("a", "5", mark)).toMatchObject({ holds: [{ name: "a", fence: 5n, ...yields }] });
  expect(read("a", "5", 0)).not.toHaveProperty("holds.0.yields");
  for (const [name, fence] of [
    ["x".repeat(1024), "1"],
    ["x", "9".repeat(19)],
  ])
    expect(read(name, fence)).toMatchObject({ holds: [{ name }], holdsMore: false });
  for (const held of [
    ["x".repeat(1025), "1"],
    ["x", "9".repeat(20)],
    ["x", "-1"],
    ["x", 1],
    [5, "1"],
  ])
    expect(read(...held)).toMatchObject({ holds: [], holdsMore: true });
});

describe("secrets", () => {
  test("that are not encoded as a URL would have it are found as they stand", () => {
    expect(secretsOf("redis://u:100%zz@host")).toContain("100%zz");
  });

  test("are found raw, decoded, encoded and as they stand in JSON, longest first", () => {
    expect(secretsOf("redis://me:pa%20ss@host:1/0")).toEqual(["pa%20ss", "pa ss"]);
    expect(secretsOf("redis://host:1/0")).toEqual([]);
    expect(secretsOf("redis://me:abc@host")).toEqual([]);
    expect(secretsOf("redis://me:abcd@host")).toEqual(["abcd"]);
    expect(secretsOf('redis://me:a"cd@host')).toEqual(["a%22cd", 'a\\"cd', 'a"cd']);
    // Some take its first @ for its end.
    expect(secretsOf("redis://me:pass@word@host")).toEqual(["pass%40word", "pass@word", "pass"]);
    expect(secretsOf("zk://host/?password=open5&user=me")).toEqual(["open5"]);
    expect(secretsOf("redlock://a:one11@h1,b:two22@h2,h3")).toEqual(expect.arrayContaining(["one11", "two22"]));
  });

  test("are masked in every URL of a text, and known ones wherever they stand", () => {
    expect(maskSecrets("see redis://me:pw@host:1/0 and zk://host?token=x&a=b.")).toBe(
      "see redis://me:***@host:1/0 and zk://host?token=***&a=b.",
    );
    expect(maskSecrets("redis://me:p/w#r@host")).toBe("redis://me:***@host");
    expect(maskSecrets("no url: me:pw@host", ["pw@h"])).toBe("no url: me:***ost");
    expect(maskSecrets("redis://me@host/a:b@c")).toBe("redis://me@host/a:b@c");
    // A scheme may have one letter, but it has one.
    expect(maskSecrets("a://me:pw@host")).toBe("a://me:***@host");
    expect(maskSecrets("1://me:pw@host")).toBe("1://me:pw@host");
    expect(maskSecrets("redis://:@host")).toBe("redis://:@host");
    expect(["passwd", "Secret", "authToken", "api_key", "credential"].every(isSecretName)).toBe(true);
    expect(["user", "host", "key"].some(isSecretName)).toBe(false);
  });

  test("and their users are taken out of a URL, and nothing else", () => {
    expect(withoutSecrets("redis://me:pw@host:1/0?a=b&password=x")).toBe("redis://host:1/0?a=b");
    expect(withoutSecrets("redis://me:pw@host?password=x")).toBe("redis://host");
    expect(withoutSecrets("redis://me@host/0?a=b")).toBe("redis://me@host/0?a=b");
    expect(withoutSecrets("redlock://a:1@h1:1,h2,b:2@h3/x")).toBe("redlock://h1:1,h2,h3/x");
    expect(withoutSecrets("redis+sentinel://me:p,w@h1,h2/x")).toBe("redis+sentinel://h1,h2/x");
    expect(withoutSecrets("file:///tmp/x")).toBe("file:///tmp/x");
  });
});

test("a peer is supported from its oldest version on, within its major version", () => {
  const oldest = ["5.4.0", "6.2.1"];
  for (const version of ["5.4.0", "5.4.1", "5.10.0", "6.2.1", "6.3.0", "6.2.10", undefined])
    expect(whyUnsupported("x", version, oldest), version).toBeUndefined();
  for (const version of ["4.9.9", "5.3.9", "6.2.0", "6.1.9", "7.0.0", "55.4.0"])
    expect(whyUnsupported("x", version, oldest)).toBe(
      `x ${version} is installed, but Holdfast supports ^5.4.0 and ^6.2.1: npm install x@6`,
    );
  expect(installedVersion("vitest", import.meta.url)).toMatch(/^\d+\.\d+\.\d+/);
  expect(installedVersion("ioredis", import.meta.url)).toMatch(/^\d+\.\d+\.\d+/);
  expect(installedVersion("not-installed-at-all", import.meta.url)).toBeUndefined();
});

test("ids are of 22 characters that cannot be guessed, and none comes twice", () => {
  const ids = Array.from({ length: 2000 }, () => systemChance.id());
  expect(new Set(ids).size).toBe(ids.length);
  for (const id of ids) expect(id).toMatch(/^[\w-]{22}$/);
  // All places differ, also the first and the last.
  for (const place of [0, 10, 21]) expect(new Set(ids.map((id) => id[place])).size).toBeGreaterThan(40);
});
