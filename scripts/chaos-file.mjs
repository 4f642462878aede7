/**
 * The long campaign against the file backend: SIGKILL before and after every single file-system call of every scenario,
 * then a thousand kills at random moments. Usage: npm run build && npm run chaos:file -- [directory] [kills]
 */
import { execFile } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { FileBackend } from "../dist/backends/file/backend.js";
import { selfTest } from "../dist/cli/doctor/file-self-test.js";

const scratch = mkdtempSync(join(process.argv[2] ?? tmpdir(), "hf-chaos-"));
const kills = Number(process.argv[3] ?? 1000);
const dist = join(import.meta.dirname, "../dist");
const program = join(import.meta.dirname, "../test/backends/file/killed-process.mjs");
const problems = [];

try {
  for (const scenario of ["open", "alone", "shared", "handOver", "together", "outcome", "stolen"])
    console.log(await everyCall(scenario));
  const result = await selfTest(scratch, { kills, killsForMs: Infinity, workers: 5 });
  console.log(JSON.stringify(result));
  problems.push(...result.faults);
} finally {
  rmSync(scratch, { recursive: true, force: true });
}
for (const problem of problems) console.error(problem);
process.exitCode = problems.length === 0 ? 0 : 1;

async function everyCall(scenario) {
  const calls = Number(/^calls (\d+)/m.exec(await run(join(scratch, "whole"), scenario, 0, "before"))[1]);
  const points = Array.from({ length: calls }, (_, at) => at + 1).flatMap((at) => [
    [at, "before"],
    [at, "after"],
  ]);
  const count = points.length;
  const worker = async () => {
    for (let point = points.shift(); point !== undefined; point = points.shift()) {
      const dir = join(scratch, point.join("-"));
      const output = await run(dir, scenario, ...point);
      await survive(dir, output).catch((error) =>
        problems.push(`${scenario}, killed ${point[1]} call ${point[0]}: ${error.message}`),
      );
      rmSync(dir, { recursive: true, force: true });
    }
  };
  await Promise.all([worker(), worker(), worker(), worker()]);
  return `${scenario}: killed at ${count} points of ${calls} calls`;
}

function run(dir, scenario, at, when) {
  const args = [program, dist, dir, scenario, String(at), when, "all"];
  return new Promise((resolve) => execFile(process.execPath, args, (_error, stdout) => resolve(stdout)));
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

async function survive(dir, output) {
  const backend = new FileBackend({ dir, entriesMax: 2, hints: "poll" });
  await judgeOutcome(backend, output);
  const given = [...output.matchAll(/^fence (\d+) (\d+)$/gm)].map(([, fence, run]) => BigInt(fence) + BigInt(run) - 1n);
  const last = given.reduce((a, b) => (a > b ? a : b), 0n);
  const common = {
    name: "doomed",
    limit: 1,
    ttlMs: 60_000,
    lockDelayMs: 0,
    minHoldMs: 0,
    holder: "next",
    meta: {},
    queues: true,
  };
  const endMs = performance.now() + 20_000;
  const claim = { ...common, id: "the-next-one", mode: "exclusive" };
  let answer = await backend.attempt(claim);
  while (!answer.granted && performance.now() < endMs) {
    await new Promise((resolve) => setTimeout(resolve, 3));
    answer = await backend.attempt(claim);
  }
  if (!answer.granted) throw new Error("no process got the lock");
  if (answer.fence <= last) throw new Error(`fence ${answer.fence} came after ${last}`);
  if (!(await backend.release(claim))) throw new Error("it could not be released");
  await backend.close();
}
