/**
 * Outcomes. That a lock has one is a part of its state, so it changes in the entries of its log only: it is kept by the entry that
 * ends the lease, and each later entry carries it on until it is over, replaced or removed. While there is one, every entry is a
 * state written out. The value itself may be long: it is in a file beside the epochs, which the state names. A file that no state
 * names counts for nothing, and is removed.
 *
 * Time: as for a kept place. In the boot in which it was kept the machine's clock counts; it stands still while the machine
 * sleeps, so an outcome may be kept longer than was asked. Of another boot only the wall clock is left, which people can set. It is
 * asked once: the first entry of a new boot writes down what remains, and never more than was asked for.
 */
import { join } from "node:path";
import type { Claim, KeptOutcome, Outcome } from "../../contract/backend.ts";
import type { Clock } from "../../contract/clock.ts";
import { machineMs } from "../../contract/machine-clock.ts";
import { isCount, isRecord, parseChecked, withChecksum } from "./checked-text.ts";
import { createFile, disk, ForeignError, remove, tryRemove, tryRename } from "./disk.ts";
import { type DirectoryPaths, freshName, isFreshName } from "./directory.ts";
import { thisProcess, sharesClock } from "./process-identity.ts";
import type { Holder, OutcomeRecord } from "./records.ts";

/** The name of a value's file begins with this, in the directory of the lock's incarnation. */
const VALUE = "v";
const KIND = "outcome";

/** Until when, in both clocks, counted from now on. */
function lasting(clock: Clock, forMs: number): Pick<OutcomeRecord, "untilMs" | "untilWallMs" | "process"> {
  return { untilMs: machineMs(clock) + forMs, untilWallMs: clock.wall() + forMs, process: thisProcess() };
}

export function newOutcome(
  clock: Clock,
  claim: Claim,
  { fence, facts }: Holder,
  outcome: Outcome,
  file: string,
): OutcomeRecord {
  const { keepMs } = outcome;
  return { claim: claim.id, fence, holder: facts.holder, keepMs, file, ...lasting(clock, keepMs) };
}

/** How long it is kept from now on; not above 0 when its time is over. */
function remainingMs(clock: Clock, { process, untilMs, untilWallMs, keepMs }: OutcomeRecord): number {
  return Math.min(keepMs, sharesClock(process) ? untilMs - machineMs(clock) : untilWallMs - clock.wall());
}

/** The outcome, if its time is not over. */
export function liveOutcome(clock: Clock, outcome: OutcomeRecord | undefined): OutcomeRecord | undefined {
  return outcome !== undefined && remainingMs(clock, outcome) > 0 ? outcome : undefined;
}

/** As the next entry carries it on, by the clock of this boot. `undefined`: its time is over. */
export function carried(clock: Clock, outcome: OutcomeRecord | undefined): OutcomeRecord | undefined {
  const live = liveOutcome(clock, outcome);
  if (live === undefined || sharesClock(live.process)) return live;
  return { ...live, ...lasting(clock, remainingMs(clock, live)) };
}

/** Writes a value, so that it survives a power cut. `undefined`: the incarnation is gone. */
export function writeValue(
  paths: DirectoryPaths,
  incarnation: string,
  fence: number,
  value: string,
): string | undefined {
  const name = freshName();
  const aside = join(paths.trash, name);
  createFile(aside, withChecksum({ kind: KIND, fence, value }), true);
  if (tryRename(aside, pathOf(incarnation, name))) return name;
  remove(aside);
  return undefined;
}

/** As readers get it. `undefined`: the file is gone, so the lock has changed. */
export function readOutcome(clock: Clock, incarnation: string, outcome: OutcomeRecord): KeptOutcome | undefined {
  const path = pathOf(incarnation, outcome.file);
  const text = disk.read(path);
  if (text === undefined) return undefined;
  const { value } = parseValue(path, text);
  const leftMs = Math.max(0, remainingMs(clock, outcome));
  const { fence, holder, keepMs } = outcome;
  return { value, fence: BigInt(fence), holder, ageMs: keepMs - leftMs, remainingMs: leftMs };
}

/** The outcome of a lock says that there is a value, and there is none. */
export function missingValue(incarnation: string, { file }: OutcomeRecord): ForeignError {
  return new ForeignError(pathOf(incarnation, file), "it is missing");
}

export function discardValue(incarnation: string, name: string): void {
  tryRemove(pathOf(incarnation, name));
}

/** The name of the value in a file of that name. `undefined`: it is no value. */
export function valueIn(file: string): string | undefined {
  return file.startsWith(VALUE) && isFreshName(file.slice(1)) ? file.slice(1) : undefined;
}

/** The fence of the lease with which a value may still be kept. `undefined`: the file is gone. Throws for what we do not write. */
export function fenceOfValue(path: string): number | undefined {
  const text = disk.read(path);
  return text === undefined ? undefined : parseValue(path, text).fence;
}

function parseValue(path: string, text: string): { readonly value: string; readonly fence: number } {
  const record = parseChecked(text);
  if (!isRecord(record) || record["kind"] !== KIND) throw new ForeignError(path, "it is no outcome");
  const { value, fence } = record;
  if (typeof value !== "string" || !isCount(fence)) throw new ForeignError(path, "it is no outcome");
  return { value, fence };
}

function pathOf(incarnation: string, name: string): string {
  return join(incarnation, VALUE + name);
}
