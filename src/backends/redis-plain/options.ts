/** Options of redisPlain(), checked once. */
import { ArgumentError, got } from "../../contract/argument-error.ts";
import { type Clock, systemClock } from "../../contract/clock.ts";
import { type Duration, MAX_TTL_MS, toMs } from "../../contract/duration.ts";

export interface RedisPlainOptions {
  /** What stands before a lock's name in its key, as the other library writes it: "mutex:" for redis-semaphore. @default "" */
  readonly prefix?: string | undefined;
  /** How long waiting clients of ours leave the lock free after a lease of ours, so that clients which only poll get a turn. @default "10ms" */
  readonly gap?: Duration | undefined;
  /** How long the notes beside an unused lock (its last fence) are kept. @default "1h" */
  readonly idle?: Duration | undefined;
  /** False: never listen for keyspace events. @default true, where the server sends them */
  readonly events?: boolean | undefined;
  /** For tests. @default the system's clock */
  readonly clock?: Clock | undefined;
}

const DEFAULTS = { prefix: "", gap: "10ms", idle: "1h", events: true } as const satisfies RedisPlainOptions;
const PREFIX_MAX = 200;

export interface Settings {
  readonly prefix: string;
  readonly gapMs: number;
  readonly idleMs: number;
  readonly events: boolean;
  readonly clock: Clock;
}

export function toSettings(options: RedisPlainOptions): Settings {
  const { prefix = DEFAULTS.prefix, events = DEFAULTS.events } = options;
  if (typeof prefix !== "string" || prefix.length > PREFIX_MAX) {
    throw new ArgumentError(`Expected \`prefix\` to be a text of at most ${PREFIX_MAX} characters, got ${got(prefix)}`);
  }
  if (typeof events !== "boolean")
    throw new ArgumentError(`Expected \`events\` to be true or false, got ${got(events)}`);
  return {
    prefix,
    gapMs: Math.ceil(toMs(options.gap ?? DEFAULTS.gap, "gap", { minMs: 0, maxMs: 60_000 })),
    idleMs: Math.ceil(toMs(options.idle ?? DEFAULTS.idle, "idle", { maxMs: 366 * MAX_TTL_MS })),
    events,
    clock: options.clock ?? systemClock,
  };
}
