// Redisson (Java), its oldest and its newest supported version, and Holdfast with layout=redisson on one lock: RLock, RReadWriteLock and
// RFencedLock, on one server, behind sentinels and in a cluster.
import { existsSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { run } from "../bench/lib/peers.mjs";
import { wakesOf } from "./interop.mjs";
import { olderRedis, startOlderCluster } from "./older-redis.mjs";
import { columnsOf, findingsOf, takeTurns } from "./take-turns.mjs";

const HERE = join(import.meta.dirname, "redisson");
const TARGET = join(HERE, "target");
const COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies";

const NEWEST = "4.7.0";
/** The oldest with RFencedLock, and whose readers do not shorten each other's time. */
const OLDEST = "3.19.0";
/** The oldest whose RLock is tested. */
const OLDEST_LOCK = "3.5.5";

const RUNS = [
  { version: OLDEST_LOCK, kind: "lock", topology: "single" },
  { version: NEWEST, kind: "lock", topology: "single" },
  { version: OLDEST, kind: "read-write", topology: "single" },
  { version: NEWEST, kind: "read-write", topology: "single" },
  { version: OLDEST, kind: "fenced", topology: "single" },
  { version: NEWEST, kind: "fenced", topology: "single" },
  { version: NEWEST, kind: "lock", topology: "sentinel" },
  // It publishes to all nodes; the newest uses sharded channels.
  { version: OLDEST, kind: "lock", topology: "cluster" },
  { version: NEWEST, kind: "read-write", topology: "cluster" },
  // It knows no sharded channels, so that the newest does as the oldest.
  { version: NEWEST, kind: "lock", topology: "cluster", redis: "6.2" },
];
/** One section in so many is longer than a ttl. */
const LONG_ONE_IN = 250;
/** How many of the turns on a read-write lock are those of readers. */
const READERS = 0.5;

export async function judgeRedisson({ seconds, say }) {
  const [rows, findings, refusals] = [[], [], []];
  for (const { version, kind, topology, redis } of RUNS) {
    const where = redis === undefined ? topology : `${topology} of Redis ${redis}`;
    const label = `Redisson ${version}, ${kind}, ${where}`;
    const theirs = await java(version, say);
    const older = redis === undefined ? undefined : await olderRedis(say);
    const refusal = [theirs, older?.refusal].find((one) => typeof one === "string");
    if (refusal !== undefined) {
      refusals.push(`${label}: ${refusal}`);
      continue;
    }
    say(`${label}: ${seconds} s …`);
    const found = await onServers({ theirs, kind, topology, older, seconds });
    const row = { Redisson: version, kind, topology: where, ...columnsOf(found, "Redisson") };
    rows.push(row);
    findings.push(...findingsOf(label, found, wakesOf("redisson", row)));
  }
  return { rows, findings, refusals };
}

async function onServers({ theirs, kind, topology, older, seconds }) {
  const lab = await (older === undefined ? start(topology) : startOlderCluster(older));
  try {
    const query = `layout=redisson&kind=${kind}`;
    const url = lab.url + (lab.url.includes("?") ? "&" : "?") + query;
    const { addresses, password, service } = lab;
    const order = {
      addresses: addresses.join(" "),
      password,
      service,
      url,
      kind,
      topology,
      name: "judged",
      longOneIn: LONG_ONE_IN,
      readers: READERS,
    };
    return await takeTurns({ ours: [process.execPath, join(HERE, "ours.mjs")], theirs, order, seconds });
  } finally {
    await lab.stop();
  }
}

async function start(topology) {
  const addressOf = ({ host, port }) => `redis://${host}:${port}`;
  if (topology === "cluster") {
    const { startCluster } = await import("../build/lab/servers/cluster.js");
    const cluster = await startCluster();
    const { nodes, url } = cluster;
    return { addresses: nodes.map(addressOf), password: nodes[0].password, url, stop: () => cluster.stop() };
  }
  if (topology === "sentinel") {
    const { startSentinels } = await import("../build/lab/servers/sentinels.js");
    const group = await startSentinels();
    const { sentinels, service, url } = group;
    const stop = () => group.stop();
    return { addresses: sentinels.map(addressOf), password: sentinels[0].password, service, url, stop };
  }
  const { startRedis } = await import("../build/lab/servers/redis.js");
  const server = await startRedis();
  return { addresses: [addressOf(server)], password: server.password, url: server.url, stop: () => server.stop() };
}

/** The program of a process of Redisson, or why there is none. */
async function java(version, say) {
  const jars = join(TARGET, version, "jars");
  const classes = join(TARGET, version, "classes");
  if (!existsSync(jars)) {
    say(`fetching Redisson ${version} from Maven Central (once) …`);
    mkdirSync(TARGET, { recursive: true });
    const trouble = await run(
      "mvn",
      ["-q", "-B", COPY, `-Dredisson=${version}`, `-DoutputDirectory=${jars}`, "-DincludeScope=runtime"],
      HERE,
    );
    if (trouble !== undefined) return `its jars could not be had: ${trouble}`;
  }
  if (!existsSync(join(classes, "Worker.class"))) {
    const trouble = await run("javac", ["-nowarn", "-cp", `${jars}/*`, "-d", classes, join(HERE, "Worker.java")], HERE);
    if (trouble !== undefined) return `its worker could not be compiled: ${trouble}`;
  }
  return ["java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx128m", "-cp", `${classes}:${jars}/*`, "Worker"];
}
