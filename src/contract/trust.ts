/** How much earlier than the store we stop believing, because two clocks never run at the same rate. */

export function driftMs(ttlMs: number): number {
  return ttlMs / 100 + 2;
}
