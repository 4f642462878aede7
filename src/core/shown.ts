/** What a claim shows to people, and to those who look for deadlocks. It decides nothing. */
import { type Claim, HELD_LOCKS_MAX, type HeldLock, type LocalFacts } from "../contract/claim.ts";
import type { Holding, Meta } from "../contract/backend.ts";

export type Shown = Pick<Claim, "meta" | "local">;

/** What a caller holds by the functions that it is inside of: see reentry.ts. */
export interface HeldScope {
  held(locks: object): readonly HeldLock[];
}

interface Waiter {
  readonly scope: HeldScope | undefined;
  readonly options: { readonly deadlock: "report" | "reject" };
  readonly next: Waiter | undefined;
}

/**
 * What the store is to know of those who wait here behind a claim of theirs, or behind a lease; `ahead` of them have claims of
 * their own. `undefined`: there is nothing to say. `locks`: whose locks count.
 */
export function factsOf(
  line: { readonly first: Waiter | undefined; readonly length: number },
  ahead: number,
  locks: object,
): LocalFacts | undefined {
  if (line.length === 0) return undefined;
  const waiters = Math.max(0, line.length - ahead);
  const holds = new Map<string, HeldLock>();
  for (
    let request: Waiter | undefined = line.first;
    request !== undefined && holds.size <= HELD_LOCKS_MAX;
    request = request.next
  ) {
    const yields = request.options.deadlock === "reject";
    for (const held of request.scope?.held(locks) ?? []) {
      const key = `${held.fence} ${held.name}`;
      // Where two of one caller wait, one that yields is enough.
      if (yields || !holds.has(key)) holds.set(key, yields ? { ...held, yields } : held);
    }
  }
  if (waiters === 0 && holds.size === 0) return undefined;
  const holdsMore = holds.size > HELD_LOCKS_MAX;
  return { waiters, users: 0, holds: [...holds.values()].slice(0, HELD_LOCKS_MAX), holdsMore };
}

/** What a lease shows. One user and no waiter is what readers expect: nothing need be said. */
export function withUsers(behind: LocalFacts | undefined, users: number): LocalFacts | undefined {
  if (behind !== undefined) return { ...behind, users };
  return users > 1 ? { waiters: 0, users, holds: [], holdsMore: false } : undefined;
}

/** What is shown of a hold. */
interface ShownHold {
  readonly claim: Claim;
  readonly meta: Meta;
  readonly firstFence: bigint;
  readonly grantedAtMs: number;
  remainingMs(nowMs: number): number;
}

/** A hold as the store would show it, for messages. */
export function describe(hold: ShownHold, nowMs: number): Holding {
  const { meta, firstFence: fence } = hold;
  const { name, mode, limit, holder, id } = hold.claim;
  const remainingMs = Math.max(0, hold.remainingMs(nowMs));
  return { name, mode, limit, holder, fence, heldMs: nowMs - hold.grantedAtMs, remainingMs, meta, id };
}

/** Facts that need not be written again. */
export function isSame(a: LocalFacts | undefined, b: LocalFacts | undefined): boolean {
  if (a === undefined || b === undefined) return a === b;
  if (a.waiters !== b.waiters || a.users !== b.users || a.holds.length !== b.holds.length) return false;
  return (
    a.holdsMore === b.holdsMore &&
    a.holds.every(({ name, fence, yields }, at) => {
      const other = b.holds[at];
      return name === other?.name && fence === other.fence && yields === other.yields;
    })
  );
}
