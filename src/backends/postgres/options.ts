/** The backend's options, checked once. */
import { type Clock, systemClock } from "../../contract/clock.ts";
import { type Duration, MAX_TTL_MS, toMs } from "../../contract/duration.ts";
import { ArgumentError, got } from "../../contract/argument-error.ts";

export interface PostgresOptions {
  /** Create or update the tables and functions at the first use. The role must be allowed to. @default false */
  readonly migrate?: boolean | undefined;
  /** How many fences an exclusive grant reserves, for successive holders inside one process. @default 256 */
  readonly run?: number | undefined;
  /** After how long without use the row of a lock may be removed. @default "10m" */
  readonly idle?: Duration | undefined;
  /** How long a waiter without heartbeats keeps its place; never longer than its ttl. @default "10s" */
  readonly ticket?: Duration | undefined;
  /** How long a statement may take, and how long it may wait for a connection before that. @default "10s" */
  readonly answer?: Duration | undefined;
  /** False: never LISTEN; waiters ask repeatedly. @default true, unless a pooler is found */
  readonly listen?: boolean | undefined;
  /** `"quarantine"`: a server that was promoted grants nothing until the leases that it may have missed are over. @default none */
  readonly failover?: "quarantine" | undefined;
  /** The longest ttl + lockDelay of all processes that use these locks; longer ones are rejected. Only with `failover`. @default "30s" */
  readonly maxTtl?: Duration | undefined;
  /** For tests. @default the system's clock */
  readonly clock?: Clock | undefined;
}

const DEFAULTS = {
  migrate: false,
  run: 256,
  idle: "10m",
  ticket: "10s",
  answer: "10s",
  listen: true,
  maxTtl: "30s",
} as const satisfies PostgresOptions;

/** Beside the longest lease: two clocks never run at the same rate, and the old server may have granted until it was ended. */
const QUARANTINE_MARGIN_MS = 2000;

export interface Settings {
  readonly migrate: boolean;
  readonly run: number;
  readonly idleMs: number;
  readonly ticketMs: number;
  readonly answerMs: number;
  readonly listen: boolean;
  /** 0: none. */
  readonly quarantineMs: number;
  readonly maxTtlMs: number;
  readonly clock: Clock;
}

export function toSettings(options: PostgresOptions): Settings {
  if (options.failover !== undefined && options.failover !== "quarantine") {
    throw new ArgumentError(`Expected \`failover\` to be "quarantine" or absent, got ${got(options.failover)}`);
  }
  const maxTtlMs = toMs(options.maxTtl ?? DEFAULTS.maxTtl, "maxTtl", { maxMs: 2 * MAX_TTL_MS });
  return {
    migrate: flag(options.migrate ?? DEFAULTS.migrate, "migrate"),
    run: count(options.run ?? DEFAULTS.run, "run", 1, 1_000_000),
    idleMs: toMs(options.idle ?? DEFAULTS.idle, "idle", { minMs: 1000, maxMs: 366 * MAX_TTL_MS }),
    ticketMs: toMs(options.ticket ?? DEFAULTS.ticket, "ticket", { maxMs: MAX_TTL_MS }),
    answerMs: toMs(options.answer ?? DEFAULTS.answer, "answer", { minMs: 100, maxMs: MAX_TTL_MS }),
    listen: flag(options.listen ?? DEFAULTS.listen, "listen"),
    quarantineMs: options.failover === undefined ? 0 : maxTtlMs + QUARANTINE_MARGIN_MS,
    maxTtlMs: options.failover === undefined ? Infinity : maxTtlMs,
    clock: options.clock ?? systemClock,
  };
}

function flag(value: unknown, option: string): boolean {
  if (typeof value !== "boolean")
    throw new ArgumentError(`Expected \`${option}\` to be true or false, got ${got(value)}`);
  return value;
}

function count(value: unknown, option: string, min: number, max: number): number {
  if (typeof value !== "number" || !Number.isSafeInteger(value) || value < min || value > max) {
    throw new ArgumentError(`Expected \`${option}\` to be a whole number from ${min} to ${max}, got ${got(value)}`);
  }
  return value;
}
