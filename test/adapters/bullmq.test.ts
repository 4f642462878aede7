/** `lockedProcessor()` with real workers of BullMQ on a real Redis; the locks are elsewhere. The order of jobs: see bullmq-order.test.ts. */
import { setTimeout as sleep } from "node:timers/promises";
import type { Job, Queue, Worker } from "bullmq";
import { expect, test } from "vitest";
import { lockedProcessor, type LockedProcessorOptions } from "../../src/adapters/bullmq/index.ts";
import { memory, memoryStore } from "../../src/backends/memory/index.ts";
import type { Locks } from "../../src/core/api.ts";
import { createLocks } from "../../src/core/locks.ts";
import { eventually } from "../../src/testing/eventually.ts";
import { faulty } from "../../src/testing/faulty.ts";
import { gate } from "../core/scripted.ts";
import { closers, type Data, queue, redis, someLocks, type Work, worker } from "./bullmq-lab.ts";

test("one job of a key at a time, over two workers, while jobs of other keys and without one go on; a delay counts no attempt", async () => {
  const [jobs, store] = [queue(), memoryStore()];
  const [held, others] = [gate(), new Set<string>()];
  let [inside, most] = [0, 0];
  const work: Work = async ({ data }, _token, _signal, lease) => {
    if (data.key !== "a") {
      others.add(`${data.key} ${lease?.name}`);
      return undefined;
    }
    most = Math.max(most, ++inside);
    await held.opened;
    lease!.assertHeld();
    inside--;
    return data.text;
  };
  for (const _ of [1, 2]) worker(jobs, someLocks(store), work);
  const added = await jobs.addBulk([
    ...["1", "2", "3", "4", "5"].map((text) => ({ name: "n", data: { key: "a", text } })),
    { name: "n", data: { key: "b" } },
    { name: "n", data: {} },
  ]);
  await eventually("the others are done", () => others.size === 2 || undefined);
  expect([...others].toSorted()).toEqual(["b b", "undefined undefined"]);
  const delayed = await eventually("a busy job was delayed and started again", async () =>
    (await Promise.all(added.map(({ id }) => jobs.getJob(id!)))).find((job) => (job?.attemptsStarted ?? 0) > 1),
  );
  expect(delayed!.attemptsMade).toBe(0);
  held.open();
  await eventually("all are done", async () => (await jobs.getCompletedCount()) === 7 || undefined);
  expect(most).toBe(1);
  expect(await jobs.getFailedCount()).toBe(0);
  for (const { id } of added) expect((await jobs.getJob(id!))!.attemptsMade).toBe(1);
});

test("with a limit, as many jobs of a key", async () => {
  const [jobs, held] = [queue(), gate()];
  let [inside, most] = [0, 0];
  worker(
    jobs,
    someLocks(),
    async () => {
      most = Math.max(most, ++inside);
      await held.opened;
      inside--;
    },
    { limit: 2 },
    { concurrency: 8 },
  );
  const added = await jobs.addBulk(Array.from({ length: 5 }, () => ({ name: "n", data: { key: "a" } })));
  await eventually("the others were delayed", async () => {
    const started = await Promise.all(added.map(async ({ id }) => (await jobs.getJob(id!))!.attemptsStarted));
    return started.filter((count) => count > 1).length === 3 || undefined;
  });
  expect(inside).toBe(2);
  held.open();
  await eventually("all are done", async () => (await jobs.getCompletedCount()) === 5 || undefined);
  expect(most).toBe(2);
});

test("a job that was delayed is not overtaken for ever: after `patience` delays it waits in line, before all that come", async () => {
  const [jobs, store] = [queue(), memoryStore()];
  const [locks, order] = [someLocks(store), [] as string[]];
  const lease = await locks.acquire("a");
  const old = await jobs.add("n", { key: "a", text: "old" });
  for (const _ of [1, 2]) {
    worker(jobs, someLocks(store), async ({ data }) => order.push(data.text!), { patience: 3, wait: "10m" });
  }
  await eventually("it is in line", async () => (await locks.inspect("a")).pending[0]);
  expect((await jobs.getJob(old.id!))!.attemptsStarted).toBe(4);
  // They are tried all the time, also when the lock is released, and yet none gets it before the old one.
  const young = await jobs.addBulk(Array.from({ length: 6 }, () => ({ name: "n", data: { key: "a", text: "young" } })));
  await eventually("they were tried", async () => {
    const started = await Promise.all(young.map(async ({ id }) => (await jobs.getJob(id!))!.attemptsStarted));
    return started.every((count) => count > 0) || undefined;
  });
  await lease.release();
  await eventually("all had their turn", () => order.length === 7 || undefined);
  expect(order[0]).toBe("old");
});

test("a lost lock aborts the signal, and the job fails with LockLostError: BullMQ may try it again", async () => {
  const [jobs, locks, began] = [queue(), someLocks(), gate()];
  const runs: string[] = [];
  worker(jobs, locks, async (job, _token, signal) => {
    runs.push(`run ${job.attemptsMade}`);
    if (job.attemptsMade > 0) return "again";
    began.open();
    await new Promise((resolve) => signal.addEventListener("abort", resolve));
    return "too late";
  });
  const failed: string[] = [];
  const job = await jobs.add("n", { key: "a" }, { attempts: 2 });
  await began.opened;
  const [held] = (await locks.inspect("a")).held;
  await locks.forceRelease("a", { fence: held!.fence, reason: "test" });
  await eventually("it is done", async () => (await job.getState()) === "completed" || undefined);
  const after = (await jobs.getJob(job.id!))!;
  expect(after.returnvalue).toBe("again");
  failed.push(...(after.stacktrace ?? []).map((text) => text.split("\n")[0]!));
  expect(failed).toEqual([expect.stringContaining("LockLostError")]);
  expect(runs).toEqual(["run 0", "run 1"]);
});

test("BullMQ's cancellation aborts the signal of a job that works, and the lock is free when it has ended", async () => {
  const [jobs, locks, began] = [queue(), someLocks(), gate()];
  const bull = worker(jobs, locks, async (_job, _token, signal) => {
    began.open();
    await new Promise((resolve) => signal.addEventListener("abort", resolve));
    throw new Error(`stopped: ${String(signal.reason)}`);
  });
  const job = await jobs.add("n", { key: "a" });
  await began.opened;
  expect(bull.cancelJob(job.id!, "by hand")).toBe(true);
  await eventually("it has failed", async () => (await job.getState()) === "failed" || undefined);
  expect((await jobs.getJob(job.id!))!.failedReason).toBe("stopped: by hand");
  await eventually("the lock is free", async () => !(await locks.isHeld("a")) || undefined);
});

/** A job that waits in line for a lock that is not released. */
async function inLine(
  jobs: Queue<Data, unknown>,
  options: Partial<LockedProcessorOptions<Data, unknown>> = {},
): Promise<{
  readonly bull: Worker<Data, unknown>;
  readonly job: Job<Data, unknown>;
  readonly locks: Locks;
}> {
  const locks = someLocks();
  await locks.acquire("a");
  const bull = worker(jobs, locks, async () => expect.unreachable(), { patience: 0, wait: "10m", ...options });
  const job = await jobs.add("n", { key: "a" });
  await eventually("it waits", async () => (await locks.inspect("a")).pending[0]);
  return { bull, job, locks };
}

test("worker.close() does not wait for a job that is in line: it goes back to the queue, without an attempt", async () => {
  const jobs = queue();
  const { bull, job, locks } = await inLine(jobs);
  await bull.close();
  expect(await job.getState()).toBe("delayed");
  expect((await jobs.getJob(job.id!))!.attemptsMade).toBe(0);
  expect((await locks.inspect("a")).pending).toEqual([]);
});

test("a job that is cancelled while it is in line fails with that", async () => {
  const jobs = queue();
  const { bull, job } = await inLine(jobs);
  bull.cancelJob(job.id!, "by hand");
  await eventually("it has failed", async () => (await job.getState()) === "failed" || undefined);
  expect((await jobs.getJob(job.id!))!.failedReason).toBe("The job was cancelled: by hand");
});

test("only one job is in line: the other places of the worker are free", async () => {
  const jobs = queue();
  const { job } = await inLine(jobs);
  const second = await jobs.add("n", { key: "a" });
  await eventually("it was not let into the line", async () => (await second.getState()) === "delayed" || undefined);
  expect(await job.getState()).toBe("active");
});

test("a job leaves the line after `wait`", async () => {
  const { job } = await inLine(queue(), { wait: 300 });
  await eventually("it has left it", async () => (await job.getState()) === "delayed" || undefined);
});

test("a busy job is delayed with its token, so that one that BullMQ has given to another worker is not moved", async () => {
  const locks = someLocks();
  await locks.acquire("a");
  const moved: unknown[] = [];
  const job = {
    id: "1",
    attemptsStarted: 1,
    attemptsMade: 0,
    moveToDelayed: async (...given: unknown[]) => void moved.push(given),
  };
  const processor = lockedProcessor(locks, { key: () => "a", order: false }, async () => expect.unreachable());
  const error = await processor(job as unknown as Job<unknown, never>, "its token").catch((reason: unknown) => reason);
  expect(error).toMatchObject({ name: "DelayedError" });
  expect(moved).toEqual([[expect.any(Number), "its token"]]);
});

test("the jobs of a lock that is never free are not in line all the time: one of another key has its turn there", async () => {
  const locks = someLocks();
  for (const name of ["a", "b"]) await locks.acquire(name);
  const asked: string[] = [];
  const seen = {
    run: (name: string, options: object, work: () => Promise<unknown>) => {
      asked.push(`run ${name}`);
      return locks.run(name, options, work);
    },
    tryRun: (name: string, options: object, work: () => Promise<unknown>) => {
      asked.push(`tryRun ${name}`);
      return locks.tryRun(name, options, work);
    },
  } as Locks;
  const key = ({ data }: Job<Data>): string | undefined => data.key;
  const processor = lockedProcessor<Data>(seen, { key, order: false, patience: 0, wait: "1s" }, async () =>
    expect.unreachable(),
  );
  const waiting = (name: string): Job<Data> =>
    ({ data: { key: name }, attemptsStarted: 1, attemptsMade: 0, moveToDelayed: async () => undefined }) as never;
  for (const name of ["a", "a", "b"]) {
    await expect(processor(waiting(name), "token")).rejects.toMatchObject({ name: "DelayedError" });
  }
  expect(asked).toEqual(["run a", "tryRun a", "run b"]);
});

test("a store that cannot be asked costs the job no attempt: it is delayed until the store is back", async () => {
  const store = faulty(memory());
  const locks = createLocks(store);
  closers.push(() => locks.close({ grace: 0, force: true }));
  store.faults.always("attempt", { fault: "error" });
  const jobs = queue();
  worker(jobs, locks, async () => "done");
  const job = await jobs.add("n", { key: "a" });
  await eventually("it was delayed", async () =>
    (await jobs.getJob(job.id!))!.attemptsStarted > 1 ? true : undefined,
  );
  store.faults.heal();
  await eventually("it is done", async () => (await job.getState()) === "completed" || undefined);
  expect((await jobs.getJob(job.id!))!.attemptsMade).toBe(1);
});

test("a job that BullMQ believes stalled and starts again does not run beside itself", async () => {
  const [jobs, store] = [queue(), memoryStore()];
  const end = gate();
  let [inside, most, runs] = [0, 0, 0];
  const work: Work = async () => {
    runs++;
    most = Math.max(most, ++inside);
    await end.opened;
    inside--;
  };
  // Its lock in BullMQ is not renewed, as if its event loop were blocked.
  const blocked = { lockDuration: 300, skipLockRenewal: true, skipStalledCheck: true, concurrency: 1 };
  worker(jobs, someLocks(store), work, {}, blocked);
  const job = await jobs.add("n", { key: "a" });
  await eventually("it runs", () => runs > 0 || undefined);
  worker(jobs, someLocks(store), work, { patience: 1_000_000 }, { stalledInterval: 100 });
  await eventually("another worker has got it, too", async () =>
    (await jobs.getJob(job.id!))!.attemptsStarted > 1 ? true : undefined,
  );
  expect(runs).toBe(1);
  end.open();
  await eventually("it is done", async () => (await job.getState()) === "completed" || undefined);
  expect(most).toBe(1);
});

test("a job that BullMQ has given to another worker while it waited for its lock is not begun", async () => {
  const [jobs, locks] = [queue(), someLocks()];
  const lease = await locks.acquire("a");
  const began: unknown[] = [];
  const bull = worker(jobs, locks, async ({ id }) => began.push(id), { patience: 0, wait: "10m" });
  const errors: Error[] = [];
  bull.on("error", (error) => errors.push(error));
  const job = await jobs.add("n", { key: "a" });
  await eventually("it waits", async () => (await locks.inspect("a")).pending[0]);
  // As when this process was stopped for longer than BullMQ waits.
  await redis.cli("SET", `${jobs.toKey(job.id!)}:lock`, "another");
  await lease.release();
  await eventually("its worker cannot end it", () => errors.find(({ message }) => /lock/iu.test(message)));
  expect(began).toEqual([]);
  await eventually("the lock is free", async () => !(await locks.isHeld("a")) || undefined);
  await redis.cli("DEL", `${jobs.toKey(job.id!)}:lock`);
});

test("jobs that are delayed use up nothing of BullMQ's limiter, and those that run do", async () => {
  const [jobs, locks, ran] = [queue(), someLocks(), [] as unknown[]];
  const lease = await locks.acquire("a");
  const limits = { limiter: { max: 4, duration: 3_600_000 }, maximumRateLimitDelay: 20 };
  const counted = async (): Promise<number> => Number(await redis.cli("GET", jobs.toKey("limiter")));
  // Two jobs of a busy lock, one of them behind the other: far more often taken than the limiter lets run.
  worker(jobs, locks, async ({ data }) => ran.push(data.text), { delay: 20, patience: 1_000_000 }, limits);
  const busy = await jobs.addBulk(["1", "2"].map((text) => ({ name: "n", data: { key: "a", text } })));
  await eventually("they were taken often", async () => {
    const started = await Promise.all(busy.map(async ({ id }) => (await jobs.getJob(id!))!.attemptsStarted));
    return started.every((count) => count > 4) || undefined;
  });
  expect(ran).toEqual([]);
  await jobs.add("n", { key: "b", text: "other" });
  await eventually("another one has run", () => ran.length === 1 || undefined);
  await lease.release();
  await eventually("the others have run", () => ran.length === 3 || undefined);
  expect(ran).toEqual(["other", "1", "2"]);
  await eventually("they were counted", async () => (await counted()) === 3 || undefined);
  await jobs.addBulk(["3", "4"].map((text) => ({ name: "n", data: { key: "c", text } })));
  await eventually("one more runs", () => ran.length === 4 || undefined);
  expect(await counted()).toBe(4);
  expect(await jobs.getWaitingCount()).toBe(1);
  expect(ran).toHaveLength(4);
});

test("a limiter that the job was not counted by gets nothing back: its period began later, or it was set by hand", async () => {
  const [jobs, locks] = [queue(), someLocks()];
  await locks.acquire("a");
  const limiter = jobs.toKey("limiter");
  const limits = { limiter: { max: 1000, duration: 60_000 } };
  const key = async (): Promise<string> => {
    // Later than the job by more than the clocks are exact to.
    await sleep(20);
    await redis.cli("SET", limiter, "7", "PX", "60000");
    return "a";
  };
  worker(jobs, locks, async () => expect.unreachable(), { key, delay: "10m" }, limits);
  const first = await jobs.add("n", {});
  await eventually("it is delayed", async () => (await first.getState()) === "delayed" || undefined);
  expect(await redis.cli("GET", limiter)).toBe("7");
  await redis.cli("SET", limiter, String(Number.MAX_SAFE_INTEGER), "PX", "1");
  const second = await jobs.add("n", {});
  await eventually("it is delayed", async () => (await second.getState()) === "delayed" || undefined);
  expect(await redis.cli("GET", limiter)).toBe("7");
});

test.each([
  ["an empty one", ""],
  ["one that is too long", "x".repeat(1100)],
  ["half a character", "\ud800"],
])("a job whose key cannot be the name of a lock fails, and leaves nothing: %s", async (_what, key) => {
  const jobs = queue();
  worker(jobs, someLocks(), async () => "done");
  const bad = await jobs.add("n", { key });
  await jobs.add("n", { key: "a" });
  await eventually("the other one is done", async () => (await jobs.getCompletedCount()) === 1 || undefined);
  const { failedReason } = await eventually("it has failed", async () => {
    const job = (await jobs.getJob(bad.id!))!;
    return job.failedReason === undefined ? undefined : job;
  });
  expect(failedReason).toContain("name");
  await eventually("nothing is left", async () =>
    (await redis.cli("KEYS", `${jobs.toKey("")}holdfast:*`)).trim() === "" ? true : undefined,
  );
});

test("wrong arguments are refused", () => {
  const locks = someLocks();
  const key = (): string => "a";
  const work = async (): Promise<number> => 1;
  expect(() => lockedProcessor({} as Locks, { key }, work)).toThrow("locks");
  expect(() => lockedProcessor(locks, {} as never, work)).toThrow("`key`");
  expect(() => lockedProcessor(locks, { key, patience: -1 }, work)).toThrow("patience");
  expect(() => lockedProcessor(locks, { key, delay: 0 }, work)).toThrow("delay");
  expect(() => lockedProcessor(locks, { key, order: 1 as never }, work)).toThrow("order");
  expect(() => lockedProcessor(locks, { key, order: true, mode: "shared" }, work)).toThrow("order");
  expect(() => lockedProcessor(locks, { key, mode: "shared" }, work)).not.toThrow();
  expect(() => lockedProcessor(locks, { key }, "./work.js" as never)).toThrow("not a file");
  // BullMQ makes a signal only for a processor with three parameters.
  expect(lockedProcessor(locks, { key }, work)).toHaveLength(3);
});
