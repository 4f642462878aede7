/**
 * Remembers the claims that `holdfast acquire` made on this machine, so that `renew` and `release` find them by name and
 * fence. A convenience: whoever keeps the claim's id (`--json`) needs none of it. One small file a claim, mode 0600.
 */
import { createHash, randomBytes } from "node:crypto";
import {
  appendFileSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { userInfo } from "node:os";
import { dirname, join } from "node:path";

import type { Claim } from "../backend.ts";
import { UsageError } from "./command.ts";
import type { Io } from "./io.ts";

export interface StoredClaim {
  readonly claim: Claim;
  readonly fence: bigint;
  /** `releasing`: a release may have been sent, and its answer is not known. */
  readonly state: "held" | "releasing" | "released" | "lost";
  /** Until when the lease was known to last without another renewal, by the wall clock. Absent from notes of 0.1. */
  readonly endsAtMs?: number | undefined;
}

const FORGOTTEN_AFTER_MS = 2 * 24 * 3_600_000;
/** What {@link fileOf} makes, what is written aside before it gets that name, and the marks of releases. */
const NOTE = /^[\w-]{22}-\d+\.json(\.([0-9a-f]{12}|releasing))?$/;
const STATES = new Set(["held", "releasing", "released", "lost"]);

/** Throws a {@link UsageError} where claims cannot be stored: before anything is acquired. */
export function prepareClaims(io: Io): void {
  const folder = folderOf(io);
  try {
    makeFolder(folder);
    const probe = join(folder, `${"0".repeat(22)}-0.json.${randomBytes(6).toString("hex")}`);
    writeFileSync(probe, "", { mode: 0o600, flag: "wx" });
    rmSync(probe);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new UsageError(
      `claims cannot be stored in ${folder} (${why}): set HOLDFAST_STATE_DIR to a directory that can be written`,
      "acquire",
    );
  }
}

export function storeClaim(io: Io, url: string, stored: StoredClaim): void {
  const folder = folderOf(io);
  makeFolder(folder);
  const path = join(folder, fileOf(url, stored.claim.name, stored.fence));
  const aside = `${path}.${randomBytes(6).toString("hex")}`;
  const text = JSON.stringify({ ...stored, fence: stored.fence.toString() });
  writeFileSync(aside, text, { mode: 0o600, flag: "wx" });
  renameSync(aside, path);
}

/** Called before a release is sent: leaves a mark that every other release of this lease from here can see. */
export function beginRelease(io: Io, url: string, name: string, fence: bigint): void {
  appendFileSync(releaseMark(io, url, name, fence), "x", { mode: 0o600 });
}

/** True: somebody else, or we ourselves before, sent a release of this lease. Its answer may have been the "yes". */
export function othersRelease(io: Io, url: string, name: string, fence: bigint): boolean {
  return statSync(releaseMark(io, url, name, fence)).size > 1;
}

function releaseMark(io: Io, url: string, name: string, fence: bigint): string {
  return join(folderOf(io), `${fileOf(url, name, fence)}.releasing`);
}

/** True unless the lease surely had time left. It has never more than its ttl: then the clock was set back. */
export function mayHaveEnded({ claim, endsAtMs = 0 }: Pick<StoredClaim, "claim" | "endsAtMs">, nowMs: number): boolean {
  return !(endsAtMs > nowMs && endsAtMs <= nowMs + claim.ttlMs);
}

/** `undefined`: no such claim was made here. */
export function loadClaim(io: Io, url: string, name: string, fence: bigint): StoredClaim | undefined {
  let text: string;
  try {
    text = readFileSync(join(folderOf(io), fileOf(url, name, fence)), "utf8");
  } catch {
    return undefined;
  }
  return validated(text, name, fence);
}

/** Removes notes that were last touched days ago: no lease lives that long without a renewal. Other files are not ours. */
export function forgetOldClaims(io: Io, nowMs: number): void {
  const folder = folderOf(io);
  for (const file of filesIn(folder)) {
    const path = join(folder, file);
    try {
      const found = lstatSync(path);
      if (NOTE.test(file) && found.isFile() && nowMs - found.mtimeMs > FORGOTTEN_AFTER_MS) rmSync(path);
    } catch {
      // Somebody else tidies up at the same moment.
    }
  }
}

function filesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

/** Not with `recursive`: Node tries for ever where a directory that is there takes no others, such as /proc. */
function makeFolder(path: string): void {
  if (existsSync(path)) return;
  const parent = dirname(path);
  if (parent !== path) makeFolder(parent);
  try {
    mkdirSync(path, { mode: 0o700 });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  }
}

function folderOf({ env }: Io): string {
  // From the passwd entry, like the locks themselves: cron has another $HOME than a login.
  return env["HOLDFAST_STATE_DIR"] ?? join(userInfo().homedir, ".local", "state", "holdfast", "claims");
}

/** The URL may hold a password, and a name may hold anything: neither stands in a file name. */
function fileOf(url: string, name: string, fence: bigint): string {
  const hash = createHash("sha256").update(`${url}\0${name}`).digest("base64url").slice(0, 22);
  return `${hash}-${fence}.json`;
}

function validated(text: string, name: string, fence: bigint): StoredClaim | undefined {
  try {
    const stored = JSON.parse(text) as Omit<StoredClaim, "fence"> & { readonly fence: string };
    const fits = stored.claim.name === name && BigInt(stored.fence) === fence && STATES.has(stored.state);
    // Whoever reads this is another process than the one that was granted it.
    const claim = { ...stored.claim, resumes: true };
    const endsAtMs = Number.isFinite(stored.endsAtMs) ? stored.endsAtMs : undefined;
    return fits && isClaim(claim) ? { claim, fence, state: stored.state, endsAtMs } : undefined;
  } catch {
    return undefined;
  }
}

function isClaim(claim: Claim): boolean {
  const numbers = [claim.limit, claim.ttlMs, claim.lockDelayMs, claim.minHoldMs];
  return (
    isClaimId(claim.id) &&
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
