/** Turns a range of seeds into a test. Each range has a file of its own, so that they run side by side. */
import { expect, test } from "vitest";
import { simulate } from "../../src/testing/simulation/simulate.ts";

/** Worlds that once were red stay here for ever; all of them are large. */
export const REGRESSIONS: readonly number[] = [6, 10, 25, 41, 214, 231, 601, 1022];

/** Those that campaigns have found: each is as large as its seed says. */
export const CAMPAIGN_REGRESSIONS: readonly number[] = [
  650, 8778, 22_701, 43_587, 58_749, 86_376, 118_548, 165_618, 174_308, 209_366, 684_272,
];

export function seedsHold(from: number, to: number): void {
  test(`no promise is broken in the worlds of seeds ${from} to ${to}`, { timeout: 900_000 }, async () => {
    const report: string[] = [];
    let holds = 0;
    let lost = 0;
    let rejected = 0;
    for (let seed = from; seed <= to; seed++) {
      const result = await simulate(seed);
      report.push(...result.report);
      holds += result.holds;
      lost += result.lost;
      rejected += result.rejected;
      // The first red worlds say enough.
      if (report.length > 5) break;
    }
    expect(report).toEqual([]);
    // A world in which nothing happens proves nothing.
    const worlds = to - from + 1;
    expect(holds).toBeGreaterThan(10 * worlds);
    expect(lost).toBeGreaterThan(worlds);
    expect(rejected).toBeGreaterThan(worlds / 2);
  });
}
