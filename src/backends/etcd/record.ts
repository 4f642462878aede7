/** The values of our keys: for people, and for finding a claim by its id. Those of other programs are empty, or anything. */
import type { Claim, LocalFacts, Meta } from "../../contract/backend.ts";
import { LockBackendError, quote } from "../../contract/errors.ts";
import { readLocal, writeLocal } from "../../contract/local-facts.ts";

export interface ClaimRecord {
  /** The claim's; "" for keys of other programs. */
  readonly id: string;
  readonly holder: string;
  readonly meta: Meta;
  readonly local: LocalFacts | undefined;
  readonly ttlMs: number;
  readonly lockDelayMs: number;
  readonly minHoldMs: number;
  /** Wall clock of the claimant: when it began to wait, or to hold. */
  readonly sinceMs: number;
  /** Several processes may ask for it: it holds only once its key says so, so that all of them see the same fence. */
  readonly isAskedByMany: boolean;
  /** Written by the transaction that granted it the lock. Any program may write a key again; this says that its claimant did. */
  readonly isGranted: boolean;
  /** The fence that it had. Set: it was released, and its key is kept for its minHold. */
  readonly endedFence: bigint | undefined;
}

/** What a claim shows of itself since its key was written. */
export interface ShownRecord extends Pick<ClaimRecord, "id" | "meta" | "local"> {
  /** When it began to hold, where its key does not say that. */
  readonly sinceMs: number | undefined;
}

export interface ForcedRecord {
  readonly by: string;
  readonly reason: string;
  readonly atMs: number;
}

interface WrittenWith {
  readonly granted?: true;
  readonly endedFence?: bigint;
}

/** A member takes 1.5 MB in one request. */
const RECORD_MAX_BYTES = 512 * 1024;
const TEXT_MAX = 200;
const REASON_MAX = 2000;
const META_MAX_BYTES = 64 * 1024;
/** A value may contain these: they move a terminal's cursor, reverse its text, or are half a character. */
const UNSHOWABLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;

/** `granted`: written where the claim is the next. `endedFence`: it was released, and the key that stays had this fence. */
export function writeClaim(claim: Claim, { granted, endedFence }: WrittenWith = {}): Buffer {
  const { id, holder, meta, ttlMs, lockDelayMs, minHoldMs } = claim;
  const local = claim.local && writeLocal(claim.local);
  const many = claim.resumes === true ? true : undefined;
  const terms = { ttlMs, lockDelayMs, minHoldMs, sinceMs: Date.now(), endedFence: endedFence?.toString() };
  const data = Buffer.from(JSON.stringify({ holdfast: 1, id, holder, meta, local, many, granted, ...terms }));
  if (data.length <= RECORD_MAX_BYTES) return data;
  const message = `The meta of lock ${quote(claim.name)} takes ${data.length} bytes; etcd keys have room for ${RECORD_MAX_BYTES}.`;
  throw new LockBackendError("etcd", claim.name, message, { fatal: true });
}

const FOREIGN: Omit<ClaimRecord, "holder"> = {
  id: "",
  meta: {},
  local: undefined,
  ttlMs: Infinity,
  lockDelayMs: 0,
  minHoldMs: 0,
  sinceMs: Number.NaN,
  isAskedByMany: false,
  isGranted: false,
  endedFence: undefined,
};

/** Reads any contender's value. */
export function readClaim(value: Buffer): ClaimRecord {
  const found = parse(value);
  if (found === undefined || typeof found["holder"] !== "string" || typeof found["id"] !== "string") {
    const holder = shown(value.toString("utf8", 0, 4 * TEXT_MAX)) || "unknown";
    return { ...FOREIGN, holder };
  }
  const { id, holder, ttlMs, lockDelayMs, minHoldMs, sinceMs, many, granted, endedFence } = found;
  return {
    id,
    holder: shown(holder) || "unknown",
    ...readSaid(value, found),
    ttlMs: isDuration(ttlMs) ? ttlMs : Infinity,
    lockDelayMs: isDuration(lockDelayMs) ? lockDelayMs : 0,
    minHoldMs: isDuration(minHoldMs) ? minHoldMs : 0,
    sinceMs: typeof sinceMs === "number" ? sinceMs : Number.NaN,
    isAskedByMany: many === true,
    isGranted: granted === true,
    endedFence: typeof endedFence === "string" && /^\d{1,19}$/.test(endedFence) ? BigInt(endedFence) : undefined,
  };
}

/** `undefined`: there is no room for it. */
export function writeShown({ id, meta, local }: Claim, sinceMs?: number): Buffer | undefined {
  const data = Buffer.from(JSON.stringify({ holdfast: 1, id, meta, local: local && writeLocal(local), sinceMs }));
  return data.length <= RECORD_MAX_BYTES ? data : undefined;
}

export function readShown(value: Buffer): ShownRecord | undefined {
  const found = parse(value);
  const { id, sinceMs } = found ?? {};
  if (found === undefined || typeof id !== "string") return undefined;
  return { id, ...readSaid(value, found), sinceMs: typeof sinceMs === "number" ? sinceMs : undefined };
}

function readSaid(value: Buffer, { meta, local }: Record<string, unknown>): Pick<ClaimRecord, "meta" | "local"> {
  const isShort = value.length <= META_MAX_BYTES;
  return { meta: isShort && isMeta(meta) ? meta : {}, local: isShort ? readLocal(local) : undefined };
}

export function writeForced(by: string, reason: string): Buffer {
  return Buffer.from(
    JSON.stringify({ holdfast: 1, by: by.slice(0, TEXT_MAX), reason: reason.slice(0, REASON_MAX), atMs: Date.now() }),
  );
}

export function readForced(value: Buffer): ForcedRecord | undefined {
  const { by, reason, atMs } = parse(value) ?? {};
  if (typeof by !== "string" || typeof reason !== "string" || typeof atMs !== "number") return undefined;
  return { by: shown(by), reason: shown(reason, REASON_MAX), atMs };
}

/** By wall clocks, ours and another machine's: good enough to read, never to decide. */
export function agoMs(wallMs: number): number {
  return Number.isFinite(wallMs) ? Math.max(0, Date.now() - wallMs) : 0;
}

function shown(text: string, max: number = TEXT_MAX): string {
  return text.slice(0, max).replaceAll(UNSHOWABLE, "");
}

function parse(data: Buffer): Record<string, unknown> | undefined {
  if (data[0] !== 0x7b || data.length > RECORD_MAX_BYTES) return undefined;
  try {
    const value: unknown = JSON.parse(data.toString());
    return typeof value === "object" && value !== null && "holdfast" in value ? { ...value } : undefined;
  } catch {
    return undefined;
  }
}

function isDuration(value: unknown): value is number {
  return typeof value === "number" && value > 0;
}

function isMeta(value: unknown): value is Meta {
  return typeof value === "object" && value !== null && Object.values(value).every((text) => typeof text === "string");
}
