// The adapters for jobs under load: four processes on one store, which run the slots of a schedule, or the jobs of a queue. Now and then one is
// killed in the middle of a run and replaced, or stopped for longer than its leases last. No two runs that hold one lock at once, no run after a
// slot or job was done, none missed, and no job before one of its lock that was added earlier. Runs that were repeated because their process was killed or stopped are counted by themselves.
//
// The clocks of the processes differ by up to `--apart` seconds, and half of the kills come at any moment, not only in the middle of a run.
//
//   npm run test:jobs -- --seconds 24 --store redis,postgres,file --kind node-cron,croner,nest,timer,bullmq --apart 5
import { fork } from "node:child_process";
import { once } from "node:events";
import { appendFileSync, writeFileSync } from "node:fs";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import { Queue } from "bullmq";
import { startPostgres } from "../build/lab/servers/postgres.js";
import { startRedis } from "../build/lab/servers/redis.js";
import { argumentsOf } from "./arguments.mjs";
import { judgeJobs } from "./load-jobs/judge.mjs";

const { values } = argumentsOf(import.meta.url, {
  options: {
    seconds: { type: "string", default: "24" },
    store: { type: "string", default: "redis" },
    kind: { type: "string", default: "node-cron,croner,nest,timer,bullmq" },
    apart: { type: "string", default: "5" },
  },
});
const PROCESS = new URL("load-jobs/process.mjs", import.meta.url);
const [PROCESSES, KEYS] = [4, 3];
/** Longer than the leases last, and too short for them to be lost. */
const [LONG_MS, SHORT_MS] = [5500, 300];
/** That of the schedule in load-jobs/process.mjs. */
const SLOT_MS = 2000;
/** How long what is left at the end may take: a lease of a process that was killed, and what queues behind it. */
const DRAIN_MS = 120_000;

const folder = await mkdtemp(join(tmpdir(), "holdfast-jobs-"));
const redis = await startRedis();
const stores = values.store.split(",");
const postgres = stores.includes("postgres") ? await startPostgres() : undefined;
let failed = false;
try {
  for (const store of stores) for (const kind of values.kind.split(",")) failed = !(await load(kind, store)) || failed;
} finally {
  await redis.stop();
  await postgres?.stop();
  await rm(folder, { recursive: true });
}
if (failed) process.exitCode = 1;

/** The clock of the process in that place: early, late, or neither. */
function aheadMs(place) {
  return Math.round((place / (PROCESSES - 1) - 0.5) * Number(values.apart) * 1000);
}

async function start(kind, store, log, place) {
  const child = fork(PROCESS, [kind, store, log, redis.url, String(aheadMs(place))], {
    stdio: ["ignore", "ignore", "inherit", "ipc"],
  });
  const exited = once(child, "exit").then(([code]) => {
    throw new Error(`a process ended with ${code} before it was ready`);
  });
  await Promise.race([once(child, "message"), exited]);
  exited.catch(() => undefined);
  return child;
}

function urlOf(store, kind) {
  if (store === "file") return pathToFileURL(join(folder, `${kind}-locks`)).href;
  return store === "postgres" ? `${postgres.url}?migrate=true` : redis.url;
}

async function load(kind, where) {
  const log = join(folder, `${kind}-${where}.log`);
  writeFileSync(log, "");
  await redis.cli("FLUSHALL");
  const store = urlOf(where, kind);
  const children = await Promise.all(Array.from({ length: PROCESSES }, (_, place) => start(kind, store, log, place)));
  const untilMs = Date.now() + Number(values.seconds) * 1000;
  const work = kind === "bullmq" ? addJobs(untilMs) : slotsUntil(untilMs);
  await pause(1500);
  let [kills, stops] = [0, 0];
  for (let round = 0; Date.now() < untilMs - LONG_MS; round++) {
    const at = round % 4 === 2 ? await anyOne() : await atWork(children, log, untilMs);
    if (at < 0) break;
    if (round % 2 === 0) kills += await killOne(kind, store, children, at, log);
    else stops += await stopOne(children[at], log, round % 4 === 1 ? LONG_MS : SHORT_MS);
  }
  const { expected, orders } = await work;
  await drained(log, expected);
  const ended = children.map((child) => once(child, "exit"));
  for (const child of children) child.send("stop");
  await Promise.all(ended);
  const { counts, faults } = judgeJobs(await readFile(log, "utf8"), expected, orders);
  const ok = faults.length === 0 && kills > 0 && stops > 0 && counts.runs >= expected.size && expected.size > 0;
  const said = JSON.stringify({ kills, stops, expected: expected.size, ...counts });
  console.log(`${kind} on ${where}: ${said}: ${ok ? "ok" : "FAILED"}`);
  for (const fault of faults.slice(0, 10)) console.log(" ", fault);
  return ok;
}

/** The slots that are due from now on, until then. */
async function slotsUntil(untilMs) {
  const expected = new Set();
  for (let ms = Math.ceil(Date.now() / SLOT_MS) * SLOT_MS + SLOT_MS; ms < untilMs; ms += SLOT_MS) {
    expected.add(`once:${new Date(ms).toISOString()}`);
  }
  await pause(Math.max(0, untilMs - Date.now()));
  return { expected, orders: [] };
}

async function addJobs(untilMs) {
  const queue = new Queue("load", { connection: { host: redis.host, port: redis.port, password: redis.password } });
  const expected = new Set();
  const orders = Array.from({ length: KEYS }, () => []);
  for (let number = 0; Date.now() < untilMs; number++) {
    // Some fail once, and are tried again after a while.
    const data = { key: `key:${number % KEYS}`, fails: number % 20 === 7 };
    const { id } = await queue.add("job", data, { attempts: 1000, backoff: { type: "fixed", delay: 300 } });
    expected.add(`once:${id}`);
    orders[number % KEYS].push(`once:${id}`);
    await pause(60);
  }
  await queue.close();
  return { expected, orders };
}

/** Resolves when all that is expected has ended, or does not in time: the judge says what is missing. */
async function drained(log, expected) {
  const untilMs = Date.now() + DRAIN_MS;
  while (Date.now() < untilMs) {
    const lines = (await readFile(log, "utf8"))
      .split("\n")
      .filter((line) => line.startsWith("end") && line.endsWith("held"));
    const done = new Set(lines.map((line) => line.split(" ")[1]));
    if ([...expected].every((name) => done.has(name))) break;
    await pause(200);
  }
  // For what is stored after its end.
  await pause(500);
}

/** Whichever, whatever it does. */
async function anyOne() {
  await pause(Math.random() * 2 * SLOT_MS);
  return Math.floor(Math.random() * PROCESSES);
}

/** One that is in the middle of a run, if there is one in time. */
async function atWork(children, log, untilMs) {
  while (Date.now() < untilMs) {
    await pause(10);
    const inside = new Map();
    for (const [what, name, pid] of (await readFile(log, "utf8")).split("\n").map((line) => line.split(" "))) {
      if (what === "begin") inside.set(name, pid);
      else inside.delete(name);
    }
    const working = new Set(inside.values());
    const at = children.findIndex(({ pid }) => working.has(String(pid)));
    if (at >= 0) return at;
  }
  return -1;
}

async function killOne(kind, store, children, at, log) {
  const child = children[at];
  const exited = once(child, "exit");
  // Before it is: some stores know at once that it is gone, and another run begins.
  appendFileSync(log, `killed ${child.pid}\n`);
  child.kill("SIGKILL");
  await exited;
  children[at] = await start(kind, store, log, at);
  return 1;
}

async function stopOne(child, log, forMs) {
  appendFileSync(log, `stopped ${child.pid}\n`);
  child.kill("SIGSTOP");
  await pause(forMs);
  child.kill("SIGCONT");
  return 1;
}
