/** Who may hold beside whom, and who is next: the rules about a lock's state that need neither a clock nor a disk. */
import type { Claim, Mode } from "../../contract/backend.ts";
import { LockBackendError, quote } from "../../contract/errors.ts";
import { FREE, type Holder, type LockState, type OwnerFacts } from "./records.ts";

/** What decides about a claim. */
export interface Wish {
  readonly mode: Mode;
  readonly limit: number;
}

interface Terms extends Wish {
  readonly lockDelayMs: number;
  readonly minHoldMs: number;
}

/** Everything that takes a place: leases, and places kept for nobody. */
export function taken(state: LockState): readonly Holder[] {
  return state.kept.length === 0 ? state.holders : [...state.holders, ...state.kept];
}

/** How many of the line, from its head, may hold now, one beside the other. */
export function admitted(state: LockState, line: readonly Wish[]): number {
  const places = taken(state);
  let count = places.length;
  let mode = places[0]?.owner.mode;
  for (const [at, wish] of line.entries()) {
    const fits = count === 0 || (wish.mode === mode && (wish.mode === "shared" || count < wish.limit));
    if (!fits) return at;
    mode = wish.mode;
    count++;
  }
  return line.length;
}

/** The limit that everybody else here agreed on, where the claim asks for another. */
export function otherLimit(claim: Wish, state: LockState, others: readonly Wish[]): number | undefined {
  if (claim.mode === "shared") return undefined;
  const [first] = taken(state);
  const known =
    first?.owner.mode === "exclusive" ? first.owner.limit : others.find(({ mode }) => mode === "exclusive")?.limit;
  return known === claim.limit ? undefined : known;
}

/** True for a claim that an owner file alone describes: one holds at a time, and nothing stays behind when it ends. */
export function isPlain({ mode, limit, lockDelayMs, minHoldMs }: Terms): boolean {
  return mode === "exclusive" && limit === 1 && lockDelayMs === 0 && minHoldMs === 0;
}

/** Only where one holds at a time: else a later holder of this run would be below an earlier one of the next. */
export function runFor({ mode, limit }: Wish, stride: number): number {
  return mode === "exclusive" && limit === 1 ? stride : 1;
}

export function contains({ fence, run }: Holder, wanted: bigint): boolean {
  return wanted >= BigInt(fence) && wanted < BigInt(fence) + BigInt(run);
}

export function isFree({ holders, kept }: LockState): boolean {
  return holders.length === 0 && kept.length === 0;
}

/** The state in which that claim alone holds. */
export function heldBy(owner: OwnerFacts, fence: number, run: number): LockState {
  return { ...FREE, holders: [{ owner, fence, run, sinceMs: undefined, sinceWallMs: undefined }] };
}

export function without(state: LockState, ownerId: string): LockState {
  const others = <T extends Holder>(places: readonly T[]): T[] => places.filter(({ owner }) => owner.id !== ownerId);
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
