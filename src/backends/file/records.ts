/**
 * What is written in the files, and how it is read back. Nothing is believed before it has been checked: a record is JSON that
 * begins with a checksum of the rest, so what was cut off, changed by hand or by a broken disk, or never ours, is recognised.
 * It is no signature: a process that may write here may forge.
 *
 * An entry of a lock's log is one of four: a lease file (one exclusive holder), a state (anything else: free, readers,
 * limits, kept places), a new epoch (where the log goes on), or the lock's end.
 */
import { crc32 } from "node:zlib";
import type { Meta, Mode } from "../../contract/backend.ts";
import { disk, ForeignError } from "./disk.ts";
import type { ProcessIdentity } from "./process-identity.ts";
import { FENCE_MAX, STRIDE_MAX } from "./fences.ts";

/** What a lease file says about its claim. It never changes. The file's mtime is the lease's end. */
export interface LeaseFacts {
  readonly kind: "lease";
  readonly id: string;
  /** The backend that made it: the name of its socket, and of its list of companions. */
  readonly instance: string;
  /** The lease ends with this process. */
  readonly process: ProcessIdentity;
  readonly mode: Mode;
  readonly limit: number;
  readonly ttlMs: number;
  readonly lockDelayMs: number;
  readonly minHoldMs: number;
  readonly holder: string;
  readonly meta: Meta;
}

export interface Holder {
  readonly facts: LeaseFacts;
  readonly fence: number;
  readonly run: number;
  /** Since when, by the machine's clock, where it was written down. */
  readonly sinceMs: number | undefined;
  readonly sinceWallMs: number | undefined;
}

/** A place that stays taken until its time although its lease has ended: `minHold`, or `lockDelay` after an unclean end. */
export interface Kept extends Holder {
  readonly untilMs: number;
  readonly untilWallMs: number;
  /** `untilMs` is of this process's machine clock. */
  readonly process: ProcessIdentity;
}

export interface ForcedRecord {
  readonly name: string;
  readonly fence: number;
  readonly by: string;
  readonly reason: string;
  readonly wallMs: number;
}

export interface LockState {
  readonly kind: "state";
  readonly holders: readonly Holder[];
  readonly kept: readonly Kept[];
  /** Ended by force in the transition that made this state. */
  readonly forced: readonly ForcedRecord[];
}

/** The first entry of an epoch: the whole state, and the numbers for what follows. */
export interface Epoch {
  readonly kind: "epoch";
  /** 1: made by 0.1, without checksums. Only an empty file means "free" there. */
  readonly format: 1 | 2;
  readonly id: string;
  readonly name: string;
  /** Entry n has the fences from `base + n * stride` on, `stride` of them. */
  readonly base: number;
  readonly stride: number;
  /** Written by processes of one boot only: after a power cut the newest entries may be missing. */
  readonly boot: string;
  readonly state: LockState;
}

/** The last entry of a lock that was idle for long: its directory is to be removed. */
export interface Gone {
  readonly kind: "gone";
}

export type Entry = LeaseFacts | LockState | Epoch | Gone;

export const FREE: LockState = { kind: "state", holders: [], kept: [], forced: [] };

/** What facts and a process are called in the files, as in 0.1: versions must understand each other's leases. */
const FACTS = "owner";
export const PROCESS = "life";
const SHOWN_MAX = 60;
const CHECKSUM_LENGTH = checksumOf("").length;

/** The text of a record, with its checksum. */
export function withChecksum(record: object): string {
  const rest = `${JSON.stringify(record).slice(1)}\n`;
  return checksumOf(rest) + rest;
}

/** The record in a text. `undefined`: its checksum is wrong or missing. */
export function parseChecked(text: string): unknown {
  const rest = text.slice(CHECKSUM_LENGTH);
  return text.startsWith(checksumOf(rest)) ? parseJson(`{${rest}`) : undefined;
}

export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function checksumOf(rest: string): string {
  return `{"sum":"${crc32(rest).toString(16).padStart(8, "0")}",`;
}

export function writeEntry(entry: Entry): string {
  if (entry.kind === "lease") return withChecksum(fromFacts(entry));
  if (entry.kind === "state") return withChecksum(fromState(entry));
  return withChecksum(entry.kind === "epoch" ? { ...entry, state: fromState(entry.state) } : entry);
}

/** True for zeros, or nothing at all: what a power cut leaves of a file. */
export function isBlank(text: string): boolean {
  return /^\0*$/.test(text);
}

/** Reads an entry. `format`: that of its epoch. Entries of format 1 have no checksums. */
export function parseEntry(path: string, text: string, format: Epoch["format"]): Entry {
  const value = format === 1 ? parseJson(text) : parseChecked(text);
  const entry = toFacts(value) ?? toState(value) ?? toEpoch(value) ?? toGone(value);
  if (entry === undefined) throw foreignText(path, text);
  return entry;
}

/** Reads the first entry of an epoch, which says its format itself. */
export function parseEpoch(path: string, text: string): Epoch {
  const checked = parseChecked(text);
  const epoch = toEpoch(checked ?? parseJson(text));
  if (epoch === undefined || (checked === undefined && epoch.format !== 1)) throw foreignText(path, text);
  return epoch;
}

/** Reads a lease file. `undefined`: it is gone, or half made. */
export function readLeaseFile(path: string): LeaseFacts | undefined {
  const text = disk.read(path);
  return text === undefined || text === "" ? undefined : parseLeaseFacts(path, text);
}

export function parseLeaseFacts(path: string, text: string): LeaseFacts {
  const facts = toFacts(parseChecked(text));
  if (facts === undefined) throw foreignText(path, text);
  return facts;
}

export function parseForced(text: string): ForcedRecord | undefined {
  const value = parseChecked(text);
  return isForced(value) ? value : undefined;
}

/** As in the name of an epoch's directory: its number, and a name that is made once. */
export function isEpochId(value: unknown): value is string {
  return typeof value === "string" && /^\d{1,15}-[-_A-Za-z0-9]{1,32}$/.test(value);
}

/** Ids of lease files and instances are file names: nothing else may become one. */
export function isId(value: unknown): value is string {
  return typeof value === "string" && /^[-_A-Za-z0-9]{1,64}$/.test(value);
}

function foreignText(path: string, text: string): ForeignError {
  return new ForeignError(path, text === "" ? "it is empty" : JSON.stringify(text.slice(0, SHOWN_MAX)));
}

function fromFacts({ kind: _kind, id, instance, process, ...rest }: LeaseFacts): object {
  return { kind: FACTS, id, instance, [PROCESS]: process, ...rest };
}

function toFacts(value: unknown): LeaseFacts | undefined {
  if (!isRecord(value) || value["kind"] !== FACTS) return undefined;
  const { id, instance, [PROCESS]: process, mode, limit, ttlMs, lockDelayMs, minHoldMs, holder, meta } = value;
  if (!isId(id) || !isId(instance) || !isProcessIdentity(process)) return undefined;
  if ((mode !== "exclusive" && mode !== "shared") || !isCount(limit)) return undefined;
  if (!isCount(ttlMs) || !isCount(lockDelayMs) || !isCount(minHoldMs)) return undefined;
  if (typeof holder !== "string" || !isMeta(meta)) return undefined;
  return { kind: "lease", id, instance, process, mode, limit, ttlMs, lockDelayMs, minHoldMs, holder, meta };
}

function fromHolder({ facts, fence, run, sinceMs, sinceWallMs }: Holder): object {
  return { [FACTS]: fromFacts(facts), fence, run, sinceMs, sinceWallMs };
}

function toHolder(value: unknown): Holder | undefined {
  if (!isRecord(value)) return undefined;
  const { fence, run, sinceMs, sinceWallMs } = value;
  const facts = toFacts(value[FACTS]);
  if (facts === undefined || !isFence(fence) || !isCount(run)) return undefined;
  if ((sinceMs !== undefined && !isTime(sinceMs)) || (sinceWallMs !== undefined && !isTime(sinceWallMs)))
    return undefined;
  return { facts, fence, run, sinceMs, sinceWallMs };
}

function fromKept({ process, untilMs, untilWallMs, ...holder }: Kept): object {
  return { ...fromHolder(holder), [PROCESS]: process, untilMs, untilWallMs };
}

function toKept(value: unknown): Kept | undefined {
  const holder = toHolder(value);
  if (holder === undefined || !isRecord(value)) return undefined;
  const { untilMs, untilWallMs, [PROCESS]: process } = value;
  if (!isTime(untilMs) || !isTime(untilWallMs) || !isProcessIdentity(process)) return undefined;
  return { ...holder, untilMs, untilWallMs, process };
}

function fromState({ kind, holders, kept, forced }: LockState): object {
  return { kind, holders: holders.map(fromHolder), kept: kept.map(fromKept), forced };
}

function toState(value: unknown): LockState | undefined {
  if (!isRecord(value) || value["kind"] !== "state") return undefined;
  const [holders, kept, { forced }] = [toList(value["holders"], toHolder), toList(value["kept"], toKept), value];
  if (holders === undefined || kept === undefined || !isListOf(forced, isForced)) return undefined;
  return { kind: "state", holders, kept, forced };
}

function toEpoch(value: unknown): Epoch | undefined {
  if (!isRecord(value) || value["kind"] !== "epoch") return undefined;
  const { format, id, name, base, stride, boot } = value;
  const state = toState(value["state"]);
  if (state === undefined || (format !== 1 && format !== 2) || !isEpochId(id)) return undefined;
  if (!isFence(base) || !isCount(stride) || stride === 0 || stride > STRIDE_MAX) return undefined;
  if (typeof name !== "string" || typeof boot !== "string") return undefined;
  return { kind: "epoch", format, id, name, base, stride, boot, state };
}

function toGone(value: unknown): Gone | undefined {
  return isRecord(value) && value["kind"] === "gone" ? { kind: "gone" } : undefined;
}

function isForced(value: unknown): value is ForcedRecord {
  return (
    isRecord(value) &&
    typeof value["name"] === "string" &&
    isFence(value["fence"]) &&
    typeof value["by"] === "string" &&
    typeof value["reason"] === "string" &&
    isTime(value["wallMs"])
  );
}

export function isProcessIdentity(value: unknown): value is ProcessIdentity {
  return (
    isRecord(value) &&
    isCount(value["pid"]) &&
    ["boot", "pidNamespace", "timeNamespace", "start"].every((field) => typeof value[field] === "string")
  );
}

function isMeta(value: unknown): value is Meta {
  return isRecord(value) && Object.values(value).every((text) => typeof text === "string");
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function isListOf<T>(value: unknown, is: (item: unknown) => item is T): value is T[] {
  return Array.isArray(value) && value.every(is);
}

/** `undefined` unless each item can be read. */
function toList<T>(value: unknown, to: (item: unknown) => T | undefined): T[] | undefined {
  if (!Array.isArray(value)) return undefined;
  const items = value.map(to).filter((item) => item !== undefined);
  return items.length === value.length ? items : undefined;
}

export function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

/** Not above {@link FENCE_MAX}, so there is room for the fences that follow. */
function isFence(value: unknown): value is number {
  return isCount(value) && value <= FENCE_MAX;
}

function isTime(value: unknown): value is number {
  return typeof value === "number" && Number.isFinite(value);
}
