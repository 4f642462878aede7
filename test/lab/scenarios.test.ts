import { readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import type { Verdict } from "../../src/lab/judge.ts";
import { scenarios } from "../../src/lab/scenarios/all.ts";
import type { StageName } from "../../src/lab/stage.ts";
import { BUILD } from "../dist.ts";

/** The plays of every test run; `holdfast lab run` plays them all. */
const PLAYS: readonly (readonly [id: string, backend: StageName])[] = [
  ["failover", "sentinel"],
  ["failover-quarantine", "postgres"],
  ["pause", "zookeeper"],
  ["partition", "zookeeper"],
  ["leader-dies", "etcd"],
  ["split-vote", "quorum"],
  ["clock-jump-member", "quorum"],
  ["restart-member", "quorum"],
  ["late-grant", "quorum"],
  ["pause", "redis"],
  ["check-then-write", "redis"],
  ["delayed-write", "redis"],
  ["blocked-loop", "redis"],
  ["stale-release", "redis"],
  ["lock-delay", "redis"],
  ["partition", "redis"],
  ["lost-reply", "redis"],
  ["late-request", "redis"],
  ["clock-jump", "redis"],
  ["restart", "redis"],
  ["flush", "redis"],
  ["pause", "file"],
  ["crash", "file"],
];
const JOBS = 4;

const verdicts = new Map<string, Promise<Verdict>>();

beforeAll(async () => {
  const { runScenarios } = (await import(join(BUILD, "lab/run.js"))) as typeof import("../../src/lab/run.ts");
  const built = (await import(join(BUILD, "lab/scenarios/all.js"))) as typeof import("../../src/lab/scenarios/all.ts");
  const queue = [...PLAYS];
  const settle = new Map<string, { resolve(verdict: Verdict): void; reject(error: unknown): void }>();
  for (const [id, backend] of PLAYS) {
    const verdict = new Promise<Verdict>((resolve, reject) => settle.set(`${id} ${backend}`, { resolve, reject }));
    verdict.catch(() => undefined);
    verdicts.set(`${id} ${backend}`, verdict);
  }
  const work = async (): Promise<void> => {
    for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
      const [id, backend] = next;
      const scenario = built.scenarios.filter((one) => one.id === id);
      await runScenarios(scenario, { backends: [backend] }).then(
        ([verdict]) => settle.get(`${id} ${backend}`)?.resolve(verdict as Verdict),
        (error: unknown) => settle.get(`${id} ${backend}`)?.reject(error),
      );
    }
  };
  for (let i = 0; i < JOBS; i++) void work();
});

describe("every play ends as promised", () => {
  for (const [id, backend] of PLAYS) {
    const scenario = scenarios.find((one) => one.id === id);
    test(`${id} on ${backend} (${scenario?.plays.join(", ")})`, async () => {
      const verdict = await verdicts.get(`${id} ${backend}`);
      expect(verdict?.against).toEqual([]);
    });
  }
});

test(
  "a stale write is accepted without a guard and refused with one, and the exit code says that this was promised",
  { timeout: 180_000 },
  async () => {
    const { labCommand } = (await import(join(BUILD, "lab/command.js"))) as typeof import("../../src/lab/command.ts");
    const lines: string[] = [];
    const io = {
      env: {},
      stderr: process.stderr,
      print: (line: string) => void lines.push(line),
      note: (line: string) => void lines.push(line),
      json: () => undefined,
      style: (_stream: string, _style: string, text: string) => text,
    };
    const report = join(tmpdir(), `holdfast-lab-report-${process.pid}.html`);
    expect(await labCommand(["run", "pause", "--backend", "redis", "--report", report], io)).toBe(0);
    expect(lines[0]).toContain("fencing off: 1 stale write accepted");
    expect(lines[0]).toContain("fencing on: 1 refused");
    expect(lines[0]).toContain("as promised");
    const page = readFileSync(report, "utf8");
    expect(page).toContain("The holder is paused past its lease");
    expect(page).not.toMatch(/(?:src|href)="(?:https?:)?\/\//u);
  },
);

test(
  "another library's stale write is accepted where a fence would have stopped it, by the same judge",
  { timeout: 180_000 },
  async () => {
    const { compare } = (await import(join(BUILD, "lab/compare.js"))) as typeof import("../../src/lab/compare.ts");
    const built = (await import(
      join(BUILD, "lab/scenarios/all.js")
    )) as typeof import("../../src/lab/scenarios/all.ts");
    const pause = built.scenarios.filter(({ id }) => id === "pause");
    const cells = await compare(pause, { backends: ["redis"], jobs: 4 });
    const words = new Map(cells.map(({ entrant, words: said }) => [entrant.library, said]));
    expect(words.get("holdfast")).toBe("stale write refused");
    for (const library of ["redlock", "redis-semaphore", "verrou"] as const) {
      expect(words.get(library)).toContain("stale write accepted");
    }
  },
);
