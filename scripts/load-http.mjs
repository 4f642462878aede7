// Each HTTP adapter under load: four servers, in processes of their own, on one store. Now and then one is killed in the middle of a payment and
// replaced, or stopped for longer than its leases last. No two runs that hold one lock at once, and no run after an outcome was stored. Runs
// that were repeated because their server was killed or stopped are counted by themselves.
//
//   npm run test:adapters -- --seconds 12 --store redis --framework express
import { fork } from "node:child_process";
import { once } from "node:events";
import { appendFileSync } from "node:fs";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import { parseArgs } from "node:util";
import { startRedis } from "../build/lab/servers/redis.js";
import { judge } from "./load-http/judge.mjs";

const { values } = parseArgs({
  options: {
    seconds: { type: "string", default: "12" },
    store: { type: "string", default: "redis" },
    framework: { type: "string", default: "express,fastify,hono,nestjs" },
  },
});
const SERVER = new URL("load-http/server.mjs", import.meta.url);
const [SERVERS, CLIENTS, ORDERS] = [4, 12, 3];
/** Longer than the servers' leases last, and too short for them to be lost. */
const [LONG_MS, SHORT_MS] = [5500, 300];

const folder = await mkdtemp(join(tmpdir(), "holdfast-http-"));
const redis = values.store === "redis" ? await startRedis() : undefined;
const store = redis?.url ?? pathToFileURL(join(folder, "locks")).href;
let failed = false;
try {
  for (const framework of values.framework.split(",")) failed = !(await load(framework)) || failed;
} finally {
  await redis?.stop();
  await rm(folder, { recursive: true });
}
if (failed) process.exitCode = 1;

async function start(framework, log) {
  const child = fork(SERVER, [framework, store, log], { stdio: ["ignore", "ignore", "inherit", "ipc"] });
  const exited = once(child, "exit").then(([code]) => {
    throw new Error(`a server ended with ${code} before it listened`);
  });
  const [port] = await Promise.race([once(child, "message"), exited]);
  exited.catch(() => undefined);
  return { child, url: `http://127.0.0.1:${port}` };
}

async function load(framework) {
  const log = join(folder, `${framework}.log`);
  const servers = await Promise.all(Array.from({ length: SERVERS }, () => start(framework, log)));
  const untilMs = performance.now() + Number(values.seconds) * 1000;
  const statuses = {};
  const replies = new Map();
  let keys = 0;
  const clients = Array.from({ length: CLIENTS }, async (_, client) => {
    while (performance.now() < untilMs) {
      // Each key is used several times, by clients that know nothing of each other.
      const key = `${Math.floor(keys++ / 4)}`;
      const isOrder = client % 2 === 0;
      const path = isOrder ? `/orders/${keys % ORDERS}` : "/payments";
      const headers = {
        "content-type": "application/json",
        "x-user": "ada",
        ...(isOrder ? {} : { "idempotency-key": key }),
      };
      // A payment without an answer is tried again, on any server, as a client would; also after the end of the load.
      let status;
      do {
        const { url } = servers[Math.floor(Math.random() * SERVERS)];
        const sent = await fetch(`${url}${path}`, { method: "POST", headers, body: "{}" }).catch(() => undefined);
        const body = await sent?.text().catch(() => undefined);
        status = body === undefined ? "none" : sent.status;
        statuses[status] = (statuses[status] ?? 0) + 1;
        if (status === 201) replies.set(key, (replies.get(key) ?? new Set()).add(body));
        else await pause(20);
      } while (!isOrder && status !== 201 && performance.now() < untilMs + 60_000);
    }
  });
  await pause(Number(values.seconds) * 200);
  let kills = 0;
  for (let round = 0; performance.now() < untilMs - LONG_MS; round++) {
    const at = await atWork(servers, log, untilMs);
    if (at < 0) break;
    if (round % 3 === 0) kills += await killOne(framework, servers, at, log);
    else await stopOne(servers[at], log, round % 3 === 1 ? LONG_MS : SHORT_MS);
  }
  await Promise.all(clients);
  const ended = servers.map(({ child }) => once(child, "exit"));
  for (const { child } of servers) child.send("stop");
  await Promise.all(ended);
  const { counts, faults } = judge(await readFile(log, "utf8"), replies);
  const ok = faults.length === 0 && kills > 0 && counts.runs > 0 && replies.size > 0;
  console.log(
    `${framework} on ${values.store}: ${kills} kills, ${JSON.stringify(counts)}, answers ${JSON.stringify(statuses)}: ${ok ? "ok" : "FAILED"}`,
  );
  for (const fault of faults.slice(0, 10)) console.log(" ", fault);
  return ok;
}

/** One that is in the middle of a payment, if there is one in time. */
async function atWork(servers, log, untilMs) {
  while (performance.now() < untilMs) {
    await pause(10);
    // It is there with its first line.
    const working = workingOn(await readFile(log, "utf8").catch(() => ""), "payment");
    const at = servers.findIndex(({ child }) => working.has(String(child.pid)));
    if (at >= 0) return at;
  }
  return -1;
}

async function killOne(framework, servers, at, log) {
  const { child } = servers[at];
  const exited = once(child, "exit");
  // Before it is: some stores know at once that it is gone, and another run begins.
  appendFileSync(log, `killed ${child.pid}\n`);
  child.kill("SIGKILL");
  await exited;
  servers[at] = await start(framework, log);
  return 1;
}

async function stopOne({ child }, log, forMs) {
  appendFileSync(log, `stopped ${child.pid}\n`);
  child.kill("SIGSTOP");
  await pause(forMs);
  child.kill("SIGCONT");
}

/** Who is in the middle of such a run now. */
function workingOn(text, prefix) {
  const inside = new Map();
  for (const [what, name, pid] of text.split("\n").map((line) => line.split(" "))) {
    if (what === "begin" && name.startsWith(prefix)) inside.set(name, pid);
    else inside.delete(name);
  }
  return new Set(inside.values());
}
