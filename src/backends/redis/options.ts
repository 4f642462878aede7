/** The backend's options, checked once. */
import { ArgumentError } from "../../contract/argument-error.ts";
import { type Clock, systemClock } from "../../contract/clock.ts";
import { type Duration, MAX_TTL_MS, toMs } from "../../contract/duration.ts";

export interface RedisOptions {
  /** What all keys and channels start with; no braces, spaces or glob characters. @default "holdfast" */
  readonly prefix?: string | undefined;
  /** How many fences an exclusive grant reserves, for successive holders inside one process. @default 256, and 64 before another claim waits */
  readonly run?: number | undefined;
  /** How long an unused lock remembers its last fence. @default "1h" */
  readonly idle?: Duration | undefined;
  /** How long a waiter without heartbeats keeps its place; never longer than its ttl. @default "10s" */
  readonly ticket?: Duration | undefined;
  /** A grant or renewal counts only when this many replicas have it. @default none */
  readonly durability?: Durability | undefined;
  /** `"quarantine"`: a server that may have lost leases grants nothing until they are over. @default none */
  readonly failover?: "quarantine" | undefined;
  /** The longest ttl + lockDelay of all processes that use these locks; longer ones are rejected. Only with `failover`. @default "30s" */
  readonly maxTtl?: Duration | undefined;
  /** How long a primary that lost its replicas may continue to renew: its `min-replicas-max-lag` and two seconds. Only with `failover`. @default "12s" */
  readonly maxLag?: Duration | undefined;
  /** Reject `failover` if the server's `min-replicas-to-write` and `min-replicas-max-lag` do not support it. @default true */
  readonly checkReplicas?: boolean | undefined;
  /** For tests. @default the system's clock */
  readonly clock?: Clock | undefined;
}

export interface Durability {
  /** How many replicas must confirm. */
  readonly replicas: number;
  /** How long to wait for them. @default "500ms" */
  readonly wait?: Duration | undefined;
}

const DEFAULTS = {
  prefix: "holdfast",
  run: 256,
  idle: "1h",
  ticket: "10s",
  maxTtl: "30s",
  maxLag: "12s",
  checkReplicas: true,
} as const satisfies RedisOptions;

/** Replicas report every second, and INFO counts whole seconds. */
const SILENCE_MIN_S = 2;
const DEFAULT_WAIT = "500ms";
const PREFIX = /^[^\s{}*?[\]\\]{1,200}$/u;

export interface Settings {
  readonly prefix: string;
  readonly run: number;
  readonly idleMs: number;
  readonly ticketMs: number;
  readonly durability: { readonly replicas: number; readonly waitMs: number } | undefined;
  /** 0: none. */
  readonly quarantineMs: number;
  /** The longest silence of a replica that still counts, in whole seconds as in INFO: less than `maxLag`. */
  readonly silenceS: number;
  /** For votes, until a quorum sends its own. */
  readonly voteQuarantineMs: number;
  readonly maxTtlMs: number;
  readonly maxLagMs: number;
  readonly checkReplicas: boolean;
  readonly clock: Clock;
}

/** As the scripts read it: how long, and the longest silence of a replica that counts. "0": no quarantine. */
export function quarantineText({ quarantineMs, silenceS }: Pick<Settings, "quarantineMs" | "silenceS">): string {
  return quarantineMs === 0 ? "0" : `${quarantineMs} ${silenceS}`;
}

export function toSettings(options: RedisOptions): Settings {
  const prefix = options.prefix ?? DEFAULTS.prefix;
  if (typeof prefix !== "string" || !PREFIX.test(prefix)) {
    throw new ArgumentError(
      `Expected \`prefix\` to be 1 to 200 characters without spaces, braces, *, ?, [, ] and \\, got ${String(prefix).slice(0, 40)}`,
    );
  }
  if (options.failover !== undefined && options.failover !== "quarantine") {
    throw new ArgumentError(`Expected \`failover\` to be "quarantine" or absent, got ${String(options.failover)}`);
  }
  const maxTtlMs = toMs(options.maxTtl ?? DEFAULTS.maxTtl, "maxTtl", { maxMs: 2 * MAX_TTL_MS });
  const maxLagMs = toMs(options.maxLag ?? DEFAULTS.maxLag, "maxLag", { maxMs: MAX_TTL_MS });
  return {
    prefix,
    run: count(options.run ?? DEFAULTS.run, "run", 1, 1_000_000),
    idleMs: toMs(options.idle ?? DEFAULTS.idle, "idle", { maxMs: 366 * MAX_TTL_MS }),
    ticketMs: toMs(options.ticket ?? DEFAULTS.ticket, "ticket", { maxMs: MAX_TTL_MS }),
    durability: durabilityOf(options.durability),
    quarantineMs: options.failover === undefined ? 0 : maxTtlMs + maxLagMs,
    silenceS: Math.max(SILENCE_MIN_S, Math.floor(maxLagMs / 1000) - 1),
    voteQuarantineMs: maxTtlMs + maxLagMs,
    maxTtlMs: options.failover === undefined ? Infinity : maxTtlMs,
    maxLagMs,
    checkReplicas: options.checkReplicas ?? DEFAULTS.checkReplicas,
    clock: options.clock ?? systemClock,
  };
}

function durabilityOf(durability: Durability | undefined): Settings["durability"] {
  if (durability === undefined) return undefined;
  return {
    replicas: count(durability.replicas, "durability.replicas", 1, 100),
    waitMs: toMs(durability.wait ?? DEFAULT_WAIT, "durability.wait", { maxMs: 60_000 }),
  };
}

function count(value: unknown, option: string, min: number, max: number): number {
  if (typeof value !== "number" || !Number.isSafeInteger(value) || value < min || value > max) {
    throw new ArgumentError(`Expected \`${option}\` to be a whole number from ${min} to ${max}, got ${String(value)}`);
  }
  return value;
}
