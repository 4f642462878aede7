/** The table of docs/platforms.md is what was run: as its results say, and no version that was red or not had looks as if it had passed. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { ROOT } from "./dist.ts";

interface Platform {
  readonly name: string;
  readonly tests: readonly string[];
}
interface Result {
  readonly store: string;
  readonly day: string;
  readonly version?: string;
  readonly reason?: string;
  readonly tests?: readonly string[];
  readonly passed?: number;
  readonly failed?: number;
}

const { PLATFORMS } = (await import(join(ROOT, "scripts/platforms/list.mjs"))) as {
  readonly PLATFORMS: readonly Platform[];
};
const { tableOf, withTable } = (await import(join(ROOT, "scripts/platforms/table.mjs"))) as {
  readonly tableOf: (platforms: readonly Platform[], results: Readonly<Record<string, Result>>) => string;
  readonly withTable: (page: string, table: string) => string;
};
const results = JSON.parse(readFileSync(join(ROOT, "scripts/platforms/results.json"), "utf8")) as Record<
  string,
  Result
>;

test("the page has the table that its results make", () => {
  const page = readFileSync(join(ROOT, "docs/platforms.md"), "utf8");
  expect(withTable(page, tableOf(PLATFORMS, results))).toBe(page);
});

test("every result is that of a platform, of all tests that it is to be run with, and these are there", () => {
  const names = PLATFORMS.map(({ name }) => name);
  expect(Object.keys(results).filter((name) => !names.includes(name))).toEqual([]);
  for (const { name, tests } of PLATFORMS) {
    if (results[name] !== undefined && results[name].reason === undefined)
      expect(results[name]?.tests, name).toEqual(tests);
    for (const each of tests) expect(existsSync(join(ROOT, `test/conformance/${each}.test.ts`)), each).toBe(true);
  }
});

test("a red test, a version that could not be had and one that was not run are seen in the table", () => {
  const platforms = ["a", "b", "c", "d"].map((name) => ({ name, tests: ["redis"] }));
  const run = { store: "Redis", version: "1.2", day: "2030-01-31", tests: ["redis"], passed: 5 };
  const table = tableOf(platforms, {
    a: { ...run, failed: 0 },
    b: { ...run, failed: 2 },
    c: { store: "Redis", day: "2030-01-31", reason: "no | archive" },
  });
  expect(table.replaceAll(/ +/g, " ").split("\n").slice(3, 7)).toEqual([
    "| Redis 1.2 | redis | 5 passed | 2030-01-31 |",
    "| Redis 1.2 | redis | **2 red**, 5 passed | 2030-01-31 |",
    "| c | – | could not be had: no / archive | 2030-01-31 |",
    "| d | – | not run yet | – |",
  ]);
  expect(() => withTable("# Nothing", table)).toThrow("no marks");
});
