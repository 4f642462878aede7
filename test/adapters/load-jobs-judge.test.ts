/** The judge of `npm run test:jobs` finds what it looks for. */
import { expect, test } from "vitest";
// @ts-expect-error A script, which has no types.
import { judgeJobs as untyped } from "../../scripts/load-jobs/judge.mjs";

const judge = untyped as (
  text: string,
  expected: ReadonlySet<string>,
  orders?: readonly (readonly string[])[],
) => { readonly counts: Record<string, number>; readonly faults: readonly string[] };

const NONE = {
  runs: 0,
  lost: 0,
  repeatedAfterKill: 0,
  repeatedAfterStop: 0,
  repeatedAfterLoss: 0,
  repeatedAfterFailure: 0,
  missed: 0,
  outOfOrder: 0,
};

test.each<[string, readonly string[], Record<string, number>, readonly string[]]>([
  ["one slot after the other", ["begin job 1 1", "end job 1 1 held", "begin job 2 2", "end job 2 2 held"], {}, []],
  [
    "two slots of a job at once",
    ["begin job 1 1", "begin job 2 2", "end job 1 1 held"],
    {},
    ["two runs of job at once: 1 and 2"],
  ],
  [
    "two at once, and one is never seen again",
    ["begin job 1 1", "begin job 2 2"],
    {},
    ["two runs of job at once: 1 and 2"],
  ],
  ["one that knows that it was lost", ["begin job 1 1", "begin job 2 2", "end job 1 1 lost"], {}, []],
  ["one that began late with an old fence", ["begin job 2 2", "begin job 1 1"], {}, []],
  [
    "a slot again",
    ["begin once:a 1 1", "end once:a 1 1 held", "begin once:a 2 2"],
    { runs: 2 },
    ["once:a ran again after it was done: 1 with 1, 2 with 2"],
  ],
  [
    "a slot again after a kill",
    ["begin once:a 1 1", "killed 1", "begin once:a 2 2"],
    { runs: 2, repeatedAfterKill: 1 },
    [],
  ],
  [
    "before a kill",
    ["begin once:a 1 1", "begin once:a 2 2", "killed 1"],
    { runs: 2 },
    ["two runs of once:a at once: 1 and 2"],
  ],
  [
    "after a kill of an earlier life of the same process id",
    ["killed 1", "begin once:a 1 1", "end once:a 1 1 held", "begin once:a 2 2"],
    { runs: 2 },
    ["once:a ran again after it was done: 1 with 1, 2 with 2"],
  ],
  [
    "a slot again after a stop",
    ["begin once:a 1 1", "stopped 1", "end once:a 1 1 held", "begin once:a 2 2"],
    { runs: 2, repeatedAfterStop: 1 },
    [],
  ],
  [
    "a slot again after a loss that its process knows of",
    ["begin once:a 1 1", "end once:a 1 1 lost", "begin once:a 2 2"],
    { runs: 2, lost: 1, repeatedAfterLoss: 1 },
    [],
  ],
  [
    "a job again that had failed",
    ["begin once:a 1 1", "end once:a 1 1 failed", "begin once:a 2 2"],
    { runs: 2, repeatedAfterFailure: 1 },
    [],
  ],
  [
    "beside a job that fails",
    ["begin job 1 1", "begin job 2 2", "end job 1 1 failed"],
    {},
    ["two runs of job at once: 1 and 2"],
  ],
])("%s", (_what, lines, counts, faults) => {
  expect(judge(lines.join("\n"), new Set())).toEqual({ counts: { ...NONE, ...counts }, faults });
});

test("a slot that was missed, and one that did not end, are found", () => {
  const lines = ["begin once:a 1 1", "end once:a 1 1 held", "begin once:b 1 2", "killed 1"];
  const { counts, faults } = judge(lines.join("\n"), new Set(["once:a", "once:b", "once:c"]));
  expect(counts["missed"]).toBe(2);
  expect(faults).toEqual(["once:b was not run to its end", "once:c was not run to its end"]);
  expect(judge("", new Set(["once:a"])).faults).toEqual(["once:a was not run to its end"]);
});

test.each<[string, readonly string[], readonly string[]]>([
  ["in order", ["begin a 1 1", "end a 1 1 held", "begin b 1 2", "end b 1 2 held", "begin c 1 3", "end c 1 3 held"], []],
  [
    "the later one first",
    ["begin b 1 1", "end b 1 1 held", "begin a 1 2", "end a 1 2 held"],
    ["b began before a had ended"],
  ],
  [
    "one that overtakes a failed one",
    ["begin a 1 1", "end a 1 1 failed", "begin b 1 2", "end b 1 2 held", "begin a 1 3", "end a 1 3 held"],
    ["b began before a had ended"],
  ],
  [
    "one that overtakes two",
    ["begin c 1 1", "end c 1 1 held", "begin a 1 2", "end a 1 2 held", "begin b 1 3", "end b 1 3 held"],
    ["c began before b had ended"],
  ],
  [
    "a repeat of one that had ended",
    ["begin a 1 1", "end a 1 1 held", "killed 1", "begin b 2 2", "end b 2 2 held", "begin a 2 3"],
    [],
  ],
])("order: %s", (_what, lines, faults) => {
  const found = judge(lines.join("\n"), new Set(), [
    ["a", "b", "c"].filter((name) => lines.some((line) => line.includes(` ${name} `))),
  ]);
  expect(found.faults).toEqual(faults);
  expect(found.counts["outOfOrder"]).toBe(faults.length);
});
