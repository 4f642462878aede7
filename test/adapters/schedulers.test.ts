/** Once per slot with the real schedulers, each in two processes on one store. */
import "reflect-metadata";
import { Module, type INestApplicationContext } from "@nestjs/common";
import { NestFactory } from "@nestjs/core";
import { Cron as CronAt, ScheduleModule } from "@nestjs/schedule";
import { Cron } from "croner";
import * as nodeCron from "node-cron";
import { getEventListeners } from "node:events";
import { afterEach, describe, expect, test, vi } from "vitest";
import {
  everySlot,
  OncePerSlot,
  runCoordinator,
  runMissed,
  runSlot,
  type SlotRun,
  withCroner,
} from "../../src/adapters/cron/index.ts";
import { slotName } from "../../src/adapters/cron/names.ts";
import { everyMs } from "../../src/adapters/cron/schedule.ts";
import { memory, memoryStore } from "../../src/backends/memory/index.ts";
import type { Locks } from "../../src/core/api.ts";
import { createLocks } from "../../src/core/locks.ts";
import { eventually } from "../../src/testing/eventually.ts";
import { faulty } from "../../src/testing/faulty.ts";
import { failure, gate } from "../core/scripted.ts";

const closers: (() => unknown)[] = [];

afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await Promise.resolve(close()).catch(() => undefined);
});

function pods(count: number): readonly Locks[] {
  const store = memoryStore();
  return Array.from({ length: count }, () => {
    const locks = createLocks(memory({ store }));
    closers.push(() => locks.close({ grace: 0, force: true }));
    return locks;
  });
}

/** What ran, over all processes. */
class Log {
  readonly runs: SlotRun[] = [];
  readonly note = (run: SlotRun): void => void this.runs.push(run);
  /** Resolves when so many slots were run. */
  async several(count = 2): Promise<readonly string[]> {
    return await eventually("several slots were run", () =>
      this.runs.length >= count ? this.runs.map(({ slot }) => slot.toISOString()) : undefined,
    );
  }
}

/** Whole seconds, each once, in order. */
function expectOncePerSecond(slots: readonly string[]): void {
  expect(slots.every((slot) => slot.endsWith(".000Z"))).toBe(true);
  expect(slots).toEqual([...new Set(slots)].toSorted());
}

const SILENT = { info: () => {}, warn: () => {}, debug: () => {}, error: () => {} };

describe("node-cron", () => {
  function tasks(
    all: readonly Locks[],
    log: Log,
    work: () => Promise<void> = async () => undefined,
  ): nodeCron.ScheduledTask[] {
    return all.map((locks) => {
      const coordinator = runCoordinator(locks, { overlap: "queue" });
      const task = nodeCron.schedule(
        "* * * * * *",
        async (context) => {
          log.note(coordinator.runOf(context)!);
          await work();
        },
        { name: "report", distributed: true, runCoordinator: coordinator, missedExecutionTolerance: 60_000 },
      );
      closers.push(() => task.destroy());
      return task;
    });
  }

  test("of two processes one runs each slot, and the task knows its slot, fence and signal", async () => {
    const log = new Log();
    const [first, second] = tasks(pods(2), log);
    let skipped = 0;
    for (const task of [first!, second!])
      task.on("execution:skipped", ({ reason }) => void (skipped += Number(reason === "not-elected")));
    expectOncePerSecond(await log.several(3));
    expect(log.runs[0]).toMatchObject({ signal: expect.any(AbortSignal), fence: expect.any(BigInt) });
    await eventually("the other process has skipped as many", () => skipped >= 2 || undefined);
  });

  test("a task that ran is done also for a process whose clock is late: the coordinator asks for the slot, not for the time", async () => {
    const [a, b] = pods(2) as [Locks, Locks];
    const key = "nightly:report:2026-11-18T03:00:00.000Z";
    const [early, late] = [runCoordinator(a), runCoordinator(b)];
    expect(await early.shouldRun(key, 30_000)).toBe(true);
    await early.onComplete(key);
    expect(await late.shouldRun(key, 30_000)).toBe(false);
    expect(await runSlot(b, "nightly:report", new Date("2026-11-18T03:00:00.000Z"), () => 1)).toMatchObject({
      why: "done",
    });
  });

  test("a task that outlives the ttl that node-cron asks for is renewed; a loss aborts its signal, and onComplete() says so", async () => {
    const [a, b] = pods(2) as [Locks, Locks];
    const key = "report:2026-11-18T03:00:00.000Z";
    const [first, second] = [runCoordinator(a), runCoordinator(b, { wait: 0 })];
    expect(await first.shouldRun(key, 200)).toBe(true);
    const run = first.runOf({ date: new Date("2026-11-18T03:00:00.000Z"), task: { name: "report" } })!;
    await new Promise((resolve) => setTimeout(resolve, 500));
    run.assertHeld();
    expect(await second.shouldRun(key, 200)).toBe(false);
    const lock = slotName("report", run.slot);
    const [lease] = (await b.inspect(lock)).held;
    await b.forceRelease(lock, { fence: lease!.fence, reason: "test" });
    await eventually("it knows", () => run.signal.aborted || undefined);
    expect(await failure(first.onComplete(key))).toMatchObject({ code: "ERR_LOCK_LOST" });
    // Nothing of it is left.
    await first.onComplete(key);
  });

  test("a task that is cut off by close() and throws has not done its slot: another process runs it", async () => {
    const [a, b] = pods(2) as [Locks, Locks];
    const [first, second] = [runCoordinator(a), runCoordinator(b, { wait: "1m" })];
    let began: SlotRun | undefined;
    const task = nodeCron.schedule(
      "* * * * * *",
      async (context) => {
        began ??= first.runOf(context)!;
        await new Promise((resolve) => began!.signal.addEventListener("abort", resolve));
        throw began.signal.reason;
      },
      { name: "report", distributed: true, runCoordinator: first, logger: SILENT },
    );
    closers.push(() => task.destroy());
    const { slot } = await eventually("it runs", () => began);
    const taken = second.shouldRun(`report:${slot.toISOString()}`, 1000);
    await a.close({ grace: "1m" });
    expect(await taken).toBe(true);
    await second.onComplete(`report:${slot.toISOString()}`);
  });

  test("two tasks of one process with one name: one that has lost its slot and still works does not end the other's", async () => {
    const [a, b] = pods(2) as [Locks, Locks];
    const slot = new Date("2026-11-18T03:00:00.000Z");
    const key = `report:${slot.toISOString()}`;
    // Else the second waits for the job until the first has ended.
    const coordinator = runCoordinator(a, { overlap: "allow" });
    expect(await coordinator.shouldRun(key, 30_000)).toBe(true);
    const [lease] = (await b.inspect(slotName("report", slot))).held;
    const second = coordinator.shouldRun(key, 30_000);
    const first = coordinator.runOf({ date: slot, task: { name: "report" }, execution: { id: 1 } })!;
    await b.forceRelease(slotName("report", slot), { fence: lease!.fence, reason: "test" });
    await eventually("it knows", () => first.signal.aborted || undefined);
    expect(await second).toBe(true);
    expect(await failure(coordinator.onComplete(key))).toMatchObject({ code: "ERR_LOCK_LOST" });
    const taken = coordinator.runOf({ date: slot, task: { name: "report" }, execution: { id: 2 } })!;
    taken.assertHeld();
    await coordinator.onComplete(key);
    expect(await runCoordinator(b).shouldRun(key, 30_000)).toBe(false);
  });

  test("where the store cannot be asked, node-cron skips the slot", async () => {
    const store = faulty(memory());
    const locks = createLocks(store);
    closers.push(() => locks.close({ grace: 0, force: true }));
    store.faults.always("attempt", { fault: "error" });
    const errors: unknown[] = [];
    const logger = { ...SILENT, error: (text: unknown) => void errors.push(text) };
    const task = nodeCron.schedule("* * * * * *", () => expect.unreachable(), {
      name: "report",
      distributed: true,
      runCoordinator: runCoordinator(locks, { wait: 100, ttl: 500 }),
      logger,
    });
    closers.push(() => task.destroy());
    const skipped = gate();
    task.on("execution:skipped", ({ reason }) => void (reason === "coordinator-error" && skipped.open()));
    await skipped.opened;
    expect(errors).toContain("Run coordinator failed; skipping execution (fail-closed)");
  });

  test("a key that is none of node-cron's is refused", async () => {
    const [a] = pods(1) as [Locks];
    for (const key of ["report", "report:today", ":2026-11-18T03:00:00.000Z", "report:2026-13-18T03:00:00.000Z"]) {
      expect(await failure(runCoordinator(a).shouldRun(key, 1000))).toMatchObject({ code: "ERR_LOCK_ARGUMENT" });
    }
  });
});

describe("croner", () => {
  test("of two processes one runs each slot, and what was missed before is run first", async () => {
    const log = new Log();
    const seconds = everyMs(1000);
    const [a, b] = pods(2) as [Locks, Locks];
    const { keepLastSlot } = await import("../../src/adapters/cron/last-slot.ts");
    const before = new Date(seconds.previous(new Date())!.getTime() - 5000);
    await keepLastSlot(a, "report", before);
    for (const locks of [a, b]) {
      const job = new Cron("* * * * * *");
      closers.push(() => job.stop());
      await withCroner(locks, "report", job, { missed: "all" }, log.note);
    }
    const slots = await log.several(8);
    expectOncePerSecond(slots);
    // Also those that were missed, and none in between is absent.
    const times = slots.map((slot) => Date.parse(slot));
    expect(times[0]).toBe(before.getTime() + 1000);
    expect(times.at(-1)! - times[0]!).toBe((times.length - 1) * 1000);
  });

  test("errors are croner's: its option `catch` gets them", async () => {
    const [a] = pods(1) as [Locks];
    const caught = gate();
    const job = new Cron("* * * * * *", { catch: () => caught.open() });
    closers.push(() => job.stop());
    await withCroner(a, "report", job, {}, () => {
      throw new Error("no paper");
    });
    await caught.opened;
  });

  test("what is no job of croner is refused", async () => {
    const [a] = pods(1) as [Locks];
    const given = { previousRuns: 1 } as unknown as Cron;
    expect(await failure(withCroner(a, "report", given, {}, () => 1))).toMatchObject({ code: "ERR_LOCK_ARGUMENT" });
    // Its times are counted from its last run, in each process.
    const spaced = new Cron("*/5 * * * * *", { interval: 60, paused: true });
    closers.push(() => spaced.stop());
    const refused = await failure(withCroner(a, "report", spaced, {}, () => 1));
    expect(refused).toMatchObject({ code: "ERR_LOCK_ARGUMENT", message: expect.stringContaining("interval") });
  });
});

describe("plain timers", () => {
  test("of two processes one runs each slot; stop() waits for what runs, and nothing begins afterwards", async () => {
    const log = new Log();
    const errors: unknown[] = [];
    const timers = pods(2).map((locks) => {
      const options = { every: "1s", overlap: "queue", onError: (error: unknown) => void errors.push(error) } as const;
      const timer = everySlot(locks, "report", options, log.note);
      closers.push(() => timer.stop());
      return timer;
    });
    expectOncePerSecond(await log.several(3));
    await Promise.all(timers.map((timer) => timer.stop()));
    expect(errors).toEqual([]);
  });

  test("a clock that was early and was set back has slots again", async () => {
    const [locks] = pods(1) as [Locks];
    const log = new Log();
    let aheadMs = 86_400_000;
    const real = Date.now.bind(Date);
    const early = vi.spyOn(Date, "now").mockImplementation(() => real() + aheadMs);
    closers.push(async () => early.mockRestore());
    const timer = everySlot(locks, "report", { every: "1s", onError: () => undefined }, log.note);
    closers.push(() => timer.stop());
    aheadMs = 0;
    expect((await log.several(1)).length).toBeGreaterThan(0);
  });

  test("a signal stops it, and is listened to no longer than it runs", async () => {
    const [locks] = pods(1) as [Locks];
    const [before, after] = [new AbortController(), new AbortController()];
    const options = { every: "1s", missed: "all", onError: () => expect.unreachable() } as const;
    const stopped = everySlot(locks, "report", { ...options, signal: before.signal }, () => 1);
    expect(getEventListeners(before.signal, "abort")).toHaveLength(1);
    await stopped.stop();
    expect(getEventListeners(before.signal, "abort")).toEqual([]);
    after.abort();
    // Nothing is begun, not even a question to the store.
    const asked = { ...locks, tryRun: () => 1, once: () => 1, outcome: () => expect.unreachable() } as unknown as Locks;
    const never = everySlot(asked, "report", { ...options, signal: after.signal }, () => expect.unreachable());
    await never.stop();
  });

  test("errors go to onError, which is required; what waits when it is stopped is no error", async () => {
    const [a, b] = pods(2) as [Locks, Locks];
    expect(() => everySlot(a, "report", { every: "1s" } as never, () => 1)).toThrow("onError");
    expect(() => everySlot(a, "report", { every: "10ms", onError: () => {} }, () => 1)).toThrow("every");
    // Not when the first slot is due.
    expect(() => everySlot(a, "x".repeat(1000), { every: "1s", onError: () => {} }, () => 1)).toThrow("1024 bytes");
    const errors: unknown[] = [];
    const [failed, held, end] = [gate(), gate(), gate()];
    const failing = everySlot(
      a,
      "fails",
      { every: "1s", onError: (error) => (errors.push(error), failed.open()) },
      () => {
        throw new Error("no paper");
      },
    );
    await failed.opened;
    await failing.stop();
    expect(errors[0]).toMatchObject({ message: "no paper" });
    const onError = (error: unknown): void => void errors.push(error);
    const holding = everySlot(a, "long", { every: "1s", onError }, async () => {
      held.open();
      await end.opened;
    });
    await held.opened;
    const waiting = everySlot(b, "long", { every: "1s", overlap: "queue", onError }, () => expect.unreachable());
    await eventually("it waits", async () => (await a.query("cron:")).pending[0]);
    await waiting.stop();
    end.open();
    await holding.stop();
    expect(errors.length).toBeGreaterThan(0);
    expect(new Set(errors.map((error) => (error as Error).message))).toEqual(new Set(["no paper"]));
  });
});

describe("@nestjs/schedule", () => {
  const log = new Log();
  let current: Locks;

  class Reports {
    readonly locks = current;

    async report(run: SlotRun): Promise<void> {
      log.note(run);
    }

    async plain(): Promise<void> {}
  }

  // As a compiler writes decorators: the last one first.
  function decorate(
    method: "report" | "plain",
    ...decorators: readonly ((target: object, key: string, descriptor: PropertyDescriptor) => unknown)[]
  ): void {
    const descriptor = Object.getOwnPropertyDescriptor(Reports.prototype, method)!;
    for (const decorator of decorators.toReversed()) decorator(Reports.prototype, method, descriptor);
    Object.defineProperty(Reports.prototype, method, descriptor);
  }

  decorate(
    "report",
    CronAt("* * * * * *", { name: "report", timeZone: "Europe/Berlin" }),
    OncePerSlot<Reports>({ name: "report", locks: ({ locks }) => locks, missed: "all" }),
  );
  decorate("plain", OncePerSlot<Reports>({ name: "plain", locks: ({ locks }) => locks }));

  async function start(locks: Locks): Promise<INestApplicationContext> {
    current = locks;
    class App {}
    Module({ imports: [ScheduleModule.forRoot()], providers: [Reports] })(App);
    const app = await NestFactory.createApplicationContext(App, { logger: false });
    closers.push(() => app.close());
    return app;
  }

  test("of two applications one runs each slot, with its scheduled time; missed ones can be run when it starts", async () => {
    const [a, b] = pods(2) as [Locks, Locks];
    const [first] = [await start(a), await start(b)];
    expectOncePerSecond(await log.several(3));
    expect(await runMissed(first!.get(Reports), "report")).toEqual(expect.any(Array));
    expect(await failure(runMissed(first!.get(Reports), "locks"))).toMatchObject({ code: "ERR_LOCK_ARGUMENT" });
  });

  test("a method without @Cron() is refused when it is called, with what is missing", async () => {
    const [a] = pods(1) as [Locks];
    current = a;
    expect(await failure(new Reports().plain())).toMatchObject({
      code: "ERR_LOCK_ARGUMENT",
      message: "Expected plain() to have @Cron() of @nestjs/schedule, above @OncePerSlot()",
    });
  });
});
