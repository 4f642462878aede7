// Processes of redlock and of redis-semaphore, and of the drop-ins in their place, on one lock: as pods of a service that moves over one by one.
import { join } from "node:path";
import { wakesOf } from "./interop.mjs";
import { node, onServers } from "./plain.mjs";
import { columnsOf, findingsOf } from "./take-turns.mjs";

const ROLLING = "rolling";
const OVER_PLAIN = "`locks` over plain keys";
const RUNS = [
  { library: "redlock", lock: "Redlock", servers: 1, layout: ROLLING },
  { library: "redlock", lock: "Redlock", servers: 3, layout: ROLLING },
  { library: "redlock", lock: "Redlock", servers: 1, layout: OVER_PLAIN },
  { library: "redis-semaphore", lock: "Mutex", servers: 1, layout: ROLLING },
  { library: "redis-semaphore", lock: "RedlockMutex", servers: 3, layout: ROLLING },
  { library: "redis-semaphore", lock: "Mutex", servers: 1, layout: OVER_PLAIN },
  { library: "redis-semaphore", lock: "Semaphore of 2", servers: 1, layout: ROLLING, limit: 2 },
  { library: "redis-semaphore", lock: "Semaphore of 3", servers: 1, layout: ROLLING, limit: 3 },
];

export async function judgeDropIns({ seconds, say }) {
  const [rows, findings] = [[], []];
  for (const { library, lock, servers, layout, limit } of RUNS) {
    const label = `holdfast/${library}, ${lock}, ${layout}, on ${servers}`;
    say(`${label}: ${seconds} s …`);
    const found = await besideItsLibrary({ library, servers, clean: layout === OVER_PLAIN, limit, seconds });
    const row = { library: `${library} 5 (npm)`, lock, servers, "the drop-in": layout, ...columnsOf(found) };
    rows.push(row);
    findings.push(...findingsOf(label, found, wakesOf("drop-ins", row)));
  }
  return { rows, findings, refusals: [] };
}

/** Processes of the library, and of its drop-in, on one lock. `terms`: what is said to them besides. `rest`: as of takeTurns(). */
export async function besideItsLibrary({ library, servers, clean = false, limit, terms, ...rest }) {
  const ours = [process.execPath, join(import.meta.dirname, `drop-ins/our-${library}.mjs`)];
  const theirs = node(`${library}.mjs`);
  // Where plain keys are used, keyspace events wake ours.
  return await onServers({ servers, ours, theirs, events: clean, terms: { clean, limit, ...terms }, ...rest });
}
