/** Interleaves contestants: each gets a slice in every round, in an order that is drawn anew, so that noise falls on all alike. */

/**
 * `slice(contestant, round)` resolves with figures. Round -1 warms up and is forgotten. A contestant whose slice fails is
 * out, with the reason; it is never left out silently. Returns a Map: contestant → { slices } or { slices: [], reason }.
 */
export async function rotate(
  contestants,
  rounds,
  slice,
  { warm = true, progress = () => {}, random = Math.random } = {},
) {
  const results = new Map(contestants.map((contestant) => [contestant, { slices: [], reason: undefined }]));
  for (let round = warm ? -1 : 0; round < rounds; round++) {
    for (const contestant of shuffled(contestants, random)) {
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

/** A copy in an order by chance (Fisher and Yates). A fixed order would let each always run after the same other one. */
export function shuffled(list, random) {
  const all = [...list];
  for (let last = all.length - 1; last > 0; last--) {
    const other = Math.floor(random() * (last + 1));
    [all[last], all[other]] = [all[other], all[last]];
  }
  return all;
}
