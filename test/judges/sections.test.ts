/** The judge of the mixed runs can find: each fault that it looks for is shown to it. */
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, test } from "vitest";
import { ROOT } from "../dist.ts";

interface Section {
  readonly side: string;
  readonly wanted: bigint;
  readonly from: bigint;
  readonly to?: bigint | undefined;
  readonly mode: string;
  readonly fence?: bigint | undefined;
  readonly lost?: boolean | undefined;
}

interface Judged {
  readonly overlaps: number;
  readonly unordered: number;
  readonly fewest: number;
  readonly lost: number;
  readonly handOvers: { readonly toOurs: readonly number[]; readonly toTheirs: readonly number[] };
}

interface Worker {
  readonly sections: readonly Section[];
  readonly killed: boolean;
  readonly errors: string;
}

interface Takes {
  readonly findingsOf: (label: string, found: object, wakes: object) => readonly string[];
}

const load = async (file: string): Promise<unknown> => await import(pathToFileURL(join(ROOT, "judges", file)).href);
const { judge } = (await load("sections.mjs")) as { judge: (workers: readonly Worker[], limit?: number) => Judged };
const { findingsOf } = (await load("take-turns.mjs")) as Takes;

/** Times in ms. */
function section(side: string, from: number, to: number, facts: Partial<Section> = {}): Section {
  const ns = (ms: number): bigint => BigInt(ms) * 1_000_000n;
  return { side, wanted: 0n, from: ns(from), to: ns(to), mode: "exclusive", ...facts };
}

function workersOf(...sections: readonly Section[]): Worker[] {
  return sections.map((one) => ({ sections: [one], killed: false, errors: "" }));
}

test("two inside at once are an overlap, unless one of them knew that its lease was over", () => {
  expect(judge(workersOf(section("ours", 1, 5), section("theirs", 5, 9))).overlaps).toBe(0);
  expect(judge(workersOf(section("ours", 1, 5), section("theirs", 4, 9))).overlaps).toBe(1);
  expect(judge(workersOf(section("ours", 1, 5, { lost: true }), section("theirs", 4, 9)))).toMatchObject({
    overlaps: 0,
    lost: 1,
  });
});

test("readers may be inside together, and a writer alone", () => {
  const shared = { mode: "shared" };
  expect(judge(workersOf(section("ours", 1, 5, shared), section("theirs", 2, 9, shared))).overlaps).toBe(0);
  expect(judge(workersOf(section("ours", 1, 5, shared), section("theirs", 4, 9))).overlaps).toBe(1);
  expect(judge(workersOf(section("ours", 1, 5), section("theirs", 4, 9, shared))).overlaps).toBe(1);
});

test("as many as a semaphore has permits are no overlap, and one more is", () => {
  const two = [section("ours", 1, 9), section("theirs", 2, 6)];
  expect(judge(workersOf(...two, section("ours", 6, 8)), 2)).toMatchObject({
    overlaps: 0,
    handOvers: { toOurs: [0], toTheirs: [] },
  });
  expect(judge(workersOf(...two, section("ours", 5, 8)), 2).overlaps).toBe(1);
});

test("a fence that is not greater than the one before is seen", () => {
  const [first, second] = [section("ours", 1, 2, { fence: 7n }), section("theirs", 3, 4, { fence: 7n })];
  expect(judge(workersOf(first, second)).unordered).toBe(1);
});

test("a hand-over counts where the other side had waited", () => {
  const { handOvers } = judge(workersOf(section("ours", 1, 5), section("theirs", 8, 9), section("theirs", 10, 11)));
  expect(handOvers).toEqual({ toOurs: [], toTheirs: [3] });
  const late = section("theirs", 8, 9, { wanted: 7_000_000n });
  expect(judge(workersOf(section("ours", 1, 5), late)).handOvers.toTheirs).toEqual([]);
});

test("each fault is a finding: an overlap, a process that starved, an error, and a side that is not woken", () => {
  const good = { overlaps: 0, unordered: 0, fewest: 3, errors: [], duel: { toOurs: [2], toTheirs: [3] } };
  const both = { ours: true, theirs: true };
  expect(findingsOf("x", good, both)).toEqual([]);
  const bad = { overlaps: 1, unordered: 2, fewest: 0, errors: ["boom"], duel: { toOurs: [2000], toTheirs: [] } };
  expect(findingsOf("x", bad, both)).toEqual([
    "x: 1 sections overlapped",
    "x: 2 fences were not greater than the one before",
    "x: a process was never served",
    "x: their releases do not wake ours",
    "x: our releases do not wake theirs",
    "x: boom",
  ]);
  expect(findingsOf("x", { ...good, duel: bad.duel }, { ours: false, theirs: false })).toEqual([]);
});
