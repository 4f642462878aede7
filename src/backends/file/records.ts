/**
 * What is written in the files, and how it is read back: nothing is believed before it has been checked.
 *
 * An entry of a lock's log is one of four: an owner file (one exclusive holder), a state (anything else: free, readers,
 * limits, kept places), a new epoch (where the log goes on), or the lock's end.
 */
import type { Meta, Mode } from "../../contract/backend.ts";
import { strangeText } from "./foreign.ts";
import type { Life } from "./process-identity.ts";
import { FENCE_MAX, STRIDE_MAX } from "./fences.ts";
import { parseJson, seal, unseal } from "./checksum.ts";

/** What an owner file says about its claim; it never changes. The file's mtime is the lease's end. */
export interface OwnerFacts {
  readonly kind: "owner";
  readonly id: string;
  /** The backend that made it: the name of its socket, and of its list of companions. */
  readonly instance: string;
  readonly life: Life;
  readonly mode: Mode;
  readonly limit: number;
  readonly ttlMs: number;
  readonly lockDelayMs: number;
  readonly minHoldMs: number;
  readonly holder: string;
  readonly meta: Meta;
}

export interface Holder {
  readonly owner: OwnerFacts;
  readonly fence: number;
  readonly run: number;
  /** Since when, by the machine's clock, where it was written down. */
  readonly sinceMs: number | undefined;
  readonly sinceWallMs: number | undefined;
}

/** A place that nobody holds and nobody gets before its time: `minHold`, or `lockDelay` after an unclean end. */
export interface Kept extends Holder {
  readonly untilMs: number;
  readonly untilWallMs: number;
  /** Whose machine clock `untilMs` is of. */
  readonly life: Life;
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
  /** Ended by force in the very transition that made this state. */
  readonly forced: readonly ForcedRecord[];
}

/** The first entry of an epoch: the whole state, and the numbers for what follows. */
export interface Epoch {
  readonly kind: "epoch";
  /** 1: made by 0.1, without checksums; nothing else than an empty file says "free" there. */
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

/** The last entry of a lock that nobody used for long: its directory is to be removed. */
export interface Gone {
  readonly kind: "gone";
}

export type Entry = OwnerFacts | LockState | Epoch | Gone;

export const FREE: LockState = { kind: "state", holders: [], kept: [], forced: [] };

export function writeEntry(entry: Entry): string {
  return seal(entry);
}

/** True for zeros, or nothing at all: what a power cut leaves of a file. */
export function isBlank(text: string): boolean {
  return /^\0*$/.test(text);
}

/** Reads an entry. `format`: that of its epoch; entries of format 1 have no checksums. */
export function parseEntry(path: string, text: string, format: Epoch["format"]): Entry {
  const value = format === 1 ? parseJson(text) : unseal(text);
  if (isOwner(value) || isState(value) || isEpoch(value) || isGone(value)) return value;
  throw strangeText(path, text);
}

/** Reads the first entry of an epoch, which says its format itself. */
export function parseEpoch(path: string, text: string): Epoch {
  const sealed = unseal(text);
  const value = sealed ?? parseJson(text);
  if (isEpoch(value) && (sealed !== undefined || value.format === 1)) return value;
  throw strangeText(path, text);
}

export function parseOwner(path: string, text: string): OwnerFacts {
  const value = unseal(text);
  if (isOwner(value)) return value;
  throw strangeText(path, text);
}

export function parseForced(text: string): ForcedRecord | undefined {
  const value = unseal(text);
  return isForced(value) ? value : undefined;
}

export interface Companion {
  readonly pid: number;
  readonly start: string;
}

/** Who else keeps a backend's leases alive. */
export interface Company {
  /** The process that wrote it, and whose surroundings the pids are of. */
  readonly life: Life;
  readonly companions: readonly Companion[];
}

/** 0.1 wrote it without a checksum: all of it, then, or nothing. */
export function parseCompany(text: string): Company | undefined {
  const sealed = unseal(text);
  const value = sealed ?? parseJson(text);
  if (!isRecord(value) || (sealed === undefined && !isAsFirstWritten(text, value))) return undefined;
  const { life, companions } = value;
  return isLife(life) && isListOf(companions, isCompanion) ? { life, companions } : undefined;
}

/** Not a byte more or less than 0.1 wrote: what lost its checksum since is not that. */
function isAsFirstWritten(text: string, value: Record<string, unknown>): boolean {
  return Object.keys(value).join() === "life,companions" && JSON.stringify(value) === text;
}

/** As in the name of an epoch's directory: its number, and a name that nobody else makes. */
export function isEpochId(value: unknown): value is string {
  return typeof value === "string" && /^\d{1,15}-[-_A-Za-z0-9]{1,32}$/.test(value);
}

/** Ids of owner files and instances are file names: nothing else may become one. */
export function isId(value: unknown): value is string {
  return typeof value === "string" && /^[-_A-Za-z0-9]{1,64}$/.test(value);
}

function isOwner(value: unknown): value is OwnerFacts {
  return (
    isRecord(value) &&
    value["kind"] === "owner" &&
    isId(value["id"]) &&
    isId(value["instance"]) &&
    isLife(value["life"]) &&
    (value["mode"] === "exclusive" || value["mode"] === "shared") &&
    isCount(value["limit"]) &&
    isCount(value["ttlMs"]) &&
    isCount(value["lockDelayMs"]) &&
    isCount(value["minHoldMs"]) &&
    typeof value["holder"] === "string" &&
    isRecord(value["meta"]) &&
    Object.values(value["meta"]).every((text) => typeof text === "string")
  );
}

function isState(value: unknown): value is LockState {
  return (
    isRecord(value) &&
    value["kind"] === "state" &&
    isListOf(value["holders"], isHolder) &&
    isListOf(value["kept"], isKept) &&
    isListOf(value["forced"], isForced)
  );
}

function isEpoch(value: unknown): value is Epoch {
  return (
    isRecord(value) &&
    value["kind"] === "epoch" &&
    (value["format"] === 1 || value["format"] === 2) &&
    isEpochId(value["id"]) &&
    typeof value["name"] === "string" &&
    isFence(value["base"]) &&
    isCount(value["stride"]) &&
    value["stride"] > 0 &&
    value["stride"] <= STRIDE_MAX &&
    typeof value["boot"] === "string" &&
    isState(value["state"])
  );
}

function isGone(value: unknown): value is Gone {
  return isRecord(value) && value["kind"] === "gone";
}

function isHolder(value: unknown): value is Holder {
  return (
    isRecord(value) &&
    isOwner(value["owner"]) &&
    isFence(value["fence"]) &&
    isCount(value["run"]) &&
    (value["sinceMs"] === undefined || isTime(value["sinceMs"])) &&
    (value["sinceWallMs"] === undefined || isTime(value["sinceWallMs"]))
  );
}

function isKept(value: unknown): value is Kept {
  return (
    isHolder(value) &&
    "untilMs" in value &&
    isTime(value.untilMs) &&
    "untilWallMs" in value &&
    isTime(value.untilWallMs) &&
    "life" in value &&
    isLife(value.life)
  );
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

function isCompanion(value: unknown): value is Companion {
  return isRecord(value) && isCount(value["pid"]) && value["pid"] > 0 && typeof value["start"] === "string";
}

function isLife(value: unknown): value is Life {
  return (
    isRecord(value) &&
    isCount(value["pid"]) &&
    ["boot", "pidNamespace", "timeNamespace", "start"].every((field) => typeof value[field] === "string")
  );
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isListOf<T>(value: unknown, is: (item: unknown) => item is T): value is T[] {
  return Array.isArray(value) && value.every(is);
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

/** Above every fence that a clock can give, so that what follows it can still be counted. */
function isFence(value: unknown): value is number {
  return isCount(value) && value <= FENCE_MAX;
}

function isTime(value: unknown): value is number {
  return typeof value === "number" && Number.isFinite(value);
}
