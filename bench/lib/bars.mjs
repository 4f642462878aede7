/** Bars: what the figures must reach, as ratios within one run. */

/** `value` must be at most `limit`. */
export function atMost(id, text, value, limit, detail = "") {
  return bar(id, text, value, limit, "≤", value <= limit, detail);
}

/** `value` must be at least `limit`. */
export function atLeast(id, text, value, limit, detail = "") {
  return bar(id, text, value, limit, "≥", value >= limit, detail);
}

function bar(id, text, value, limit, sign, met, detail) {
  const known = Number.isFinite(value);
  return {
    id,
    text,
    value: known ? value : null,
    limit,
    sign,
    met: known && met,
    ...(detail === "" ? {} : { detail }),
  };
}

export function find(rows, name) {
  return rows.find((row) => row.name === name && row.ran);
}

/** The other libraries that ran, in any language: neither ours nor the raw limit. */
export function peersOf(rows) {
  return rows.filter((row) => row.ran && !row.own && !row.limit);
}

/** Those for Node. */
export function nodePeersOf(rows) {
  return peersOf(rows).filter((row) => row.node);
}

/** The row with the greatest (or, with `sign` -1, the least) figure; `undefined` for no rows. */
export function best(rows, figure, sign = 1) {
  let found;
  for (const row of rows)
    if (Number.isFinite(figure(row)) && (found === undefined || sign * figure(row) > sign * figure(found))) found = row;
  return found;
}

/** A ratio, NaN where one side is missing: then the bar counts as not met, and says so. */
export function ratio(over, under) {
  return over === undefined || under === undefined ? Number.NaN : over / under;
}
