/** Who waits for whom, by what a store shows: the rules one by one, without processes or time. */
import { describe, expect, test } from "vitest";
import type { Holding, LocalFacts, Waiting } from "../../src/contract/backend.ts";
import { byLock, DeadlockGraph, marksOf, type Waiter, waitersOf } from "../../src/core/deadlock-graph.ts";

const says = (holds: readonly (readonly [string, bigint])[], users = 1): LocalFacts => ({
  waiters: 1,
  users,
  holds: holds.map(([name, fence]) => ({ name, fence })),
  holdsMore: false,
});
const held = (name: string, holder: string, fence: bigint, change: Partial<Holding> = {}): Holding => ({
  name,
  mode: "exclusive",
  limit: 1,
  holder,
  fence,
  meta: {},
  heldMs: 0,
  remainingMs: 1000,
  id: `${holder}-${name}`,
  ...change,
});
const queued = (
  name: string,
  holder: string,
  position: number,
  holds: readonly (readonly [string, bigint])[] = [],
  change: Partial<Waiting> = {},
): Waiting => ({
  name,
  mode: "exclusive",
  limit: 1,
  holder,
  meta: {},
  position,
  waitingMs: 0,
  id: `${holder}-${name}`,
  local: says(holds),
  ...change,
});
const all = (states: ReturnType<typeof byLock>): Waiter[] =>
  [...states.values()].flatMap((state) => [...waitersOf(state)]);
const names = (knots: readonly (readonly Waiter[])[]): string[] =>
  knots
    .map((knot) =>
      knot
        .map(({ holder, lock }) => `${holder}>${lock}`)
        .toSorted()
        .join(" "),
    )
    .toSorted();

describe("those who wait for a lock", () => {
  test("are in the order of the queue, whatever order the store shows them in", () => {
    const places = [3, 1, 10, 2];
    for (let turn = 0; turn < places.length; turn++) {
      const pending = [...places.slice(turn), ...places.slice(0, turn)].map((at) => queued("a", `p${at}`, at));
      expect(waitersOf({ held: [], pending }).map(({ holder }) => holder)).toEqual(["p1", "p2", "p3", "p10"]);
    }
  });

  test("are also those behind a lease of their process, where it says that they hold something, and is in use", () => {
    const behind = (local: LocalFacts | undefined): number =>
      waitersOf({ held: [held("a", "p", 1n, { local })], pending: [] }).length;
    expect(behind(says([["b", 2n]]))).toBe(1);
    expect(behind(says([["b", 2n]], 0))).toBe(0);
    expect(behind(says([]))).toBe(0);
    expect(behind(undefined)).toBe(0);
  });

  test("are not those whom the store shows without an id: they could not be known again", () => {
    expect(waitersOf({ held: [], pending: [queued("a", "p", 1, [], { id: undefined })] })).toEqual([]);
  });
});

describe("whom one waits for", () => {
  const waitsFor = (states: ReturnType<typeof byLock>, holder: string, lock: string): string[] => {
    const graph = new DeadlockGraph(states);
    const waiters = [...states.values()].flatMap((state) => waitersOf(state));
    // The graph makes its own; these are the same by their keys.
    const knots = graph.knots().flat();
    const one = knots.find((waiter) => waiter.holder === holder && waiter.lock === lock);
    expect([waiters.length > 0, one !== undefined]).toEqual([true, true]);
    return graph.successors(one!, new Set(knots)).map((waiter) => `${waiter.holder}>${waiter.lock}`);
  };

  test("the holder that waits elsewhere, and those ahead in the queue back to the first writer, and none behind a lease", () => {
    const states = byLock({
      held: [
        // Behind p's own lease of `a` waits one of p that holds `c`.
        held("a", "p", 1n, { local: says([["c", 3n]]) }),
        held("b", "q", 2n),
        held("c", "p", 3n),
      ],
      pending: [
        queued("b", "p", 1, [["a", 1n]]),
        queued("a", "q", 1, [["b", 2n]]),
        queued("a", "r", 2, [["d", 4n]]),
        queued("a", "s", 3),
        queued("c", "q", 1, [["b", 2n]]),
      ],
    });
    expect(waitsFor(states, "q", "a")).toEqual(["p>b"]);
    expect(names(new DeadlockGraph(states).knots())).toEqual(["p>a p>b q>a q>c"]);
  });

  test("readers wait for writers only, and writers for readers too", () => {
    const states = (mode: "shared" | "exclusive"): ReturnType<typeof byLock> =>
      byLock({
        held: [held("a", "p", 1n, { mode: "shared" }), held("b", "q", 2n)],
        pending: [queued("b", "p", 1, [["a", 1n]]), queued("a", "q", 1, [["b", 2n]], { mode })],
      });
    expect(names(new DeadlockGraph(states("exclusive")).knots())).toEqual(["p>b q>a"]);
    expect(new DeadlockGraph(states("shared")).knots()).toEqual([]);
  });
});

describe("a second look", () => {
  const states = (fence: bigint): ReturnType<typeof byLock> =>
    byLock({
      held: [held("a", "p", fence), held("b", "q", 2n)],
      pending: [queued("b", "p", 1, [["a", fence]]), queued("a", "q", 1, [["b", 2n]])],
    });
  const seen = (of: ReturnType<typeof byLock>): ReadonlySet<string> =>
    new Set(new DeadlockGraph(of).knots().flatMap(marksOf));

  test("finds what was there at the first", () => {
    expect(names(new DeadlockGraph(states(1n), seen(states(1n))).knots())).toEqual(["p>b q>a"]);
  });

  test("does not count a lease that was another one then: who holds it has gone on in between", () => {
    expect(new DeadlockGraph(states(5n), seen(states(1n))).knots()).toEqual([]);
  });

  test("does not count one who did not wait then", () => {
    const marks = new Set([...seen(states(1n))].filter((mark) => !mark.startsWith("p-b")));
    expect(new DeadlockGraph(states(1n), marks).knots()).toEqual([]);
  });
});

describe("a lease is that of a process", () => {
  const knots = (change: Partial<Holding>, fence = 1n): number =>
    new DeadlockGraph(
      byLock({
        held: [held("a", "p", 1n, change), held("b", "q", 2n)],
        pending: [queued("b", "p", 1, [["a", fence]]), queued("a", "q", 1, [["b", 2n]])],
      }),
    ).knots().length;

  test("with its first fence, or one behind it that it was passed on with", () => {
    expect([knots({}), knots({}, 3n), knots({}, 0n)]).toEqual([1, 1, 0]);
  });

  test("and not where another has it, or where it is only what remains of one that ended", () => {
    expect([knots({ holder: "x" }), knots({ remainder: "minHold" } as Partial<Holding>)]).toEqual([0, 0]);
  });
});

test("two circles are two, and who only waits for one is in none", () => {
  const states = byLock({
    held: [held("a", "p", 1n), held("b", "q", 2n), held("c", "r", 3n), held("d", "s", 4n)],
    pending: [
      queued("b", "p", 1, [["a", 1n]]),
      queued("a", "q", 1, [["b", 2n]]),
      queued("d", "r", 1, [["c", 3n]]),
      queued("c", "s", 1, [["d", 4n]]),
      queued("a", "x", 2, [["e", 5n]]),
    ],
  });
  expect(names(new DeadlockGraph(states).knots())).toEqual(["p>b q>a", "r>d s>c"]);
  expect(all(states)).toHaveLength(5);
});

test("with a limit one is free to go on while there is a place, though all who hold one are stuck", () => {
  const three = { limit: 3 };
  const state = (count: number) =>
    byLock({
      held: [
        ...["p0", "p1", "p2"].slice(0, count).map((holder, at) => held("l", holder, BigInt(at + 1), three)),
        held("m", "q", 9n),
      ],
      pending: [
        ...["p0", "p1", "p2"].slice(0, count).map((holder, at) => queued("m", holder, at + 1, [["l", BigInt(at + 1)]])),
        queued("l", "q", 1, [["m", 9n]], three),
      ],
    });
  expect(new DeadlockGraph(state(2)).knots()).toEqual([]);
  expect(names(new DeadlockGraph(state(3)).knots())).toEqual(["p0>m p1>m p2>m q>l"]);
});
