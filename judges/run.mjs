// Judges Holdfast by programs that others wrote, on the same locks.
//
//   npm run judges                    all judges
//   npm run judges -- etcd            Go's concurrency.Mutex and Holdfast on one lock, on Debian's etcd and on newer ones
//   npm run judges -- stopped-leader  etcd alone: does a leader that was stopped and replaced revoke leases that are kept alive?
//   npm run judges -- etcdctl         `etcdctl lock` and Holdfast on one lock
//   npm run judges -- shedlock        ShedLock (Java) and Holdfast on one table of Postgres
//   npm run judges -- plain           redlock, redis-semaphore (npm), redis-py, redsync (Go) and Holdfast on one key of Redis
//   npm run judges -- drop-ins        redlock, redis-semaphore (npm) and the drop-ins for them on one lock
//   npm run judges -- redisson        Redisson (Java), old and new, and Holdfast on one lock of each kind and topology
//   npm run judges -- zookeeper       Curator (Java), kazoo (Python) and Holdfast on one lock of ZooKeeper
//   npm run judges -- suites          Curator's tests of its mutex, and ShedLock's of a provider, on locks of Holdfast
//   npm run judges -- verrou          Verrou's published suite for drivers (npm) over holdfast/verrou
//   npm run judges -- web-locks       our tests of the Web Locks standard, on Node's own navigator.locks and on ours
//   … --seconds 60                    how long they take turns on each store (30)
//   … --suite                         also the tests of the backend, on the newer servers
//   … --write                         keeps the results in judges/results.json, and writes the tables of docs/judges.md
//
// What is needed from npm is installed in judges/ on first use.
//
// Exit: 0 nothing found, 1 a judge found something, 69 a judge could not be had here.
import { join } from "node:path";
import { argumentsOf } from "../scripts/arguments.mjs";
import "../scripts/ensure-built.mjs";
import { install, run } from "../bench/lib/peers.mjs";
import { judgeDropIns } from "./drop-ins.mjs";
import { judgeEtcd } from "./etcd.mjs";
import { judgeEtcdctl } from "./etcdctl.mjs";
import { judgePlain } from "./plain.mjs";
import { judgeRedisson } from "./redisson.mjs";
import { table, writeResults } from "./results.mjs";
import { judgeShedLock } from "./shedlock.mjs";
import { judgeStoppedLeader } from "./stopped-leader.mjs";
import { judgeSuites } from "./suites.mjs";
import { judgeVerrou } from "./verrou.mjs";
import { judgeWebLocks } from "./web-locks.mjs";
import { judgeZooKeeper } from "./zookeeper.mjs";

const ROOT = join(import.meta.dirname, "..");
const JUDGES = {
  etcd: judgeEtcd,
  "stopped-leader": judgeStoppedLeader,
  etcdctl: judgeEtcdctl,
  shedlock: judgeShedLock,
  plain: judgePlain,
  "drop-ins": judgeDropIns,
  redisson: judgeRedisson,
  zookeeper: judgeZooKeeper,
  suites: judgeSuites,
  verrou: judgeVerrou,
  "web-locks": judgeWebLocks,
};

const { values, positionals } = argumentsOf(import.meta.url, {
  allowPositionals: true,
  options: {
    seconds: { type: "string", default: "30" },
    suite: { type: "boolean", default: false },
    write: { type: "boolean", default: false },
  },
});
const names = positionals.length > 0 ? positionals : Object.keys(JUDGES);
const unknown = names.find((name) => !Object.hasOwn(JUDGES, name));
if (unknown !== undefined) throw new TypeError(`Expected a judge of ${Object.keys(JUDGES).join(", ")}, got ${unknown}`);

const context = { seconds: Number(values.seconds), suite: values.suite, say: (text) => console.error(text) };
const trouble = await install(context.say, import.meta.dirname);
if (trouble !== undefined) context.say(`the libraries from npm could not be installed: ${trouble}`);
const codes = [];
for (const name of names) {
  const { rows, findings, refusals } = await JUDGES[name](context);
  const text = table(rows);
  console.log(text);
  for (const refusal of refusals) console.log(`not judged: ${refusal}`);
  for (const finding of findings) console.log(`found: ${finding}`);
  if (values.write) writeResults(name, rows);
  codes.push(findings.length > 0 ? 1 : 0, refusals.length > 0 ? 69 : 0);
}
// The tables are written as the formatter wants them.
if (values.write) await run("npm", ["run", "--silent", "format"], ROOT);
process.exitCode = codes.includes(1) ? 1 : Math.max(...codes);
