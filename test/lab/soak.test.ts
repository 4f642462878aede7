import { join } from "node:path";
import { expect, test } from "vitest";
import { machineMs } from "../../src/contract/machine-clock.ts";
import { judgeEnd } from "../../src/lab/soak/end.ts";
import { injectFaults } from "../../src/lab/soak/faults.ts";
import { SoakRecord } from "../../src/lab/soak/record.ts";
import type { StageServer } from "../../src/lab/stage.ts";
import { seeded } from "../../src/testing/seeded-random.ts";
import { BUILD } from "../dist.ts";

const EPOCH_MS = 1000;

function recordOf(
  ...fences: readonly (readonly [who: string, fence: bigint, fromMs: number, untilMs: number])[]
): SoakRecord {
  const record = new SoakRecord(EPOCH_MS);
  const lock = `soak:${Math.floor(machineMs() / EPOCH_MS)}:0`;
  for (const [who, fence, fromMs, untilMs] of fences) {
    record.hear({ kind: "asked", who, lock, atMs: fromMs - 1 });
    record.hear({ kind: "held", who, lock, fence, trustedUntilMs: untilMs, atMs: fromMs });
    record.hear({ kind: "releasing", who, lock, fence, atMs: untilMs });
  }
  record.judge(true);
  return record;
}

test("the soak sees two who believe at once, also when they tell it late", () => {
  const record = recordOf(["b/1", 2n, 150, 250], ["a/1", 1n, 100, 200]);
  expect(record.violations.map(({ oracle }) => oracle)).toEqual(["O1 exclusion"]);
});

test("the soak sees a fence given twice", () => {
  const record = recordOf(["a/1", 1n, 100, 200], ["b/1", 1n, 300, 400]);
  expect(record.violations.map(({ oracle }) => oracle)).toContain("fences");
});

test("the soak forgives the dead, and refuses their late writes", async () => {
  const record = new SoakRecord(EPOCH_MS);
  const lock = `soak:${Math.floor(machineMs() / EPOCH_MS)}:0`;
  const nowMs = machineMs();
  record.hear({ kind: "asked", who: "a/1", lock, atMs: nowMs });
  record.hear({ kind: "held", who: "a/1", lock, fence: 1n, trustedUntilMs: nowMs + 60_000, atMs: nowMs });
  record.killed("a", machineMs());
  const laterMs = machineMs();
  record.hear({ kind: "asked", who: "b/1", lock, atMs: laterMs });
  record.hear({ kind: "held", who: "b/1", lock, fence: 2n, trustedUntilMs: laterMs + 60_000, atMs: laterMs });
  await record.write(lock, "b/1", 2n);
  await record.write(lock, "a/1", 1n);
  record.judge(true);
  expect(record.violations).toEqual([]);
  expect(record.refusedWrites).toBe(1);
});

test("a violation is reported with the faults before it", () => {
  const record = new SoakRecord(EPOCH_MS);
  record.fault("server stopped");
  const violation = { oracle: "O1 exclusion", lock: "soak:1:0", message: "two", atMs: machineMs() } as const;
  expect(record.describe(violation)).toMatch(/^O1 exclusion soak:1:0: two; faults before it: server stopped \d+ ms$/u);
  expect(record.describe({ ...violation, atMs: violation.atMs + 60_000 })).toMatch(/faults before it: none$/u);
});

test("the soak stops no server that its stage spares", async () => {
  const record = new SoakRecord(EPOCH_MS);
  const end = new AbortController();
  const stopped: string[] = [];
  const serverOf = (name: string, spared: boolean): StageServer => ({
    name,
    isSpared: async () => spared,
    pause: () => {
      stopped.push(name);
      if (stopped.length === 4) end.abort();
      record.lastHeldMs = Infinity;
    },
    resume: () => undefined,
  });
  const servers = [serverOf("leader", true), serverOf("follower", false)];
  const victims = [{ client: {} as never, proxies: [], wallClock: undefined, replace: () => Promise.resolve() }];
  await injectFaults({ victims, servers, kinds: ["server stopped"], ttlMs: 50 }, record, seeded(1), end.signal);
  expect(stopped).toEqual(["follower", "follower", "follower", "follower"]);
});

test("a short soak with faults finds no violation and no leak", async () => {
  const { soak } = (await import(join(BUILD, "lab/soak/soak.js"))) as typeof import("../../src/lab/soak/soak.ts");
  const counts = await soak({ minutes: 0.1, seed: 11, backends: ["memory", "file", "redis"] });
  for (const { backend, sections, violations, leakedKeys, leakedHandles, faults } of counts) {
    expect(sections, backend).toBeGreaterThan(0);
    expect(Object.keys(faults).length, backend).toBeGreaterThan(0);
    expect({ backend, violations, leakedKeys, leakedHandles }).toEqual({
      backend,
      violations: [],
      leakedKeys: [],
      leakedHandles: [],
    });
  }
});

test("a close() that rejects is a finding, unless the store did not answer the lab in time either", async () => {
  let nowMs = 0;
  const closed = [{ left: ["a timer"] }, { left: [], unconfirmed: "the store did not confirm it" }];
  const nothing = { held: [], pending: [], forced: [] };
  const judged = async (answerMs: number, isAnswered = true): ReturnType<typeof judgeEnd> => {
    let asked: (() => void) | undefined;
    const once = new Promise<void>((resolve) => (asked = resolve));
    const look = async (): Promise<typeof nothing> => {
      nowMs += answerMs;
      asked!();
      if (!isAnswered) throw new Error("no answer");
      return nothing;
    };
    const stop = async (): Promise<typeof closed> => {
      await once;
      return closed;
    };
    return await judgeEnd([{ look }], stop, () => nowMs);
  };
  expect(await judged(10)).toEqual({
    findings: [
      "a timer",
      "close() failed, though the store answered each question of the lab within 10 ms: the store did not confirm it",
    ],
    unconfirmed: 0,
  });
  expect(await judged(2000)).toEqual({ findings: ["a timer"], unconfirmed: 1 });
  expect(await judged(10, false)).toEqual({ findings: ["a timer"], unconfirmed: 1 });
});
