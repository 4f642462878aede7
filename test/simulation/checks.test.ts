/** Every check of the simulation can fail: one broken thing for each, which that check and no other notices. */
import { describe, expect, test } from "vitest";
import type { Backend, Claim } from "../../src/contract/backend.ts";
import type { HistoryEvent } from "../../src/testing/index.ts";
import { simulate } from "../../src/testing/simulation/simulate.ts";
import type { Mutation, Phase } from "../../src/testing/simulation/world.ts";

const NEVER_MS = 24 * 3_600_000;
/** Worlds in which nothing else is noticed first. */
const SEEDS = [1, 2, 3, 4, 5];

/** Leaves an unwanted claim behind, once, when `phase` has come. */
function leaks(phase: Phase): Mutation {
  let left = false;
  return {
    store: (right, _, world) => ({
      attempt: async (claim) => {
        if (!left && world.phase === phase) {
          left = true;
          await right.attempt(forgotten(claim));
        }
        return right.attempt(claim);
      },
    }),
  };
}

function forgotten(claim: Claim): Claim {
  return { ...claim, id: "forgotten-forgotten-xx", name: "leak", ttlMs: NEVER_MS, limit: 1, mode: "exclusive" };
}

const never = (): Promise<never> => new Promise(() => undefined);

function onClose(close: NonNullable<Mutation["client"]>): Mutation {
  return { client: (right, process, world): Partial<Backend> => close(right, process, world) };
}

/** b asked before a held, and got the smaller fence after a had gone: each pair of events is fine, and no order explains all. */
function unordered(afterMs: number): readonly HistoryEvent[] {
  const great = 10n ** 17n;
  const at = (ms: number): { readonly atMs: number; readonly lock: string } => ({ atMs: afterMs + ms, lock: "job" });
  const visit = (who: string, fence: bigint, heldMs: number): readonly HistoryEvent[] => [
    { kind: "granted", ...at(heldMs - 0.1), claim: who, fence, run: 1, mode: "exclusive", limit: 1 },
    { kind: "held", ...at(heldMs), who, fence, trustedUntilMs: afterMs + heldMs + 100 },
    { kind: "releasing", ...at(heldMs + 1), who, fence },
    { kind: "released", ...at(heldMs + 2), who, fence, result: "released" },
  ];
  return [
    { kind: "asked", ...at(1), who: "a" },
    { kind: "asked", ...at(1), who: "b" },
    ...visit("a", great + 2n, 5),
    ...visit("b", great + 1n, 10),
  ];
}

const CHECKS: readonly (readonly [check: string, mutation: () => Mutation, report: RegExp])[] = [
  ["linearizability", () => ({ rumours: unordered }), /O1 exclusion of "job": no order of events explains it/],
  ["a leak in the chaos", () => leaks("chaos"), /O6 no leak: the store still has leak of \S+ after every ttl/],
  ["a leak in peace", () => leaks("peace"), /O6 no leak: the store still has leak of \S+ though all have left/],
  ["a leak at the end", () => leaks("take-over"), /O6 no leak: the store still has leak of \S+ after close\(\)/],
  [
    "a timer left",
    () =>
      onClose((right, process) => ({
        close: async () => {
          process.clock.setTimer(() => undefined, NEVER_MS);
          await right.close();
        },
      })),
    /O6 no leak: p\d+ has \d+ timers after close\(\)/,
  ],
  [
    "a timer of the store's left",
    () => ({
      store: (right, _, world) => ({
        close: async () => {
          world.clock.setTimer(() => undefined, NEVER_MS);
          await right.close();
        },
      }),
    }),
    /O6 no leak: the store has \d+ timers after all is over/,
  ],
  ["a close() that does not end", () => onClose(() => ({ close: never })), /O6 no leak: close\(\) does not end/],
  [
    "a claim that is never served",
    () => ({
      store: (right) => ({
        attempt: async (claim) =>
          claim.name === "job" || claim.name === "books" ? { granted: false, heldBy: [] } : right.attempt(claim),
      }),
    }),
    /O5 liveness: p\d+\.\d.* still wait long after the faults cleared/,
  ],
  [
    "a claim that waits in peace",
    () => ({
      store: (right, process, world) => ({
        attempt: (claim) => {
          if (world.phase === "peace") process.pause();
          return right.attempt(claim);
        },
      }),
    }),
    /O5 liveness: a claim waits though nothing is wrong/,
  ],
  [
    "a take-over that is late",
    () => ({
      store: (right, _, world) => ({
        attempt: (claim) => right.attempt(world.phase === "take-over" ? { ...claim, ttlMs: 3 * claim.ttlMs } : claim),
        // A renewal would bring the right ttl back.
        renew: (claims, fences) =>
          right.renew(
            claims.map((claim) => (world.phase === "take-over" ? { ...claim, ttlMs: 3 * claim.ttlMs } : claim)),
            fences,
          ),
      }),
    }),
    /O5 liveness of "job": the next holder waited more than \d+ ms for a dead one/,
  ],
];

describe("the simulation notices", () => {
  for (const [check, mutation, report] of CHECKS) {
    test(check, { timeout: 600_000 }, async () => {
      const reports: string[] = [];
      for (const seed of SEEDS) reports.push(...(await simulate(seed, mutation())).report);
      expect(reports.join("\n")).toMatch(report);
    });
  }

  test("nothing of that in the same worlds as they are", { timeout: 600_000 }, async () => {
    for (const seed of SEEDS) expect((await simulate(seed)).report).toEqual([]);
  });
});
