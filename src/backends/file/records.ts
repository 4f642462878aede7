/**
 * What is written in the files, and how it is read back. Nothing is believed before it has been checked.
 *
 * An entry of a lock's log is one of four: a lease file (one exclusive holder), a state (anything else: free, readers,
 * limits, kept places), a new epoch (where the log goes on), or the lock's end.
 */
import type { Meta, Mode } from "../../contract/backend.ts";
import {
  isCount,
  isId,
  isListOf,
  isMeta,
  isRecord,
  isTextOrNone,
  isTime,
  parseChecked,
  parseJson,
  toList,
  withChecksum,
} from "./checked-text.ts";
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
  /** The claim's id, where the file serves this one claim only. */
  readonly claim?: string | undefined;
  /** True: it waits for an outcome, or for the lock while there is none. */
  readonly wantsOutcome?: boolean | undefined;
  /** Its process may keep it unused for this long. */
  readonly lingerMs?: number | undefined;
}

export interface Holder {
  readonly facts: LeaseFacts;
  /** The claim's id, where a state was written for it. */
  readonly claim?: string | undefined;
  readonly fence: number;
  readonly run: number;
  /** Since when, by the machine's clock, where it was written down. */
  readonly sinceMs: number | undefined;
  readonly sinceWallMs: number | undefined;
}

/** Something that ends by itself. */
interface Ending {
  readonly untilMs: number;
  readonly untilWallMs: number;
  /** `untilMs` is of this process's machine clock. */
  readonly process: ProcessIdentity;
}

/** A place that stays taken until its time although its lease has ended: `minHold`, or `lockDelay` after an unclean end. */
export interface Kept extends Holder, Ending {
  readonly why: "minHold" | "lockDelay";
}

export interface ForcedRecord {
  readonly name: string;
  readonly fence: number;
  readonly by: string;
  readonly reason: string;
  readonly wallMs: number;
}

/** The outcome of a lease that has ended. */
export interface OutcomeRecord extends Ending {
  /** The id of the claim that left it. */
  readonly claim: string;
  readonly fence: number;
  readonly holder: string;
  readonly keepMs: number;
  /** The name of its value: see outcomes.ts. */
  readonly file: string;
}

export interface LockState {
  readonly kind: "state";
  readonly holders: readonly Holder[];
  readonly kept: readonly Kept[];
  /** Ended by force in the transition that made this state. */
  readonly forced: readonly ForcedRecord[];
  readonly outcome?: OutcomeRecord | undefined;
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

function foreignText(path: string, text: string): ForeignError {
  return new ForeignError(path, text === "" ? "it is empty" : JSON.stringify(text.slice(0, SHOWN_MAX)));
}

function fromFacts({ kind: _kind, id, instance, process, ...rest }: LeaseFacts): object {
  return { kind: FACTS, id, instance, [PROCESS]: process, ...rest };
}

function toFacts(value: unknown): LeaseFacts | undefined {
  if (!isRecord(value) || value["kind"] !== FACTS) return undefined;
  const { id, instance, [PROCESS]: process, mode, limit, ttlMs, lockDelayMs, minHoldMs, holder, meta } = value;
  const { claim, wantsOutcome, lingerMs } = value;
  if (!isId(id) || !isId(instance) || !isProcessIdentity(process)) return undefined;
  if ((mode !== "exclusive" && mode !== "shared") || !isCount(limit)) return undefined;
  if (!isCount(ttlMs) || !isCount(lockDelayMs) || !isCount(minHoldMs)) return undefined;
  if (typeof holder !== "string" || !isMeta(meta) || !isTextOrNone(claim)) return undefined;
  const facts = { id, instance, process, mode, limit, ttlMs, lockDelayMs, minHoldMs, holder, meta, claim } as const;
  const more = { ...(wantsOutcome === true && { wantsOutcome }), ...(isCount(lingerMs) && { lingerMs }) };
  return { kind: "lease", ...facts, ...more };
}

function fromHolder({ facts, ...rest }: Holder): object {
  return { [FACTS]: fromFacts(facts), ...rest };
}

function toHolder(value: unknown): Holder | undefined {
  if (!isRecord(value)) return undefined;
  const { fence, run, sinceMs, sinceWallMs, claim } = value;
  const facts = toFacts(value[FACTS]);
  if (facts === undefined || !isFence(fence) || !isCount(run) || !isTextOrNone(claim)) return undefined;
  if ((sinceMs !== undefined && !isTime(sinceMs)) || (sinceWallMs !== undefined && !isTime(sinceWallMs)))
    return undefined;
  return { facts, fence, run, sinceMs, sinceWallMs, claim };
}

function fromKept({ process, untilMs, untilWallMs, why, ...holder }: Kept): object {
  return { ...fromHolder(holder), [PROCESS]: process, untilMs, untilWallMs, why };
}

function toKept(value: unknown): Kept | undefined {
  const holder = toHolder(value);
  if (holder === undefined || !isRecord(value)) return undefined;
  const { untilMs, untilWallMs, [PROCESS]: process, why } = value;
  if (!isTime(untilMs) || !isTime(untilWallMs) || !isProcessIdentity(process)) return undefined;
  // 0.1 did not write it.
  return { ...holder, untilMs, untilWallMs, process, why: why === "lockDelay" ? why : "minHold" };
}

function toOutcome(value: unknown): OutcomeRecord | undefined {
  if (!isRecord(value)) return undefined;
  const { claim, fence, holder, keepMs, file, untilMs, untilWallMs, [PROCESS]: process } = value;
  if (typeof claim !== "string" || typeof holder !== "string" || !isId(file) || !isFence(fence)) return undefined;
  if (!isCount(keepMs) || !isTime(untilMs) || !isTime(untilWallMs) || !isProcessIdentity(process)) return undefined;
  return { claim, fence, holder, keepMs, file, untilMs, untilWallMs, process };
}

function fromOutcome({ process, ...rest }: OutcomeRecord): object {
  return { ...rest, [PROCESS]: process };
}

function fromState({ kind, holders, kept, forced, outcome }: LockState): object {
  const state = { kind, holders: holders.map(fromHolder), kept: kept.map(fromKept), forced };
  return outcome === undefined ? state : { ...state, outcome: fromOutcome(outcome) };
}

function toState(value: unknown): LockState | undefined {
  if (!isRecord(value) || value["kind"] !== "state") return undefined;
  const [holders, kept, { forced }] = [toList(value["holders"], toHolder), toList(value["kept"], toKept), value];
  if (holders === undefined || kept === undefined || !isListOf(forced, isForced)) return undefined;
  const outcome = toOutcome(value["outcome"]);
  if (outcome === undefined && value["outcome"] !== undefined) return undefined;
  return { kind: "state", holders, kept, forced, ...(outcome && { outcome }) };
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

/** Not above {@link FENCE_MAX}, so there is room for the fences that follow. */
function isFence(value: unknown): value is number {
  return isCount(value) && value <= FENCE_MAX;
}
