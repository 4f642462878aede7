import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";
import { digestOf, simulate } from "../../src/testing/simulation/simulate.ts";
import { type Size, SIZES, sizeOf } from "../../src/testing/simulation/size.ts";
import { guards } from "./mutations.ts";
import { CAMPAIGN_REGRESSIONS, REGRESSIONS } from "./seeds.ts";

/** A busy machine is no failure. */
const PATIENCE = { timeout: 600_000 };
/** A guard that is off must be noticed within so many worlds. */
const WORLDS_MOST = 600;

describe("the simulation", () => {
  test("happens exactly so again for the same seed, and otherwise for another", PATIENCE, async () => {
    const [first, again, other] = [await simulate(11), await simulate(11), await simulate(12)];
    expect(digestOf(again)).toBe(digestOf(first));
    expect([again.steps, again.history.length]).toEqual([first.steps, first.history.length]);
    expect(digestOf(other)).not.toBe(digestOf(first));
  });

  test("makes every kind of trouble", PATIENCE, async () => {
    const counts = { pause: 0, suspend: 0, crash: 0, cut: 0, force: 0, stall: 0, reset: 0 };
    let [doneTwice, lateMessages] = [0, 0];
    for (let seed = 1; seed <= 48; seed++) {
      const { troubles, twice, late } = await simulate(seed);
      doneTwice += twice;
      lateMessages += late;
      for (const trouble of Object.keys(counts) as (keyof typeof counts)[]) counts[trouble] += troubles[trouble];
    }
    for (const [trouble, count] of Object.entries(counts)) expect(count, trouble).toBeGreaterThan(3);
    expect(doneTwice, "commands that the store did twice").toBeGreaterThan(3);
    expect(lateMessages, "grant messages after which another claim was granted").toBeGreaterThan(3);
  });

  test("has many small worlds and some large ones, and the seed alone says which", () => {
    const sizes = Array.from({ length: 1200 }, (_, index) => sizeOf(index + 1));
    const count = (size: Size): number => sizes.filter((one) => one === size).length;
    expect([count(SIZES.small), count(SIZES.middle), count(SIZES.large)]).toEqual([800, 300, 100]);
  });

  test("a small world is less, and has the same rules", PATIENCE, async () => {
    const [small, large] = [await simulate(24, {}, SIZES.small), await simulate(24)];
    expect(small.steps).toBeLessThan(large.steps);
    expect([small.report, large.report]).toEqual([[], []]);
    expect(small.holds).toBeGreaterThan(0);
  });

  test("breaks no promise in worlds that once broke one", PATIENCE, async () => {
    const reports = [];
    for (const seed of REGRESSIONS) reports.push(...(await simulate(seed, {}, SIZES.large)).report);
    for (const seed of CAMPAIGN_REGRESSIONS) reports.push(...(await simulate(seed)).report);
    expect(reports).toEqual([]);
  });
});

/**
 * Commands and messages of a process have two times: a grant message can come when its lease has passed, another claim has held
 * the lock, and the claim is queued anew. The worlds in which that would be believed are the same for ever: large ones, because it takes a queue.
 */
describe("a late grant message", () => {
  const SEEDS = Array.from({ length: 40 }, (_, index) => index + 81);
  const troubles = ["stall"] as const;

  test("makes two believe, where answers do not tell the lock's last fence", PATIENCE, async () => {
    const found: string[] = [];
    for (const seed of SEEDS) {
      const { report } = await simulate(seed, { troubles, rules: { lastFence: false } }, SIZES.large);
      found.push(...report.filter((line) => line.includes("O1 exclusion")));
      if (found.length > 0) break;
    }
    expect(found[0]).toMatch(
      /^simulation seed=\d+ step=\d+: O1 exclusion of "\w+": .* believes it holds the lock, and so does/,
    );
  });

  test("deceives no process in the same worlds, because they do", PATIENCE, async () => {
    const reports: string[] = [];
    let lateMessages = 0;
    for (const seed of SEEDS) {
      const { report, late } = await simulate(seed, { troubles }, SIZES.large);
      reports.push(...report);
      lateMessages += late;
    }
    expect(reports).toEqual([]);
    expect(lateMessages).toBeGreaterThan(SEEDS.length);
  });
});

test("worlds of the campaign script, which follows promises in a cheaper way, are the same", PATIENCE, async () => {
  const script = fileURLToPath(new URL("../../scripts/simulate.mjs", import.meta.url));
  const args = [script, "--from", "11", "--seeds", "3", "--json", "--each"];
  const { stdout } = await promisify(execFile)(process.execPath, args);
  const lines = stdout
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as { readonly digest: string; readonly sum?: unknown });
  const expected = [];
  for (const seed of [11, 12, 13]) expected.push(digestOf(await simulate(seed)));
  expect(lines.slice(0, 3).map(({ digest }) => digest)).toEqual(expected);
  expect(lines[3]?.sum).toMatchObject({ from: 11, next: 14, worlds: 3, cleanWorlds: 3, clean: [[11, 13]], red: [] });
});

describe("a world turns red, and says in which step and why, without", () => {
  for (const { off, mutation, noticedBy } of guards) {
    test(off, PATIENCE, async () => {
      for (let seed = 1; seed <= WORLDS_MOST; seed++) {
        const { violations, report } = await simulate(seed, mutation());
        const [first] = violations;
        if (first === undefined) continue;
        expect(noticedBy).toContain(first.oracle);
        expect(report[0]).toMatch(new RegExp(`^simulation seed=${seed} step=\\d+: ${first.oracle}`));
        return;
      }
      expect.fail(`not noticed in ${WORLDS_MOST} worlds`);
    });
  }
});
