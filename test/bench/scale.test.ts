/** The tables of docs/scale.md are those of the run that is committed: a figure that is changed by hand is noticed. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { ROOT } from "../dist.ts";
import { cells, headings } from "../../bench/lib/table.mjs";

interface Part {
  readonly id: string;
  readonly columns: readonly string[];
  readonly rows: readonly { readonly name: string }[];
}

const parts = JSON.parse(readFileSync(join(ROOT, "bench/scale/results.json"), "utf8")) as readonly Part[];
/** Without the spaces that align columns. */
const page = readFileSync(join(ROOT, "docs/scale.md"), "utf8").replaceAll(/ +/g, " ");

test.each(parts.map((part) => [part.id, part] as const))("the table of %s", (_, { columns, rows }) => {
  const lines = [["", ...headings(columns)], ...rows.map((row) => [row.name, ...cells(row, columns)])];
  const missing = lines
    .map((line) => `| ${line.join(" | ")} |`.replaceAll(/ +/g, " "))
    .filter((line) => !page.includes(line));
  expect(rows.length).toBeGreaterThan(0);
  expect(missing).toEqual([]);
});
