// Runs made-up user programs over the memory backend and reports those that break a rule, made as small as they go.
//
//   npm run fuzz -- --programs 1000000             seeds 1 to 1000000
//   npm run fuzz -- --programs 5000 --seed 7001    seeds 7001 to 12000
//   npm run fuzz -- --seconds 600                  as many as fit
//   npm run fuzz -- --one 8123                     the program of one seed, with everything that happened
//   npm run fuzz -- --program '{"threads":[…]}'    a program as it was printed
//   … --keep-going                                 goes on after the first that fails
//   … --shrink 3                                   makes so many small for each rule (1)
//   … --json                                       one JSON line for each finding, and one for the sum
//
// However it ends, also by Ctrl-C, the sum says with which seed to go on, so that several runs add up.
import { argumentsOf } from "./arguments.mjs";
import { Worker } from "node:worker_threads";
import "./ensure-built.mjs";

const { values } = argumentsOf(import.meta.url, {
  options: {
    programs: { type: "string", default: "10000" },
    seed: { type: "string", default: "1" },
    seconds: { type: "string", default: "0" },
    one: { type: "string" },
    program: { type: "string" },
    shrink: { type: "string", default: "1" },
    "keep-going": { type: "boolean", default: false },
    json: { type: "boolean", default: false },
  },
});
const { printProgram } = await import("../build/testing/programs/print.js");

const whole = (text, option) => {
  if (!/^\d+$/.test(text)) throw new TypeError(`Expected --${option} to be a whole number, got ${text}`);
  return Number(text);
};
const seconds = whole(values.seconds, "seconds");
const first = whole(values.one ?? values.seed, values.one === undefined ? "seed" : "one");
const count = values.one !== undefined ? 1 : seconds > 0 ? Infinity : whole(values.programs, "programs");
const shrinks = whole(values.shrink, "shrink");
const alone = values.one !== undefined || values.program !== undefined;

/** Programs in one order, and how much of a core one of them may take before it is said to loop: a busy machine is no loop. */
const BATCH = 500;
const SILENCE_MS = 5000;
/** One that uses no core either waits for something that never comes. */
const STANDSTILL_MS = 60_000;
const startedMs = performance.now();
const sum = { programs: 0, steps: 0, red: 0, rules: {} };
let stopped = false;
for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => (stopped = true));
/** [the seed at work, how many programs have been begun] */
const progress = new Int32Array(new SharedArrayBuffer(8));

function tell({ seed, finding, program, log }) {
  sum.red++;
  sum.rules[finding.rule] = (sum.rules[finding.rule] ?? 0) + 1;
  if (values.json) return console.log(JSON.stringify({ seed, ...finding, program, ...(alone && { log }) }));
  if (program === undefined) return undefined;
  console.log(`\n── seed ${seed}: ${finding.rule}: ${finding.message}\n${printProgram(program)}`);
  console.log(`   npm run fuzz -- --program '${JSON.stringify(program)}'`);
  if (alone) console.log(log.join("\n"));
}

/** Lets a worker do one order; starts it anew where a program loops for ever. */
function work(order) {
  return new Promise((resolve, reject) => {
    const worker = new Worker(new URL("./fuzz-worker.mjs", import.meta.url), {
      workerData: { progress, shrinks },
      resourceLimits: { maxOldGenerationSizeMb: 1500 },
    });
    let [seen, seenMs, seenAtMs] = [-1, 0, 0];
    const watch = setInterval(() => {
      const { user, system } = process.cpuUsage();
      const [usedMs, nowMs] = [(user + system) / 1000, performance.now()];
      if (progress[1] !== seen) [seen, seenMs, seenAtMs] = [progress[1], usedMs, nowMs];
      if (usedMs - seenMs < SILENCE_MS && nowMs - seenAtMs < STANDSTILL_MS) return undefined;
      clearInterval(watch);
      void worker.terminate().then(() => resolve({ stuckAt: progress[0] }));
      return undefined;
    }, 1000);
    const end = (result) => {
      clearInterval(watch);
      void worker.terminate().then(() => resolve(result));
    };
    let next = order.from;
    const send = () => {
      const full = stopped || next >= order.to || (seconds > 0 && performance.now() - startedMs > seconds * 1000);
      if (full || (sum.red > 0 && !values["keep-going"])) return end({ stuckAt: undefined });
      const to = Math.min(order.to, next + BATCH);
      worker.postMessage({ ...order, from: next, to });
      next = to;
    };
    worker.on("message", (message) => {
      if (message.kind === "red") return tell(message);
      sum.programs += order.program === undefined ? message.to - message.from : 1;
      sum.steps += message.steps ?? 0;
      showProgress();
      return order.program === undefined ? send() : end({ stuckAt: undefined });
    });
    worker.on("error", (error) => {
      clearInterval(watch);
      if (error.code === "ERR_WORKER_OUT_OF_MEMORY") resolve({ stuckAt: progress[0] });
      else reject(error);
    });
    if (order.program === undefined) send();
    else worker.postMessage(order);
  });
}

let shownMs = 0;
function showProgress() {
  if (values.json || performance.now() - shownMs < 1000) return;
  shownMs = performance.now();
  const perSecond = sum.programs / ((shownMs - startedMs) / 1000);
  process.stderr.write(`\r${sum.programs} programs, ${sum.red} red, ${perSecond.toFixed(0)} per second `);
}

if (values.program !== undefined) await work({ program: JSON.parse(values.program), from: 0, to: 1 });
else {
  const to = first + count;
  for (let from = first; from < to;) {
    const { stuckAt } = await work({ from, to });
    if (stuckAt === undefined) break;
    if (stopped) break;
    // It looped for ever: once more under guard, which can tell where, and then on behind it.
    await work({ from: stuckAt, to: stuckAt + 1, guarded: true });
    from = stuckAt + 1;
  }
}
const tookMs = performance.now() - startedMs;
// Batches end whole, and in the order of their seeds.
const next = first + sum.programs;
if (values.json) console.log(JSON.stringify({ ...sum, seed: first, next, seconds: tookMs / 1000 }));
else {
  const rules = Object.entries(sum.rules).map(([rule, times]) => `${times} × ${rule}`);
  console.log(
    `\n${sum.programs} programs from seed ${first} in ${(tookMs / 1000).toFixed(1)} s ` +
      `(${(sum.programs / (tookMs / 1000)).toFixed(0)} per second, ${(sum.steps / Math.max(1, sum.programs)).toFixed(0)} timers each), ` +
      `${sum.red} break a rule${rules.length > 0 ? `: ${rules.join(", ")}` : ""}.${stopped ? ` Go on with --seed ${next}.` : ""}`,
  );
}
process.exitCode = sum.red > 0 ? 1 : 0;
