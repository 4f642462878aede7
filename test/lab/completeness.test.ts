/** The fault catalogue in docs/safety.md: every id is there, and what it says is so. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { scenarios } from "../../src/lab/scenarios/all.ts";

const root = join(import.meta.dirname, "..", "..");
const RANGES = [
  [1, 25],
  [31, 49],
  [51, 62],
  [71, 81],
  [91, 95],
  [101, 106],
  [111, 115],
  [121, 165],
  [171, 179],
] as const;
const IDS = RANGES.flatMap(([from, to]) =>
  Array.from({ length: to - from + 1 }, (_, i) => `S${String(from + i).padStart(2, "0")}`),
);
const SELF = "test/lab/completeness.test.ts";

const text = readFileSync(join(root, "docs", "safety.md"), "utf8");
const rows = new Map(
  [...text.matchAll(/^\| (S\d+) +\| (.+?) +\| (.+?) +\|$/gmu)].map(([, id, fault, shown]) => [id, { fault, shown }]),
);
const testFiles = readdirSync(join(root, "test"), { recursive: true, encoding: "utf8" })
  .map((path) => join("test", path))
  .filter((path) => path.endsWith(".test.ts") && path !== SELF);

/** Test files, folders of tests, and scenarios that a text names. */
function named(cell: string): { readonly files: readonly string[]; readonly plays: readonly string[] } {
  const ticked = [...cell.matchAll(/`([^`]+)`/gu)].map(([, inside]) => inside as string);
  return {
    files: ticked.filter((one) => one.startsWith("test/")),
    plays: ticked
      .filter((one) => one.startsWith("lab run "))
      .flatMap((one) => one.replace("lab run ", "").replace(/ --.*/u, "").split(" ")),
  };
}

/** A folder has an id when one of its tests has it: tests move between files as they grow. */
function hasId(path: string, id: string): boolean {
  const files = testFiles.filter((file) => file === path || file.startsWith(`${path}/`));
  return files.some((file) => new RegExp(`\\b${id}\\b`, "u").test(readFileSync(join(root, file), "utf8")));
}

test("the catalogue lists every fault once", () => {
  expect([...rows.keys()]).toEqual(IDS);
});

for (const id of IDS) {
  const shown = rows.get(id)?.shown ?? "";
  if (shown.startsWith("Not shown:")) {
    test(`${id} is not shown, for a reason that still holds`, () => {
      expect(shown.length).toBeGreaterThan("Not shown: because.".length);
      expect(testFiles.filter((file) => hasId(file, id))).toEqual([]);
      expect(scenarios.filter(({ plays }) => plays.includes(id)).map(({ id: play }) => play)).toEqual([]);
    });
  } else if (shown.startsWith("Shown, without the id,")) {
    test(`${id} is shown by the tests that the catalogue names`, () => {
      const { files } = named(shown);
      expect(files.length).toBeGreaterThan(0);
      expect(files.filter((file) => !existsSync(join(root, file)))).toEqual([]);
    });
  } else {
    test(`${id} is shown where the catalogue says so`, () => {
      const { files, plays } = named(shown);
      expect(files.length + plays.length).toBeGreaterThan(0);
      expect(files.filter((file) => !hasId(file, id))).toEqual([]);
      const playing = new Set(scenarios.filter((one) => one.plays.includes(id)).map(({ id: play }) => play));
      expect(plays.filter((play) => !playing.has(play))).toEqual([]);
    });
  }
}

test("every scenario plays faults of the catalogue, and is named in the promises", () => {
  expect(scenarios.flatMap(({ plays }) => plays).filter((id) => !IDS.includes(id))).toEqual([]);
  const promised = new Set(named(text).plays);
  expect(scenarios.map(({ id }) => id).filter((id) => !promised.has(id))).toEqual([]);
});

test("every test file and every play that the promises name exists", () => {
  const { files, plays } = named(text);
  expect(files.filter((file) => !existsSync(join(root, file)))).toEqual([]);
  const known = new Set(scenarios.map(({ id }) => id));
  expect(plays.filter((play) => !known.has(play))).toEqual([]);
});
