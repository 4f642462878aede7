/** The judge of `npm run test:adapters` finds what it looks for. */
import { expect, test } from "vitest";
// @ts-expect-error A script, which has no types.
import { judge as untyped } from "../../scripts/load-http/judge.mjs";

const judge = untyped as (
  text: string,
  replies: Map<string, Set<string>>,
) => { readonly counts: Record<string, number>; readonly faults: readonly string[] };

const NONE = { lost: 0, repeatedAfterKill: 0, repeatedAfterStop: 0, sentUnkept: 0 };

test.each<[string, readonly string[], Record<string, number>, readonly string[]]>([
  ["one after the other", ["begin a 1 1", "end a 1 1 held", "begin a 2 2", "end a 2 2 held"], { runs: 2 }, []],
  ["two at once", ["begin a 1 1", "begin a 2 2", "end a 1 1 held"], { runs: 2 }, ["two runs of a at once: 1 and 2"]],
  [
    "two at once, and one is never seen again",
    ["begin a 1 1", "begin a 2 2"],
    { runs: 2 },
    ["two runs of a at once: 1 and 2"],
  ],
  ["one that knows that it was lost", ["begin a 1 1", "begin a 2 2", "end a 1 1 lost"], { runs: 2, lost: 1 }, []],
  ["one that began late with an old fence", ["begin a 2 2", "begin a 1 1"], { runs: 2 }, []],
  [
    "a payment again",
    ["begin payment:1 1 1", "end payment:1 1 1 held", "begin payment:1 2 2"],
    { runs: 2 },
    ["payment:1 ran again after its outcome was stored: 1 with 1, 2 with 2"],
  ],
  [
    "a payment again after a kill",
    ["begin payment:1 1 1", "killed 1", "begin payment:1 2 2"],
    { runs: 2, repeatedAfterKill: 1 },
    [],
  ],
  [
    "before a kill",
    ["begin payment:1 1 1", "begin payment:1 2 2", "killed 1"],
    { runs: 2 },
    ["two runs of payment:1 at once: 1 and 2"],
  ],
  [
    "a payment again after a stop",
    ["begin payment:1 1 1", "stopped 1", "end payment:1 1 1 held", "begin payment:1 2 2"],
    { runs: 2, repeatedAfterStop: 1 },
    [],
  ],
])("%s", (_what, lines, counts, faults) => {
  expect(judge(lines.join("\n"), new Map())).toEqual({ counts: { ...NONE, ...counts }, faults });
});

test("two different answers for one key", () => {
  const replies = new Map([["1", new Set(['{"fence":"1"}', '{"fence":"2"}'])]]);
  const lines = ["begin payment:1 1 1", "killed 1", "begin payment:1 2 2", "end payment:1 2 2 held"];
  expect(judge(lines.join("\n"), replies).faults).toEqual([expect.stringContaining("key 1 had 2 different responses")]);
});
