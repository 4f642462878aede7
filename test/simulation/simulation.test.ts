import { describe, expect, test } from "vitest";
import { digestOf, simulate } from "../../src/testing/simulation/simulate.ts";
import { guards } from "./mutations.ts";
import { REGRESSIONS } from "./seeds.ts";

/** A guard that is off must be noticed within so many worlds. */
const WORLDS_MOST = 600;

describe("the simulation", () => {
  test("happens exactly so again for the same seed, and otherwise for another", async () => {
    const [first, again, other] = [await simulate(11), await simulate(11), await simulate(12)];
    expect(digestOf(again)).toBe(digestOf(first));
    expect([again.steps, again.history.length]).toEqual([first.steps, first.history.length]);
    expect(digestOf(other)).not.toBe(digestOf(first));
  });

  test("makes every kind of trouble", async () => {
    const counts = { pause: 0, suspend: 0, crash: 0, cut: 0, force: 0 };
    for (let seed = 1; seed <= 20; seed++) {
      const { troubles } = await simulate(seed);
      for (const trouble of Object.keys(counts) as (keyof typeof counts)[]) counts[trouble] += troubles[trouble];
    }
    for (const [trouble, count] of Object.entries(counts)) expect(count, trouble).toBeGreaterThan(3);
  });

  test("breaks no promise in worlds that once broke one", async () => {
    const reports = [];
    for (const seed of REGRESSIONS) reports.push(...(await simulate(seed)).report);
    expect(reports).toEqual([]);
  });
});

describe("a world turns red, and says in which step and why, without", () => {
  for (const { off, mutation, noticedBy } of guards) {
    test(off, { timeout: 600_000 }, async () => {
      for (let seed = 1; seed <= WORLDS_MOST; seed++) {
        const { violations, report } = await simulate(seed, mutation());
        const [first] = violations;
        if (first === undefined) continue;
        expect(noticedBy).toContain(first.oracle);
        expect(report[0]).toMatch(new RegExp(`^simulation seed=${seed} step=\\d+: ${first.oracle}`));
        return;
      }
      expect.fail(`nobody noticed in ${WORLDS_MOST} worlds`);
    });
  }
});
