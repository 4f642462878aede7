// The table of docs/platforms.md, from what was run.

const MARKS = /(<!-- platforms -->\n)[^]*(\n<!-- \/platforms -->)/;
const HEADINGS = ["store", "conformance tests", "outcome", "day"];
/** A table that is wider is written without padding, as the formatter does. */
const WIDTH_MAX = 120;

function cellsOf({ name }, result) {
  if (result === undefined) return [name, "–", "not run yet", "–"];
  const { store, version, reason, tests, passed, failed, day } = result;
  if (reason !== undefined) return [name, "–", `could not be had: ${reason.replaceAll("|", "/")}`, day];
  const outcome = failed === 0 ? `${passed} passed` : `**${failed} red**, ${passed} passed`;
  return [`${store} ${version}`, tests.join(", "), outcome, day];
}

export function tableOf(platforms, results) {
  const rows = [HEADINGS, ...platforms.map((platform) => cellsOf(platform, results[platform.name]))];
  const widths = HEADINGS.map((_, at) => Math.max(...rows.map((cells) => cells[at].length)));
  const isWide = widths.reduce((sum, width) => sum + width + 3, 1) > WIDTH_MAX;
  const lineOf = (cells) => `| ${cells.map((cell, at) => (isWide ? cell : cell.padEnd(widths[at]))).join(" | ")} |`;
  const rule = lineOf(widths.map((width) => "-".repeat(isWide ? 3 : width)));
  return ["", lineOf(HEADINGS), rule, ...rows.slice(1).map(lineOf), ""].join("\n");
}

export function withTable(page, table) {
  if (!MARKS.test(page)) throw new Error("the page has no marks for the table");
  return page.replace(MARKS, (_, before, after) => before + table + after);
}
