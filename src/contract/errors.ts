/** What can go wrong, in few classes with stable codes. Wrong arguments are `TypeError`s: see `argument-error.ts`. */
import type { Holding, Vote } from "./backend.ts";
import type { Deadlock } from "./deadlock.ts";
import { formatMs } from "./duration.ts";
import { clipped, HOLDER_MAX, printable } from "./foreign.ts";
import { helpFor } from "./help.ts";
import { describeLoss, type LossReason } from "./loss.ts";

/** The codes of errors. Each has a page: `error.help`. */
export type LockErrorCode =
  | "ERR_LOCK_TIMEOUT"
  | "ERR_LOCK_LOST"
  | "ERR_LOCK_BACKEND"
  | "ERR_LOCK_CLOSED"
  | "ERR_LOCK_DEADLOCK"
  | "ERR_LOCK_OUTCOME"
  | "ERR_FENCE_REJECTED";

const IN_ORDER = "Take these locks in one order everywhere, or all in one call.";

/** What all errors of locks have in common. */
export abstract class LockError extends Error {
  abstract readonly code: LockErrorCode;
  /** The page that explains the code. */
  abstract readonly help: string;
  /** The lock's name; several are joined by ", ". */
  readonly lock: string;

  constructor(lock: string, message: string, options?: ErrorOptions) {
    // Names, holders and reasons come from elsewhere: a log must not be driven by them. The fields are as they are.
    // An error without a cause has no such field.
    super(printable(message), options?.cause === undefined ? undefined : options);
    this.lock = lock;
    this.name = new.target.name;
  }

  /** A bigint cannot be written as JSON: fences are strings there. What the work came to is its caller's, and stays out. */
  toJSON(): unknown {
    const { name, code, lock, message } = this;
    try {
      return JSON.parse(
        JSON.stringify(Object.assign({}, this, { message, result: undefined }), bigintAsText),
      ) as unknown;
    } catch {
      // A custom backend may have said what cannot be written.
      return { name, code, lock, message };
    }
  }
}

/** The lock was not acquired in time, and nothing was left behind. */
export class LockTimeoutError extends LockError {
  readonly code = "ERR_LOCK_TIMEOUT" as const;
  readonly help: string = helpFor(this.code);
  readonly waitedMs: number;
  /** Who was in the way at the last look, with the times of now. */
  readonly heldBy: readonly Holding[];
  /** The store may have lost leases, and grants nothing for this much longer. Absent: it is not in quarantine. */
  readonly quarantineMs: number | undefined;
  /** The deadlock in which it waited, at the last look. Absent: none was seen. */
  readonly deadlock: Deadlock | undefined;

  constructor(
    lock: string,
    waitedMs: number,
    heldBy: readonly Holding[] = [],
    quarantineMs?: number,
    deadlock?: Deadlock,
  ) {
    const why = quarantineMs === undefined ? whoHolds(heldBy) : inQuarantine(quarantineMs);
    const advice =
      deadlock === undefined
        ? "Wait longer (`wait`), or see who holds it with `holdfast show`."
        : `It is a deadlock: ${deadlock.description}. ${IN_ORDER}`;
    super(lock, `Lock ${quote(lock)} ${why}; gave up after ${formatMs(waitedMs)}. ${advice}`);
    this.waitedMs = waitedMs;
    this.heldBy = heldBy;
    this.quarantineMs = quarantineMs;
    this.deadlock = deadlock;
  }
}

/** The waiter rejected itself, because it had asked to (`deadlock: "reject"`), so that the others of a deadlock go on. */
export class LockDeadlockError extends LockError {
  readonly code = "ERR_LOCK_DEADLOCK" as const;
  readonly help: string = helpFor(this.code);
  readonly deadlock: Deadlock;

  constructor(lock: string, deadlock: Deadlock) {
    super(lock, `Lock ${quote(lock)} was given up to end a deadlock: ${deadlock.description}. ${IN_ORDER}`);
    this.deadlock = deadlock;
  }
}

/** The lease ended before it was released. Whatever was done since may race with the next holder. */
export class LockLostError extends LockError {
  readonly code = "ERR_LOCK_LOST" as const;
  readonly help: string = helpFor(this.code);
  readonly fence: bigint;
  /** Why, in words. */
  readonly reason: string;
  /** Why, as data. */
  readonly loss: LossReason;
  /** What the work resolved to, where `run()` rejects because it resolved after the loss. Do not take it for done. */
  result: unknown = undefined;

  /** `cause`: what the last renewal failed with, where its ttl passed because the store confirmed none. */
  constructor(lock: string, fence: bigint, why: LossReason | string, cause?: unknown) {
    const loss: LossReason = typeof why === "string" ? { kind: "other", text: why } : why;
    const reason = describeLoss(loss);
    super(
      lock,
      `Lock ${quote(lock)} (fence ${fence}) was lost: ${reason}. Stop the work it protects, and start again with a new lease.`,
      { cause },
    );
    this.fence = fence;
    this.reason = reason;
    this.loss = loss;
  }
}

/** Facts of a {@link LockBackendError}. */
export interface LockBackendErrorOptions {
  readonly cause?: unknown;
  /** True: asking again cannot help (a wrong endpoint, a foreign key, a limit that differs). @default false */
  readonly fatal?: boolean;
  /** What each member of a quorum answered. */
  readonly votes?: readonly MemberVote[];
}

/** One member's answer, as a quorum reports it. */
export interface MemberVote {
  readonly member: string;
  readonly vote: Vote["vote"] | "unreachable" | "slow" | "clock-off" | "twin";
  /** For people: the holder, how long it still abstains, the connection's error. */
  readonly detail: string;
}

/** The store did not answer, or answered something that is not an answer. */
export class LockBackendError extends LockError {
  readonly code = "ERR_LOCK_BACKEND" as const;
  readonly help: string = helpFor(this.code);
  readonly backend: string;
  readonly fatal: boolean;
  readonly votes: readonly MemberVote[];

  constructor(backend: string, lock: string, message: string, options: LockBackendErrorOptions = {}) {
    super(lock, message, options);
    this.backend = backend;
    this.fatal = options.fatal ?? false;
    this.votes = options.votes ?? [];
  }
}

/** `close()` was called: nothing more is acquired here, and work that holds a lock is asked to end. */
export class LockClosedError extends LockError {
  readonly code = "ERR_LOCK_CLOSED" as const;
  readonly help: string = helpFor(this.code);

  constructor(lock: string, message?: string) {
    super(
      lock,
      message ??
        `Lock ${quote(lock)} was not acquired: these locks are closed. Create new ones with createLocks() or connect().`,
    );
  }

  /** @internal What a holder learns through its signal. */
  static whileHeld(lock: string): LockClosedError {
    return new LockClosedError(
      lock,
      `Lock ${quote(lock)} is still held, but these locks are being closed: end the work, and it is released then.`,
    );
  }
}

/** The work was done by another caller of `once()`, but what came of it cannot be had. It is not run again while that is kept. */
export class LockOutcomeError extends LockError {
  readonly code = "ERR_LOCK_OUTCOME" as const;
  readonly help: string = helpFor(this.code);
  readonly fence: bigint;

  constructor(lock: string, fence: bigint, why: string, options?: ErrorOptions) {
    super(
      lock,
      `The work of ${quote(lock)} was done (fence ${fence}), but ${why}. It runs again when that is no longer kept.`,
      options,
    );
    this.fence = fence;
  }
}

function bigintAsText(_: string, value: unknown): unknown {
  return typeof value === "bigint" ? String(value) : value;
}

/** What an error says, also where its message is empty: some have only a code, or others inside them. */
export function messageOf(error: unknown): string {
  try {
    return String(wordsOf(error));
  } catch {
    // A foreign `toString` or getter: those who wait for the words must not wait for ever.
    return "an error that cannot be shown";
  }
}

function wordsOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (error.message !== "") return error.message;
  if (error instanceof AggregateError && error.errors.length > 0) {
    return [...new Set(error.errors.map((one: unknown) => messageOf(one)))].join("; ");
  }
  return "code" in error && typeof error.code === "string" ? error.code : error.name;
}

/** Quotes a name for a message, shortened where it could not be read anyway. */
export function quote(name: string): string {
  return JSON.stringify(name.length > 120 ? `${name.slice(0, 117)}…` : name);
}

function whoHolds(heldBy: readonly Holding[]): string {
  const [first, ...others] = heldBy;
  if (first === undefined) return "is not free";
  const more = others.length === 0 ? "" : ` and ${others.length} more`;
  return `is held by ${clipped(first.holder, HOLDER_MAX)} (fence ${first.fence}) for ${formatMs(first.heldMs)}${more}`;
}

function inQuarantine(ms: number): string {
  return `cannot be granted yet: the store may have lost its data, and is in quarantine for ${formatMs(ms)}`;
}

/** As `instanceof`, of what foreign code has thrown: even that question is theirs to answer, and may throw. */
export function isA<T>(kind: abstract new (...args: never[]) => T, error: unknown): error is T {
  try {
    return error instanceof kind;
  } catch {
    return false;
  }
}

/** What a backend failed with, as users see it: errors of ours and `TypeError`s as they are, everything else wrapped. */
export function asBackendError(backend: string, lock: string, error: unknown): unknown {
  if (isA(LockError, error) || isA(TypeError, error)) return error;
  const subject = lock === "" ? "" : `Lock ${quote(lock)}: `;
  return new LockBackendError(backend, lock, `${subject}the ${backend} store failed (${messageOf(error)}).`, {
    cause: error,
  });
}
