/** The flags that say how a lock is taken: shared by run, elect and acquire. */
import { hostname } from "node:os";

import type { AcquireOptions } from "../core/api.ts";
import { MAX_TTL_MS } from "../contract/duration.ts";
import { clipped, HOLDER_MAX } from "../contract/foreign.ts";
import { toMeta } from "../core/options.ts";
import { UsageError } from "./usage-error.ts";
import type { Flags, FlagSpec, FlagSpecs } from "./flags.ts";

const MAX_HOLD_MS = 30 * MAX_TTL_MS;

type LockFlag = "shared" | "limit" | "min-hold" | "lock-delay" | "reason" | "meta";

export const LOCK_FLAGS: Readonly<Record<LockFlag, FlagSpec>> = {
  shared: { short: "s", help: "hold together with other shared holders" },
  limit: { value: "N", help: "let up to N hold at once (all must say the same N)" },
  "min-hold": { value: "DURATION", help: "stay taken this long even if released earlier" },
  "lock-delay": { value: "DURATION", help: "after an unclean end the lock stays taken for this long" },
  reason: { value: "TEXT", help: "shown to everyone who inspects the lock" },
  meta: { value: "NAME=TEXT", multiple: true, help: "more to show, such as version=1.4; may be repeated" },
};

export const WAIT_FLAGS: FlagSpecs = {
  nonblock: { short: "n", help: "do not wait: give up if the lock is not free" },
  wait: { short: "w", value: "DURATION", help: "give up after this long (default: wait for ever, as flock does)" },
};

export interface LockChoice {
  readonly ttlMs: number;
  readonly waitMs: number;
  readonly options: AcquireOptions;
}

/** Reads them all. Throws a {@link UsageError} where they contradict each other. */
export function readLockFlags(
  flags: Flags,
  command: string,
  defaults: { ttlMs: number; app?: string | undefined },
): LockChoice {
  const ttlMs = flags.durationMs("ttl", { minMs: 100, maxMs: MAX_TTL_MS }) ?? defaults.ttlMs;
  const waitMs = readWait(flags, command);
  const limit = flags.integer("limit", { min: 1, max: 1_000_000 });
  if (flags.has("shared") && limit !== undefined && limit > 1) {
    throw new UsageError("--shared and --limit exclude each other: shared holders are not counted", command);
  }
  const minHold = flags.durationMs("min-hold", { maxMs: MAX_HOLD_MS });
  const maxHold = flags.durationMs("max-hold", { maxMs: MAX_HOLD_MS });
  if (minHold !== undefined && maxHold !== undefined && minHold > maxHold) {
    throw new UsageError("--min-hold must be at most --max-hold", command);
  }
  const options: AcquireOptions = {
    ttl: ttlMs,
    wait: waitMs,
    mode: flags.has("shared") ? "shared" : "exclusive",
    limit: limit ?? 1,
    minHold,
    maxHold,
    lockDelay: flags.durationMs("lock-delay", { maxMs: MAX_HOLD_MS }),
    meta: readMeta(flags, command, defaults.app),
  };
  return { ttlMs, waitMs, options };
}

/** What is shown as the holder: the process that a person should look for. */
export function ownHolder(pid: number = process.pid): string {
  return `${clipped(hostname(), HOLDER_MAX - 20)}:${pid}`;
}

export function readWait(flags: Flags, command: string): number {
  const waitMs = flags.durationMs("wait", { minMs: 0, maxMs: Infinity });
  if (flags.has("nonblock") && waitMs !== undefined && waitMs > 0) {
    throw new UsageError("--nonblock and --wait exclude each other", command);
  }
  return flags.has("nonblock") ? 0 : (waitMs ?? Infinity);
}

function readMeta(flags: Flags, command: string, app: string | undefined): Record<string, string> {
  const meta: Record<string, string> = app === undefined ? {} : { app: clipped(app, HOLDER_MAX) };
  for (const pair of flags.texts("meta")) {
    const at = pair.indexOf("=");
    if (at < 1) throw new UsageError(`--meta ${JSON.stringify(pair)} is not NAME=TEXT`, command);
    meta[pair.slice(0, at)] = pair.slice(at + 1);
  }
  const reason = flags.text("reason");
  if (reason !== undefined) meta["reason"] = reason;
  // Here, so that every command refuses what is too large, also those that make their claims themselves.
  return { ...toMeta(meta, undefined) };
}
