/**
 * Remembers the claims that `holdfast acquire` made on this machine, so that `renew` and `release` find them by name and
 * fence. A convenience: a script that keeps the claim's id (`--json`) does not need it. One small file a claim, mode 0600.
 */
import { createHash } from "node:crypto";

import type { Claim } from "../contract/backend.ts";
import { startTimeOf } from "./run/processes.ts";
import type { Io } from "./io.ts";
import { StateDir, UnwrittenNoteError } from "./state-dir.ts";

/** A process whose life is a lease's, and when it started: its pid may belong to another process later. */
export interface Keeper {
  readonly pid: number;
  readonly startTime: string | undefined;
}

export interface StoredClaim {
  readonly claim: Claim;
  readonly fence: bigint;
  /** `releasing`: a release may have been sent, and its answer is not known. */
  readonly state: "held" | "releasing" | "released" | "lost";
  /** Until when the lease was known to last without another renewal, by the wall clock. Absent from notes of 0.1. */
  readonly endsAtMs?: number | undefined;
  /** While it lives, the lease does. */
  readonly keeper?: Keeper | undefined;
}

const FORGOTTEN_AFTER_MS = 2 * 24 * 3_600_000;
/** What {@link fileOf} makes, what is written aside before it gets that name, and the marks of releases. */
const NOTE = /^([\w-]{22}-\d+\.json)(\.[0-9a-f]{12}|\.releasing)?$/;
const MARK = ".releasing";
const STATES = new Set(["held", "releasing", "released", "lost"]);

/** Throws a UsageError where claims cannot be stored: before anything is acquired. */
export function prepareClaims(io: Io): void {
  new StateDir(io).prepare(`${"0".repeat(22)}-0.json`);
}

export function storeClaim(io: Io, url: string, stored: StoredClaim): void {
  const text = JSON.stringify({ ...stored, fence: stored.fence.toString() });
  new StateDir(io).write(fileOf(url, stored.claim.name, stored.fence), text);
}

/** Called before a release is sent: leaves a mark that every other release of this lease from here can see. */
export function beginRelease(io: Io, url: string, name: string, fence: bigint): void {
  new StateDir(io).append(releaseMark(url, name, fence), "x");
}

/** Called after a release that has surely not been done, nor ever will be. */
export function takeBackRelease(io: Io, url: string, name: string, fence: bigint): void {
  new StateDir(io).append(releaseMark(url, name, fence), "-");
}

/** True: a release of this lease was sent before, by this process or another. That release may have ended it. */
export function othersRelease(io: Io, url: string, name: string, fence: bigint): boolean {
  let count = 0;
  for (const mark of new StateDir(io).read(releaseMark(url, name, fence)) ?? "") count += mark === "-" ? -1 : 1;
  return count > 1;
}

function releaseMark(url: string, name: string, fence: bigint): string {
  return `${fileOf(url, name, fence)}${MARK}`;
}

/** True unless the lease surely had time left. It has never more than its ttl: then the clock was set back. */
export function mayHaveEnded({ claim, endsAtMs = 0 }: Pick<StoredClaim, "claim" | "endsAtMs">, nowMs: number): boolean {
  return !(endsAtMs > nowMs && endsAtMs <= nowMs + claim.ttlMs);
}

/** `undefined`: no such claim was made here. */
export function loadClaim(io: Io, url: string, name: string, fence: bigint): StoredClaim | undefined {
  const stored = parse(new StateDir(io).read(fileOf(url, name, fence)));
  return stored?.claim.name === name && stored.fence === fence ? stored : undefined;
}

/** Goes on without a note that cannot be written, and reports it. `meaning`: what that means for the user. */
export function tryNoting(io: Io, meaning: string, write: () => void): void {
  try {
    write();
  } catch (error) {
    if (!(error instanceof UnwrittenNoteError)) throw error;
    io.note(`holdfast: ${error.message}: ${meaning}`);
  }
}

/** The newest note of a claim by its id, if there is one here; with a fence, only that one's. */
export function findClaim(
  io: Io,
  url: string,
  { name, id }: Pick<Claim, "name" | "id">,
  fence: bigint | undefined,
): StoredClaim | undefined {
  const folder = new StateDir(io);
  const lock = lockOf(url, name);
  let newest: StoredClaim | undefined;
  for (const file of folder.files()) {
    if (!file.name.startsWith(`${lock}-`) || NOTE.exec(file.name)?.[1] !== file.name) continue;
    const stored = parse(folder.read(file.name));
    if (stored?.claim.name !== name || stored.claim.id !== id) continue;
    if ((fence ?? stored.fence) === stored.fence && stored.fence >= (newest?.fence ?? 0n)) newest = stored;
  }
  return newest;
}

/** Removes notes that were last touched days ago, of leases that have ended days ago. Other files are not ours. */
export function forgetOldClaims(io: Io, nowMs: number): void {
  const folder = new StateDir(io);
  for (const { name, mtimeMs } of folder.files()) {
    const [, note, kind] = NOTE.exec(name) ?? [];
    if (note === undefined || nowMs - mtimeMs <= FORGOTTEN_AFTER_MS) continue;
    try {
      // After so long no process needs a temporary file any more; a mark goes with its note.
      const isAside = kind !== undefined && kind !== MARK;
      if (isAside || !mayLive(parse(folder.read(note)), nowMs)) folder.remove(name);
    } catch {
      // Another process removes it at the same time, or it is not ours.
    }
  }
}

function mayLive(stored: StoredClaim | undefined, nowMs: number): boolean {
  if (stored === undefined || stored.state === "released" || stored.state === "lost") return false;
  const { endsAtMs = 0, keeper } = stored;
  return (
    nowMs - endsAtMs <= FORGOTTEN_AFTER_MS ||
    (keeper !== undefined && keeper.startTime !== undefined && startTimeOf(keeper.pid) === keeper.startTime)
  );
}

/** The URL may hold a password, and a name may hold anything: neither stands in a file name. */
function fileOf(url: string, name: string, fence: bigint): string {
  return `${lockOf(url, name)}-${fence}.json`;
}

function lockOf(url: string, name: string): string {
  return createHash("sha256").update(`${url}\0${name}`).digest("base64url").slice(0, 22);
}

function parse(text: string | undefined): StoredClaim | undefined {
  try {
    const stored = JSON.parse(text ?? "") as Omit<StoredClaim, "fence"> & { readonly fence: string };
    // The process that reads this is another one than the process that was granted it.
    const claim = { ...stored.claim, resumes: true };
    if (!STATES.has(stored.state) || !isClaim(claim)) return undefined;
    const endsAtMs = Number.isFinite(stored.endsAtMs) ? stored.endsAtMs : undefined;
    const keeper = isKeeper(stored.keeper) ? stored.keeper : undefined;
    return { claim, fence: BigInt(stored.fence), state: stored.state, endsAtMs, keeper };
  } catch {
    return undefined;
  }
}

function isKeeper(keeper: Keeper | undefined): boolean {
  return Number.isSafeInteger(keeper?.pid) && typeof keeper?.startTime === "string";
}

function isClaim(claim: Claim): boolean {
  const numbers = [claim.limit, claim.ttlMs, claim.lockDelayMs, claim.minHoldMs];
  return (
    isClaimId(claim.id) &&
    typeof claim.name === "string" &&
    (claim.mode === "exclusive" || claim.mode === "shared") &&
    numbers.every((number) => Number.isSafeInteger(number) && number >= 0) &&
    typeof claim.holder === "string" &&
    typeof claim.meta === "object" &&
    claim.meta !== null &&
    Object.values(claim.meta).every((text) => typeof text === "string")
  );
}

export function isClaimId(text: string): boolean {
  return /^[A-Za-z0-9_-]{22}$/.test(text);
}
