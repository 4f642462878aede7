// Other libraries' plain locks of Redis and Holdfast's, on one key: redlock, redis-semaphore, redis-py and redsync; and redlock over three servers.
import { existsSync, mkdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { run } from "../bench/lib/peers.mjs";
import { wakesOf } from "./interop.mjs";
import { columnsOf, findingsOf, takeTurns } from "./take-turns.mjs";

const HERE = join(import.meta.dirname, "plain");
const TARGET = join(HERE, "target");
const REDIS_PY = "redis==8.1.0";

/** `prefix`: what the library puts before a lock's name. */
const LIBRARIES = [
  { library: "redlock 5 (npm)", servers: 1, command: () => node("redlock.mjs") },
  { library: "redlock 5 (npm), three servers", servers: 3, command: () => node("redlock.mjs") },
  { library: "redis-semaphore 5 (npm)", servers: 1, prefix: "mutex:", command: () => node("redis-semaphore.mjs") },
  { library: "redis-py 8.1 (PyPI)", servers: 1, command: redisPy },
  { library: "redsync 4 (Go)", servers: 1, command: redsync },
];

export async function judgePlain({ seconds, say }) {
  const [rows, findings, refusals] = [[], [], []];
  for (const { library, servers, prefix = "", command } of LIBRARIES) {
    const theirs = await command(say);
    if (typeof theirs === "string") {
      refusals.push(`${library}: ${theirs}`);
      continue;
    }
    for (const events of servers === 1 ? [true, false] : [true]) {
      say(`${library}, ${events ? "with" : "without"} keyspace events: ${seconds} s …`);
      const found = await onServers({ servers, prefix, theirs, seconds, events });
      const row = { library, "keyspace events": events ? "on" : "off", ...columnsOf(found) };
      rows.push(row);
      findings.push(...findingsOf(library, found, wakesOf("plain", row)));
    }
  }
  return { rows, findings, refusals };
}

/** Starts the servers, and lets processes of Holdfast and of theirs take turns on one lock there. `terms`: what is said to them besides. */
export async function onServers({ servers, prefix = "", ours = node("ours.mjs"), events, terms = {}, ...rest }) {
  const { startRedis } = await import("../build/lab/servers/redis.js");
  const args = events ? ["--notify-keyspace-events", "Kgx"] : [];
  const started = await Promise.all(Array.from({ length: servers }, () => startRedis({ args })));
  try {
    const order = {
      servers: started.map(({ host, port, password }) => ({ host, port, password })),
      url: urlOf(started, prefix),
      name: "judged",
      ...terms,
    };
    return await takeTurns({ ours, order, ...rest });
  } finally {
    await Promise.all(started.map((server) => server.stop()));
  }
}

function urlOf(servers, prefix) {
  const hosts = servers.map(({ host, port }) => `${host}:${port}`).join(",");
  const query = `layout=plain&prefix=${encodeURIComponent(prefix)}`;
  const login = `:${encodeURIComponent(servers[0].password)}`;
  if (servers.length === 1) return `redis://${login}@${hosts}?${query}`;
  // They run for the whole judgement, so nothing is lost; others would abstain for a while after their start.
  return `redlock://${login}@${hosts}?${query}&durable=true`;
}

export function node(file) {
  return [process.execPath, join(HERE, file)];
}

async function redisPy(say) {
  const python = join(TARGET, "venv/bin/python");
  if (existsSync(join(TARGET, "venv/done"))) return [python, join(HERE, "redis_py.py")];
  say("installing redis-py (pip; once) …");
  mkdirSync(TARGET, { recursive: true });
  const trouble =
    (await run("python3", ["-m", "venv", "venv"], TARGET)) ??
    (await run(python, ["-m", "pip", "install", "--quiet", REDIS_PY], TARGET)) ??
    (await run(python, ["-c", "open('venv/done', 'w')"], TARGET));
  return trouble === undefined ? [python, join(HERE, "redis_py.py")] : `it could not be installed: ${trouble}`;
}

async function redsync(say) {
  const program = join(TARGET, "redsync");
  const source = join(HERE, "redsync");
  const builtMs = statSync(program, { throwIfNoEntry: false })?.mtimeMs ?? 0;
  if (builtMs > statSync(join(source, "main.go")).mtimeMs) return [program];
  say("building the process of redsync (go build; once, a minute or so) …");
  const trouble = await run("go", ["build", "-o", program, "."], source);
  return trouble === undefined ? [program] : `it could not be built: ${trouble}`;
}
