/** Interleaves contestants: each gets a slice in every round, in an order that shifts, so that noise falls on all alike. */

/**
 * `slice(contestant, round)` resolves with figures. Round -1 warms up and is forgotten. A contestant whose slice fails is
 * out, with the reason; it is never left out silently. Returns a Map: contestant → { slices } or { slices: [], reason }.
 */
export async function rotate(contestants, rounds, slice, { warm = true, progress = () => {} } = {}) {
  const results = new Map(contestants.map((contestant) => [contestant, { slices: [], reason: undefined }]));
  for (let round = warm ? -1 : 0; round < rounds; round++) {
    for (let i = 0; i < contestants.length; i++) {
      const contestant = contestants[(i + Math.max(0, round)) % contestants.length];
      const result = results.get(contestant);
      if (result.reason !== undefined) continue;
      progress(round, contestant);
      try {
        const figures = await slice(contestant, round);
        if (round >= 0) result.slices.push(figures);
      } catch (error) {
        result.reason = error.message;
      }
    }
  }
  return results;
}
