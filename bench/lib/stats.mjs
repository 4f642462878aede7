/** The statistics of the reports. Everything takes plain numbers and changes none of its arguments. */

export function sorted(numbers) {
  return Float64Array.from(numbers).sort();
}

/** The value below which the part `q` of the numbers lies (nearest rank). NaN for no numbers. */
export function percentile(ascending, q) {
  if (ascending.length === 0) return Number.NaN;
  return ascending[Math.min(ascending.length - 1, Math.max(0, Math.ceil(ascending.length * q) - 1))];
}

/** The middle one; of an even count, the mean of the two in the middle. NaN for no numbers. */
export function median(numbers) {
  const all = sorted(numbers);
  if (all.length === 0) return Number.NaN;
  const half = all.length >> 1;
  return all.length % 2 === 1 ? all[half] : (all[half - 1] + all[half]) / 2;
}

/** Jain's index of fairness: 1 when all have the same, 1/n when one has everything. NaN when none has anything. */
export function jain(shares) {
  let sum = 0;
  let squares = 0;
  for (const share of shares) {
    sum += share;
    squares += share * share;
  }
  return sum === 0 ? Number.NaN : (sum * sum) / (shares.length * squares);
}

/** p50, p99 and the greatest. */
export function spread(numbers) {
  const all = sorted(numbers);
  return { p50: percentile(all, 0.5), p99: percentile(all, 0.99), max: all.length === 0 ? Number.NaN : all.at(-1) };
}

/**
 * Keeps the two thirds of the slices (at least one) in which others used least of the machine: `othersPart` of it. Which are
 * kept never depends on the figure that is measured.
 */
export function quietest(slices) {
  const keep = Math.max(1, Math.ceil((slices.length * 2) / 3));
  return slices.toSorted((a, b) => a.othersPart - b.othersPart).slice(0, keep);
}
