/** Queues, workers of BullMQ and locks for tests, on a real Redis; the locks are elsewhere. */
import { type Job, Queue, Worker, type WorkerOptions } from "bullmq";
import { afterAll, afterEach, beforeAll } from "vitest";
import { lockedProcessor, type LockedProcessorOptions, type LockedWork } from "../../src/adapters/bullmq/index.ts";
import { memory, type MemoryStore, memoryStore } from "../../src/backends/memory/index.ts";
import type { Locks } from "../../src/core/api.ts";
import { createLocks } from "../../src/core/locks.ts";
import { type RedisServer, startRedis } from "../../src/lab/servers/redis.ts";

export interface Data {
  readonly key?: string;
  readonly text?: string;
}

export let redis: RedisServer;
export const closers: (() => unknown)[] = [];
let queues = 0;

beforeAll(async () => {
  redis = await startRedis();
});

afterAll(async () => {
  await redis?.stop();
});

afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close();
});

export function someLocks(store: MemoryStore = memoryStore()): Locks {
  const locks = createLocks(memory({ store }));
  closers.push(() => locks.close({ grace: 0, force: true }));
  return locks;
}

export function connection(): { readonly host: string; readonly port: number; readonly password: string } {
  return { host: redis.host, port: redis.port, password: redis.password };
}

export function queue(): Queue<Data, unknown> {
  const made = new Queue<Data, unknown>(`q${queues++}`, { connection: connection() });
  closers.push(() => made.close());
  return made;
}

export type Work = LockedWork<Data, unknown, string>;

export function worker(
  { name }: Queue,
  locks: Locks,
  work: Work,
  options: Partial<LockedProcessorOptions<Data, unknown>> = {},
  of: Partial<WorkerOptions> = {},
): Worker<Data, unknown> {
  const key = ({ data }: Job<Data>): string | undefined => data.key;
  const made = new Worker<Data, unknown>(name, lockedProcessor(locks, { key, delay: 50, ...options }, work), {
    connection: connection(),
    concurrency: 4,
    ...of,
  });
  made.on("error", () => undefined);
  closers.push(() => made.close());
  return made;
}
