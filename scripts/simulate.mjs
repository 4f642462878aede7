// Lives through many simulated worlds and reports those in which a promise was broken.
//
//   npm run simulate -- --seeds 20000          seeds 1 to 20000
//   npm run simulate -- --seeds 500 --from 7001
//   npm run simulate -- --seconds 3600         as many as fit; the end says with which seed to go on
//   npm run simulate -- --seed 8123            one world again, with everything that happened in it
//   … --size large                             all worlds large (or small, or middle); else the seed says which
//   … --json                                   one JSON line for each world with a violation, and one for the sum
//   … --json --each                            one JSON line for every world
//
// However it ends, also by Ctrl-C, the sum says exactly which seeds ran clean, so that several runs add up.
import { argumentsOf } from "./arguments.mjs";
import "./ensure-built.mjs";
import "./light-context.mjs";

const { values } = argumentsOf(import.meta.url, {
  options: {
    seeds: { type: "string" },
    from: { type: "string", default: "1" },
    seconds: { type: "string", default: "0" },
    seed: { type: "string" },
    size: { type: "string" },
    json: { type: "boolean", default: false },
    each: { type: "boolean", default: false },
  },
});
const { digestOf, simulate } = await import("../build/testing/simulation/simulate.js");
const { SIZES, sizeOf } = await import("../build/testing/simulation/size.js");
if (values.size !== undefined && !Object.hasOwn(SIZES, values.size))
  throw new TypeError(`Expected --size to be one of ${Object.keys(SIZES).join(", ")}, got ${values.size}`);

const whole = (text, option) => {
  if (!/^\d+$/.test(text)) throw new TypeError(`Expected --${option} to be a whole number, got ${text}`);
  return Number(text);
};
const one = values.seed !== undefined;
const from = whole(one ? values.seed : values.from, one ? "seed" : "from");
const seconds = whole(values.seconds, "seconds");
const seeds = one ? 1 : values.seeds !== undefined ? whole(values.seeds, "seeds") : seconds > 0 ? Infinity : 2000;

const COUNTED = ["steps", "simulatedMs", "holds", "lost", "writes", "rejected", "twice", "late"];
const plain = (_, value) => (typeof value === "bigint" ? String(value) : value);
const startedMs = performance.now();
/** @type {[first: number, last: number][]} */
const clean = [];
const sum = { worlds: 0, red: [], clean, troubles: {}, ...Object.fromEntries(COUNTED.map((what) => [what, 0])) };

/** Which ranges of seeds ran clean: [first, last], both included. */
function noteClean(seed) {
  const last = clean.at(-1);
  if (last?.[1] === seed - 1) last[1] = seed;
  else clean.push([seed, seed]);
}

let stopped = false;
for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => (stopped = true));
/** Unhandled rejections belong to the world that is at work. */
let unhandled = [];
process.on("unhandledRejection", (reason) => unhandled.push(reason));

/** Lives through one world, whatever it does: a world that throws is red, and has a seed. */
async function live(seed) {
  unhandled = [];
  let result;
  try {
    result = await simulate(seed, {}, SIZES[values.size] ?? sizeOf(seed));
  } catch (error) {
    return { seed, report: [`simulation seed=${seed}: ${String(error)}`] };
  }
  // The event loop turns once, so the last rejections are reported.
  await new Promise((resolve) => setImmediate(resolve));
  const rejections = unhandled.map((reason) => `simulation seed=${seed}: unhandled rejection: ${String(reason)}`);
  return { ...result, report: [...result.report, ...rejections] };
}

function tell(result, red) {
  if (!values.json) {
    if (one) for (const event of result.history ?? []) console.log(JSON.stringify(event, plain));
    for (const line of result.report) console.log(line);
    return;
  }
  if (!red && !one && !values.each) return;
  const { history, ...facts } = result;
  const digest = history && digestOf(result);
  console.log(JSON.stringify({ ...facts, digest, ...(one && { history }) }, plain));
}

let next = from;
while (next < from + seeds && !stopped && (seconds === 0 || performance.now() - startedMs < seconds * 1000)) {
  const seed = next++;
  const result = await live(seed);
  const red = result.report.length > 0;
  sum.worlds++;
  for (const what of COUNTED) sum[what] += result[what] ?? 0;
  for (const [what, times] of Object.entries(result.troubles ?? {}))
    sum.troubles[what] = (sum.troubles[what] ?? 0) + times;
  if (red) sum.red.push(seed);
  else noteClean(seed);
  tell(result, red);
  // Signals are heard when the event loop turns.
  if (seed % 50 === 0) {
    await new Promise((resolve) => setImmediate(resolve));
    if (process.stderr.isTTY)
      process.stderr.write(`\r${sum.worlds} of ${seeds} worlds, ${sum.red.length} red, at seed ${seed} `);
  }
}

const tookS = (performance.now() - startedMs) / 1000;
const cpu = process.cpuUsage();
const cpuS = (cpu.user + cpu.system) / 1e6;
const cleanWorlds = sum.worlds - sum.red.length;
if (values.json) {
  console.log(JSON.stringify({ sum: { from, next, cleanWorlds, seconds: tookS, cpuSeconds: cpuS, ...sum } }));
} else {
  const troubles = Object.entries(sum.troubles).map(([what, times]) => `${times} ${what}`);
  const ranges = clean.map(([first, last]) => (first === last ? String(first) : `${first}–${last}`));
  if (process.stderr.isTTY) process.stderr.write("\r");
  console.log(
    `${sum.worlds} worlds, ${sum.red.length} with a violation${sum.red.length > 0 ? ` (seeds ${sum.red.join(", ")})` : ""}; ` +
      `${sum.steps} steps, ${(sum.simulatedMs / 3_600_000).toFixed(1)} simulated hours in ${tookS.toFixed(1)} s (${cpuS.toFixed(1)} s of a core); ` +
      `${sum.holds} leases held, ${sum.lost} lost, ${sum.writes} writes, ${sum.rejected} of them turned away; ` +
      `${sum.twice} commands done twice, ${sum.late} late grant messages; troubles: ${troubles.join(", ")}.`,
  );
  console.log(`Clean: ${cleanWorlds} worlds, seeds ${ranges.join(", ") || "none"}. To go on: --from ${next}`);
}
process.exitCode = sum.red.length > 0 ? 1 : 0;
