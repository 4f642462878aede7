/** What a process says of itself with a claim, as JSON at the end of the claim's terms: for people, never for decisions. */
import { type Claim, HELD_LOCKS_MAX, type HeldLock, type LocalFacts } from "../../contract/claim.ts";
import type { Holding } from "../../contract/snapshot.ts";
import { writeHeld } from "../../contract/local-facts.ts";
import { clipped, HOLDER_MAX } from "../../contract/foreign.ts";
import { MARK } from "./wire.ts";

/** UTF-16 units of a lock's name: more than any that is let in. */
const NAME_MAX = 4096;
const FENCE = /^\d{1,20}$/u;

/** Without local facts and without a linger, as 0.1 writes it. 0.1 reads no more than the first two of the list. */
export function whoText({ holder, meta, local, wantsOutcome, lingerMs }: Claim): string {
  const who: unknown[] = [clipped(holder, HOLDER_MAX), meta];
  if (local !== undefined) {
    const holds = local.holds.slice(0, HELD_LOCKS_MAX).map(writeHeld);
    const more = local.holdsMore || local.holds.length > HELD_LOCKS_MAX;
    who.push([local.waiters, local.users, holds, more ? 1 : 0]);
  }
  if (lingerMs !== undefined) who[3] = lingerMs;
  return JSON.stringify(who) + (wantsOutcome === true ? MARK.wants : "");
}

/** `undefined`: there are none, or they are not as ours are. */
export function toLocal(value: unknown): LocalFacts | undefined {
  if (!Array.isArray(value)) return undefined;
  const [waiters, users, list, more]: unknown[] = value;
  if (!isCount(waiters) || !isCount(users) || !Array.isArray(list)) return undefined;
  const holds = list.slice(0, HELD_LOCKS_MAX).flatMap(toHeld);
  return { waiters, users, holds, holdsMore: more !== 0 || holds.length < list.length };
}

function toHeld(value: unknown): readonly HeldLock[] {
  const [name, fence, yields]: unknown[] = Array.isArray(value) ? value : [];
  if (typeof name !== "string" || typeof fence !== "string" || !FENCE.test(fence)) return [];
  return [{ name: clipped(name, NAME_MAX), fence: BigInt(fence), ...(yields === 1 && { yields: true }) }];
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

/** For how long a lease may stay unused. What another process wrote may be anything. */
export function toLinger(value: unknown): Pick<Holding, "lingerMs"> {
  return isCount(value) && value > 0 ? { lingerMs: value } : {};
}
