/** What must not go on after an end, and what must not begin at one: nothing is reported, asked, sent or kept afterwards. */
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { describe, expect, test } from "vitest";
import type { Claim } from "../../src/contract/backend.ts";
import { SleepDetector } from "../../src/contract/clock.ts";
import { driftMs } from "../../src/contract/answer.ts";
import { systemChance } from "../../src/contract/random.ts";
import { LockLostError } from "../../src/contract/errors.ts";
import { Hold } from "../../src/core/hold.ts";
import { checkOptions } from "../../src/core/options.ts";
import type { RenewThread } from "../../src/core/renew-thread.ts";
import { Watchdog } from "../../src/core/watchdog.ts";
import { FakeClock } from "../../src/testing/fake-clock.ts";
import { failure, gate, stage } from "./scripted.ts";

const CHANNELS = [
  ...["start", "end", "asyncStart", "asyncEnd", "error"].flatMap((kind) => [
    `tracing:holdfast:acquire:${kind}`,
    `tracing:holdfast:hold:${kind}`,
  ]),
  "holdfast:lost",
  "holdfast:renew",
];

/** Everything that subscribers hear while `work` goes on. */
async function heard(work: (sofar: () => number) => Promise<void>): Promise<void> {
  let count = 0;
  const note = (): void => void count++;
  for (const channel of CHANNELS) subscribe(channel, note);
  try {
    await work(() => count);
  } finally {
    for (const channel of CHANNELS) unsubscribe(channel, note);
  }
}

describe("when close() has resolved", () => {
  test("answers to renewals that come later are not reported, and nothing more is asked", () =>
    heard(async (sofar) => {
      const { backend, clock, locks } = stage();
      const answer = gate();
      backend.interfere.renew = async (pass) => {
        await answer.opened;
        return await pass();
      };
      for (const name of ["a", "b"]) await locks.acquire(name);
      await clock.advance(10_000);
      expect(backend.count("renew")).toBeGreaterThan(0);
      const closed = locks.close();
      await clock.advance(20_000);
      await closed;
      const [reported, asked, timers] = [sofar(), backend.steps.length, clock.timers];
      answer.open();
      await clock.advance(120_000);
      expect([sofar(), backend.steps.length, timers]).toEqual([reported, asked, 0]);
    }));

  test("a grant that comes later is not handed out, and nothing of it is left", () =>
    heard(async (sofar) => {
      const { backend, clock, locks, other } = stage();
      const answer = gate();
      backend.interfere.attempt = async (pass) => {
        const granted = await pass();
        await answer.opened;
        return granted;
      };
      const waiting = failure(locks.acquire("a"));
      await clock.settle();
      const closed = failure(locks.close());
      await clock.advance(30_000);
      expect((await waiting).code).toBe("ERR_LOCK_CLOSED");
      await closed;
      const [reported, asked] = [sofar(), backend.steps.length];
      answer.open();
      await clock.advance(120_000);
      expect([sofar(), backend.steps.length, clock.timers]).toEqual([reported, asked, 0]);
      (await other().acquire("a", { renew: false })).assertHeld();
    }));
});

test("locks that are closed ask the store for nothing, whatever they are asked", async () => {
  const { backend, locks } = stage();
  await locks.close();
  let asked = 0;
  const ask = (): Promise<never> => (asked++, Promise.reject(new Error("closed")));
  Object.assign(backend, { query: ask, inspect: ask, forceRelease: ask, forget: ask, attempt: ask });
  for (const call of [
    () => locks.query(""),
    () => locks.inspect("a"),
    () => locks.isHeld("a"),
    () => locks.outcome("a"),
    () => locks.forget("a", { fence: 1n }),
    () => locks.forceRelease("a", { fence: 1n, reason: "stuck" }),
    () => locks.acquire("a"),
    () => locks.tryAcquire("a"),
    () => locks.run("a", () => {}),
    () => locks.once("a", { keep: "1m" }, () => {}),
  ])
    expect((await failure(call())).code, String(call)).toBe("ERR_LOCK_CLOSED");
  expect([asked, backend.steps]).toEqual([0, []]);
});

test("the thread that renews is ended with the locks, which wait for it", async () => {
  const { backend, clock } = stage();
  const watchdog = new Watchdog({ backend, clock, chance: systemChance, sleep: new SleepDetector(clock) }, new Set());
  const end = gate();
  let asked = 0;
  const close = (): Promise<void> => (asked++, end.opened);
  watchdog.useThread({ close } as unknown as RenewThread);
  let isStopped = false;
  const stopped = watchdog.stop().then(() => (isStopped = true));
  await clock.settle();
  expect([asked, isStopped]).toEqual([1, false]);
  end.open();
  await stopped;
});

describe("the instant at which trust ends belongs to the next holder", () => {
  const TTL = 10_000;
  const TRUSTED = TTL - driftMs(TTL);

  test.each([
    [TRUSTED - 1, true],
    [TRUSTED, false],
    [TRUSTED + 1, false],
  ])("a first grant that is %i ms on its way is handed out: %s", async (ms, isHandedOut) => {
    const { backend, clock, locks } = stage();
    backend.interfere.attempt = async (pass) => {
      const granted = await pass();
      if (backend.count("attempt") === 1) clock.block(ms);
      return granted;
    };
    const lease = await locks.acquire("a", { ttl: TTL, renew: false });
    expect(backend.count("attempt")).toBe(isHandedOut ? 1 : 2);
    lease.assertHeld();
    expect(lease.remaining()).toBe(isHandedOut ? 1 : TRUSTED);
  });

  test.each([
    [TRUSTED - 1, true],
    [TRUSTED, false],
  ])("so is one that is asked for again: %i ms, %s", async (ms, isHandedOut) => {
    const { backend, clock, locks } = stage();
    backend.interfere.attempt = async (pass) => {
      if (backend.count("attempt") === 1) throw new Error("cut off");
      const granted = await pass();
      if (backend.count("attempt") === 2) clock.block(ms);
      return granted;
    };
    const waiting = locks.acquire("a", { ttl: TTL, renew: false, wait: "1m" });
    await clock.advance(TRUSTED + 3000);
    const lease = await waiting;
    expect(backend.count("attempt") === 2).toBe(isHandedOut);
    // Else it was asked for anew: nothing that is over is handed out.
    if (!isHandedOut) lease.assertHeld();
  });

  test("a lease: held one millisecond before it, and not at it", async () => {
    const { clock, locks } = stage();
    const lease = await locks.acquire("a", { ttl: TTL, renew: false });
    clock.block(TRUSTED - 1);
    lease.assertHeld();
    expect(lease.remaining()).toBe(1);
    clock.block(1);
    expect(() => lease.assertHeld()).toThrow(LockLostError);
    expect(lease.remaining()).toBe(0);
  });
});

test("what a thread had confirmed for the ttl from before does not count for the one since", () => {
  const clock = new FakeClock();
  const sleep = new SleepDetector(clock);
  const claim = { id: "1", name: "a", mode: "exclusive", ttlMs: 30_000, meta: {} } as Claim;
  const sent = sleep.sentNow();
  const hold = new Hold(
    { over: () => "lost", lose: () => undefined, endIdle: () => undefined, behind: () => undefined, isAwaited: false },
    sleep,
    claim,
    checkOptions({ renew: "thread", ttl: "30s" }, {}),
    {
      granted: { granted: true, fence: 1n, run: 1 },
      sent,
      heardAtMs: clock.now(),
      trustedUntilMs: clock.now() + 29_000,
      echoes: false,
    },
  );
  let confirmedMs = clock.now();
  hold.follow(() => confirmedMs);
  const asked = { ...claim, ttlMs: 60_000 };
  hold.retime(asked, 60_000, clock.now(), sent);
  const untilMs = hold.trustedUntilMs;
  // The thread's question for 30 s was on its way.
  clock.block(5000);
  confirmedMs = clock.now();
  expect(hold.trustedUntilMs).toBe(untilMs);
});

describe("work that fails because its lease was lost", () => {
  test("with the very loss keeps that error as it is", async () => {
    const { clock, locks, other } = stage();
    let thrown: unknown;
    const ran = failure(
      locks.run("a", async (lease) => {
        await other().forceRelease("a", { fence: lease.fence, reason: "stuck" });
        await clock.settle();
        try {
          lease.assertHeld();
        } catch (error) {
          thrown = error;
          throw error;
        }
      }),
    );
    await clock.advance(1000);
    expect(await ran).toBe(thrown);
    expect(thrown).toBeInstanceOf(LockLostError);
    expect((thrown as Error).cause).not.toBe(thrown);
    expect((thrown as Error).cause).toBeUndefined();
  });

  test("with the loss of another lock keeps that one's cause", async () => {
    const { clock, locks, other } = stage();
    const foreign = new LockLostError("b", 7n, { kind: "gone" });
    const ran = failure(
      locks.run("a", async (lease) => {
        await other().forceRelease("a", { fence: lease.fence, reason: "stuck" });
        await clock.settle();
        throw foreign;
      }),
    );
    await clock.advance(1000);
    expect(await ran).toBe(foreign);
    expect(foreign.cause).toBeUndefined();
  });
});

describe("claims at the store", () => {
  test.each([2, 3, 7])("of one process for one lock are never more than its limit: %i", async (limit) => {
    const { clock, locks, store, other } = stage();
    const theirs = await other().acquire("a", { limit });
    const claims = (): number => {
      const claimed = store.view().flatMap(({ held, queued }) => [...held.map(({ claim }) => claim), ...queued]);
      return claimed.filter(({ holder }) => holder === "here:1").length;
    };
    const leases: Promise<unknown>[] = [];
    let inside = 0;
    let most = 0;
    for (let at = 0; at < 20; at++) {
      leases.push(
        locks.run("a", { limit, wait: "10m" }, async () => {
          most = Math.max(most, ++inside);
          await clock.sleep(at % 3 === 0 ? 0 : 15);
          inside--;
        }),
      );
      expect(claims()).toBeLessThanOrEqual(limit);
    }
    for (let step = 0; step < 40; step++) {
      await clock.advance(1);
      expect(claims()).toBeLessThanOrEqual(limit);
      if (step === 10) await theirs.release();
    }
    await clock.advance(10_000);
    await Promise.all(leases);
    // The other process had one of them at first.
    expect([limit - 1, limit]).toContain(most);
  });
});

test("a group of one lock is that lock's lease, also where it is named twice", async () => {
  const { locks } = stage();
  for (const names of [["a"], ["a", "a"]]) {
    const lease = (await locks.acquire(names)) as unknown as { fence: bigint; name: string; release(): unknown };
    expect([lease.name, typeof lease.fence]).toEqual(["a", "bigint"]);
    await lease.release();
  }
});

test("the look for an outcome takes its time off the wait of once(), and not more", async () => {
  const { backend, clock, locks } = stage();
  // The code of once() is loaded by its first call, which takes real time.
  await locks.once("other", { keep: "1m" }, () => 5);
  await locks.acquire("a");
  const inspect = backend.inspect.bind(backend);
  backend.inspect = async (name) => {
    await new Promise<void>((resolve) => clock.setTimer(resolve, 400));
    return await inspect(name);
  };
  const startedMs = clock.now();
  let gaveUpMs = 0;
  const waiting = failure(locks.once("a", { keep: "1m", wait: 1000 }, () => 5));
  void waiting.then(() => (gaveUpMs = clock.now()));
  await clock.advance(30_000);
  expect((await waiting).code).toBe("ERR_LOCK_TIMEOUT");
  expect(gaveUpMs - startedMs).toBe(1000);
});

test.each([-1, 1])("an answer to a renewal with %i entries too many is none, for all of them", async (more) => {
  const { backend, clock, locks } = stage();
  const leases = [await locks.acquire("a", { ttl: "3s" }), await locks.acquire("b", { ttl: "3s" })];
  backend.interfere.renew = async (_, claims) => Array.from({ length: claims.length + more }, () => ({ held: true }));
  await clock.advance(3000);
  for (const lease of leases) expect(() => lease.assertHeld()).toThrow(LockLostError);
});
