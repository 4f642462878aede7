/** Options of redisson(), checked once. */
import { ArgumentError, got } from "../../contract/argument-error.ts";
import { type Clock, systemClock } from "../../contract/clock.ts";
import { type Duration, MAX_TTL_MS, toMs } from "../../contract/duration.ts";

/** What Java uses for the name: `getLock()`, `getReadWriteLock()` or `getFencedLock()`. */
export type RedissonKind = "lock" | "read-write" | "fenced";

export interface RedissonOptions {
  /** What stands before a lock's name in its key, as Redisson's `nameMapper` writes it. @default "" */
  readonly prefix?: string | undefined;
  /** What Java uses for the locks, or for each name. @default "lock" */
  readonly kind?: RedissonKind | ((name: string) => RedissonKind) | undefined;
  /** Redisson's `lockWatchdogTimeout`. It shortens a read lock to this, so that no reader of ours may have a longer ttl. @default "30s" */
  readonly watchdog?: Duration | undefined;
  /** How long waiting clients of ours leave the lock free after a lease of ours, if Java waits for it. It doubles, up to eight times as long, as long as Java does not get its turn. 0: not at all. @default "10ms" */
  readonly gap?: Duration | undefined;
  /** How long the notes beside an unused lock (its last fence) are kept. @default "1h" */
  readonly idle?: Duration | undefined;
  /** For tests. @default the system's clock */
  readonly clock?: Clock | undefined;
}

const DEFAULTS = {
  prefix: "",
  kind: "lock",
  watchdog: "30s",
  gap: "10ms",
  idle: "1h",
} as const satisfies RedissonOptions;
const PREFIX_MAX = 200;
const KINDS: readonly unknown[] = ["lock", "read-write", "fenced"] satisfies RedissonKind[];

export interface Settings {
  readonly prefix: string;
  readonly kind: RedissonKind | ((name: string) => RedissonKind);
  readonly watchdogMs: number;
  readonly gapMs: number;
  readonly idleMs: number;
  readonly clock: Clock;
}

export function toSettings(options: RedissonOptions): Settings {
  const { prefix = DEFAULTS.prefix, kind = DEFAULTS.kind } = options;
  if (typeof prefix !== "string" || prefix.length > PREFIX_MAX) {
    throw new ArgumentError(`Expected \`prefix\` to be a text of at most ${PREFIX_MAX} characters, got ${got(prefix)}`);
  }
  if (typeof kind !== "function" && !isKind(kind))
    throw new ArgumentError(`Expected \`kind\` to be ${wrongKind(kind)}`);
  return {
    prefix,
    kind,
    watchdogMs: Math.floor(toMs(options.watchdog ?? DEFAULTS.watchdog, "watchdog", { maxMs: MAX_TTL_MS })),
    gapMs: Math.ceil(toMs(options.gap ?? DEFAULTS.gap, "gap", { minMs: 0, maxMs: 60_000 })),
    idleMs: Math.ceil(toMs(options.idle ?? DEFAULTS.idle, "idle", { maxMs: 366 * MAX_TTL_MS })),
    clock: options.clock ?? systemClock,
  };
}

export function isKind(kind: unknown): kind is RedissonKind {
  return KINDS.includes(kind);
}

/** What was expected, and what came instead. */
export function wrongKind(kind: unknown): string {
  return `lock, read-write or fenced, got ${got(kind)}`;
}
