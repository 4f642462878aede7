/**
 * SIGKILL before and after every file-system call. A kill after one call and a kill before the next leave the same disk,
 * and so does a kill around a call that changes nothing: what is tried here is every disk that a kill can leave, once. A disk is
 * copied while one process goes through all of them, and looked at when that process is dead; at some of them a process is killed
 * for real. The script `npm run chaos:file` kills for real, before and after each call.
 */
import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { FileBackend } from "../../../src/backends/file/backend.ts";
import { pathsIn } from "../../../src/backends/file/directory.ts";
import { LockLog } from "../../../src/backends/file/log.ts";
import { systemClock } from "../../../src/contract/clock.ts";
import { BUNDLE } from "../../dist.ts";
import { claim, grantedAtLast } from "./peers.ts";

const PROGRAM = join(import.meta.dirname, "killed-process.mjs");
const AT_ONCE = 4;

interface Outcome {
  readonly stdout: string;
  readonly signal: string | null;
}

function run(dir: string, scenario: string, at: number, when: "before" | "after", ...more: string[]): Promise<Outcome> {
  return new Promise((resolve, reject) => {
    const args = [PROGRAM, BUNDLE, dir, scenario, String(at), when, "changes", ...more];
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
    // Made for a lease that never was, and bound to no process: it has its ttl before it.
    for (const file of readdirSync(join(dir, "o")).map((name) => join(dir, "o", name)))
      if (readFileSync(file, "utf8").includes(`"id":"${LASTING}-`) && readFileSync(file, "utf8").includes('"pid":0'))
        rmSync(file);
  }
}

/**
 * A lease that was granted and whose release was not answered yet is held or done: not both, and not neither. What was answered
 * is so: an outcome is there, whole, or was removed. It is removed for what follows.
 */
async function judgeOutcome(dir: string, { stdout }: Outcome): Promise<void> {
  const last = (word: string): bigint =>
    BigInt([...stdout.matchAll(new RegExp(`^${word} (\\d+)`, "gm"))].at(-1)?.[1] ?? 0n);
  const backend = new FileBackend({ dir, hints: "poll" });
  try {
    const { outcome } = await backend.inspect("doomed");
    const log = new LockLog("doomed", {
      paths: pathsIn(dir),
      clock: systemClock,
      entriesMax: 2,
      keepForced: () => {},
      restored: () => {},
    });
    const held = log.read(false)?.state.holders.map(({ fence }) => BigInt(fence)) ?? [];
    const [granted, kept, done] = [last("fence"), last("kept"), outcome?.fence ?? 0n];
    if (granted > kept) expect([held.includes(granted), done === granted].filter(Boolean)).toHaveLength(1);
    else if (last("forgets") === 0n) expect(done).toBe(kept);
    if (last("forgot") > 0n) expect(outcome).toBeUndefined();
    if (outcome === undefined) return;
    expect(outcome.value).toBe(`${outcome.fence} ${"x".repeat(10_000)}`);
    expect(await backend.forget("doomed", outcome.fence)).toBe(true);
  } finally {
    await backend.close();
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

const SCENARIOS = ["open", "alone", "shared", "handOver", "together", "outcome", "stolen", "lasting", "lastingReader"];

/** How many disks there are to one that a real kill leaves. */
const COPIES_TO_A_KILL = 10;

/** A moment at which the process may die: before its `at`-th change, or after the last one. */
interface Death {
  readonly at: number;
  readonly when: "before" | "after";
  /** The change that was the last one then. */
  readonly last: number | undefined;
}

describe.each(SCENARIOS)("killed at any moment: %s", (scenario) => {
  let scratch: string;
  let whole: Outcome;
  let deaths: readonly Death[];
  beforeAll(async () => {
    scratch = mkdtempSync(join(tmpdir(), "hf-kill-"));
    mkdirSync(join(scratch, "copies"));
    whole = await run(join(scratch, "whole"), scenario, 0, "before", "copies", join(scratch, "copies"));
    const changes = [...whole.stdout.matchAll(/^changed (\d+)$/gm)].map(([, at]) => Number(at));
    const opened = numberAfter("opened", whole);
    deaths = [
      ...changes.map((at, i): Death => ({ at, when: "before", last: changes[i - 1] })).filter(({ at }) => at > opened),
      { at: numberAfter("calls", whole), when: "after", last: changes.at(-1) },
    ];
    expect(deaths.length).toBeGreaterThan(20);
  });
  afterAll(() => rmSync(scratch, { recursive: true, force: true }));

  async function surviveAll(
    some: readonly Death[],
    die: (dir: string, death: Death) => Promise<Outcome>,
  ): Promise<void> {
    const lasts = new Map<number, boolean>();
    const queue = [...some];
    const worker = async (): Promise<void> => {
      for (let death = queue.shift(); death !== undefined; death = queue.shift()) {
        const dir = join(scratch, `${death.at}-${death.when}`);
        const outcome = await die(dir, death);
        if (scenario.startsWith("lasting")) lasts.set(death.at, await endLasting(dir));
        const judged = scenario === "outcome" ? judgeOutcome(dir, outcome) : Promise.resolve();
        await judged
          .then(() => survive(dir, outcome))
          .catch((cause: unknown) => {
            throw new Error(`killed ${death.when} change ${death.at} (${scenario})`, { cause });
          });
        rmSync(dir, { recursive: true, force: true });
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, worker));
    // From one call on the lease outlives its process, and not before.
    const turns = [...lasts].toSorted(([one], [two]) => one - two).map(([, lasting]) => lasting);
    expect(turns).toEqual(turns.toSorted((one, two) => Number(one) - Number(two)));
    if (turns.length > 0) expect([turns[0], turns.at(-1)]).toEqual([false, true]);
  }

  test("the next process takes over at once, and no fence is given twice", { timeout: 240_000 }, () =>
    surviveAll(deaths, async (dir, { at, when, last }) => {
      if (last !== undefined) renameSync(join(scratch, "copies", String(last)), dir);
      // What it had said by then.
      const said = when === "after" ? whole.stdout : whole.stdout.slice(0, whole.stdout.indexOf(`changed ${at}\n`));
      return { stdout: said, signal: "SIGKILL" };
    }),
  );

  test("so it does when one is killed for real", { timeout: 240_000 }, async () => {
    const some = deaths.filter((death, i) => i % COPIES_TO_A_KILL === 0 || death.when === "after");
    let missed = 0;
    await surviveAll(some, async (dir, { at, when }) => {
      const outcome = await run(dir, scenario, at, when);
      // A slow run renews in between, so that a quick one may make fewer calls: then it ended, and there was nothing to kill.
      if (outcome.signal !== "SIGKILL") missed++;
      return outcome;
    });
    expect(missed).toBeLessThanOrEqual(some.length / 3);
  });
});
