/** One curve of the scale suite: the same measured at several sizes, its exponents, and its bars. */
import { atMost } from "../lib/bars.mjs";
import { exponent } from "../lib/fit.mjs";

/** Those that `--only` names, as in `--only held,1000`. With slices of less than a second the suite is only tried out: the two smallest. */
function sizesOf(context, sizes) {
  const named = sizes.filter((size) => context.wanted({ name: String(size) }));
  if (context.only !== undefined && named.length > 0) return named;
  return context.seconds < 1 ? sizes.slice(0, 2) : sizes;
}

/** A row for each size. One that fails says why, and ends the curve: what is larger would not do better. */
export async function rowsOf(context, part, sizes, measure) {
  const rows = [];
  for (const size of sizesOf(context, sizes)) {
    context.say(`  ${part}: ${size.toLocaleString("en")}`);
    const who = { name: size.toLocaleString("en"), size, own: true, limit: false, node: true };
    try {
      rows.push({ ...who, ran: true, ...(await measure(size)) });
    } catch (error) {
      rows.push({ ...who, ran: false, reason: error?.message ?? String(error) });
      break;
    }
  }
  return rows;
}

/** A part of the report. Its last row has the exponent of each figure that is a cost. */
export function curvePart({ id, title, columns, costs, rows }) {
  const exponents = Object.fromEntries(costs.map((figure) => [figure, exponentOf(rows, figure)]));
  const last = { name: "exponent", own: false, limit: true, node: true, ran: true, ...exponents };
  return { id, title, columns, rows: rows.filter(({ ran }) => ran).length > 1 ? [...rows, last] : rows };
}

export function exponentOf(rows, figure) {
  return exponent(rows.filter(({ ran }) => ran).map((row) => [row.size, row[figure]]));
}

/** The exponent may be that much above zero: a cost for each that does not grow has none. */
export function constant(id, text, rows, figure, limit = 0.1) {
  return atMost(id, `${text}: exponent of its growth`, exponentOf(rows, figure), limit);
}

/** The greatest of a figure, over all sizes. */
export function greatest(rows, figure) {
  const ran = rows.filter((row) => row.ran);
  return ran.length === 0 ? Number.NaN : Math.max(...ran.map((row) => row[figure]));
}

export function sleep(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** Until `reached()` is true. */
export async function until(what, reached, { everyMs = 100, limitMs = 120_000 } = {}) {
  for (let waitedMs = 0; waitedMs < limitMs; waitedMs += everyMs) {
    if (await reached()) return;
    await sleep(everyMs);
  }
  throw new Error(`${what}: not within ${limitMs / 1000} s`);
}
