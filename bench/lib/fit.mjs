/** How a cost grows with the size: the exponent k of cost = c · size^k. */

/** The slope of the line of least squares through the logarithms. NaN with fewer than two sizes, or where a figure is not above zero. */
export function exponent(points) {
  const logs = points.map(([size, cost]) => [Math.log(size), Math.log(cost)]);
  if (logs.some(([x, y]) => !Number.isFinite(x) || !Number.isFinite(y))) return Number.NaN;
  const meanX = mean(logs.map(([x]) => x));
  const meanY = mean(logs.map(([, y]) => y));
  const slope = (over, under) => (under === 0 ? Number.NaN : over / under);
  return slope(
    logs.reduce((sum, [x, y]) => sum + (x - meanX) * (y - meanY), 0),
    logs.reduce((sum, [x]) => sum + (x - meanX) ** 2, 0),
  );
}

/**
 * What several servers do for one of their number, from what each spends for a cycle of the whole: the busiest is the limit. 1: n of them
 * do n times as many cycles as the one that spent `alone`.
 */
export function linearity(alone, each) {
  return alone / Math.max(...each) / each.length;
}

function mean(numbers) {
  return numbers.reduce((sum, number) => sum + number, 0) / numbers.length;
}
