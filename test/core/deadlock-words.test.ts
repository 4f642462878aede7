/** A deadlock as users see it, by what a store shows: who is named, in which order, and in which words. */
import { describe, expect, test } from "vitest";
import type { HeldLock, Holding, Waiting } from "../../src/contract/backend.ts";
import type { Deadlock } from "../../src/contract/deadlock.ts";
import { byLock, DeadlockGraph, type Waiter } from "../../src/core/deadlock-graph.ts";
import { toDeadlock } from "../../src/core/deadlock-words.ts";

const FENCES = new Map<string, bigint>();
/** Each lease has a fence of its own. */
function fenceOf(holder: string, lock: string): bigint {
  const key = `${holder} ${lock}`;
  if (!FENCES.has(key)) FENCES.set(key, BigInt(FENCES.size + 1));
  return FENCES.get(key)!;
}

const heldLock = (holder: string, name: string): HeldLock => ({ name, fence: fenceOf(holder, name) });

/** Processes of which each holds some locks, and waits for others, in the order of the queues: `["p", ["a"], ["b"]]`. */
function graphOf(...processes: readonly (readonly [string, readonly string[], readonly string[]])[]): DeadlockGraph {
  const held = processes.flatMap(([holder, locks]) =>
    locks.map((name): Holding => ({
      name,
      mode: "exclusive",
      limit: 1,
      holder,
      fence: fenceOf(holder, name),
      meta: {},
      heldMs: 0,
      remainingMs: 1000,
    })),
  );
  const places = new Map<string, number>();
  const pending = processes.flatMap(([holder, locks, wanted]) =>
    wanted.map((name): Waiting => {
      const position = (places.get(name) ?? 0) + 1;
      places.set(name, position);
      const local = { waiters: 0, users: 1, holds: locks.map((lock) => heldLock(holder, lock)), holdsMore: false };
      return {
        name,
        mode: "exclusive",
        limit: 1,
        holder,
        meta: { by: holder },
        position,
        waitingMs: position * 100,
        id: `${holder}-${name}`,
        local,
      };
    }),
  );
  return new DeadlockGraph(byLock({ held, pending }));
}

function only(graph: DeadlockGraph): readonly Waiter[] {
  const knots = graph.knots();
  expect(knots).toHaveLength(1);
  return knots[0]!;
}
const inOrder = ({ members }: Deadlock): string[] => members.map(({ holder }) => holder);
const who = (knot: readonly Waiter[], holder: string): Waiter => knot.find((waiter) => waiter.holder === holder)!;

describe("a circle", () => {
  const graph = graphOf(["p", ["a"], ["b"]], ["q", ["b"], ["c"]], ["r", ["c"], ["d"]], ["s", ["d"], ["a"]]);
  const knot = only(graph);

  test("is reported from the one that found it, each before the one that it waits for", () => {
    for (const [first, order] of [
      ["p", ["p", "q", "r", "s"]],
      ["r", ["r", "s", "p", "q"]],
    ] as const)
      expect(inOrder(toDeadlock(graph, knot, who(knot, first)))).toEqual(order);
  });

  test("begins anywhere where the one that found it is not in it", () => {
    const stranger = { ...who(knot, "p"), holder: "stranger" };
    const orders = ["p", "q", "r", "s"].map((_, at, all) => [...all.slice(at), ...all.slice(0, at)]);
    expect(orders).toContainEqual(inOrder(toDeadlock(graph, knot, stranger)));
    expect(orders).toContainEqual(inOrder(toDeadlock(graph, knot)));
  });

  test("is said in words, with every lease that is in another's way, and no other", () => {
    const more = graphOf(["p", ["a", "x"], ["b"]], ["q", ["b"], ["a"]]);
    const members = only(more);
    const { description, members: shown } = toDeadlock(more, members, who(members, "p"));
    expect(description).toBe(
      `p holds "a" (fence ${fenceOf("p", "a")}) and waits for "b"; q holds "b" (fence ${fenceOf("q", "b")}) and waits for "a"`,
    );
    expect(shown[0]).toEqual({
      holder: "p",
      waitsFor: "b",
      mode: "exclusive",
      holds: [heldLock("p", "a")],
      meta: { by: "p" },
      waitingMs: 100,
      id: "p-b",
    });
  });
});

describe("a knot that is no circle", () => {
  test("is reported by its shortest circle first, and then by the others of it", () => {
    // The long way from p is over q and r, the short one over s alone.
    const graph = graphOf(["p", ["a"], ["b", "d"]], ["q", ["b"], ["c"]], ["r", ["c"], ["a"]], ["s", ["d"], ["a"]]);
    const knot = only(graph);
    const reported = toDeadlock(
      graph,
      knot,
      knot.find(({ holder, lock }) => holder === "s" && lock === "a"),
    );
    const members = reported.members.map(({ holder, waitsFor }) => `${holder}>${waitsFor}`);
    expect(members.slice(0, 2)).toEqual(["s>a", "p>d"]);
    expect(members.toSorted()).toEqual(["p>b", "p>d", "q>c", "r>a", "s>a"]);
  });

  test("says of one who holds nothing that it is ahead in the queue", () => {
    const graph = graphOf(["x", [], ["b"]], ["p", ["a"], ["b"]], ["q", ["b"], ["a"]]);
    const knot = only(graph);
    const { description } = toDeadlock(graph, knot, who(knot, "p"));
    expect(description).toContain('x is ahead in the queue for "b"');
  });
});

test("of many the first eight are said, and how many more there are", () => {
  const circle = (size: number): string => {
    const graph = graphOf(
      ...Array.from({ length: size }, (_, at) => [`p${at}`, [`l${at}`], [`l${(at + 1) % size}`]] as const),
    );
    const knot = only(graph);
    return toDeadlock(graph, knot, who(knot, "p0")).description;
  };
  expect(circle(8).split("; ")).toHaveLength(8);
  expect(circle(8)).not.toContain("more");
  expect(circle(9).split("; ").slice(7)).toEqual([expect.stringContaining("p7 holds"), "and 1 more"]);
});
