/** The tables of docs/judges.md are what the judges found: those of each judge, and the one of who shares locks with Holdfast. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, test } from "vitest";
import { ROOT } from "../dist.ts";

type Row = Readonly<Record<string, string | number>>;
type Results = Readonly<Record<string, { readonly date: string; readonly rows: readonly Row[] }>>;

interface Module {
  readonly readResults: () => Results;
  readonly tablesOf: (results: Results) => Readonly<Record<string, string>>;
  readonly between: (page: string, name: string) => { readonly text: string };
}

const { readResults, tablesOf, between } = (await import(
  pathToFileURL(join(ROOT, "judges/results.mjs")).href
)) as unknown as Module;
const page = readFileSync(join(ROOT, "docs/judges.md"), "utf8");

/** The formatter makes columns of one width where they fit. */
function bare(text: string): string {
  return text.replaceAll(/ *\| */gu, "|").replaceAll(/-{3,}/gu, "---");
}

test("docs/judges.md has the tables of the last results, and no others", () => {
  const tables = tablesOf(readResults());
  for (const [name, text] of Object.entries(tables)) expect(bare(between(page, name).text), name).toBe(bare(text));
  const marks = [...page.matchAll(/<!-- ([\w-]+): written by/gu)].map(([, name]) => name);
  expect(marks.toSorted()).toEqual(Object.keys(tables).toSorted());
});

test("who shares locks with Holdfast is read from the runs: the sums, and the slowest median of those who are woken", () => {
  const run = (overlaps: number, fewest: number, median: string): Row => ({
    library: "kazoo 2.11 (PyPI), Lock",
    "sections of Holdfast": 10,
    "of theirs": 20,
    "fewest of one process": fewest,
    overlaps,
    "hand-over to theirs, p50 / p99": "9.0 / 9.9 ms (3)",
    "to Holdfast, p50 / p99": "8.0 / 9.9 ms (3)",
    "between two: to theirs, p50": median,
    "between two: to Holdfast, p50": "–",
  });
  const results = { zookeeper: { date: "2026-11-18", rows: [run(0, 3, "2.5 ms"), run(2, 1, "3.5 ms")] } };
  expect(bare(tablesOf(results)["interop"] ?? "").split("\n")[2]).toBe(
    "|kazoo 2.11 (PyPI), Lock|`zk:` with `dialect=kazoo`|2|40|20|1|2|8.0 ms|3.5 ms|",
  );
});

test("a library that only polls is said to", () => {
  const row = { library: "redlock 5 (npm)", "keyspace events": "off", "sections of Holdfast": 1, "of theirs": 1 };
  const rows = [{ ...row, "fewest of one process": 1, overlaps: 0, "to Holdfast, p50 / p99": "1.0 / 1.0 ms (1)" }];
  const lines = tablesOf({ plain: { date: "2026-11-18", rows } })["interop"]?.split("\n") ?? [];
  expect(lines[2]).toMatch(/\| no, it polls \| no, it polls \|$/u);
});
