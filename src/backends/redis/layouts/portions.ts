/** Which keys go together in one call of a script. */
import type { Connection } from "../connection.ts";
import { slotOf } from "../keys.ts";

/** A call for so many locks takes about a millisecond of the server's time. */
const LOCKS_MAX = 250;

/** In a cluster a call takes the keys of one slot, whichever they are; elsewhere as many as go in one portion. `key` as Redis knows it. */
export function inPortions<Ask>(
  connection: Connection,
  asks: readonly Ask[],
  key: (ask: Ask) => string,
): readonly (readonly Ask[])[] {
  const calls = new Map<number, Ask[]>();
  for (const [at, ask] of asks.entries()) {
    const call = connection.topology === "cluster" ? slotOf(key(ask)) : Math.floor(at / LOCKS_MAX);
    const same = calls.get(call);
    if (same === undefined) calls.set(call, [ask]);
    else same.push(ask);
  }
  return [...calls.values()];
}
