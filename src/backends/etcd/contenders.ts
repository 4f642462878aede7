/** The queue for a lock, read from its keys: ours, and those of etcdctl and Go programs. */
import type { KeyValue } from "./client/kv-messages.ts";
import { type Kind, kindOf } from "./keys.ts";

export interface Contender extends KeyValue {
  readonly kind: Kind;
}

/** In the order of their creation, which is that of their turn. Keys that are not below `prefix` were not asked for, and do not count. */
export function inOrder(prefix: Buffer, kvs: readonly KeyValue[]): readonly Contender[] {
  const found: Contender[] = [];
  for (const kv of kvs) {
    const isBelow = kv.key.length > prefix.length && kv.key.compare(prefix, 0, prefix.length, 0, prefix.length) === 0;
    if (isBelow) found.push({ ...kv, kind: kindOf(kv.key.toString("utf8", prefix.length)) });
  }
  return found.toSorted(byCreation);
}

function byCreation(a: Contender, b: Contender): number {
  if (a.createRevision !== b.createRevision) return a.createRevision < b.createRevision ? -1 : 1;
  // Made in one transaction, which none of us does.
  return a.key.compare(b.key);
}

/** What keeps the contender at `index` from holding the lock. Nothing can come before it later, so what is gone stays gone. */
export interface Obstacle {
  /** A claim with another limit is ahead: the claimants do not agree. */
  readonly otherLimit?: number | undefined;
  /** These are in its way, and so many of them must leave. */
  readonly ahead: readonly Contender[];
  readonly mustLeave: number;
}

/** `undefined`: the contender holds the lock. */
export function obstacleOf(order: readonly Contender[], index: number): Obstacle | undefined {
  const { kind } = order[index] as Contender;
  const before = order.slice(0, index);
  if (before.length === 0) return undefined;
  if (kind.mode === "shared") {
    const last = before.findLast((one) => one.kind.mode === "exclusive");
    return last && { ahead: [last], mustLeave: 1 };
  }
  const otherLimit = before.find((one) => one.kind.mode === "exclusive" && one.kind.limit !== kind.limit)?.kind.limit;
  const last = before.at(-1) as Contender;
  if (kind.limit === 1) return { otherLimit, ahead: [last], mustLeave: 1 };
  const reader = before.findLast((one) => one.kind.mode === "shared");
  if (otherLimit !== undefined || reader !== undefined) return { otherLimit, ahead: [reader ?? last], mustLeave: 1 };
  const tooMany = before.length - kind.limit + 1;
  return tooMany > 0 ? { ahead: before, mustLeave: tooMany } : undefined;
}

/** Those who hold the lock, by the order alone: the first of them may not know it yet. */
export function holdersOf(order: readonly Contender[]): readonly Contender[] {
  return order.filter((_, index) => obstacleOf(order, index) === undefined);
}
