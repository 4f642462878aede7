/** Which claims may hold together, and which is next: the rules about a lock's state that need neither clock nor disk. */
import type { Claim, Mode } from "../../contract/backend.ts";
import { LockBackendError, quote } from "../../contract/errors.ts";
import { FREE, type Holder, type Kept, type LockState, type LeaseFacts } from "./records.ts";

/** What decides whether a claim may hold. */
export interface ModeAndLimit {
  readonly mode: Mode;
  readonly limit: number;
}

interface ClaimTerms extends ModeAndLimit {
  readonly lockDelayMs: number;
  readonly minHoldMs: number;
}

/** Everything that takes a place: leases, and places kept after their end. */
export function taken(state: LockState): readonly (Holder | Kept)[] {
  return state.kept.length === 0 ? state.holders : [...state.holders, ...state.kept];
}

/** How many of the waiters, from the first on, may hold now, together. */
export function admitted(state: LockState, waiters: readonly ModeAndLimit[]): number {
  const places = taken(state);
  let count = places.length;
  let mode = places[0]?.facts.mode;
  for (const [at, waiter] of waiters.entries()) {
    const fits = count === 0 || (waiter.mode === mode && (waiter.mode === "shared" || count < waiter.limit));
    if (!fits) return at;
    mode = waiter.mode;
    count++;
  }
  return waiters.length;
}

/** The limit of all others of this lock, where the claim asks for another. */
export function otherLimit(claim: ModeAndLimit, state: LockState, others: readonly ModeAndLimit[]): number | undefined {
  if (claim.mode === "shared") return undefined;
  const [first] = taken(state);
  const known =
    first?.facts.mode === "exclusive" ? first.facts.limit : others.find(({ mode }) => mode === "exclusive")?.limit;
  return known === claim.limit ? undefined : known;
}

/** True for a claim that its lease file describes completely: it holds alone, and leaves nothing behind when it ends. */
export function isPlain({ mode, limit, lockDelayMs, minHoldMs }: ClaimTerms): boolean {
  return mode === "exclusive" && limit === 1 && lockDelayMs === 0 && minHoldMs === 0;
}

/** Only where one holds at a time: else a later holder of this run would be below an earlier one of the next. */
export function runFor({ mode, limit }: ModeAndLimit, stride: number): number {
  return mode === "exclusive" && limit === 1 ? stride : 1;
}

/** Whom a waiting claim waits for: all who share the lock, or, where a limit lets several hold, the oldest. */
export function inTheWay({ holders }: LockState): readonly Holder[] {
  return holders[0]?.facts.mode === "shared" ? holders : holders.slice(0, 1);
}

export function contains({ fence, run }: Holder, wanted: bigint): boolean {
  return wanted >= BigInt(fence) && wanted < BigInt(fence) + BigInt(run);
}

/** Free, and without an outcome: nothing has to be written down for those who come later. */
export function isEmpty({ holders, kept, outcome }: LockState): boolean {
  return holders.length === 0 && kept.length === 0 && outcome === undefined;
}

/** The state in which that claim alone holds. */
export function heldBy(facts: LeaseFacts, fence: number, run: number): LockState {
  return { ...FREE, holders: [{ facts, fence, run, sinceMs: undefined, sinceWallMs: undefined }] };
}

export function without(state: LockState, fileId: string): LockState {
  const others = <T extends Holder>(places: readonly T[]): T[] => places.filter(({ facts }) => facts.id !== fileId);
  return { ...state, holders: others(state.holders), kept: others(state.kept) };
}

export function limitsDiffer({ name, limit }: Claim, known: number): LockBackendError {
  return new LockBackendError(
    "file",
    name,
    `Lock ${quote(name)} is in use with limit ${known}, but this claim asks for limit ${limit}. All claimants of a lock must agree on its limit.`,
    { fatal: true },
  );
}
