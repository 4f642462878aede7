/** Reading a snapshot: whose it is, by lock, and how many wait. */
import type { LocksSnapshot } from "./api.ts";

/** `host:pid` taken apart; what does not look like that is a host without a pid. */
export function hostAndPid(holder: string): { host: string; pid: number | undefined } {
  const match = /^(.*):(\d{1,10})$/s.exec(holder);
  return match === null ? { host: holder, pid: undefined } : { host: match[1] ?? "", pid: Number(match[2]) };
}

/** How many wait, as far as they are known: those in the queue, and those behind them or behind a lease in their own process. */
export function countWaiters({ held, pending }: Pick<LocksSnapshot, "held" | "pending">): number {
  return [...held, ...pending].reduce((sum, { processWaiters }) => sum + processWaiters, pending.length);
}

/** By the names of their locks. */
export function grouped<T extends { readonly name: string }>(all: readonly T[]): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const one of all) {
    const group = groups.get(one.name);
    if (group === undefined) groups.set(one.name, [one]);
    else group.push(one);
  }
  return groups;
}
