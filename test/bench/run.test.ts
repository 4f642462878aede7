/** The harness itself: a tiny run, without peers, whose JSON has what is promised. */
import { execFile } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";

const run = promisify(execFile);
const HARNESS = join(import.meta.dirname, "..", "..", "bench", "run.mjs");

interface Row {
  readonly name: string;
  readonly ran: boolean;
  readonly perSecond: number;
  readonly clientCpuUs: number;
  readonly violations?: number;
  readonly jain?: number;
  readonly starved?: number;
  readonly waitMs?: { readonly p50: number; readonly p99: number; readonly max: number };
}

test("a run tells what it measured, as JSON, with no violation, and draws it", async () => {
  const dir = mkdtempSync(join(tmpdir(), "holdfast-bench-test-"));
  try {
    const args = [HARNESS, "memory", "--no-peers", "--seconds", "0.2", "--rounds", "1", "--json", "--plot", dir];
    const { stdout } = await run(process.execPath, args, { maxBuffer: 2 ** 24 });
    const { version, machine, suites } = JSON.parse(stdout);
    expect(version).toBe(1);
    expect(machine).toMatchObject({ node: process.version, load: expect.any(Array) });
    const [alone, hot] = suites.memory.parts as { rows: Row[] }[];
    expect(alone?.rows[0]).toMatchObject({ name: "holdfast", ran: true });
    expect(alone?.rows[0]?.clientCpuUs).toBeGreaterThan(0);
    const own = hot?.rows[0] as Row;
    expect(own).toMatchObject({ name: "holdfast", ran: true, violations: 0, starved: 0 });
    expect(own.perSecond).toBeGreaterThan(0);
    expect(own.jain).toBeGreaterThan(0);
    expect(own.waitMs?.max).toBeGreaterThanOrEqual(own.waitMs?.p50 as number);
    const bars = suites.memory.bars as { id: string; met: boolean; value: number; limit: number }[];
    expect(bars.find(({ id }) => id === "memory-violations")).toMatchObject({ met: true, value: 0, limit: 0 });
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
});

test("charts are drawn from results, with what did not run and why", async () => {
  const { charts } = await import("../../bench/lib/charts.mjs");
  const rows = [
    { name: "holdfast", own: true, ran: true, perSecond: 50_000, starved: 0, waitMs: { max: 12 } },
    { name: "a <slow> peer", ran: true, perSecond: 5000, starved: 3, waitMs: { max: 900 } },
    { name: "an absent peer", ran: false, reason: "it needs Node 99" },
  ];
  const [chart] = charts({ suites: { "hot-processes": { parts: [{ id: "4x8", rows }] } } });
  expect(chart?.file).toBe("hot-processes.svg");
  expect(chart?.svg).toContain("prefers-color-scheme: dark");
  expect(chart?.svg).toContain("a &lt;slow&gt; peer");
  expect(chart?.svg).toContain("3 of 32 starved");
  expect(chart?.svg).toContain("did not run: it needs Node 99");
  expect(chart?.svg).not.toContain("NaN");
});

test("an unknown suite is refused, with the list of those there are", async () => {
  const failed = await run(process.execPath, [HARNESS, "no-such-suite"]).catch((error: unknown) => error);
  expect(failed).toMatchObject({ code: 64, stderr: expect.stringContaining("hot-processes") });
});

test("the peers are the harness's own business: nothing of them is in the product", () => {
  const root = join(import.meta.dirname, "..", "..");
  const product = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
    files: string[];
    dependencies?: object;
  };
  expect(product.files).not.toContain("bench");
  expect(product.dependencies).toBeUndefined();
  expect(existsSync(join(root, "bench", "package-lock.json"))).toBe(true);
  expect(readFileSync(join(root, "bench", "package-lock.json"), "utf8")).not.toContain('"resolved"');
});
