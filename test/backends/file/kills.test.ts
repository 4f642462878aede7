/**
 * SIGKILL before and after every file-system call. A kill after one call and a kill before the next leave the same disk,
 * and so does a kill around a call that changes nothing: what is tried here is every disk that a kill can leave, once, at
 * its last moment. The script `npm run chaos:file` tries each call alone, both before and after.
 */
import { execFile } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { FileBackend } from "../../../src/backends/file/backend.ts";
import { DIST } from "../../dist.ts";
import { claim, grantedAtLast } from "./peers.ts";

const PROGRAM = join(import.meta.dirname, "killed-process.mjs");
const AT_ONCE = 4;

interface Outcome {
  readonly stdout: string;
  readonly signal: string | null;
}

function run(dir: string, scenario: string, at: number, when: "before" | "after"): Promise<Outcome> {
  return new Promise((resolve, reject) => {
    const args = [PROGRAM, DIST, dir, scenario, String(at), when, "changes"];
    execFile(process.execPath, args, (error, stdout, stderr) => {
      if (stderr !== "") return reject(new Error(stderr));
      return resolve({ stdout, signal: error?.signal ?? null });
    });
  });
}

function numberAfter(word: string, { stdout }: Outcome): number {
  return Number(new RegExp(`^${word} (\\d+)`, "m").exec(stdout)?.[1]);
}

/** The greatest fence that the dead process was granted. */
function lastFence({ stdout }: Outcome): bigint {
  const fences = [...stdout.matchAll(/^fence (\d+) (\d+)$/gm)].map(
    ([, fence, run]) => BigInt(fence!) + BigInt(run!) - 1n,
  );
  return fences.reduce((a, b) => (a > b ? a : b), 0n);
}

const LASTING = "lasting".padEnd(22, "x");

/** Whether the dead process left a lease that outlives it. It is released, as its user would do. */
async function endLasting(dir: string): Promise<boolean> {
  const backend = new FileBackend({ dir, detached: true, hints: "poll" });
  try {
    return (await backend.release(claim({ name: "doomed", id: LASTING }))) === "held";
  } finally {
    await backend.close();
    // Made for a lease that never was: it has its ttl before it.
    rmSync(join(dir, "o", LASTING), { force: true });
  }
}

/** The next claim gets the lock at once, with a greater fence, in every mode; and nothing of the dead process stays. */
async function survive(dir: string, outcome: Outcome): Promise<void> {
  const backend = new FileBackend({ dir, entriesMax: 2, hints: "poll" });
  try {
    let last = lastFence(outcome);
    for (const change of [{}, { mode: "shared" }, {}] as const) {
      const next = claim({ name: "doomed", ...change });
      const { fence, run } = await grantedAtLast(backend, next);
      expect(fence).toBeGreaterThan(last);
      last = fence + BigInt(run) - 1n;
      expect(await backend.renew([next])).toMatchObject([{ held: true }]);
      expect(await backend.release(next)).toBe("held");
    }
    const { held, pending, forced } = await backend.query("");
    expect({ held, pending }).toEqual({ held: [], pending: [] });
    // A process that force-released a lease finds the record, whatever was killed afterwards.
    const ended = numberAfter("forced", outcome);
    if (!Number.isNaN(ended)) expect(forced).toMatchObject([{ fence: BigInt(ended), by: "ops", reason: "stuck" }]);
    await backend.close();
    const cleanup = new FileBackend({ dir });
    await cleanup.clean();
    await cleanup.close();
    expect(["o", "q", "t", "s", "a"].flatMap((part) => readdirSync(join(dir, part)))).toEqual([]);
    expect(readdirSync(join(dir, "l"))).toEqual([]);
  } finally {
    await backend.close();
  }
}

const SCENARIOS = ["open", "alone", "shared", "handOver", "together", "lasting", "lastingReader"];

describe.each(SCENARIOS)("killed at any moment: %s", (scenario) => {
  test("the next process takes over at once, and no fence is given twice", { timeout: 240_000 }, async () => {
    const scratch = mkdtempSync(join(tmpdir(), "hf-kill-"));
    try {
      const whole = await run(join(scratch, "whole"), scenario, 0, "before");
      const [from, to] = [numberAfter("opened", whole), numberAfter("calls", whole)];
      const changes = [...whole.stdout.matchAll(/^changed (\d+)$/gm)].map(([, at]) => Number(at));
      const points = changes.filter((at) => at > from).map((at) => ({ at, when: "before" as const }));
      expect(points.length).toBeGreaterThan(20);
      const queue = [...points, { at: to, when: "after" as const }];
      const lasts = new Map<number, boolean>();
      let missed = 0;
      const worker = async (): Promise<void> => {
        for (let point = queue.shift(); point !== undefined; point = queue.shift()) {
          const dir = join(scratch, `${point.at}-${point.when}`);
          const outcome = await run(dir, scenario, point.at, point.when);
          // A slow run renews in between, so that a quick one may make fewer calls: then it ended, and there was nothing to kill.
          if (outcome.signal !== "SIGKILL") missed++;
          if (scenario.startsWith("lasting")) lasts.set(point.at, await endLasting(dir));
          await survive(dir, outcome).catch((cause: unknown) => {
            throw new Error(`killed ${point.when} change ${point.at} of ${to} (${scenario})`, { cause });
          });
          rmSync(dir, { recursive: true, force: true });
        }
      };
      await Promise.all(Array.from({ length: AT_ONCE }, worker));
      expect(missed).toBeLessThanOrEqual(points.length / 10);
      // From one call on the lease outlives its process, and not before.
      const turns = [...lasts].toSorted(([one], [two]) => one - two).map(([, lasting]) => lasting);
      expect(turns).toEqual(turns.toSorted((one, two) => Number(one) - Number(two)));
      if (turns.length > 0) expect([turns[0], turns.at(-1)]).toEqual([false, true]);
    } finally {
      rmSync(scratch, { recursive: true, force: true });
    }
  });
});
