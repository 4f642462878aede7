/** Many claims, few round trips: one script call for all claims of a slot, in portions that do not keep a server busy. */
import type { Topology } from "./connection.ts";
import type { Names } from "./keys.ts";

/** A script call of this many claims takes about a millisecond of the server. */
export const PORTION = 500;

export interface Keyed {
  readonly key: string;
}

/** Cuts items into portions that one script call may touch: in a cluster, those of one slot. */
export function portions<T extends Keyed>(items: readonly T[], topology: Topology, names: Names): T[][] {
  if (topology !== "cluster") return cut(items);
  const bySlot = new Map<string, T[]>();
  for (const item of items) {
    const slot = names.marker(item.key);
    const same = bySlot.get(slot);
    if (same === undefined) bySlot.set(slot, [item]);
    else same.push(item);
  }
  return [...bySlot.values()].flatMap((same) => cut(same));
}

function cut<T>(items: readonly T[]): T[][] {
  const result: T[][] = [];
  for (let start = 0; start < items.length; start += PORTION) result.push(items.slice(start, start + PORTION));
  return result;
}
