/** What our nodes say about themselves, and what a lock's own node says about leases that were ended by force. */
import type { Claim, Meta } from "../../contract/backend.ts";
import { LockBackendError, quote } from "../../contract/errors.ts";

/** The data of a claim's node. Others' nodes hold anything: Curator's the address of the host, kazoo's a name. */
export interface ClaimRecord {
  readonly holder: string;
  readonly meta: Meta;
  readonly limit: number;
  readonly ttlMs: number;
}

/** A lease that somebody ended. */
export interface ForcedRecord {
  /** Decimal: the number does not fit a double. */
  readonly fence: string;
  readonly by: string;
  readonly reason: string;
  readonly atMs: number;
}

/** A server takes 1 MB in one request and hangs up on more. */
const RECORD_MOST = 512 * 1024;
const FORCED_MOST = 16;
const FORCED_MS = 3_600_000;
const TEXT_MOST = 200;
const REASON_MOST = 2000;
const META_MOST = 64 * 1024;
/** What moves a terminal's cursor, turns its text around, or is half a character: whoever may write a node may write it. */
const UNSHOWABLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;

export function writeClaim(claim: Claim): Buffer {
  const { holder, meta, limit, ttlMs } = claim;
  const data = Buffer.from(JSON.stringify({ holdfast: 1, holder, meta, limit, ttlMs }));
  if (data.length <= RECORD_MOST) return data;
  const message = `The meta of lock ${quote(claim.name)} takes ${data.length} bytes; ZooKeeper nodes have room for ${RECORD_MOST}.`;
  throw new LockBackendError("zookeeper", claim.name, message, { fatal: true });
}

/** Reads any contender's data, whoever wrote it: for people, never for decisions. What is not ours is shown as far as it is text. */
export function readClaim(data: Buffer): ClaimRecord {
  const found = parse(data);
  if (found === undefined || typeof found["holder"] !== "string") {
    return { holder: shown(data.toString("utf8", 0, 4 * TEXT_MOST)) || "unknown", meta: {}, limit: 1, ttlMs: Infinity };
  }
  const { holder, meta, limit, ttlMs } = found;
  return {
    holder: shown(holder as string) || "unknown",
    meta: data.length <= META_MOST && isMeta(meta) ? meta : {},
    limit: Number.isSafeInteger(limit) && (limit as number) >= 1 ? (limit as number) : 1,
    ttlMs: typeof ttlMs === "number" && ttlMs > 0 ? ttlMs : Infinity,
  };
}

/** True where the data was written by {@link writeClaim}: only then its limit means something. */
export function isClaim(data: Buffer): boolean {
  return typeof parse(data)?.["holder"] === "string";
}

/** The forced releases that a lock's node tells of; `undefined` if its data belongs to somebody else. */
export function readForced(data: Buffer): readonly ForcedRecord[] | undefined {
  if (data.length === 0) return [];
  const list = parse(data)?.["forced"];
  if (!Array.isArray(list)) return undefined;
  const known = list.slice(-FORCED_MOST).filter(isForced);
  return known.map((one) => ({ ...one, by: shown(one.by), reason: shown(one.reason, REASON_MOST) }));
}

export function writeForced(known: readonly ForcedRecord[], added: ForcedRecord): Buffer {
  const recent = known.filter(({ atMs }) => added.atMs - atMs < FORCED_MS).slice(1 - FORCED_MOST);
  const shortened = { ...added, by: added.by.slice(0, TEXT_MOST), reason: added.reason.slice(0, REASON_MOST) };
  return Buffer.from(JSON.stringify({ holdfast: 1, forced: [...recent, shortened] }));
}

function shown(text: string, most: number = TEXT_MOST): string {
  return text.slice(0, most).replaceAll(UNSHOWABLE, "");
}

function parse(data: Buffer): Record<string, unknown> | undefined {
  if (data[0] !== 0x7b || data.length > RECORD_MOST) return undefined;
  try {
    const value: unknown = JSON.parse(data.toString());
    return typeof value === "object" && value !== null && "holdfast" in value ? { ...value } : undefined;
  } catch {
    return undefined;
  }
}

function isMeta(value: unknown): value is Meta {
  return typeof value === "object" && value !== null && Object.values(value).every((text) => typeof text === "string");
}

function isForced(value: unknown): value is ForcedRecord {
  if (typeof value !== "object" || value === null) return false;
  const { fence, by, reason, atMs } = value as Record<string, unknown>;
  const isText = typeof by === "string" && typeof reason === "string";
  return isText && typeof fence === "string" && /^\d{1,19}$/.test(fence) && typeof atMs === "number";
}
