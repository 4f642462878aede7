/** Once per slot, independent of the scheduler: by several processes on one store. */
import { afterEach, describe, expect, test, vi } from "vitest";
import { Job } from "../../src/adapters/cron/job.ts";
import { jobName, slotName } from "../../src/adapters/cron/names.ts";
import { runSlot, type SlotRun } from "../../src/adapters/cron/run-slot.ts";
import { everyMs } from "../../src/adapters/cron/schedule.ts";
import { memory, memoryStore } from "../../src/backends/memory/index.ts";
import { quorum } from "../../src/backends/quorum/index.ts";
import { LockBackendError } from "../../src/contract/errors.ts";
import type { Locks } from "../../src/core/api.ts";
import { createLocks } from "../../src/core/locks.ts";
import { eventually } from "../../src/testing/eventually.ts";
import { faulty } from "../../src/testing/faulty.ts";
import { failure, gate } from "../core/scripted.ts";

const closers: (() => Promise<unknown>)[] = [];

afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close().catch(() => undefined);
});

/** As many processes as there are names. */
function pods(count: number): readonly Locks[] {
  const store = memoryStore();
  return Array.from({ length: count }, () => {
    const locks = createLocks(memory({ store }));
    closers.push(() => locks.close({ grace: 0, force: true }));
    return locks;
  });
}

const SLOT = new Date("2026-11-18T03:00:00.000Z");
const NEXT = new Date("2026-11-18T03:01:00.000Z");

describe("runSlot()", () => {
  test("of all processes one runs a slot, and the others learn that it was done, however late they come", async () => {
    const [a, b, c] = pods(3) as [Locks, Locks, Locks];
    const runs: SlotRun[] = [];
    const work = (run: SlotRun): string => {
      runs.push(run);
      return "sent";
    };
    const all = await Promise.all([a, b].map((locks) => runSlot(locks, "report", SLOT, work)));
    expect(all.filter(({ ran }) => ran)).toEqual([{ ran: true, slot: SLOT, value: "sent" }]);
    expect(all.filter(({ ran }) => !ran)).toEqual([{ ran: false, slot: SLOT, why: "done" }]);
    // Its clock is late by as much as you like: the key is the slot.
    expect(await runSlot(c, "report", SLOT, work)).toEqual({ ran: false, slot: SLOT, why: "done" });
    expect(runs).toHaveLength(1);
    expect(await runSlot(c, "report", NEXT, work)).toMatchObject({ ran: true });
    expect(runs.map(({ slot }) => slot)).toEqual([SLOT, NEXT]);
    expect(runs[1]!.fence).toBeGreaterThan(runs[0]!.fence);
    expect(await runSlot(c, "other", SLOT, work)).toMatchObject({ ran: true });
  });

  test("a process that comes while the slot runs waits; with `wait: 0` it does not", async () => {
    const [a, b] = pods(2) as [Locks, Locks];
    const [began, end] = [gate(), gate()];
    const first = runSlot(a, "report", SLOT, async () => {
      began.open();
      await end.opened;
    });
    await began.opened;
    expect(await runSlot(b, "report", SLOT, { wait: 0 }, () => "twice")).toEqual({
      ran: false,
      slot: SLOT,
      why: "running",
    });
    const second = runSlot(b, "report", SLOT, () => "twice");
    end.open();
    expect(await first).toMatchObject({ ran: true });
    expect(await second).toEqual({ ran: false, slot: SLOT, why: "done" });
  });

  test("by default a slot does not run while another one of the job does, and may run later; the same process included", async () => {
    const [a, b] = pods(2) as [Locks, Locks];
    const [began, end] = [gate(), gate()];
    const first = runSlot(a, "report", SLOT, async () => {
      began.open();
      await end.opened;
    });
    await began.opened;
    for (const locks of [a, b]) {
      expect(await runSlot(locks, "report", NEXT, () => "early")).toEqual({ ran: false, slot: NEXT, why: "overlap" });
    }
    end.open();
    await first;
    expect(await runSlot(b, "report", NEXT, () => "late")).toMatchObject({ ran: true, value: "late" });
  });

  test('`overlap: "queue"` runs it afterwards, "allow" at once', async () => {
    const [a, b] = pods(2) as [Locks, Locks];
    const [began, end] = [gate(), gate()];
    const order: string[] = [];
    const first = runSlot(a, "report", SLOT, async () => {
      began.open();
      await end.opened;
      order.push("first");
    });
    await began.opened;
    const third = await runSlot(b, "report", NEXT, { overlap: "allow" }, () => order.push("allowed"));
    expect(third).toMatchObject({ ran: true });
    const later = new Date(NEXT.getTime() + 60_000);
    const second = runSlot(b, "report", later, { overlap: "queue" }, () => order.push("queued"));
    await eventually("it queues", async () => (await a.inspect(jobName("report"))).pending[0]);
    end.open();
    await Promise.all([first, second]);
    expect(order).toEqual(["allowed", "first", "queued"]);
  });

  test("a job that outlives its ttl is renewed, and is not run twice", async () => {
    // So long that a busy machine, on which a process stands still for a while, does not lose the lease.
    const [a, b] = pods(2) as [Locks, Locks];
    const began = gate();
    const first = runSlot(a, "report", SLOT, { ttl: 1500 }, async ({ assertHeld }) => {
      began.open();
      await new Promise((resolve) => setTimeout(resolve, 3500));
      assertHeld();
    });
    await began.opened;
    expect(await runSlot(b, "report", SLOT, { ttl: 1500 }, () => "twice")).toMatchObject({ ran: false, why: "done" });
    expect(await first).toMatchObject({ ran: true });
  });

  test("a lost slot aborts its signal, and a process that waits takes it over", async () => {
    const [a, b] = pods(2) as [Locks, Locks];
    const began = gate();
    const first = runSlot(a, "report", SLOT, async ({ signal }) => {
      began.open();
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
      throw signal.reason;
    });
    await began.opened;
    const second = runSlot(b, "report", SLOT, () => "again");
    await eventually("it waits", async () => (await a.inspect(slotName("report", SLOT))).pending[0]);
    const [lease] = (await b.inspect(slotName("report", SLOT))).held;
    await b.forceRelease(slotName("report", SLOT), { fence: lease!.fence, reason: "test" });
    expect(await failure(first)).toMatchObject({ code: "ERR_LOCK_LOST" });
    // The job is held for the same slot until the first has ended, and is waited for.
    expect(await second).toMatchObject({ ran: true, value: "again" });
  });

  test("a slot whose runner has died is no overlap with itself: the job is still held for it, and is waited for", async () => {
    const [a, b] = pods(2) as [Locks, Locks];
    const dead = await a.acquire(jobName("report"), { meta: { slot: SLOT.toISOString() } });
    const taken = runSlot(b, "report", SLOT, () => "taken over");
    await eventually("it waits", async () => (await a.inspect(jobName("report"))).pending[0]);
    await dead.release();
    expect(await taken).toMatchObject({ ran: true, value: "taken over" });
  });

  test("a lost job aborts the signal, too; a function that ends all the same has done its slot, and its caller learns of the loss", async () => {
    const [a, b] = pods(2) as [Locks, Locks];
    const result = await failure(
      runSlot(a, "report", SLOT, async ({ signal, assertHeld }) => {
        const [lease] = (await b.inspect(jobName("report"))).held;
        await b.forceRelease(jobName("report"), { fence: lease!.fence, reason: "test" });
        await eventually("it knows", () => signal.aborted || undefined);
        expect(assertHeld).toThrow("lost");
      }),
    );
    expect(result).toMatchObject({ code: "ERR_LOCK_LOST", lock: jobName("report") });
    expect(await runSlot(b, "report", SLOT, () => "again")).toMatchObject({ ran: false, why: "done" });
  });

  test('a function that fails has done its slot; with `onFailure: "retry"` the next process runs it', async () => {
    const [a, b] = pods(2) as [Locks, Locks];
    const fails = (): never => {
      throw new Error("no paper");
    };
    expect(await failure(runSlot(a, "report", SLOT, fails))).toMatchObject({ message: "no paper" });
    expect(await runSlot(b, "report", SLOT, () => "again")).toEqual({ ran: false, slot: SLOT, why: "failed" });
    const retry = { onFailure: "retry" } as const;
    expect(await failure(runSlot(a, "report", NEXT, retry, fails))).toMatchObject({ message: "no paper" });
    expect(await runSlot(b, "report", NEXT, retry, () => "again")).toMatchObject({ ran: true, value: "again" });
  });

  test("an error of a lock that the function uses itself is not taken for a busy slot", async () => {
    const [a, b] = pods(2) as [Locks, Locks];
    const lease = await b.acquire("printer");
    const work = (): Promise<unknown> => a.run("printer", { wait: 20 }, () => "printed");
    for (const onFailure of ["done", "retry"] as const) {
      const error = await failure(runSlot(a, `report ${onFailure}`, SLOT, { onFailure }, work));
      expect(error).toMatchObject({ code: "ERR_LOCK_TIMEOUT", lock: "printer" });
    }
    await lease.release();
  });

  test("a process that is closed in the middle leaves its slot to another one", async () => {
    const [a, b] = pods(2) as [Locks, Locks];
    const began = gate();
    const first = runSlot(a, "report", SLOT, async ({ signal }) => {
      began.open();
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
      throw new Error("stopped");
    });
    await began.opened;
    const second = runSlot(b, "report", SLOT, () => "taken over");
    const closed = a.close();
    expect(await failure(first)).toMatchObject({ message: "stopped" });
    await closed;
    expect(await second).toMatchObject({ ran: true, value: "taken over" });
  });

  test("where the store cannot be asked, nothing runs", async () => {
    const store = faulty(memory());
    const locks = createLocks(store);
    closers.push(() => locks.close({ grace: 0, force: true }));
    store.faults.always("attempt", { fault: "error" });
    const asked = runSlot(locks, "report", SLOT, { wait: 50, ttl: 500 }, () => expect.unreachable());
    expect(await failure(asked)).toMatchObject({ code: "ERR_LOCK_BACKEND" });
    // Without a limit it waits for the store, and runs when that is back.
    let ran = 0;
    const later = runSlot(locks, "report", SLOT, () => void ran++);
    await eventually("the store was asked", () => (store.faults.count > 3 ? true : undefined));
    expect(ran).toBe(0);
    store.faults.heal();
    expect(await later).toMatchObject({ ran: true });
  });

  test("a store that keeps no outcomes is refused, with what to do", async () => {
    const locks = createLocks(quorum([memory(), memory(), memory()], { durable: true }));
    closers.push(() => locks.close());
    const error = await failure(runSlot(locks, "report", SLOT, () => expect.unreachable()));
    expect(error).toMatchObject({ code: "ERR_LOCK_BACKEND", fatal: true });
    expect(error.message).toContain("cannot keep what the work comes to");
  });

  test.each([
    [{ overlap: "never" }, "overlap"],
    [{ keep: "30s" }, "keep"],
    [{ onFailure: "repeat" }, "onFailure"],
    [{ wait: -1 }, "wait"],
  ])("wrong options are refused: %o", async (options, named) => {
    const [locks] = pods(1) as [Locks];
    const error = await failure(runSlot(locks, "report", SLOT, options as object, () => 1));
    expect(error).toMatchObject({ code: "ERR_LOCK_ARGUMENT" });
    expect(error.message).toContain(named);
  });

  test("a slot that is no time, and a job without a name, are refused", async () => {
    const [locks] = pods(1) as [Locks];
    for (const slot of [new Date(Number.NaN), "now" as unknown as Date]) {
      expect(await failure(runSlot(locks, "report", slot, () => 1))).toMatchObject({ code: "ERR_LOCK_ARGUMENT" });
    }
    expect(await failure(runSlot(locks, "", SLOT, () => 1))).toMatchObject({ code: "ERR_LOCK_ARGUMENT" });
  });
});

describe("missed slots", () => {
  /** A schedule of hours: those of the last hours before now are what can be missed. */
  const HOUR = 3_600_000;
  const hours = everyMs(HOUR);
  const last = hours.previous(new Date())!;
  const ago = (count: number): Date => new Date(last.getTime() - count * HOUR);

  function job(
    locks: Locks,
    missed: ConstructorParameters<typeof Job>[3]["missed"],
    ran: Date[],
    fails?: Date,
  ): Job<void> {
    return new Job(locks, "hourly", hours, { missed }, ({ slot }) => {
      ran.push(slot);
      if (slot.getTime() === fails?.getTime()) throw new Error("this hour fails");
    });
  }

  /** As if the job had run then, with a policy that keeps the last slot. */
  async function ranAt(locks: Locks, slot: Date): Promise<void> {
    const { keepLastSlot } = await import("../../src/adapters/cron/last-slot.ts");
    await runSlot(locks, "hourly", slot, { keep: "24h" }, () => keepLastSlot(locks, "hourly", slot));
  }

  test("skip: they are not run", async () => {
    const [a, b] = pods(2) as [Locks, Locks];
    await ranAt(a, ago(3));
    const ran: Date[] = [];
    expect(await job(b, "skip", ran).missed()).toEqual([]);
    expect(ran).toEqual([]);
  });

  test("last: only the last one, once; and none where it was done", async () => {
    const [a, b] = pods(2) as [Locks, Locks];
    await ranAt(a, ago(3));
    const ran: Date[] = [];
    const policy = { run: "last", within: "6h" } as const;
    await Promise.all([job(a, policy, ran).missed(), job(b, policy, ran).missed()]);
    expect(ran).toEqual([last]);
    expect(await job(b, policy, ran).missed()).toEqual([]);
  });

  test("all: each of them, in order, once, and then the one that is due", async () => {
    const [a, b] = pods(2) as [Locks, Locks];
    await ranAt(a, ago(3));
    const ran: Date[] = [];
    const policy = { run: "all", within: "6h" } as const;
    const results = await Promise.all([job(a, policy, ran).due(), job(b, policy, ran).missed()]);
    expect(ran).toEqual([ago(2), ago(1), last]);
    expect(results).toHaveLength(2);
    expect(await job(b, policy, ran).due()).toEqual({ ran: false, slot: last, why: "done" });
  });

  test("all: one that fails does not keep the others from running, and its error is not lost", async () => {
    const [a] = pods(1) as [Locks];
    await ranAt(a, ago(3));
    const ran: Date[] = [];
    const one = job(a, { run: "all", within: "6h" }, ran, ago(1));
    expect(await failure(one.due())).toMatchObject({ message: "this hour fails" });
    expect(ran).toEqual([ago(2), ago(1), last]);
  });

  test("all: a slot that is due runs also where a process whose clock is early has left it out and run later ones", async () => {
    const [a, b] = pods(2) as [Locks, Locks];
    await ranAt(a, new Date(last.getTime() + HOUR));
    const ran: Date[] = [];
    expect(await job(b, "all", ran).due()).toMatchObject({ ran: true, slot: last });
    expect(await job(a, "all", ran).due()).toEqual({ ran: false, slot: last, why: "done" });
    expect(ran).toEqual([last]);
  });

  test("bounds: not more than `most`, and none that is older than `within`", async () => {
    const [a] = pods(1) as [Locks];
    await ranAt(a, ago(9));
    const ran: Date[] = [];
    await job(a, { run: "all", within: "200h", most: 2 }, ran).missed();
    expect(ran).toEqual([ago(1), last]);
    const [b] = pods(1) as [Locks];
    await ranAt(b, ago(9));
    const some: Date[] = [];
    await job(b, { run: "all", within: 2.5 * HOUR }, some).missed();
    expect(some.length).toBeGreaterThanOrEqual(2);
    expect(some.length).toBeLessThanOrEqual(3);
    expect(some.at(-1)).toEqual(last);
  });

  test.each(["last", "all"] as const)(
    "%s: a store that cannot be asked when a process starts is asked again, as long as `wait` says and until the signal aborts",
    async (run) => {
      const [up] = pods(1) as [Locks];
      await ranAt(up, ago(1));
      let [isDown, asked] = [true, 0];
      const locks = new Proxy(up, {
        get: (target, method: "outcome") =>
          method === "outcome" && isDown
            ? async () => {
                asked++;
                throw new LockBackendError("memory", "hourly", "the store is down");
              }
            : target[method].bind(target),
      });
      const ran: Date[] = [];
      const end = new AbortController();
      const ended = new Job(locks, "hourly", hours, { missed: run, signal: end.signal }, () => 1).missed();
      const missed = job(locks, run, ran).missed();
      if (run === "last") {
        const hasty = new Job(locks, "hourly", hours, { missed: run, wait: 0 }, () => 1);
        expect(await failure(hasty.missed())).toMatchObject({ code: "ERR_LOCK_BACKEND" });
      }
      await eventually("the store was asked again", () => (asked > 8 ? true : undefined));
      end.abort(new Error("enough"));
      expect(await failure(ended)).toMatchObject({ message: "enough" });
      isDown = false;
      expect(await missed).toEqual([{ ran: true, slot: last, value: undefined }]);
      expect(ran).toEqual([last]);
    },
  );

  test.each([
    ["skip", undefined, HOUR],
    ["all", undefined, 2 * HOUR],
    [{ run: "last", within: "6h" }, undefined, 12 * HOUR],
    [{ run: "all", within: "6h" }, "24h", 24 * HOUR],
  ] as const)(
    "that a slot was done is kept for twice as long as it is looked for, or longer: %o, %s",
    async (missed, keep, ms) => {
      const [a] = pods(1) as [Locks];
      const once = vi.spyOn(a, "once");
      await new Job(a, "hourly", hours, { missed, keep }, () => 1).due();
      const [kept] = once.mock.calls.filter(([name]) => name === slotName("hourly", last));
      expect(kept![1].keep).toBe(ms);
    },
  );

  test("a job of which the store knows nothing has missed nothing: its first slot is the next one", async () => {
    const [a] = pods(1) as [Locks];
    const ran: Date[] = [];
    expect(await job(a, "all", ran).missed()).toEqual([]);
    expect(await job(a, "last", ran).missed()).toEqual([]);
    expect(ran).toEqual([]);
  });

  test("the last slot is known while it is written again, and never moves back", async () => {
    const { keepLastSlot, lastSlot } = await import("../../src/adapters/cron/last-slot.ts");
    const [a] = pods(1) as [Locks];
    for (const count of [5, 4, 3, 2]) {
      await keepLastSlot(a, "hourly", ago(count));
      expect(await lastSlot(a, "hourly")).toBe(ago(count).getTime());
    }
    await keepLastSlot(a, "hourly", ago(9));
    expect(await lastSlot(a, "hourly")).toBe(ago(2).getTime());
    // A crash after the removal of the older place: the newer one is there.
    for (const number of [0, 1]) {
      const kept = await a.outcome(`cron:last:${number}:hourly`);
      if (kept.state === "done" && kept.value === ago(3).getTime()) {
        await a.forget(`cron:last:${number}:hourly`, { fence: kept.fence });
      }
    }
    expect(await lastSlot(a, "hourly")).toBe(ago(2).getTime());
  });

  test("all waits for slots that run, so that none begins before the one before it has ended: no other overlap can be asked for", () => {
    const [a] = pods(1) as [Locks];
    const make = (options: object) => () => new Job(a, "hourly", hours, { missed: "all", ...options }, () => 1);
    expect(make({ overlap: "skip" })).toThrow("overlap");
    expect(make({ wait: 0 })).toThrow("wait");
    expect(make({ missed: { run: "all", most: 0 } })).toThrow("most");
    expect(make({ missed: "some" })).toThrow("missed");
    expect(make({})).not.toThrow();
  });
});
