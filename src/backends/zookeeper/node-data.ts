/** The data of our nodes, and of a lock's own node: the records of force releases. */
import type { Claim, LocalFacts, Meta } from "../../contract/backend.ts";
import { LockBackendError, quote } from "../../contract/errors.ts";
import { readLocal, writeLocal } from "../../contract/local-facts.ts";

/** The data of a claim's node. Nodes of other libraries hold anything: Curator's the address of the host, kazoo's a name. */
export interface ClaimRecord {
  readonly holder: string;
  readonly meta: Meta;
  readonly limit: number;
  readonly ttlMs: number;
  /** Of the claim. Absent in the nodes of others, and of Holdfast before 0.2, as all that follows. */
  readonly id?: string | undefined;
  readonly local?: LocalFacts | undefined;
  /** Released, and kept for its `minHold` until this instant of its process's wall clock. */
  readonly keptUntilMs?: number | undefined;
}

/** A force release. */
export interface ForcedRecord {
  /** Decimal: the number does not fit a double. */
  readonly fence: string;
  readonly by: string;
  readonly reason: string;
  readonly atMs: number;
}

/** A server takes 1 MB in one request and hangs up on more. */
const RECORD_MAX_BYTES = 512 * 1024;
const FORCED_MAX = 16;
const FORCED_MS = 3_600_000;
const TEXT_MAX = 200;
const REASON_MAX = 2000;
const META_MAX_BYTES = 64 * 1024;
const ID = /^[\w-]{1,64}$/;
/** A node may contain these: they move a terminal's cursor, reverse its text, or are half a character. */
const UNSHOWABLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;

/** Throws a fatal error where the claim's meta has no room in a node. */
export function writeClaim(claim: Claim): Buffer {
  const data = claimData(claim);
  if (data.length <= RECORD_MAX_BYTES) return data;
  const message = `The meta of lock ${quote(claim.name)} takes ${data.length} bytes; ZooKeeper nodes have room for ${RECORD_MAX_BYTES}.`;
  throw new LockBackendError("zookeeper", claim.name, message, { fatal: true });
}

/** The same for a node that there is. `undefined`: there is no room, so it stays as it was. */
export function rewriteClaim(claim: Claim, keptUntilMs?: number): Buffer | undefined {
  const data = claimData(claim, keptUntilMs);
  return data.length <= RECORD_MAX_BYTES ? data : undefined;
}

/** What was there before 0.2 comes first and stays as it was: older versions read it. */
function claimData({ holder, meta, limit, ttlMs, id, local }: Claim, keptUntilMs?: number): Buffer {
  const facts = local && writeLocal(local);
  return Buffer.from(JSON.stringify({ holdfast: 1, holder, meta, limit, ttlMs, id, local: facts, keptUntilMs }));
}

/** Reads any contender's data: for people, never for decisions. Data of another library is shown as text. */
export function readClaim(data: Buffer): ClaimRecord {
  const found = parse(data);
  if (found === undefined || typeof found["holder"] !== "string") {
    return { holder: shown(data.toString("utf8", 0, 4 * TEXT_MAX)) || "unknown", meta: {}, limit: 1, ttlMs: Infinity };
  }
  const { holder, meta, limit, ttlMs, id, keptUntilMs } = found;
  const isShort = data.length <= META_MAX_BYTES;
  const local = isShort ? readLocal(found["local"]) : undefined;
  return {
    holder: shown(holder as string) || "unknown",
    meta: isShort && isMeta(meta) ? meta : {},
    limit: Number.isSafeInteger(limit) && (limit as number) >= 1 ? (limit as number) : 1,
    ttlMs: typeof ttlMs === "number" && ttlMs > 0 ? ttlMs : Infinity,
    ...(typeof id === "string" && ID.test(id) && { id }),
    ...(local && { local }),
    ...(typeof keptUntilMs === "number" && { keptUntilMs }),
  };
}

/** True where {@link writeClaim} wrote the data: only then its limit means something. */
export function isClaim(data: Buffer): boolean {
  return typeof parse(data)?.["holder"] === "string";
}

/** The force releases recorded in a lock's node; `undefined` if its data belongs to another program. */
export function readForced(data: Buffer): readonly ForcedRecord[] | undefined {
  if (data.length === 0) return [];
  const list = parse(data)?.["forced"];
  if (!Array.isArray(list)) return undefined;
  const known = list.slice(-FORCED_MAX).filter(isForced);
  return known.map((one) => ({ ...one, by: shown(one.by), reason: shown(one.reason, REASON_MAX) }));
}

export function writeForced(known: readonly ForcedRecord[], added: ForcedRecord): Buffer {
  const recent = known.filter(({ atMs }) => added.atMs - atMs < FORCED_MS).slice(1 - FORCED_MAX);
  const shortened = { ...added, by: added.by.slice(0, TEXT_MAX), reason: added.reason.slice(0, REASON_MAX) };
  return Buffer.from(JSON.stringify({ holdfast: 1, forced: [...recent, shortened] }));
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

function isMeta(value: unknown): value is Meta {
  return typeof value === "object" && value !== null && Object.values(value).every((text) => typeof text === "string");
}

function isForced(value: unknown): value is ForcedRecord {
  if (typeof value !== "object" || value === null) return false;
  const { fence, by, reason, atMs } = value as Record<string, unknown>;
  const isText = typeof by === "string" && typeof reason === "string";
  return isText && typeof fence === "string" && /^\d{1,19}$/.test(fence) && typeof atMs === "number";
}
