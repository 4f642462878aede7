// What the judges found last, as data (results.json), and the tables of docs/judges.md that are made from it.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { interopRows } from "./interop.mjs";

const RESULTS = join(import.meta.dirname, "results.json");
const PAGE = join(import.meta.dirname, "../docs/judges.md");

export function readResults() {
  return JSON.parse(readFileSync(RESULTS, "utf8"));
}

/** Keeps the rows of a judge, and writes the tables anew. */
export function writeResults(name, rows) {
  const results = { ...readResults(), [name]: { date: new Date().toISOString().slice(0, 10), rows } };
  writeFileSync(RESULTS, `${JSON.stringify(results, null, 2)}\n`);
  const page = Object.entries(tablesOf(results)).reduce(
    (text, [table, lines]) => withTable(text, table, lines),
    readFileSync(PAGE, "utf8"),
  );
  writeFileSync(PAGE, page);
}

/** The tables of docs/judges.md, by the names of their marks. */
export function tablesOf(results) {
  const own = Object.entries(results).map(([name, { date, rows }]) => [name, `${table(rows)}\n\nRun on ${date}.`]);
  return { interop: table(interopRows(results)), ...Object.fromEntries(own) };
}

export function table(rows) {
  const heads = Object.keys(rows[0] ?? {});
  const line = (cells) => `| ${cells.join(" | ")} |`;
  return [line(heads), line(heads.map(() => "---")), ...rows.map((row) => line(Object.values(row)))].join("\n");
}

/** What is between the marks of a table. */
export function between(page, name) {
  const [begin, end] = [`<!-- ${name}: written by judges/run.mjs -->`, `<!-- end of ${name} -->`];
  const [from, to] = [page.indexOf(begin), page.indexOf(end)];
  if (from < 0 || to < from) throw new Error(`Expected docs/judges.md to have the marks ${begin} and ${end}`);
  return { from: from + begin.length, to, text: page.slice(from + begin.length, to).trim() };
}

function withTable(page, name, lines) {
  const { from, to } = between(page, name);
  return `${page.slice(0, from)}\n\n${lines}\n\n${page.slice(to)}`;
}
