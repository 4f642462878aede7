// ShedLock's own provider (Java) and Holdfast take turns on one row of one table, while processes are killed and stopped, and the server is, too.
import { mkdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { run } from "../bench/lib/peers.mjs";
import { JARS, shedlock } from "../bench/shedlock/driver.mjs";
import { wakesOf } from "./interop.mjs";
import { columnsOf, findingsOf, takeTurns } from "./take-turns.mjs";

const HERE = join(import.meta.dirname, "shedlock");
const CLASSES = join(HERE, "target/classes");
/** Less than a ttl. */
const PAUSE_MS = 600;

export async function judgeShedLock({ seconds, say }) {
  const [{ version, refusal }] = await shedlock({ peers: true, say });
  const trouble = refusal ?? (await compile());
  if (trouble !== undefined) return { rows: [], findings: [], refusals: [`ShedLock: ${trouble}`] };
  say(`ShedLock ${version}: ${seconds} s …`);
  const found = await onServer(seconds);
  const row = { ShedLock: version, ...columnsOf(found, "ShedLock") };
  return { rows: [row], findings: findingsOf("ShedLock", found, wakesOf("shedlock", row)), refusals: [] };
}

async function compile() {
  const source = join(HERE, "Worker.java");
  const builtMs = statSync(join(CLASSES, "Worker.class"), { throwIfNoEntry: false })?.mtimeMs ?? 0;
  if (builtMs > statSync(source).mtimeMs) return undefined;
  mkdirSync(CLASSES, { recursive: true });
  const failed = await run("javac", ["-cp", `${JARS}/*`, "-d", CLASSES, source], HERE);
  return failed === undefined ? undefined : `its worker could not be compiled: ${failed}`;
}

async function onServer(seconds) {
  const { startPostgres } = await import("../build/lab/servers/postgres.js");
  const { SHEDLOCK_TABLE } = await import("../dist/backends/shedlock/index.js");
  const server = await startPostgres();
  try {
    await server.sql(SHEDLOCK_TABLE);
    const java = ["java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx128m", "-cp", `${CLASSES}:${JARS}/*`];
    const sides = { ours: [process.execPath, join(HERE, "ours.mjs")], theirs: [...java, "Worker"] };
    const turns = takeTurns({ ...sides, order: { port: server.port, name: "judged" }, seconds });
    const [found] = await Promise.all([turns, strike(server, seconds)]);
    return found;
  } finally {
    await server.stop();
  }
}

/** In the middle the server is stopped for a moment. Its end would be that of ShedLock's one connection. */
async function strike(server, seconds) {
  await sleep((seconds * 1000) / 2);
  server.pause();
  await sleep(PAUSE_MS);
  server.resume();
}
