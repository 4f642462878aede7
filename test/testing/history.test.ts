import { describe, expect, test } from "vitest";
import { checkHistory, findLinearization, type HistoryEvent, seeded } from "../../src/testing/index.ts";

type Plain = HistoryEvent extends infer E ? (E extends HistoryEvent ? Omit<E, "lock"> : never) : never;

function history(...events: readonly Plain[]): readonly HistoryEvent[] {
  return events.map((event) => ({ lock: "x", ...event }) as HistoryEvent);
}

/** A whole visit: asks, holds, releases. */
function visit(who: string, fence: bigint, fromMs: number, untilMs: number): readonly Plain[] {
  return [
    { kind: "asked", atMs: fromMs - 1, who },
    { kind: "held", atMs: fromMs, who, fence },
    { kind: "releasing", atMs: untilMs, who, fence },
    { kind: "released", atMs: untilMs + 1, who, fence, result: "released" },
  ];
}

function inOrder(...events: readonly Plain[]): readonly HistoryEvent[] {
  return history(...events.toSorted((a, b) => a.atMs - b.atMs));
}

function oracles(events: readonly HistoryEvent[], options = {}): readonly string[] {
  return checkHistory(events, options).map(({ oracle }) => oracle);
}

function granted(claim: string, fence: bigint, atMs: number, run = 1): Plain {
  return { kind: "granted", atMs, claim, fence, run, mode: "exclusive", limit: 1 };
}

describe("checkHistory()", () => {
  test("finds nothing in a right history", () => {
    const events = inOrder(
      granted("c1", 1n, 9),
      ...visit("a", 1n, 10, 20),
      { kind: "wrote", atMs: 15, who: "a", fence: 1n, accepted: true },
      { kind: "queued", atMs: 12, claim: "c2" },
      { kind: "dropped", atMs: 20.5, claim: "c1", fence: 1n, how: "released" },
      granted("c2", 2n, 20.5),
      ...visit("b", 2n, 21, 30),
      { kind: "wrote", atMs: 22, who: "a", fence: 1n, accepted: true },
      { kind: "wrote", atMs: 25, who: "b", fence: 2n, accepted: true },
      { kind: "wrote", atMs: 26, who: "a", fence: 1n, accepted: false },
    );
    expect(checkHistory(events)).toEqual([]);
  });

  test("O1: finds two who believe at once", () => {
    const [violation, ...more] = checkHistory(inOrder(...visit("a", 1n, 10, 20), ...visit("b", 2n, 19, 30)));
    expect(more).toEqual([]);
    expect(violation).toMatchObject({ oracle: "O1 exclusion", lock: "x", atMs: 19 });
    expect(violation?.message).toMatch(/b \(fence 2\).*a \(fence 1\)/);
  });

  test("O1: finds it even when others came and went in between", () => {
    const long = visit("a", 1n, 10, 100);
    expect(oracles(inOrder(...long, ...visit("b", 2n, 20, 30), ...visit("c", 3n, 90, 95)))).toEqual([
      "O1 exclusion",
      "O1 exclusion",
    ]);
  });

  test("O1: belief ends at the trusted instant, though the paused holder learns of it later", () => {
    const paused: Plain[] = [
      { kind: "asked", atMs: 0, who: "a" },
      { kind: "held", atMs: 1, who: "a", fence: 1n, trustedUntilMs: 50 },
      { kind: "trusted", atMs: 20, who: "a", fence: 1n, trustedUntilMs: 70 },
      { kind: "lost", atMs: 500, who: "a", fence: 1n },
    ];
    expect(oracles(inOrder(...paused, ...visit("b", 2n, 71, 80)))).toEqual([]);
    expect(oracles(inOrder(...paused, ...visit("b", 2n, 69, 80)))).toEqual(["O1 exclusion"]);
  });

  test("O1: lets as many in as mode and limit allow, and no more", () => {
    const ask = (who: string, atMs: number, fence: bigint, terms: object): Plain[] => [
      { kind: "asked", atMs, who, ...terms },
      { kind: "held", atMs: atMs + 1, who, fence },
    ];
    const readers = [...ask("a", 0, 1n, { mode: "shared" }), ...ask("b", 2, 1n, { mode: "shared" })];
    expect(oracles(history(...readers))).toEqual([]);
    expect(oracles(history(...readers, ...ask("w", 4, 2n, {})))).toEqual(["O1 exclusion"]);
    const two = [...ask("a", 0, 1n, { limit: 2 }), ...ask("b", 2, 2n, { limit: 2 })];
    expect(oracles(history(...two))).toEqual([]);
    expect(oracles(history(...two, ...ask("c", 4, 3n, { limit: 2 })))).toEqual(["O1 exclusion"]);
  });

  test("fences: finds one given twice, and one that fell", () => {
    expect(oracles(inOrder(...visit("a", 1n, 10, 20), ...visit("b", 1n, 30, 40)))).toEqual(["fences", "fences"]);
    expect(oracles(inOrder(...visit("a", 5n, 10, 20), ...visit("b", 4n, 30, 40)))).toEqual(["fences"]);
  });

  test("fences: replies that overtook each other are no fall", () => {
    const events = history(
      { kind: "asked", atMs: 0, who: "a", limit: 2 },
      { kind: "asked", atMs: 0, who: "b", limit: 2 },
      { kind: "held", atMs: 5, who: "b", fence: 2n },
      { kind: "held", atMs: 6, who: "a", fence: 1n },
    );
    expect(checkHistory(events)).toEqual([]);
  });

  test("fences: the late news of a lease that was ended by force may go to one who asked after the next was granted", () => {
    const events = (brokenMs: number): readonly HistoryEvent[] =>
      inOrder(
        granted("c1", 3n, 5),
        { kind: "dropped", atMs: brokenMs, claim: "c1", fence: 3n, how: "forced", keptUntilMs: 100 },
        granted("c2", 4n, 20),
        { kind: "asked", atMs: 8, who: "b" },
        { kind: "held", atMs: 21, who: "b", fence: 4n, trustedUntilMs: 200 },
        { kind: "asked", atMs: 30, who: "a" },
        { kind: "held", atMs: 40, who: "a", fence: 3n, trustedUntilMs: 60 },
      );
    expect(oracles(events(20))).toEqual([]);
    // Given while the other was still held: no force explains that.
    expect(oracles(events(22))).toEqual(["fences"]);
  });

  test("fences: a re-entry has the fence of its lease, and none without one", () => {
    const held: Plain[] = [
      { kind: "asked", atMs: 0, who: "a" },
      { kind: "held", atMs: 1, who: "a", fence: 1n },
    ];
    expect(oracles(history(...held, { kind: "entered", atMs: 2, who: "a", fence: 1n }))).toEqual([]);
    expect(oracles(history(...held, { kind: "entered", atMs: 2, who: "a", fence: 2n }))).toEqual(["fences"]);
    const lost: Plain = { kind: "lost", atMs: 2, who: "a", fence: 1n };
    expect(oracles(history(...held, lost, { kind: "entered", atMs: 3, who: "a", fence: 1n }))).toEqual(["fences"]);
  });

  test("O2: finds an old fence let in, a new one turned away, and a writer without a lease", () => {
    const wrote = (who: string, fence: bigint, accepted: boolean): Plain => ({
      kind: "wrote",
      atMs: 50,
      who,
      fence,
      accepted,
    });
    const leases = [...visit("a", 1n, 10, 20), ...visit("b", 2n, 30, 40)];
    const after = (...writes: Plain[]): readonly string[] => oracles(inOrder(...leases, ...writes));
    expect(after(wrote("a", 1n, true), wrote("b", 2n, true), wrote("b", 2n, true))).toEqual([]);
    expect(after(wrote("b", 2n, true), wrote("a", 1n, true))).toEqual(["O2 fenced store"]);
    expect(after(wrote("a", 1n, true), wrote("b", 2n, false))).toEqual(["O2 fenced store"]);
    expect(after(wrote("c", 3n, true))).toEqual(["O2 fenced store"]);
  });

  test("O3: finds a lease that the store released while its holder believed", () => {
    const events = inOrder(granted("c1", 1n, 9), ...visit("a", 1n, 10, 20), {
      kind: "dropped",
      atMs: 15,
      claim: "c1",
      fence: 1n,
      how: "released",
    });
    expect(oracles(events)).toEqual(["O3 no foreign release"]);
  });

  test("O4: finds belief that outlasts the store's lease, or ends within the margin", () => {
    const lease = (endMs: number): readonly HistoryEvent[] =>
      inOrder(
        granted("c1", 1n, 0),
        { kind: "asked", atMs: 0, who: "a" },
        { kind: "held", atMs: 1, who: "a", fence: 1n, trustedUntilMs: 97 },
        { kind: "lost", atMs: 97, who: "a", fence: 1n },
        { kind: "dropped", atMs: endMs, claim: "c1", fence: 1n, how: "ran-out" },
      );
    expect(oracles(lease(100))).toEqual([]);
    expect(oracles(lease(100), { marginMs: 3 })).toEqual([]);
    expect(oracles(lease(96))).toEqual(["O4 early signal"]);
    expect(oracles(lease(100), { marginMs: 4 })).toEqual(["O4 early signal"]);
  });

  test("O4: a later local holder of the same run is judged by the same lease", () => {
    const events = inOrder(granted("c1", 1n, 0, 64), ...visit("a", 1n, 10, 20), ...visit("b", 2n, 21, 40), {
      kind: "dropped",
      atMs: 30,
      claim: "c1",
      fence: 1n,
      how: "ran-out",
    });
    expect(oracles(events)).toContain("O4 early signal");
  });

  test("O4: a lease ended by force ends late by its nature", () => {
    const events = inOrder(granted("c1", 1n, 0), ...visit("a", 1n, 10, 20).slice(0, 2), {
      kind: "dropped",
      atMs: 15,
      claim: "c1",
      fence: 1n,
      how: "forced",
    });
    expect(oracles(events)).toEqual([]);
  });

  test("O4: but no later than the lease would have ended by itself", () => {
    const events = (trustedUntilMs: number): readonly HistoryEvent[] =>
      inOrder(
        granted("c1", 1n, 0),
        { kind: "asked", atMs: 5, who: "a" },
        { kind: "held", atMs: 10, who: "a", fence: 1n, trustedUntilMs: 50 },
        { kind: "dropped", atMs: 15, claim: "c1", fence: 1n, how: "forced", keptUntilMs: 60 },
        { kind: "trusted", atMs: 20, who: "a", fence: 1n, trustedUntilMs },
      );
    expect(oracles(events(59))).toEqual([]);
    expect(oracles(events(59), { marginMs: 2 })).toEqual(["O4 early signal"]);
    expect(oracles(events(61))).toEqual(["O4 early signal"]);
    // Who learns of it in time does not believe that long.
    const [first, ...rest] = events(61);
    expect(oracles([first!, ...rest, { kind: "lost", lock: "x", atMs: 30, who: "a", fence: 1n }])).toEqual([]);
  });

  test("O7: finds a claim that passed the queue", () => {
    const queued: Plain[] = [
      granted("c1", 1n, 0),
      { kind: "queued", atMs: 1, claim: "c2" },
      { kind: "queued", atMs: 2, claim: "c3" },
    ];
    expect(oracles(history(...queued, granted("c3", 2n, 3)))).toEqual(["O7 order"]);
    expect(oracles(history(...queued, granted("c3", 2n, 3)), { fair: false })).toEqual([]);
    expect(oracles(history(...queued, { kind: "left", atMs: 3, claim: "c2" }, granted("c3", 2n, 4)))).toEqual([]);
  });

  test("O8: finds answers that are not so", () => {
    const ended = (how: "ran-out" | "released", result: "released" | "lost"): readonly HistoryEvent[] =>
      inOrder(
        granted("c1", 1n, 0),
        { kind: "asked", atMs: 0, who: "a" },
        { kind: "held", atMs: 1, who: "a", fence: 1n },
        { kind: "dropped", atMs: how === "ran-out" ? 10 : 20, claim: "c1", fence: 1n, how },
        { kind: "releasing", atMs: 20, who: "a", fence: 1n },
        { kind: "released", atMs: 21, who: "a", fence: 1n, result },
      );
    expect(oracles(ended("released", "released"))).toEqual([]);
    expect(oracles(ended("ran-out", "released"))).toContain("O8 truthfulness");
    expect(oracles(ended("released", "lost"))).toEqual(["O8 truthfulness"]);
    expect(oracles(inOrder(granted("c1", 1n, 0), ...visit("a", 9n, 10, 20)))).toEqual(["O8 truthfulness"]);
  });

  test("O9: finds work that was done though an outcome was kept, and a value that was not kept", () => {
    const kept: Plain = { kind: "kept-outcome", atMs: 20, claim: "c1", fence: 1n, value: "v1", untilMs: 100 };
    const first: readonly Plain[] = [
      granted("c1", 1n, 10),
      { kind: "worked", atMs: 11, who: "a", fence: 1n },
      { kind: "dropped", atMs: 20, claim: "c1", fence: 1n, how: "released" },
      kept,
    ];
    const work = (atMs: number): readonly Plain[] => [
      granted("c2", 2n, atMs, 3),
      { kind: "worked", atMs, who: "b", fence: 4n },
    ];
    const replay = (fence: bigint, value: string, sinceMs: number, atMs: number): Plain => {
      return { kind: "replayed", who: "b", fence, value, sinceMs, atMs };
    };
    const forgot: Plain = { kind: "forgot-outcome", atMs: 30, claim: "c1", fence: 1n };
    const right = [
      work(100),
      [forgot, ...work(30)],
      [replay(1n, "v1", 15, 21)],
      [replay(1n, "v1", 99, 110)],
      // A lease of run(), which takes no notice of outcomes.
      [granted("c2", 2n, 50)],
    ];
    for (const more of right)
      expect(oracles(inOrder(...first, ...more)), JSON.stringify(more.map(({ kind }) => kind))).toEqual([]);
    const wrong = [
      work(99),
      [forgot, replay(1n, "v1", 31, 32)],
      [replay(1n, "v2", 21, 22)],
      [replay(2n, "v1", 21, 22)],
      [replay(1n, "v1", 1, 19)],
      [replay(1n, "v1", 100, 110)],
    ];
    for (const more of wrong)
      expect(oracles(inOrder(...first, ...more)), more.map(({ kind }) => kind).join()).toEqual(["O9 once"]);
  });
});

describe("findLinearization()", () => {
  test("explains a right history, with re-entry, loss and an unanswered release", () => {
    const events = inOrder(
      ...visit("a", 1n, 10, 20),
      { kind: "entered", atMs: 12, who: "a", fence: 1n },
      { kind: "exited", atMs: 13, who: "a", fence: 1n },
      { kind: "asked", atMs: 15, who: "b" },
      { kind: "held", atMs: 22, who: "b", fence: 2n, trustedUntilMs: 60 },
      { kind: "releasing", atMs: 30, who: "b", fence: 2n },
      { kind: "released", atMs: 35, who: "b", fence: 2n, result: "unknown" },
      ...visit("c", 3n, 50, 55),
      { kind: "asked", atMs: 51, who: "d" },
      { kind: "held", atMs: 57, who: "d", fence: 4n, trustedUntilMs: 90 },
      { kind: "lost", atMs: 90, who: "d", fence: 4n },
      ...visit("e", 5n, 95, 99),
    );
    expect(findLinearization(events)).toMatchObject({ linearizable: true });
  });

  test.each([
    ["two at once", [...visit("a", 1n, 10, 30), ...visit("b", 2n, 15, 20)]],
    [
      "two at once, the first of whom loses its lease later",
      [
        { kind: "asked", atMs: 9, who: "a" },
        { kind: "held", atMs: 10, who: "a", fence: 1n, trustedUntilMs: 40 },
        ...visit("b", 2n, 15, 20),
        { kind: "lost", atMs: 40, who: "a", fence: 1n },
      ],
    ],
    [
      "two at once, the first of whom got no answer to its release",
      [
        { kind: "asked", atMs: 9, who: "a" },
        { kind: "held", atMs: 10, who: "a", fence: 1n, trustedUntilMs: 90 },
        ...visit("b", 2n, 15, 20),
        { kind: "releasing", atMs: 40, who: "a", fence: 1n },
        { kind: "released", atMs: 41, who: "a", fence: 1n, result: "unknown" },
      ],
    ],
    ["the same fence twice", [...visit("a", 1n, 10, 20), ...visit("b", 1n, 30, 40)]],
    ["a falling fence", [...visit("a", 2n, 10, 20), ...visit("b", 1n, 30, 40)]],
    ["a re-entry with another fence", [...visit("a", 1n, 10, 20), { kind: "entered", atMs: 15, who: "a", fence: 2n }]],
    ["a re-entry by another", [...visit("a", 1n, 10, 20), { kind: "entered", atMs: 15, who: "b", fence: 1n }]],
    ["an exit without an entry", [...visit("a", 1n, 10, 20), { kind: "exited", atMs: 15, who: "a", fence: 1n }]],
  ] as readonly (readonly [string, readonly Plain[]])[])("explains no history with %s", (_, events) => {
    const result = findLinearization(inOrder(...events));
    expect(result.linearizable).toBe(false);
    expect(result.stuckAt).toMatch(/acquire|enter|exit|release/);
  });

  test("tries other orders before it gives up: overlapping calls may take effect either way", () => {
    // b's acquire was called first and returned last; only a before b explains the fences.
    const events = inOrder(
      { kind: "asked", atMs: 0, who: "b" },
      { kind: "asked", atMs: 1, who: "a" },
      { kind: "held", atMs: 5, who: "a", fence: 1n },
      { kind: "releasing", atMs: 6, who: "a", fence: 1n },
      { kind: "held", atMs: 8, who: "b", fence: 2n },
      { kind: "released", atMs: 9, who: "a", fence: 1n, result: "released" },
      { kind: "releasing", atMs: 10, who: "b", fence: 2n },
      { kind: "released", atMs: 11, who: "b", fence: 2n, result: "released" },
    );
    expect(findLinearization(events)).toMatchObject({ linearizable: true });
  });

  test("finds one wrong fence among two thousand visits", () => {
    const chance = seeded(5);
    const visits = (wrong: number): readonly HistoryEvent[] =>
      inOrder(
        ...Array.from({ length: 2000 }, (_, turn) => {
          const fence = BigInt(turn === wrong ? turn - 1 : turn);
          const early = chance.between(0, 5);
          return visit(`w${turn % 5}`, fence, turn * 10 + 5, turn * 10 + 9).map((event) =>
            event.kind === "asked" ? { ...event, atMs: event.atMs - early } : event,
          );
        }).flat(),
      );
    expect(findLinearization(visits(-1))).toMatchObject({ linearizable: true });
    expect(findLinearization(visits(1500))).toMatchObject({ linearizable: false });
  });
});
