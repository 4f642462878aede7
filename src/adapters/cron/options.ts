/** The options of everything that runs once per slot: what they are, and whether they are right. */
import { ArgumentError, got } from "../../contract/argument-error.ts";
import { OUTCOME_KEEP_MAX_MS } from "../../contract/claim.ts";
import { type Duration, toMs } from "../../contract/duration.ts";
import type { LockOptions, Locks } from "../../core/api.ts";
import { checkJobName } from "./names.ts";

export interface SlotOptions extends Pick<LockOptions, "ttl" | "renew" | "maxHold" | "meta"> {
  /**
   * A slot that is due while another slot of the job runs anywhere: `skip`: it does not run, unless a process asks for it later. `queue`: it
   * runs after that one. `allow`: it runs at once. @default "skip"
   */
  readonly overlap?: "skip" | "queue" | "allow" | undefined;
  /**
   * How long a process waits for another one that runs the same slot, to run it itself if that one dies. `Infinity` is allowed, 0 is not to
   * wait. @default Infinity
   */
  readonly wait?: Duration | undefined;
  /** For how long it is kept that a slot was done: longer than clocks differ. 1 m to a year. @default "1h" */
  readonly keep?: Duration | undefined;
  /** What a slot is whose function has failed: `done`, or free for the next process that waits for it (`retry`). @default "done" */
  readonly onFailure?: "done" | "retry" | undefined;
  /** Ends the waiting; what runs goes on. */
  readonly signal?: AbortSignal | undefined;
}

/** What is done about slots that no process has run. `skip`: nothing. `last`: only the last one counts. `all`: each of them, in order. */
export type Missed =
  | "skip"
  | "last"
  | "all"
  | {
      readonly run: "last" | "all";
      /** Older ones are not run. @default "1h" */
      readonly within?: Duration | undefined;
      /** Only as many, the newest; 1 to 1000. @default 10 */
      readonly most?: number | undefined;
    };

export interface JobOptions extends SlotOptions {
  /** Slots that no process has run, by what the store knows: for example because all were down. `all` queues. @default "skip" */
  readonly missed?: Missed | undefined;
}

export interface CheckedSlot {
  readonly lock: Pick<LockOptions, "ttl" | "renew" | "maxHold" | "meta">;
  readonly overlap: "skip" | "queue" | "allow";
  readonly wait: Duration;
  readonly keepMs: number;
  readonly onFailure: "done" | "retry";
  readonly signal: AbortSignal | undefined;
}

export interface CheckedMissed {
  readonly run: "skip" | "last" | "all";
  readonly withinMs: number;
  readonly most: number;
}

/** Clocks of machines that are set by a time server differ by less. */
const KEEP_MIN_MS = 60_000;
const MOST_MAX = 1000;

export function checkSlot(locks: Locks, name: string, options: SlotOptions): CheckedSlot {
  checkLocksAndOptions(locks, options);
  if (typeof name !== "string" || name === "") throw new ArgumentError(`Expected the name of a job, got ${got(name)}`);
  checkJobName(name);
  const {
    overlap = "skip",
    wait = Infinity,
    keep = "1h",
    onFailure = "done",
    signal,
    ttl,
    renew,
    maxHold,
    meta,
  } = options;
  if (overlap !== "skip" && overlap !== "queue" && overlap !== "allow") {
    throw new ArgumentError(`Expected \`overlap\` to be "skip", "queue" or "allow", got ${got(overlap)}`);
  }
  if (onFailure !== "done" && onFailure !== "retry") {
    throw new ArgumentError(`Expected \`onFailure\` to be "done" or "retry", got ${got(onFailure)}`);
  }
  toMs(wait, "wait", { minMs: 0, maxMs: Infinity });
  const keepMs = toMs(keep, "keep", { minMs: KEEP_MIN_MS, maxMs: OUTCOME_KEEP_MAX_MS });
  return { lock: { ttl, renew, maxHold, meta }, overlap, wait, keepMs, onFailure, signal };
}

export function checkJob(
  locks: Locks,
  name: string,
  { missed, ...options }: JobOptions,
): readonly [CheckedSlot, CheckedMissed] {
  const slot = checkSlot(locks, name, options);
  const { run, within = "1h", most = 10 } = typeof missed === "object" ? missed : { run: missed ?? "skip" };
  if (run !== "skip" && run !== "last" && run !== "all") {
    throw new ArgumentError(`Expected \`missed\` to be "skip", "last" or "all", got ${got(run)}`);
  }
  if (!Number.isSafeInteger(most) || most < 1 || most > MOST_MAX) {
    throw new ArgumentError(`Expected \`most\` to be a whole number from 1 to ${MOST_MAX}, got ${got(most)}`);
  }
  // What was done must still be known when it is looked for, also by a clock that is late.
  const withinMs = toMs(within, "within", { maxMs: OUTCOME_KEEP_MAX_MS / 2 });
  const keepMs = run === "skip" ? slot.keepMs : Math.max(slot.keepMs, 2 * withinMs);
  if (run !== "all")
    return [
      { ...slot, keepMs },
      { run, withinMs, most },
    ];
  if (options.overlap !== undefined && options.overlap !== "queue") {
    throw new ArgumentError(`Expected \`overlap\` to be "queue" with \`missed: "all"\`, got ${got(options.overlap)}`);
  }
  if (options.wait !== undefined && options.wait !== Infinity) {
    throw new ArgumentError(`Expected \`wait\` to be Infinity with \`missed: "all"\`, got ${got(options.wait)}`);
  }
  return [
    { ...slot, overlap: "queue", wait: Infinity, keepMs },
    { run, withinMs, most },
  ];
}

function checkLocksAndOptions(locks: Locks, options: SlotOptions): void {
  if (typeof locks?.tryRun !== "function" || typeof locks.once !== "function") {
    throw new ArgumentError(`Expected locks, as connect() or createLocks() make them, got ${got(locks)}`);
  }
  if (typeof options !== "object" || options === null) {
    throw new ArgumentError(`Expected an object of options, got ${got(options)}`);
  }
}
