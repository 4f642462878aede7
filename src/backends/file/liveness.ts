/** Whether a lease is still alive: it is over when its process died, or when it was not renewed in time. */
import type { Clock } from "../../contract/clock.ts";
import { machineMs } from "../../contract/machine-clock.ts";
import { companionsOf } from "./companions.ts";
import { disk } from "./disk.ts";
import { isDead, sharesClock, thisProcess } from "./process-identity.ts";
import type { DirectoryPaths } from "./directory.ts";
import type { Holder, Kept, LeaseFacts } from "./records.ts";

/** Added to every end, because file times are rounded. */
const GUARD_MS = 2;
/** The same where only wall clocks can be compared, which people may adjust. */
const WALL_GUARD_MS = 1000;

/** The time of a lease file that its own process has ended: it is over for everyone, and nothing keeps it alive. */
export const ENDED_MS = 1;

export type Liveness =
  /** `remainingMs`: until the store lets go by itself. `delayed`: the lease is over, and only its lockDelay keeps the lock. */
  | { readonly alive: true; readonly remainingMs: number; readonly delayed: boolean }
  /** `keepMs`: how long the place stays taken from now on, because the end was unclean. */
  | { readonly alive: false; readonly keepMs: number };

export interface LivenessOptions {
  readonly paths: DirectoryPaths;
  readonly clock: Clock;
}

/** Judges a lease by the times of `path`, a link to its lease file. */
export function livenessOf({ paths, clock }: LivenessOptions, facts: LeaseFacts, path: string): Liveness {
  const remainingMs = remainingAt(clock, facts, path);
  const { ttlMs, lockDelayMs } = facts;
  if (remainingMs === undefined) return { alive: false, keepMs: lockDelayMs };
  const dead = isDead(facts.process);
  const delayed = remainingMs <= lockDelayMs;
  if (remainingMs > 0 && !dead) return { alive: true, remainingMs, delayed };
  if (remainingMs === -Infinity) return { alive: false, keepMs: 0 };
  const companions = companionsOf(paths, facts);
  if (companions === "running") return { alive: true, remainingMs: Math.max(remainingMs, ttlMs), delayed: false };
  // It had companions, and they cannot be looked up any more: the ttl decides.
  if (companions === "unknown" && remainingMs > 0) return { alive: true, remainingMs, delayed };
  return { alive: false, keepMs: dead ? Math.max(0, Math.min(lockDelayMs, remainingMs)) : 0 };
}

/**
 * How long a claim's ticket lasts; 0 when it is over. Only the claim's own process can wait by it: companions keep the leases of
 * a dead process alive, but they cannot accept a lock that is handed to it. `freshMs`: see isDead().
 */
export function waitsForMs({ clock }: LivenessOptions, facts: LeaseFacts, path: string, freshMs?: number): number {
  const remainingMs = remainingAt(clock, facts, path) ?? 0;
  return remainingMs > 0 && !isDead(facts.process, freshMs) ? remainingMs : 0;
}

/** The clock is read before the times. `undefined`: the file is gone. `-Infinity`: its process has ended it. */
function remainingAt(clock: Clock, facts: LeaseFacts, path: string): number | undefined {
  const nowMs = machineMs(clock);
  const wallMs = clock.wall();
  const times = disk.times(path);
  if (times === undefined) return undefined;
  if (times.mtimeMs <= ENDED_MS) return -Infinity;
  // Of another boot or time namespace only the kernel's own time of the last renewal can be compared, by the wall clock.
  return sharesClock(facts.process)
    ? times.mtimeMs + facts.lockDelayMs + GUARD_MS - nowMs
    : times.ctimeMs + facts.ttlMs + facts.lockDelayMs + WALL_GUARD_MS - wallMs;
}

/** How long a kept place lasts from now on; not above 0 when it is over. */
export function keptForMs({ clock }: LivenessOptions, { untilMs, untilWallMs, process }: Kept): number {
  return sharesClock(process) ? untilMs - machineMs(clock) : untilWallMs - clock.wall();
}

/** The place that a holder leaves behind. */
export function keep({ clock }: LivenessOptions, holder: Holder, forMs: number, why: Kept["why"]): Kept {
  const [untilMs, untilWallMs] = [machineMs(clock) + forMs, clock.wall() + forMs];
  return { ...holder, process: thisProcess(), untilMs, untilWallMs, why };
}
