// How many were inside at once, and how often that was more than allowed.

/** `sections`: from takeTurns(). Of two at one instant, the one that goes out comes first. */
export function crowd(sections, limit) {
  const steps = sections.flatMap(({ from, to }) => [
    { at: from, by: 1 },
    { at: to, by: -1 },
  ]);
  steps.sort((a, b) => (a.at === b.at ? a.by - b.by : a.at < b.at ? -1 : 1));
  let [inside, most, tooMany] = [0, 0, 0];
  for (const { by } of steps) {
    inside += by;
    most = Math.max(most, inside);
    if (by > 0 && inside > limit) tooMany++;
  }
  return { most, tooMany };
}
