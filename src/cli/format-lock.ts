/** How holders, waiters and broken leases are shown to people and to scripts: one shape for every command. */
import type { Forced, Holding } from "../contract/backend.ts";
import type { LockHolder, LockSnapshot, LockWaiter, LocksSnapshot } from "../core/api.ts";
import { formatMs } from "../contract/duration.ts";
import { printable } from "../contract/foreign.ts";
import { hostAndPid } from "../core/read-snapshot.ts";

/** What the store knows of the locks that are meant. */
export type Snapshot = Omit<LocksSnapshot, "toJSON">;

/** Absent: a store that holds anything has said a time that is none. */
function timeAgo(ms: number): string | undefined {
  const at = new Date(Date.now() - ms);
  return Number.isNaN(at.getTime()) ? undefined : at.toISOString();
}

/** What a script gets for a lease. Times of day are this machine's; the rest is the store's own word. */
function holdingJson(holding: LockHolder): object {
  const { name, mode, limit, holder, id, fence, heldMs, remainingMs, remainder, meta } = holding;
  return {
    name,
    mode,
    limit,
    holder,
    id,
    ...hostAndPid(holder),
    app: meta["app"],
    version: meta["version"],
    fence,
    heldMs: Math.round(heldMs),
    since: timeAgo(heldMs),
    remainingMs: finite(remainingMs),
    remainder,
    processHolders: holding.processHolders,
    processWaiters: holding.processWaiters,
    meta,
  };
}

function waitingJson(waiter: LockWaiter): object {
  const { name, mode, limit, holder, id, waitingMs, position, processWaiters, meta } = waiter;
  const who = { holder, id, ...hostAndPid(holder), app: meta["app"], version: meta["version"] };
  return {
    name,
    mode,
    limit,
    ...who,
    waitingMs: Math.round(waitingMs),
    since: timeAgo(waitingMs),
    position,
    processWaiters,
    meta,
  };
}

function forcedJson({ name, fence, by, reason, agoMs }: Forced): object {
  return { name, fence, by, reason, agoMs: Math.round(agoMs), at: timeAgo(agoMs) };
}

export function snapshotJson({ held, pending, forced }: Snapshot): object {
  return { held: held.map(holdingJson), pending: pending.map(waitingJson), forced: forced.map(forcedJson) };
}

/** One lock. Of an outcome, never its value. */
export function lockJson(lock: LockSnapshot): object {
  const { quarantineMs, outcome } = lock;
  return { ...snapshotJson(lock), quarantineMs, outcome };
}

/** The part of a snapshot that concerns exactly one lock: a query is by prefix. */
export function only(name: string, { held, pending, forced }: Snapshot): Snapshot {
  const same = (one: { name: string }): boolean => one.name === name;
  return {
    held: held.filter(same),
    pending: pending.filter(same).toSorted((a, b) => a.position - b.position),
    forced: forced.filter(same),
  };
}

/** `web-3:812 (importer 1.4)`. */
export function whoText(holder: string, meta: Holding["meta"]): string {
  const app = [meta["app"], meta["version"]].filter((text) => text !== undefined).join(" ");
  return printable(app === "" ? holder : `${holder} (${app})`);
}

export function modeText({ mode, limit }: Pick<Holding, "mode" | "limit">): string {
  return limit > 1 ? `1 of ${limit}` : mode;
}

export function leftText(remainingMs: number): string {
  return Number.isFinite(remainingMs) ? formatMs(remainingMs) : "while it lives";
}

/** What the meta says beyond app and version, which are shown with the holder. */
export function metaText(meta: Holding["meta"]): string {
  return Object.entries(meta)
    .filter(([field]) => field !== "app" && field !== "version")
    .map(([field, text]) => printable(`${field}=${text}`))
    .join("  ");
}

export function ordinal(n: number): string {
  const tens = n % 100;
  if (tens >= 11 && tens <= 13) return `${n}th`;
  return `${n}${["th", "st", "nd", "rd"][n % 10] ?? "th"}`;
}

function finite(ms: number): number | null {
  return Number.isFinite(ms) ? Math.round(ms) : null;
}
