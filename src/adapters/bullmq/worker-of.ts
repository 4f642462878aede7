/**
 * What is used of BullMQ beyond a job: the worker that processes it, and the Redis client of that one. By their shape, because an app may have the
 * package twice; and BullMQ may have other stores than Redis one day.
 */
import type { Job } from "bullmq";
import { ArgumentError } from "../../contract/argument-error.ts";
import type { Script } from "./generated/scripts.ts";

interface Client {
  get(key: string): Promise<string | null>;
  defineCommand(name: string, definition: { readonly numberOfKeys: number; readonly lua: string }): void;
  runCommand(name: string, args: readonly unknown[]): Promise<unknown>;
}

export interface BullWorker {
  toKey(type: string): string;
  /** `client`: where the jobs are in Redis. */
  getBackend(): { readonly client?: Promise<Client>; promote(id: string): Promise<unknown> };
  on(event: "completed" | "failed", listener: (job: object | undefined) => void): unknown;
  once(event: "closing", listener: () => void): unknown;
  off(event: "closing", listener: () => void): unknown;
  readonly closing?: unknown;
  readonly opts?: { readonly limiter?: { readonly duration?: number } };
}

/** The queue of a job that a worker processes is that worker. `undefined`: it is elsewhere, as in a child of a sandbox. */
export function workerOf(job: object): BullWorker | undefined {
  const { queue } = job as { readonly queue?: Partial<BullWorker> };
  return typeof queue?.getBackend === "function" && typeof queue.on === "function" ? (queue as BullWorker) : undefined;
}

/** Absent: its jobs are in another store, which has no limiter that we know, and where our scripts cannot be. */
export function redisOf(worker: BullWorker | undefined): Promise<Client> | undefined {
  return worker?.getBackend().client;
}

/** For jobs in order: they are where the worker is. */
export function workerInOrder(job: Job): BullWorker {
  const worker = workerOf(job);
  if (worker !== undefined && redisOf(worker) !== undefined) return worker;
  throw new ArgumentError(
    worker === undefined
      ? `Expected job ${job.id} to be processed by a worker of BullMQ in this process: a sandbox cannot keep the order. Say \`order: false\``
      : `Expected job ${job.id} to be in Redis: elsewhere the order cannot be kept. Say \`order: false\``,
  );
}

/** Whether BullMQ still believes that this worker processes the job. What has no worker, or no token, is not asked for. */
export async function isOurs(job: Job, token: string | undefined): Promise<boolean> {
  const worker = workerOf(job);
  const client = await redisOf(worker);
  if (worker === undefined || client === undefined || token === undefined) return true;
  return (await client.get(`${worker.toKey(job.id!)}:lock`)) === token;
}

const defined = new WeakMap<object, Set<string>>();

export async function runScript(
  worker: BullWorker,
  { name, sha, source }: Script,
  keys: readonly string[],
  args: readonly (string | number)[],
): Promise<unknown> {
  const client = (await redisOf(worker))!;
  const known = defined.get(client) ?? new Set();
  defined.set(client, known);
  // With its hash: another version of this package may use the same client.
  const command = `holdfast:${name}:${sha}`;
  if (!known.has(command)) client.defineCommand(command, { numberOfKeys: keys.length, lua: source });
  known.add(command);
  return await client.runCommand(command, [...keys, ...args]);
}
