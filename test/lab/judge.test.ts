import { expect, test } from "vitest";
import type { Happening, LabEvent } from "../../src/lab/events.ts";
import { factsOf, judge } from "../../src/lab/judge.ts";
import type { PlayResult } from "../../src/lab/play-types.ts";
import type { Outcome } from "../../src/lab/scenarios/scenario.ts";

type Timed = readonly [atMs: number, lane: string, happening: Happening];

function resultOf(happened: readonly Timed[], promised: Outcome, rest: Partial<PlayResult> = {}): PlayResult {
  return {
    scenario: { id: "x", title: "", story: "", source: "", plays: [], outcomes: { redis: promised }, steps: [] },
    stage: { backend: "redis", observers: ["redis"] },
    library: "holdfast",
    ttlMs: 1000,
    events: happened.map(([atMs, lane, happening]): LabEvent => ({ ...happening, atMs, lane })),
    startMs: 0,
    endMs: 5000,
    surprises: [],
    leaks: [],
    values: { plain: 0, guarded: 0 },
    ...rest,
  };
}

const KEPT: Outcome = { exclusion: "kept", harm: "none" };

const granted = (fence: bigint, untilMs: number): Happening => ({ kind: "granted", fence, untilMs });
const write = (register: "plain" | "guarded", by: string, fence: bigint, read: number, accepted = true): Happening => ({
  kind: "write",
  register,
  by,
  fence,
  accepted,
  read,
  value: read + 1,
});

test("a clean play is as promised", () => {
  const { against } = judge(
    resultOf(
      [
        [0, "A", { kind: "asked" }],
        [1, "A", granted(1n, 1000)],
        [5, "redis", { kind: "truth", holders: ["A"] }],
        [10, "A", { kind: "releasing" }],
        [11, "A", { kind: "released", result: "released" }],
        [12, "redis", { kind: "truth", holders: [] }],
        [20, "B", { kind: "asked" }],
        [21, "B", granted(2n, 1000)],
        [30, "counter", write("guarded", "B", 2n, 0)],
        [40, "B", { kind: "releasing" }],
      ],
      KEPT,
    ),
  );
  expect(against).toEqual([]);
});

test("two clients that believe at once are noticed, and accepted only where it was promised", () => {
  const happened: readonly Timed[] = [
    [0, "A", { kind: "asked" }],
    [1, "A", granted(1n, 1000)],
    [5, "B", { kind: "asked" }],
    [100, "B", granted(2n, 1000)],
    [300, "B", { kind: "releasing" }],
    [310, "A", { kind: "releasing" }],
  ];
  const { against, facts } = judge(resultOf(happened, KEPT));
  expect(facts.overlapMs).toBe(200);
  expect(against.join()).toContain("O1");
  const harmless: Outcome = { exclusion: "broken", harm: "none" };
  expect(judge(resultOf(happened, harmless)).against).toEqual([]);
});

test("a promised gap that does not show is against the promise, too", () => {
  const { against } = judge(resultOf([], { exclusion: "broken", harm: "stale write" }));
  expect(against.join()).toContain("exclusion was kept");
});

test("belief ends with trust, whatever happens after", () => {
  const { facts } = judge(
    resultOf(
      [
        [0, "A", { kind: "asked" }],
        [1, "A", granted(1n, 400)],
        [50, "B", { kind: "asked" }],
        [500, "B", granted(2n, 1500)],
        [600, "A", { kind: "lost", reason: "time" }],
        [700, "B", { kind: "releasing" }],
      ],
      KEPT,
    ),
  );
  expect(facts.overlapMs).toBe(0);
});

test("a stale write is one that built on an overwritten value", () => {
  const { facts } = judge(
    resultOf(
      [
        [1, "counter", write("plain", "B", 2n, 0)],
        [2, "counter", write("plain", "A", 1n, 0)],
      ],
      KEPT,
    ),
  );
  expect(facts.registers.plain).toEqual({ accepted: 2, refused: 0, stale: 1 });
});

test("a guard that lets an old fence in is caught", () => {
  const { against } = judge(
    resultOf(
      [
        [0, "A", { kind: "asked" }],
        [1, "A", granted(1n, 10)],
        [20, "B", { kind: "asked" }],
        [21, "B", granted(2n, 1000)],
        [30, "counter", write("guarded", "B", 2n, 0)],
        [40, "counter", write("guarded", "A", 1n, 1)],
        [41, "A", { kind: "lost", reason: "" }],
        [50, "B", { kind: "releasing" }],
      ],
      KEPT,
    ),
  );
  expect(against.join()).toContain("O2");
});

test("a release that ends another client's lock is noticed", () => {
  const { against } = judge(
    resultOf(
      [
        [0, "A", { kind: "asked" }],
        [1, "A", granted(1n, 10)],
        [20, "B", { kind: "asked" }],
        [21, "B", granted(2n, 1000)],
        [30, "redis", { kind: "truth", holders: ["B"] }],
        [35, "A", { kind: "lost", reason: "" }],
        [40, "A", { kind: "releasing" }],
        [60, "redis", { kind: "truth", holders: [] }],
        [90, "B", { kind: "releasing" }],
      ],
      KEPT,
    ),
  );
  expect(against.join()).toContain("O3");
});

test("a store that gives the lock away too early is caught", () => {
  const { against } = judge(
    resultOf(
      [
        [0, "A", { kind: "asked" }],
        [1, "A", granted(1n, 1000)],
        [30, "redis", { kind: "truth", holders: ["B"] }],
        [90, "A", { kind: "releasing" }],
      ],
      KEPT,
    ),
  );
  expect(against.join()).toContain("O4");
});

test("a loss that is never reported to its holder is noticed; to a dead holder it need not be", () => {
  const happened: readonly Timed[] = [
    [0, "A", { kind: "asked" }],
    [1, "A", granted(1n, 1000)],
  ];
  expect(judge(resultOf(happened, KEPT)).against.join()).toContain("never reported");
  const killed: Timed = [500, "A", { kind: "fault", sign: "kill", text: "" }];
  expect(judge(resultOf([...happened, killed], KEPT)).against).toEqual([]);
});

test("what is left behind, and what went otherwise than the steps say, is against the promise", () => {
  const leaks = judge(resultOf([], KEPT, { leaks: ["a lease of A"] }));
  expect(leaks.against.join()).toContain("O6");
  const surprises = judge(resultOf([], KEPT, { surprises: [{ about: "acquire", text: "A acquire: granted" }] }));
  expect(surprises.against).toEqual(["A acquire: granted"]);
});

test("a library that believes for ever believes in one hold at a time, and ends with its process", () => {
  const happened: readonly Timed[] = [
    [0, "A", { kind: "asked" }],
    [1, "A", { kind: "granted", fence: undefined, untilMs: Infinity }],
    [100, "A", { kind: "asked" }],
    [101, "A", { kind: "granted", fence: undefined, untilMs: Infinity }],
    [200, "A", { kind: "fault", sign: "kill", text: "" }],
    [300, "B", { kind: "granted", fence: undefined, untilMs: 400 }],
    [500, "B", { kind: "releasing" }],
    [600, "C", { kind: "granted", fence: undefined, untilMs: Infinity }],
  ];
  const { beliefs, overlapMs } = factsOf(resultOf(happened, KEPT));
  expect(beliefs).toEqual([
    { client: "A", fromMs: 1, untilMs: 101, end: "released" },
    { client: "A", fromMs: 101, untilMs: 200, end: "killed" },
    { client: "B", fromMs: 300, untilMs: 400, end: "trust ended" },
    { client: "C", fromMs: 600, untilMs: 5000, end: "still held" },
  ]);
  expect(overlapMs).toBe(0);
});
