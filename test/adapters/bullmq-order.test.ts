/** The jobs of a lock in their order: with real workers of BullMQ on a real Redis. With processes that are killed: `npm run test:jobs`. */
import { type Job, UnrecoverableError, WaitingChildrenError, Worker } from "bullmq";
import { createClient } from "redis";
import { expect, test } from "vitest";
import { lockedProcessor } from "../../src/adapters/bullmq/index.ts";
import { memoryStore } from "../../src/backends/memory/index.ts";
import { eventually } from "../../src/testing/eventually.ts";
import { gate } from "../core/scripted.ts";
import { closers, connection, type Data, queue, redis, someLocks, type Work, worker } from "./bullmq-lab.ts";

const texts = (count: number, key = "a"): { readonly name: string; readonly data: Data }[] =>
  Array.from({ length: count }, (_, number) => ({ name: "n", data: { key, text: `${key}${number}` } }));

type Jobs = ReturnType<typeof queue>;

/** What is not woken would be seen after hours. */
const NEVER = { delay: "1h" } as const;

async function done(jobs: Jobs, count: number): Promise<void> {
  await eventually("all are done", async () => (await jobs.getCompletedCount()) === count || undefined);
}

/** All that this package keeps beside the jobs. */
async function orders(jobs: Jobs): Promise<readonly string[]> {
  const keys = await redis.cli("KEYS", `${jobs.toKey("")}holdfast:*`);
  return keys.split("\n").filter((line) => line !== "");
}

/** Takes the next job as a worker does that dies at once: before anything of ours has run. */
async function takenByTheDead(jobs: Jobs): Promise<Job<Data, unknown>> {
  const dead = new Worker<Data, unknown>(jobs.name, null, { connection: connection(), lockDuration: 200 });
  closers.push(() => dead.close());
  return (await dead.getNextJob("dead"))!;
}

test("jobs of a lock run in the order in which they were added, over several workers, and nothing is left of the order", async () => {
  const [jobs, store] = [queue(), memoryStore()];
  const ran: Record<string, string[]> = { a: [], b: [], c: [] };
  const added = Array.from({ length: 25 }, (_, number) =>
    ["a", "b", "c"].map((key) => ({ name: "n", data: { key, text: `${key}${number}` } })),
  ).flat();
  for (const _ of [1, 2, 3]) {
    worker(jobs, someLocks(store), async ({ data }) => ran[data.key!]!.push(data.text!), NEVER);
  }
  await jobs.addBulk(added);
  await done(jobs, 75);
  for (const key of ["a", "b", "c"]) {
    expect(ran[key]).toEqual(added.filter(({ data }) => data.key === key).map(({ data }) => data.text));
  }
  await eventually("nothing is left", async () => (await orders(jobs)).length === 0 || undefined);
});

test("others of the same lock wait while one runs, and those of other locks do not", async () => {
  const [jobs, end, ran] = [queue(), gate(), [] as string[]];
  worker(
    jobs,
    someLocks(),
    async ({ data }) => {
      if (data.text === "a0") await end.opened;
      ran.push(data.text!);
    },
    NEVER,
    { concurrency: 2 },
  );
  await jobs.addBulk([...texts(10), ...texts(2, "b")]);
  await eventually("the other lock's jobs have run", () => ran.length === 2 || undefined);
  expect(ran).toEqual(["b0", "b1"]);
  end.open();
  await done(jobs, 12);
  expect(ran.slice(2)).toEqual(texts(10).map(({ data }) => data.text));
});

test("with a limit, as many begin at once, in their order", async () => {
  const [jobs, began, ends] = [queue(), [] as string[], texts(6).map(() => gate())];
  const work: Work = async ({ data }) => {
    began.push(data.text!);
    await ends[Number(data.text!.slice(1))]!.opened;
  };
  worker(jobs, someLocks(), work, { ...NEVER, limit: 2 }, { concurrency: 8 });
  await jobs.addBulk(texts(6));
  for (const [number, end] of ends.entries()) {
    const first = Math.min(number + 2, 6);
    await eventually("the next have begun", () => began.length === first || undefined);
    expect(began.toSorted()).toEqual(texts(first).map(({ data }) => data.text));
    end.open();
  }
  await done(jobs, 6);
});

test("a job that is tried again keeps those behind it waiting; one that has failed for good does not", async () => {
  const [jobs, ran] = [queue(), [] as string[]];
  worker(
    jobs,
    someLocks(),
    async ({ data, attemptsMade }) => {
      ran.push(`${data.text} ${attemptsMade}`);
      if (data.text === "a0" && attemptsMade < 2) throw new Error("again");
      if (data.text === "a1") throw new UnrecoverableError("never again");
    },
    NEVER,
  );
  const opts = { attempts: 3, backoff: { type: "fixed", delay: 50 } };
  await jobs.addBulk(texts(3).map((job) => ({ ...job, opts })));
  await done(jobs, 2);
  expect(ran).toEqual(["a0 0", "a0 1", "a0 2", "a1 0", "a2 0"]);
});

test("a job that stalled too often has failed, and the next one is woken, though no processor had it", async () => {
  const [jobs, ran] = [queue(), [] as string[]];
  const [first, second] = await jobs.addBulk(texts(2));
  await takenByTheDead(jobs);
  const work: Work = async ({ data }) => ran.push(data.text!);
  worker(jobs, someLocks(), work, NEVER, { skipStalledCheck: true });
  await eventually("the next one has to wait", async () => (await second!.getState()) === "delayed" || undefined);
  worker(jobs, someLocks(), work, NEVER, { stalledInterval: 100, maxStalledCount: 0 });
  await done(jobs, 1);
  expect(await first!.getState()).toBe("failed");
  expect(ran).toEqual(["a1"]);
});

test("priorities come before the order in which jobs were added, and they are kept", async () => {
  const [jobs, ran] = [queue(), [] as string[]];
  const priorities = [5, 3, 4, 1, 2, 3, 1];
  await jobs.addBulk(texts(7).map((job, at) => ({ ...job, opts: { priority: priorities[at]! } })));
  for (const _ of [1, 2]) worker(jobs, someLocks(), async ({ data }) => ran.push(data.text!), NEVER);
  await done(jobs, 7);
  expect(ran).toEqual(["a3", "a6", "a4", "a1", "a5", "a2", "a0"]);
});

test("a job that was removed keeps no other waiting, though BullMQ says nothing of it", async () => {
  const [jobs, locks, ran] = [queue(), someLocks(), [] as string[]];
  const lease = await locks.acquire("a");
  worker(jobs, locks, async ({ data }) => ran.push(data.text!), { delay: 100 });
  const [first] = await jobs.addBulk(texts(3));
  await eventually("it is delayed", async () => (await first!.getState()) === "delayed" || undefined);
  await jobs.remove(first!.id!);
  await lease.release();
  await done(jobs, 2);
  expect(ran).toEqual(["a1", "a2"]);
});

test("a job whose worker died before it had a place is still before the next one", async () => {
  const [jobs, ran] = [queue(), [] as string[]];
  const [first, second] = await jobs.addBulk(texts(2));
  expect((await takenByTheDead(jobs)).id).toBe(first!.id);
  worker(jobs, someLocks(), async ({ data }) => ran.push(data.text!), NEVER, { skipStalledCheck: true });
  await eventually("the next one has to wait", async () => (await second!.getState()) === "delayed" || undefined);
  expect(ran).toEqual([]);
  // Another worker finds the stalled one.
  worker(jobs, someLocks(), async ({ data }) => ran.push(data.text!), NEVER, { stalledInterval: 100 });
  await done(jobs, 2);
  expect(ran).toEqual(["a0", "a1"]);
});

test.each([
  ["and is not given out again yet", false],
  ["and is given out again", true],
])("so is one that BullMQ finds stalled before the next one has a place %s", async (_what, isTakenAgain) => {
  const [jobs, ran, known] = [queue(), [] as string[], gate()];
  const locks = someLocks();
  const [first, second] = await jobs.addBulk(texts(2));
  await takenByTheDead(jobs);
  // The next one is given out, and it takes a while to know its lock.
  const slow = worker(
    jobs,
    locks,
    async ({ data }) => ran.push(data.text!),
    {
      ...NEVER,
      key: async ({ data }: Job<Data>) => {
        if (data.text === "a1" && ran.length === 0) await known.opened;
        return data.key;
      },
    },
    { skipStalledCheck: true, concurrency: 1 },
  );
  await eventually("the next one is active", async () => (await second!.getState()) === "active" || undefined);
  const checker = new Worker(jobs.name, null, { connection: connection(), stalledInterval: 100 });
  closers.push(() => checker.close());
  await checker.startStalledCheckTimer();
  await eventually("the first one is stalled", async () => (await first!.getState()) === "waiting" || undefined);
  const token = "by hand";
  const again = isTakenAgain ? ((await checker.getNextJob(token)) as Job<Data, unknown>) : undefined;
  if (isTakenAgain) expect(again!.id).toBe(first!.id);
  known.open();
  if (isTakenAgain) {
    await eventually("the next one has to wait", async () => (await second!.getState()) === "delayed" || undefined);
    expect(ran).toEqual([]);
    const processor = lockedProcessor<Data, unknown>(locks, { key: () => "a" }, async ({ data }) =>
      ran.push(data.text!),
    );
    await again!.moveToCompleted(await processor(again!, token), token, false);
    // The worker by hand says nothing of it: as one that dies then.
    await slow.getBackend().promote(second!.id!);
  }
  await done(jobs, 2);
  expect(ran).toEqual(["a0", "a1"]);
});

test("one that was not woken is woken by any other that comes", async () => {
  const [jobs, locks, ran] = [queue(), someLocks(), [] as string[]];
  const [first] = await jobs.addBulk(texts(1));
  const dead = await takenByTheDead(jobs);
  worker(jobs, locks, async ({ data }) => ran.push(data.text!), NEVER, { skipStalledCheck: true });
  const second = await jobs.add("n", { key: "a", text: "a1" });
  await eventually("the next one has to wait", async () => (await second.getState()) === "delayed" || undefined);
  await jobs.remove(first!.id!).catch(() => undefined);
  await dead.moveToCompleted("", "dead", false).catch(() => undefined);
  await eventually("it is gone", async () => ["completed", "unknown"].includes(await first!.getState()) || undefined);
  await jobs.add("n", { key: "a", text: "a2" });
  await eventually("both have run", () => ran.length === 2 || undefined);
  expect(ran).toEqual(["a1", "a2"]);
});

test("a job that waits for children of the same lock lets them pass, and is before the others again", async () => {
  const [jobs, ran] = [queue(), [] as string[]];
  worker(
    jobs,
    someLocks(),
    async (job, token) => {
      ran.push(`${job.data.text} ${Object.keys(await job.getChildrenValues()).length}`);
      if (job.data.text !== "a0" || ran.length > 1) return;
      const parent = { id: job.id!, queue: job.queueQualifiedName };
      await jobs.add("n", { key: "a", text: "child" }, { parent });
      if (await job.moveToWaitingChildren(token)) throw new WaitingChildrenError();
    },
    { delay: 50 },
    { concurrency: 1 },
  );
  await jobs.add("n", { key: "a", text: "a0" });
  await done(jobs, 2);
  expect(ran).toEqual(["a0 0", "child 0", "a0 1"]);
});

test("an id that is given again after the jobs were obliterated has no place from before", async () => {
  const [jobs, ran] = [queue(), [] as string[]];
  const [first] = await jobs.addBulk(texts(1));
  await redis.cli("ZADD", `${jobs.toKey("")}holdfast:order:b`, "1", first!.id!, "2", "gone");
  worker(jobs, someLocks(), async ({ data }) => ran.push(data.text!), NEVER);
  await jobs.addBulk(texts(1, "b"));
  await done(jobs, 2);
  expect(ran.toSorted()).toEqual(["a0", "b0"]);
  await eventually("nothing is left", async () => (await orders(jobs)).length === 0 || undefined);
});

test("with node-redis, too, which BullMQ can use", async () => {
  const client = createClient({ url: redis.url });
  await client.connect();
  closers.push(() => client.destroy());
  const [jobs, ran] = [queue(), [] as string[]];
  const connection = client as never;
  worker(jobs, someLocks(), async ({ data }) => ran.push(data.text!), NEVER, { connection });
  await jobs.addBulk(texts(10));
  await done(jobs, 10);
  expect(ran).toEqual(texts(10).map(({ data }) => data.text));
});

test("where there is no worker, as in a sandbox, or no Redis, the job fails and says what to do", async () => {
  const processor = lockedProcessor(someLocks(), { key: () => "a" }, async () => expect.unreachable());
  const job = { id: "1", attemptsStarted: 1, attemptsMade: 0, moveToDelayed: async () => expect.unreachable() };
  await expect(processor(job as never, "token")).rejects.toThrow("order: false");
  const elsewhere = { ...job, queue: { on: () => undefined, getBackend: () => ({}), toKey: String } };
  await expect(processor(elsewhere as never, "token")).rejects.toThrow("order: false");
  // Without an order it does without.
  const locks = someLocks();
  const plain = lockedProcessor(locks, { key: () => "a", order: false }, async () => "done");
  expect(await plain(elsewhere as never, "token")).toBe("done");
  await locks.acquire("a");
  const delayed = { ...elsewhere, moveToDelayed: async () => undefined };
  await expect(plain(delayed as never, "token")).rejects.toMatchObject({ name: "DelayedError" });
});
