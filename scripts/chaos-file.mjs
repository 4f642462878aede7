// Kills processes that use the file backend, for real: before and after every single file-system call of every scenario, and then
// at random moments while five of them compete. After each kill the next claim must get the lock, with a greater fence.
//
//   npm run chaos:file                             every call of every scenario, then 1000 kills at random
//   npm run chaos:file -- --kills 5000             as many at random
//   npm run chaos:file -- --scenario handOver      every call of this scenario only: open, alone, shared, handOver, together,
//                                                  outcome, stolen, lasting or lastingReader
//   npm run chaos:file -- --dir /mnt/other         on another file system
//   … --json                                       one JSON line for each finding, and one for the sum
//
// Exit code 1: a lock was not free after a kill, a fence came again, or two held a lock at once.
import { execFile } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { argumentsOf } from "./arguments.mjs";
import "./ensure-built.mjs";

const SCENARIOS = ["open", "alone", "shared", "handOver", "together", "outcome", "stolen", "lasting", "lastingReader"];
const { values } = argumentsOf(import.meta.url, {
  options: {
    kills: { type: "string" },
    scenario: { type: "string" },
    dir: { type: "string", default: tmpdir() },
    json: { type: "boolean", default: false },
  },
});
if (values.kills !== undefined && !/^\d+$/.test(values.kills))
  throw new TypeError(`Expected --kills to be a whole number, got ${values.kills}`);
if (values.scenario !== undefined && !SCENARIOS.includes(values.scenario))
  throw new TypeError(`Expected --scenario to be one of ${SCENARIOS.join(", ")}, got ${values.scenario}`);
const { FileBackend } = await import("../build/backends/file/backend.js");
const { selfTest } = await import("../build/cli/doctor/file-self-test.js");

const scratch = mkdtempSync(join(values.dir, "hf-chaos-"));
const build = join(import.meta.dirname, "../build");
const program = join(import.meta.dirname, "../test/backends/file/killed-process.mjs");
/** Processes at a time. */
const AT_ONCE = 4;
/** How long a lock may stay taken after its holder's death: only one that is never free takes so long. */
const FREE_MAX_MS = 60_000;
/** As the program names the claim whose lease outlives it. */
const LASTING = "lasting".padEnd(22, "x");
const COMMON = { name: "doomed", mode: "exclusive", limit: 1, ttlMs: 60_000, lockDelayMs: 0, minHoldMs: 0 };
const claim = (id) => ({ ...COMMON, id, holder: "next", meta: {}, queues: true });
const startedMs = performance.now();
const sum = { points: {}, killed: 0, ended: 0, random: { kills: 0, leases: 0 }, findings: 0 };

for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => process.exit(130));
process.once("exit", () => rmSync(scratch, { recursive: true, force: true }));

function report(finding) {
  sum.findings++;
  if (values.json) console.log(JSON.stringify({ finding }));
  else console.error(finding);
}
const say = (line) => values.json || console.log(line);

for (const scenario of values.scenario === undefined ? SCENARIOS : [values.scenario]) await everyCall(scenario);
const kills = Number(values.kills ?? (values.scenario === undefined ? 1000 : 0));
if (kills > 0) {
  const result = await selfTest(scratch, { kills, killsForMs: Infinity, workers: 5 });
  sum.random = { kills: result.kills, leases: result.leases };
  say(`at random: ${result.kills} killed among ${result.leases} leases`);
  for (const fault of result.faults) report(fault);
}
const seconds = Math.round((performance.now() - startedMs) / 1000);
if (values.json) console.log(JSON.stringify({ ...sum, seconds }));
else
  console.log(
    `${sum.killed + sum.random.kills} killed, ${sum.ended} had ended before, ${sum.findings} findings in ${seconds} s`,
  );
process.exitCode = sum.findings === 0 ? 0 : 1;

async function everyCall(scenario) {
  const { stdout } = await run(join(scratch, "whole"), scenario, 0, "before");
  const calls = Number(/^calls (\d+)/m.exec(stdout)[1]);
  const points = Array.from({ length: calls }, (_, at) => at + 1).flatMap((at) => [
    [at, "before"],
    [at, "after"],
  ]);
  sum.points[scenario] = points.length;
  let killed = 0;
  const worker = async () => {
    for (let point = points.shift(); point !== undefined; point = points.shift()) {
      const dir = join(scratch, point.join("-"));
      const outcome = await run(dir, scenario, ...point);
      // Which calls there are depends a little on what the disk says of its times: a run may have fewer of them.
      if (outcome.signal === "SIGKILL") killed++;
      else sum.ended++;
      await survive(dir, outcome.stdout).catch((error) =>
        report(`${scenario}, killed ${point[1]} call ${point[0]}: ${error.message}`),
      );
      rmSync(dir, { recursive: true, force: true });
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  rmSync(join(scratch, "whole"), { recursive: true, force: true });
  sum.killed += killed;
  say(`${scenario}: killed at ${killed} of ${sum.points[scenario]} points, ${calls} calls`);
  // A run that kills no process shows nothing.
  if (killed < sum.points[scenario] / 2) report(`${scenario}: only ${killed} of ${sum.points[scenario]} were killed`);
}

function run(dir, scenario, at, when) {
  const args = [program, build, dir, scenario, String(at), when, "all"];
  return new Promise((resolve, reject) => {
    execFile(process.execPath, args, (error, stdout, stderr) => {
      if (stderr === "") resolve({ stdout, signal: error?.signal });
      else reject(new Error(stderr));
    });
  });
}

/** What was answered is so. Whether a lease without an answer is held or done is judged in test/backends/file/kills.test.ts. */
async function judgeOutcome(backend, output) {
  const last = (word) => [...output.matchAll(new RegExp(`^${word} (\\d+)`, "gm"))].at(-1)?.[1];
  const { outcome } = await backend.inspect("doomed");
  const answered = last("forgets") === undefined ? last("kept") : undefined;
  if (answered !== undefined && outcome === undefined) throw new Error(`the outcome of ${answered} is gone`);
  if (last("forgot") !== undefined && outcome !== undefined) throw new Error("an outcome came back");
  if (outcome !== undefined && outcome.value !== `${outcome.fence} ${"x".repeat(10_000)}`)
    throw new Error(`the outcome of ${outcome.fence} is not what was kept`);
}

/** The next claim gets the lock, with a greater fence, and can give it back; then none holds it or waits for it. */
async function survive(dir, output) {
  await endLasting(dir);
  const backend = new FileBackend({ dir, entriesMax: 2, hints: "poll" });
  try {
    await judgeOutcome(backend, output);
    const given = [...output.matchAll(/^fence (\d+) (\d+)$/gm)].map(
      ([, fence, run]) => BigInt(fence) + BigInt(run) - 1n,
    );
    const last = given.reduce((a, b) => (a > b ? a : b), 0n);
    const next = claim("the-next-one".padEnd(22, "x"));
    const endMs = performance.now() + FREE_MAX_MS;
    let answer = await backend.attempt(next);
    while (!answer.granted && performance.now() < endMs) {
      await new Promise((resolve) => setTimeout(resolve, 3));
      answer = await backend.attempt(next);
    }
    if (!answer.granted) throw new Error("no process got the lock");
    if (answer.fence <= last) throw new Error(`fence ${answer.fence} came after ${last}`);
    const was = await backend.release(next);
    if (was !== "held") throw new Error(`its release was answered with ${was}`);
    const { held, pending } = await backend.query("doomed");
    if (held.length + pending.length > 0) throw new Error(`${held.length} hold and ${pending.length} wait for ever`);
  } finally {
    await backend.close();
  }
}

/** A lease that outlives its process is released as its user would do it. */
async function endLasting(dir) {
  const backend = new FileBackend({ dir, detached: true, hints: "poll" });
  await backend.release(claim(LASTING));
  await backend.close();
}
