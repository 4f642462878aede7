// Curator (Java) and kazoo (Python) take turns with Holdfast on one lock of ZooKeeper.
import { existsSync, mkdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { run } from "../bench/lib/peers.mjs";
import { wakesOf } from "./interop.mjs";
import { prepareJars, suitesJars } from "./suites.mjs";
import { columnsOf, findingsOf, takeTurns } from "./take-turns.mjs";

const HERE = join(import.meta.dirname, "zookeeper");
const TARGET = join(HERE, "target");
const KAZOO = "kazoo==2.11.0";

const LIBRARIES = [
  { library: "Curator 5.9 (Maven Central), InterProcessMutex", dialect: "curator", command: curator },
  { library: "kazoo 2.11 (PyPI), Lock", dialect: "kazoo", command: kazoo },
];

export async function judgeZooKeeper({ seconds, say }) {
  const [rows, findings, refusals] = [[], [], []];
  for (const { library, dialect, command } of LIBRARIES) {
    const theirs = await command(say);
    if (typeof theirs === "string") {
      refusals.push(`${library}: ${theirs}`);
      continue;
    }
    say(`${library}: ${seconds} s …`);
    const found = await onServer(theirs, dialect, seconds);
    const row = { library, ...columnsOf(found) };
    rows.push(row);
    findings.push(...findingsOf(library, found, wakesOf("zookeeper", row)));
  }
  return { rows, findings, refusals };
}

async function onServer(theirs, dialect, seconds) {
  const { startZooKeeper } = await import("../build/lab/servers/zookeeper.js");
  const lab = await startZooKeeper();
  try {
    const hosts = lab.servers.map(({ host, port }) => `${host}:${port}`).join(",");
    const order = { hosts, path: "/judged/lock", url: `${lab.url}?names=paths&dialect=${dialect}` };
    return await takeTurns({ ours: [process.execPath, join(HERE, "ours.mjs")], theirs, order, seconds });
  } finally {
    await lab.stop();
  }
}

async function curator(say) {
  const trouble = await prepareJars(say);
  if (trouble !== undefined) return trouble;
  const [source, classes] = [join(HERE, "Worker.java"), join(TARGET, "classes")];
  const builtMs = statSync(join(classes, "Worker.class"), { throwIfNoEntry: false })?.mtimeMs ?? 0;
  if (builtMs <= statSync(source).mtimeMs) {
    mkdirSync(classes, { recursive: true });
    const failed = await run("javac", ["-cp", suitesJars(), "-d", classes, source], HERE);
    if (failed !== undefined) return `its worker could not be compiled: ${failed}`;
  }
  const java = ["java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx128m"];
  return [...java, "-cp", `${classes}:${suitesJars()}`, "Worker"];
}

async function kazoo(say) {
  const [python, program] = [join(TARGET, "venv/bin/python"), join(HERE, "kazoo_worker.py")];
  if (existsSync(join(TARGET, "venv/done"))) return [python, program];
  say("installing kazoo (pip; once) …");
  mkdirSync(TARGET, { recursive: true });
  const trouble =
    (await run("python3", ["-m", "venv", "venv"], TARGET)) ??
    (await run(python, ["-m", "pip", "install", "--quiet", KAZOO], TARGET)) ??
    (await run(python, ["-c", "open('venv/done', 'w')"], TARGET));
  return trouble === undefined ? [python, program] : `it could not be installed: ${trouble}`;
}
