/** What a processor under locks can be asked for. */
import type { Job } from "bullmq";
import { ArgumentError, got } from "../../contract/argument-error.ts";
import { type Duration, toMs } from "../../contract/duration.ts";
import type { LockOptions, Locks } from "../../core/api.ts";
import { JobOrder } from "./job-order.ts";

export interface LockedProcessorOptions<D = unknown, R = unknown, N extends string = string> extends LockOptions {
  /** Names the lock of a job. `undefined`: it needs none. */
  readonly key: (job: Job<D, R, N>) => string | undefined | Promise<string | undefined>;
  /**
   * The jobs of a lock begin in the order in which BullMQ gave them out for the first time: with plain jobs, that in which they were added. One that
   * is tried again keeps the others waiting. @default true, and false with `mode: "shared"`
   */
  readonly order?: boolean | undefined;
  /** For how long a job is delayed that finds its lock busy. One that has others before it is delayed for longer, and woken. @default "1s" */
  readonly delay?: Duration | undefined;
  /** After so many delays it waits in the lock's queue, before all that come later: 0 or more. @default 10 */
  readonly patience?: number | undefined;
  /** How long it waits there: for so long, one place of the worker is not free for other jobs. @default "5s" */
  readonly wait?: Duration | undefined;
}

export interface CheckedProcessor<D, R, N extends string> {
  readonly key: LockedProcessorOptions<D, R, N>["key"];
  readonly lock: LockOptions;
  readonly order: JobOrder | undefined;
  readonly delayMs: number;
  readonly patience: number;
  readonly waitMs: number;
}

export function checkProcessor<D, R, N extends string>(
  locks: Locks,
  options: LockedProcessorOptions<D, R, N>,
  processor: unknown,
): CheckedProcessor<D, R, N> {
  if (typeof locks?.tryRun !== "function" || typeof locks.run !== "function") {
    throw new ArgumentError(`Expected locks, as connect() or createLocks() make them, got ${got(locks)}`);
  }
  const { key, order = options.mode !== "shared", delay = "1s", patience = 10, wait = "5s", ...lock } = options;
  if (typeof key !== "function") {
    throw new ArgumentError(`Expected \`key\` to be a function that names the lock of a job, got ${got(key)}`);
  }
  if (typeof order !== "boolean" || (order && options.mode === "shared")) {
    throw new ArgumentError(
      `Expected \`order\` to be true or false, and not true with \`mode: "shared"\`, got ${got(order)}`,
    );
  }
  if (!Number.isSafeInteger(patience) || patience < 0) {
    throw new ArgumentError(`Expected \`patience\` to be a whole number of 0 or more, got ${got(patience)}`);
  }
  if (typeof processor !== "function") {
    throw new ArgumentError(`Expected a function that processes jobs, got ${got(processor)}: not a file`);
  }
  const inOrder = order ? new JobOrder(key as (job: Job) => unknown, lock.limit ?? 1) : undefined;
  return { key, lock, order: inOrder, delayMs: toMs(delay, "delay"), patience, waitMs: toMs(wait, "wait") };
}
