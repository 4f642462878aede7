/** Which fences this backend can give: scripts know doubles only. */

/** The greatest that they can count on from, whatever is added to it. No clock gets there before the year 2255. */
export const FENCE_MAX = 9_007_199_250_000_000;

export function isFence(fence: number): boolean {
  return fence > 0 && fence <= FENCE_MAX;
}
