// Lives through many simulated worlds and reports those in which a promise was broken.
//
//   npm run simulate -- --seeds 20000          seeds 1 to 20000
//   npm run simulate -- --seeds 500 --from 7001
//   npm run simulate -- --seed 8123            one world again, with everything that happened in it
//   … --json                                   one JSON line per world
import { parseArgs } from "node:util";
import "./ensure-built.mjs";

const { values } = parseArgs({
  options: {
    seeds: { type: "string", default: "2000" },
    from: { type: "string", default: "1" },
    seed: { type: "string" },
    json: { type: "boolean", default: false },
  },
});
const { digestOf, simulate } = await import("../dist/testing/simulation/simulate.js");

const whole = (text, option) => {
  if (!/^\d+$/.test(text)) throw new TypeError(`Expected --${option} to be a whole number, got ${text}`);
  return Number(text);
};
const one = values.seed !== undefined;
const from = whole(one ? values.seed : values.from, one ? "seed" : "from");
const seeds = one ? 1 : whole(values.seeds, "seeds");

const plain = (_, value) => (typeof value === "bigint" ? String(value) : value);
const startedMs = performance.now();
const sum = { worlds: 0, red: 0, steps: 0, simulatedMs: 0, holds: 0, lost: 0, writes: 0, rejected: 0, troubles: {} };

for (let seed = from; seed < from + seeds; seed++) {
  const result = await simulate(seed);
  sum.worlds++;
  for (const what of ["steps", "simulatedMs", "holds", "lost", "writes", "rejected"]) sum[what] += result[what];
  for (const [what, times] of Object.entries(result.troubles)) sum.troubles[what] = (sum.troubles[what] ?? 0) + times;
  if (result.violations.length > 0) sum.red++;
  if (values.json) {
    const { history, ...facts } = result;
    console.log(JSON.stringify({ ...facts, digest: digestOf(result), ...(one && { history }) }, plain));
    continue;
  }
  if (one) for (const event of result.history) console.log(JSON.stringify(event, plain));
  for (const line of result.report) console.log(line);
  if (process.stderr.isTTY && seed % 50 === 0)
    process.stderr.write(`\r${seed - from + 1} of ${seeds} worlds, ${sum.red} red `);
}

if (!values.json) {
  const seconds = (performance.now() - startedMs) / 1000;
  const troubles = Object.entries(sum.troubles).map(([what, times]) => `${times} ${what}`);
  if (process.stderr.isTTY) process.stderr.write("\r");
  console.log(
    `${sum.worlds} worlds (seeds ${from} to ${from + seeds - 1}), ${sum.red} with a violation; ` +
      `${sum.steps} steps, ${(sum.simulatedMs / 3_600_000).toFixed(1)} simulated hours in ${seconds.toFixed(1)} s; ` +
      `${sum.holds} leases held, ${sum.lost} lost, ${sum.writes} writes, ${sum.rejected} of them turned away; ` +
      `troubles: ${troubles.join(", ")}.`,
  );
}
process.exitCode = sum.red > 0 ? 1 : 0;
