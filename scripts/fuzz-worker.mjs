// Runs programs for scripts/fuzz.mjs, which watches over it: a program that never ends must not end the fuzzing.
import vm from "node:vm";
import { parentPort, workerData } from "node:worker_threads";
import "./light-context.mjs";

const { generateProgram } = await import("../build/testing/programs/generate.js");
const { runProgram } = await import("../build/testing/programs/run.js");
const { shrinkProgram } = await import("../build/testing/programs/shrink.js");

/** Ends a timer that takes this much of a core: it loops. Costly, hence only for programs that are known to fail. */
const FIRE_MOST_MS = 300;
const script = new vm.Script("holdfastFire()");
const fire = (timer) => {
  globalThis.holdfastFire = timer;
  // Beside others that are busy, the same work takes longer.
  const { user, system } = process.cpuUsage();
  const slowness = Math.max(1, (process.uptime() * 1e6) / Math.max(1, user + system));
  script.runInThisContext({ timeout: Math.ceil(FIRE_MOST_MS * Math.min(100, slowness)) });
};

const { progress, shrinks } = workerData;
const reported = new Map();

/** One example of each rule is made small; of the rest only the seed is printed. */
async function report(program, finding, guarded) {
  const known = reported.get(finding.rule) ?? 0;
  reported.set(finding.rule, known + 1);
  let small = program;
  if (known < shrinks) {
    const trial = async (candidate) => {
      Atomics.add(progress, 1, 1);
      return (await runProgram(candidate, guarded ? { fire } : {})).findings;
    };
    small = (await shrinkProgram(program, finding.rule, trial)).program;
  }
  const { findings, log } = await runProgram(small, { trace: true, ...(guarded && { fire }) });
  parentPort.postMessage({
    kind: "red",
    seed: program.seed,
    finding: findings[0] ?? finding,
    ...(known < shrinks && { program: small, log }),
  });
}

parentPort.on("message", (order) => void obey(order));

async function obey(order) {
  const { from, to, program: given, guarded } = order;
  if (given !== undefined) {
    const { findings } = await runProgram(given, { fire });
    if (findings.length > 0) await report(given, findings[0], true);
    return parentPort.postMessage({ kind: "done", from, to });
  }
  let steps = 0;
  for (let seed = from; seed < to; seed++) {
    Atomics.store(progress, 0, seed);
    Atomics.add(progress, 1, 1);
    const program = generateProgram(seed);
    const verdict = await runProgram(program, guarded ? { fire } : {});
    steps += verdict.steps;
    if (verdict.findings.length > 0) await report(program, verdict.findings[0], guarded);
  }
  return parentPort.postMessage({ kind: "done", from, to, steps });
}
