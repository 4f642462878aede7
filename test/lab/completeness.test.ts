/** The fault catalogue in docs/safety.md: every id is there, and what it says is so. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { scenarios } from "../../src/lab/scenarios/all.ts";
import type { StageName } from "../../src/lab/stage.ts";

const root = join(import.meta.dirname, "..", "..");
const RANGES = [
  [1, 25],
  [31, 49],
  [51, 62],
  [71, 81],
  [91, 95],
  [101, 106],
  [111, 115],
  [121, 181],
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

/** What a file's tests are called, and every other text in it: an id in a comment shows nothing. */
function textsOf(file: string): readonly string[] {
  const code = readFileSync(join(root, file), "utf8");
  const texts = /\/\*[\s\S]*?\*\/|\/\/.*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\])*`/gu;
  return [...code.matchAll(texts)].map(([found]) => found).filter((found) => !found.startsWith("/"));
}

const texts = new Map(testFiles.map((file) => [file, textsOf(file)]));

/** A folder has an id when one of its tests has it: tests move between files as they grow. */
function titlesIn(path: string, id: string): readonly string[] {
  const files = testFiles.filter((file) => file === path || file.startsWith(`${path}/`));
  return files.flatMap((file) => texts.get(file)!).filter((title) => new RegExp(`\\b${id}\\b`, "u").test(title));
}

function hasId(path: string, id: string): boolean {
  return titlesIn(path, id).length > 0;
}

/** "5,000 locks": the numbers of a sentence, without those that are part of a name. */
function numbersIn(sentence: string): readonly string[] {
  return [...sentence.matchAll(/(?<![\w.-])\d[\d,]*(?![\w.])/gu)].map(([number]) => number.replace(/,$/u, ""));
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
      // A number in the text is one that a test's title says too.
      const said = files.flatMap((file) => titlesIn(file, id)).flatMap(numbersIn);
      expect(numbersIn(rows.get(id)!.fault!).filter((number) => !said.includes(number))).toEqual([]);
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

/** Sections of the promises, and the stages that they are about. */
const SECTIONS: Readonly<Record<string, readonly StageName[]>> = {
  "On every backend": ["file", "redis", "sentinel", "quorum", "zookeeper", "etcd"],
  memory: ["memory"],
  file: ["file"],
  "One Redis": ["redis"],
  "Redis with replicas (Sentinel)": ["sentinel"],
  // The lab plays no cluster: what it shows for one, it shows with Sentinel.
  "Redis Cluster": ["sentinel"],
  "Quorum (Redlock)": ["quorum"],
  ZooKeeper: ["zookeeper"],
  etcd: ["etcd"],
};
const promises = text.split(/^## /mu).flatMap((section) => {
  const [title, ...lines] = section.split("\n");
  const stages = SECTIONS[title!];
  if (stages === undefined) return [];
  const cells = lines.flatMap((line) => [...line.matchAll(/^\| (.+?) +\| (.+?) +\| (.+?) +\|$/gu)]);
  return cells
    .filter(([, fault]) => fault !== "fault" && fault !== "---")
    .map(([, fault, promise, shown]) => ({ stages, fault: fault!, promise: promise!, shown: shown! }));
});

test("every section of the promises is known", () => {
  expect(promises.length).toBeGreaterThan(40);
  for (const title of Object.keys(SECTIONS)) expect(text).toContain(`\n## ${title}\n`);
});

for (const { stages, fault, promise, shown } of promises) {
  test(`“${fault}”: what is promised is what is shown`, () => {
    const { files, plays } = named(shown);
    const says = /^\**(kept|ordered)\b/u.exec(promise)?.[1];
    // Where a play shows it, the promise is what the play demands of that backend.
    for (const play of plays) {
      const { outcomes } = scenarios.find(({ id }) => id === play)!;
      const demanded = stages.map((stage) => outcomes[stage]).filter((outcome) => outcome !== undefined);
      expect(demanded.length, play).toBeGreaterThan(0);
      for (const { exclusion, harm } of demanded) {
        expect(exclusion === "kept" && harm === "none" ? "kept" : "ordered", play).toBe(says);
      }
    }
    // Where only a test shows it, a piece of that test's title is quoted, and says which of the two it is.
    if (plays.length > 0 || files.length === 0) return;
    const quoted = [...shown.matchAll(/“([^”]+)”/gu)].map(([, words]) => words!);
    expect(quoted.length, "words of a test's title").toBeGreaterThan(0);
    const all = files.flatMap((file) => texts.get(file) ?? []);
    for (const words of quoted)
      expect(
        all.some((title) => title.includes(words)),
        words,
      ).toBe(true);
    const isTwo = quoted.some((words) => /two hold|two believe|greater fence/u.test(words));
    if (says !== undefined) expect(isTwo ? "ordered" : "kept").toBe(says);
  });
}
