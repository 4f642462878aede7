/** Options, checked: the one place where defaults are filled in. */
import { ArgumentError, got } from "../contract/argument-error.ts";
import type { AcquireOptions, LocksOptions, QueryOptions, TryOptions } from "./api.ts";
import type { Claim, Meta, Mode } from "../contract/backend.ts";
import { type Duration, MAX_TTL_MS, toMs } from "../contract/duration.ts";
import { META_BYTES_MAX, REASON_MAX } from "../contract/foreign.ts";
import { toLingerMs } from "./linger-option.ts";
import type { HeldScope } from "./shown.ts";

export interface CheckedOptions {
  readonly mode: Mode;
  readonly limit: number;
  readonly ttlMs: number;
  /** For the whole call. 0: it does not queue, and each of its questions has the time of {@link answerMs}. */
  readonly waitMs: number;
  readonly lockDelayMs: number;
  readonly minHoldMs: number;
  readonly maxHoldMs: number;
  readonly renew: boolean | "thread";
  readonly meta: Meta;
  readonly signal: AbortSignal | undefined;
  /** For how long a hold that no request wants is kept. 0: it goes back at once. */
  readonly lingerMs: number;
  /** Claims with equal share keys may use one lease of the store after each other. */
  readonly shareKey: string;
  /** False: the lease is one holder's own and always goes back to the store. */
  readonly reusable: boolean;
  /** What is done about a deadlock besides reporting it: the waiter rejects itself, or nothing. */
  readonly deadlock: "report" | "reject";
  /** What its caller holds, where that is more than the functions that it is inside of: a part of a group. */
  readonly scope?: HeldScope | undefined;
  /** An outcome that the lock has is as good as the lock. Only for once(). */
  readonly wantsOutcome: boolean;
}

const DEFAULTS = {
  ttl: "30s",
  wait: "10s",
  mode: "exclusive",
  limit: 1,
  renew: true,
  deadlock: "report",
} as const satisfies AcquireOptions;

/** Those of each call. */
export const OPTIONS: ReadonlySet<string> = new Set([
  "ttl",
  "wait",
  "signal",
  "mode",
  "limit",
  "renew",
  "maxHold",
  "minHold",
  "lockDelay",
  "linger",
  "meta",
  "deadlock",
]);
const ELSEWHERE: Readonly<Record<string, string>> = {
  timeout: "`wait` (how long to queue) or `ttl` (how long the lock outlives a dead holder)",
  retryCount: "`wait`",
  retryDelay: "`wait`",
  permits: "`limit`",
  shared: '`mode: "shared"`',
  expiry: "`ttl`",
  lease: "`ttl`",
};
const NO_META: Meta = Object.freeze({});
const NAME_BYTES_MAX = 1024;
/** Two names that differ only there would become one in UTF-8. */
const LONE_SURROGATE = /\p{Surrogate}/u;
const WAIT = { minMs: 0, maxMs: Infinity };
/** A try that the store does not answer is given up after this long; its claim is cleaned up behind it. */
const TRY_MAX_MS = 5000;
const QUERY_TIMEOUT = "10s";
/** Shorter ones are mistakes (seconds given for milliseconds), and no store can be asked often enough to keep them. */
const MIN_TTL_MS = 100;
const MAX_HOLD_MS = 30 * MAX_TTL_MS;

/** Checks options against their rules. Throws a `TypeError` that names the option; nothing has been sent then. */
export function checkOptions(options: AcquireOptions, defaults: LocksOptions): CheckedOptions {
  for (const option in options) {
    if (!OPTIONS.has(option)) throw unknownOption(option);
  }
  const mode = options.mode ?? defaults.mode ?? DEFAULTS.mode;
  if (mode !== "exclusive" && mode !== "shared") {
    throw new ArgumentError(`Expected \`mode\` to be "exclusive" or "shared", got ${got(mode)}`);
  }
  const limit = options.limit ?? defaults.limit ?? DEFAULTS.limit;
  if (!Number.isInteger(limit) || limit < 1 || limit > 1_000_000) {
    throw new ArgumentError(`Expected \`limit\` to be a whole number from 1 to 1000000, got ${got(limit)}`);
  }
  if (mode === "shared" && limit !== 1) {
    throw new ArgumentError('Expected no `limit` with `mode: "shared"`: readers are not counted');
  }
  const renew = options.renew ?? defaults.renew ?? DEFAULTS.renew;
  if (renew !== true && renew !== false && renew !== "thread") {
    throw new ArgumentError(`Expected \`renew\` to be true, false or "thread", got ${got(renew)}`);
  }
  const deadlock = options.deadlock ?? defaults.deadlock ?? DEFAULTS.deadlock;
  if (deadlock !== "report" && deadlock !== "reject") {
    throw new ArgumentError(`Expected \`deadlock\` to be "report" or "reject", got ${got(deadlock)}`);
  }
  const signal = toSignal(options.signal ?? defaults.signal);
  const ttlMs = toTtlMs(options.ttl ?? defaults.ttl ?? DEFAULTS.ttl);
  const lockDelayMs = optional(options.lockDelay ?? defaults.lockDelay, "lockDelay", 0);
  const minHoldMs = optional(options.minHold ?? defaults.minHold, "minHold", 0);
  const maxHoldMs = optional(options.maxHold ?? defaults.maxHold, "maxHold", Infinity);
  if (minHoldMs > maxHoldMs) throw new ArgumentError("Expected `minHold` to be at most `maxHold`");
  const terms = { mode, limit, ttlMs, lockDelayMs, minHoldMs, maxHoldMs, renew } as const;
  const lingerMs = toLingerMs(options, defaults, terms);
  const meta = toMeta(options.meta, defaults.meta);
  return {
    ...terms,
    waitMs: toWaitMs(options.wait ?? defaults.wait ?? DEFAULTS.wait),
    meta,
    signal,
    lingerMs,
    shareKey: `${mode} ${limit} ${ttlMs} ${lockDelayMs} ${minHoldMs} ${maxHoldMs} ${renew} ${lingerMs}`,
    reusable: renew !== false && minHoldMs === 0 && maxHoldMs === Infinity,
    deadlock,
    wantsOutcome: false,
  };
}

/** Fast path: only `wait` and `signal` are given. `undefined`: these options say more. `last`: what the usual ones with another wait came to. */
export function onlyWaitOf(
  options: AcquireOptions,
  usual: CheckedOptions,
  last?: CheckedOptions,
): CheckedOptions | undefined {
  checkObject(options);
  for (const option in options) if (option !== "wait" && option !== "signal") return undefined;
  const waitMs = options.wait === undefined ? usual.waitMs : toWaitMs(options.wait);
  const signal = options.signal === undefined ? usual.signal : toSignal(options.signal);
  return last !== undefined && last.waitMs === waitMs && last.signal === signal ? last : { ...usual, waitMs, signal };
}

/** The options of tryAcquire(): it never queues, so it has no `wait`; its time limit is for the answer of the store. */
export function checkTryOptions(
  verb: "tryAcquire" | "tryRun",
  options: TryOptions | undefined,
  usual: CheckedOptions,
  defaults: LocksOptions,
): CheckedOptions {
  // What is inherited counts too, as for the other verbs.
  const rest: Record<string, unknown> = {};
  const given = checkObject(options ?? {}) as Readonly<Record<string, unknown>>;
  for (const option in given) rest[option] = given[option];
  const { timeout } = rest as TryOptions;
  delete rest["timeout"];
  if (rest["wait"] !== undefined) {
    throw new ArgumentError(
      `Expected no \`wait\` for ${verb}(): it answers at once whether the lock is free. To wait for it, use ${verb === "tryRun" ? "run" : "acquire"}(name, { wait }).`,
    );
  }
  const checked = onlyWaitOf(rest, usual) ?? checkOptions(rest, defaults);
  return {
    ...checked,
    waitMs: timeout === undefined ? 0 : toMs(timeout, "timeout", { maxMs: Infinity }),
  };
}

/**
 * How long one lock may take: the whole wait, or the time that the store has to answer those who do not queue. A thread may take
 * longer to start than a short ttl lasts.
 */
export function answerMs({ waitMs, ttlMs, renew }: CheckedOptions): number {
  return waitMs || (renew === "thread" ? TRY_MAX_MS : Math.min(TRY_MAX_MS, ttlMs));
}

/** What checked options ask of the store. */
export function toClaim(id: string, name: string, holder: string, checked: CheckedOptions, queues: boolean): Claim {
  return {
    id,
    name,
    mode: checked.mode,
    limit: checked.limit,
    ttlMs: checked.ttlMs,
    lockDelayMs: checked.lockDelayMs,
    minHoldMs: checked.minHoldMs,
    holder,
    meta: checked.meta,
    lingerMs: checked.lingerMs || undefined,
    queues,
    renewed: checked.renew === true && checked.maxHoldMs === Infinity,
    wantsOutcome: checked.wantsOutcome,
  };
}

export interface QuerySpec {
  readonly signal: AbortSignal | undefined;
  readonly timeoutMs: number;
}

export function toQuerySpec(options: QueryOptions): QuerySpec {
  for (const option in checkObject(options)) {
    if (option !== "signal" && option !== "timeout") throw unknownOption(option);
  }
  const timeoutMs = toMs(options.timeout ?? QUERY_TIMEOUT, "timeout", { maxMs: Infinity });
  return { signal: toSignal(options.signal), timeoutMs };
}

export function checkObject<T>(options: T): T {
  if (typeof options === "object" && options !== null) return options;
  throw new ArgumentError(`Expected \`options\` to be an object, got ${got(options)}`);
}

/** Checks what names a lock, or a group of them. */
export function toNames(names: unknown): string | readonly string[] {
  if (typeof names === "string") {
    checkName(names);
    return names;
  }
  if (!Array.isArray(names) || names.length === 0) {
    const given = Array.isArray(names) ? "an empty one" : got(names);
    throw new ArgumentError(`Expected \`name\` to be a string or an array of at least one string, got ${given}`);
  }
  // A copy, since the caller's array may change later; by index, since it may have an iterator of its own.
  const checked = Array.from({ length: names.length }, (_, index) => (names as unknown[])[index]);
  for (const name of checked) checkName(name);
  return checked as readonly string[];
}

/** Checks a lock's name: any string that is not empty, up to 1 KiB of UTF-8. */
export function checkName(name: unknown): asserts name is string {
  if (typeof name !== "string" || name === "") {
    throw new ArgumentError(`Expected \`name\` to be a string that is not empty, got ${got(name)}`);
  }
  // A UTF-16 unit becomes at most three bytes, so that short names need no counting.
  if (name.length * 3 > NAME_BYTES_MAX && Buffer.byteLength(name) > NAME_BYTES_MAX) {
    throw new ArgumentError(
      `Expected \`name\` to be at most ${NAME_BYTES_MAX} bytes of UTF-8, got ${Buffer.byteLength(name)}`,
    );
  }
  if (LONE_SURROGATE.test(name))
    throw new ArgumentError("Expected `name` to be well-formed Unicode, got a lone surrogate");
}

export function toTtlMs(ttl: unknown): number {
  return toMs(ttl, "ttl", { minMs: MIN_TTL_MS, maxMs: MAX_TTL_MS });
}

function toWaitMs(wait: unknown): number {
  return toMs(wait, "wait", WAIT);
}

function toSignal(signal: unknown): AbortSignal | undefined {
  if (signal === undefined || signal instanceof AbortSignal) return signal;
  throw new ArgumentError(`Expected \`signal\` to be an AbortSignal, got ${got(signal)}`);
}

function optional(value: Duration | undefined, option: string, absent: number): number {
  if (value === undefined) return absent;
  return toMs(value, option, { maxMs: MAX_HOLD_MS });
}

/** What is shown to those who inspect the lock. Throws a `TypeError` when it is not an object of texts, or too large. */
export function toMeta(own: Meta | undefined, shared: Meta | undefined): Meta {
  if (own === undefined && shared === undefined) return NO_META;
  for (const part of [own, shared]) {
    if (part !== undefined && (typeof part !== "object" || part === null || Array.isArray(part))) {
      throw new ArgumentError(`Expected \`meta\` to be an object of texts, such as { job: "42" }, got ${got(part)}`);
    }
  }
  const meta: Record<string, string> = { ...shared, ...own };
  for (const [field, text] of Object.entries(meta)) {
    if (typeof text !== "string")
      throw new ArgumentError(`Expected \`meta.${field}\` to be a string, got ${got(text)}`);
  }
  const bytes = Buffer.byteLength(JSON.stringify(meta));
  if (bytes > META_BYTES_MAX)
    throw new ArgumentError(`Expected \`meta\` to be at most ${META_BYTES_MAX} bytes as JSON, got ${bytes}`);
  return Object.freeze(meta);
}

function unknownOption(option: string): TypeError {
  const hint = ELSEWHERE[option];
  return new ArgumentError(`Unknown option \`${option}\`${hint === undefined ? "" : `: did you mean ${hint}?`}`);
}

/** Why a lease is ended by force: kept in the store for those who ask, so it is neither empty nor long. */
export function checkReason(reason: unknown): asserts reason is string {
  if (typeof reason !== "string" || reason.trim() === "" || reason.length > REASON_MAX) {
    throw new ArgumentError(
      `Expected \`reason\` to be a text of 1 to ${REASON_MAX} characters that is not blank, got ${got(reason)}`,
    );
  }
}
