/** What a lock looks like from outside: to those who ask the store, and to tests. Nothing here changes anything. */
import type { Claim, Holding, Waiting } from "../../contract/backend.ts";
import { isAlive, type Lease, type Lock } from "./lock.ts";

/** The leases that have not ended, and what is left of those that were released early. */
export function holdings(lock: Lock, nowMs: number): Holding[] {
  const held = [...lock.leases.values()].map((lease) =>
    holding(lease, nowMs, isOver(lease, nowMs) ? "lockDelay" : undefined),
  );
  return [...held, ...lock.kept.map((lease) => holding(lease, nowMs, "minHold"))].filter(
    ({ remainingMs }) => remainingMs > 0,
  );
}

/** Its holder has not renewed it in time: only its delay is left. */
function isOver({ claim, untilMs }: Lease, nowMs: number): boolean {
  return claim.lockDelayMs > 0 && untilMs - claim.lockDelayMs <= nowMs;
}

function holding({ claim, fence, sinceMs, untilMs }: Lease, nowMs: number, remainder: Holding["remainder"]): Holding {
  const { name, mode, limit, holder, meta, id, local, lingerMs } = claim;
  const [heldMs, remainingMs] = [nowMs - sinceMs, untilMs - nowMs];
  return {
    name,
    mode,
    limit,
    holder,
    fence,
    heldMs,
    remainingMs,
    meta,
    id,
    ...(local && { local }),
    ...(remainder && { remainder }),
    ...(lingerMs && { lingerMs }),
  };
}

export function waitings(lock: Lock, nowMs: number): Waiting[] {
  return [...lock.queue.values()]
    .filter((waiter) => isAlive(waiter, nowMs))
    .map(({ claim: { name, mode, limit, holder, meta, id, local }, sinceMs, number }, ahead) => {
      const [waitingMs, position] = [nowMs - sinceMs, ahead + 1];
      return {
        name,
        mode,
        limit,
        holder,
        waitingMs,
        position,
        meta,
        id,
        order: BigInt(number),
        ...(local && { local }),
      };
    });
}

export interface LeaseView {
  readonly claim: Claim;
  readonly fence: bigint;
  readonly run: number;
  readonly untilMs: number;
}

/** A lock that is held or waited for. What has ended is not shown. */
export interface LockView {
  readonly name: string;
  readonly held: readonly LeaseView[];
  /** Released before their `minHold`: not held, but not free. */
  readonly kept: readonly LeaseView[];
  readonly queued: readonly Claim[];
}

/** The locks as they are, for tests: this changes nothing, where a query would let go of what has ended. */
export function viewOf(locks: Iterable<Lock>, nowMs: number): readonly LockView[] {
  const alive = ({ untilMs }: Lease): boolean => untilMs > nowMs;
  return Array.from(locks, ({ name, leases, kept, queue }) => ({
    name,
    held: [...leases.values()].filter(alive),
    kept: kept.filter(alive),
    queued: [...queue.values()].filter((waiter) => isAlive(waiter, nowMs)).map(({ claim }) => claim),
  }));
}
