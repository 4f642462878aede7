// Drives a real store with real clients, each over a network of its own, through faults and odd programs; and judges it.
//
//   npm run drive -- --store redis --seconds 1200                 seeds 1, 2, … for twenty minutes
//   npm run drive -- --store redis --client node-redis --seed 812 --rounds 1     one round again
//   stores: redis, sentinel, cluster, quorum, zookeeper, postgres, etcd, file; clients: ioredis, ioredis6, node-redis
//   … --keep-going     does not stop at the first finding
//   … --json           one JSON document at the end
//   … --dist DIR       drives another build of Holdfast
import { resolve } from "node:path";
import { argumentsOf } from "./arguments.mjs";
import "./ensure-built.mjs";

const { values } = argumentsOf(import.meta.url, {
  options: {
    store: { type: "string", default: "redis" },
    client: { type: "string", default: "ioredis" },
    seed: { type: "string", default: "1" },
    seconds: { type: "string", default: "60" },
    rounds: { type: "string" },
    dist: { type: "string" },
    json: { type: "boolean", default: false },
    "keep-going": { type: "boolean", default: false },
  },
});
const { drive } = await import("../build/lab/drive/drive.js");
const { STORES } = await import("../build/lab/drive/store.js");
const { CLIENT_LIBRARIES } = await import("../build/lab/drive/connections.js");

const oneOf = (text, option, choices) => {
  if (!choices.includes(text)) throw new TypeError(`Expected --${option} to be of ${choices.join(", ")}, got ${text}`);
  return text;
};
const number = (text, option) => {
  if (!/^\d+(\.\d+)?$/.test(text)) throw new TypeError(`Expected --${option} to be a number, got ${text}`);
  return Number(text);
};

const PROGRESS_MS = 10_000;
let shownMs = 0;
let printed = 0;
const line = ({ rounds, steps, counts, faults, findings }) =>
  `${rounds} rounds, ${steps} steps, ${counts.leases ?? 0} leases, ${faults} faults, ${findings.length} findings`;
const summary = await drive({
  store: oneOf(values.store, "store", STORES),
  client: oneOf(values.client, "client", CLIENT_LIBRARIES),
  seed: number(values.seed, "seed"),
  seconds: number(values.seconds, "seconds"),
  rounds: values.rounds === undefined ? undefined : number(values.rounds, "rounds"),
  dist: values.dist === undefined ? undefined : resolve(values.dist),
  keepGoing: values["keep-going"],
  onRound: (sofar) => {
    for (; printed < sofar.findings.length; printed++) console.error(sofar.findings[printed]);
    if (performance.now() - shownMs < PROGRESS_MS) return;
    shownMs = performance.now();
    console.error(`${values.store}: ${line(sofar)}`);
  },
});
for (; printed < summary.findings.length; printed++) console.error(summary.findings[printed]);
if (values.json) console.log(JSON.stringify(summary));
else {
  const sorted = Object.entries(summary.counts).toSorted(([a], [b]) => (a < b ? -1 : 1));
  console.log(sorted.map(([what, count]) => `${what}: ${count}`).join("\n"));
  console.log(`${summary.store} (${summary.client}), seeds from ${summary.seed}: ${line(summary)}.`);
}
process.exitCode = summary.findings.length > 0 ? 1 : 0;

// Whatever keeps the process alive now was left behind; this timer does not.
setTimeout(() => {
  console.error(`The process does not end by itself: ${process.getActiveResourcesInfo().join(", ")}`);
  process.exit(1);
}, 15_000).unref();
