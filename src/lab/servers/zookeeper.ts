/** Real ZooKeeper servers from Debian's package: one, or an ensemble of three. */
import { mkdirSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { onFreePort, startChild } from "./child.ts";
import type { Child } from "./child.ts";
import { sharedClasses } from "./java-classes.ts";
import { freePort } from "./free-port.ts";
import { HOST, makeScratch, removeScratch } from "./scratch.ts";
import { findProgram } from "./programs.ts";
import { until } from "./sentinels.ts";

export interface ZooKeeperOptions {
  /** @default 1 */
  readonly servers?: 1 | 3 | undefined;
  /** @default 200 */
  readonly tickMs?: number | undefined;
  /** @default 1000 */
  readonly minSessionMs?: number | undefined;
  /** @default 60_000 */
  readonly maxSessionMs?: number | undefined;
  /** Further lines of zoo.cfg. */
  readonly config?: readonly string[] | undefined;
  /** Further jars on the class path. */
  readonly jars?: readonly string[] | undefined;
  /**
   * The port through which server `from` reaches server `to` when that one leads: a proxy's, to cut servers off from
   * each other. @default the server's own
   */
  readonly peerPort?: ((from: number, to: number, port: number) => Promise<number>) | undefined;
  /** Further arguments of java, such as system properties. */
  readonly javaArgs?: readonly string[] | undefined;
}

export interface ZooKeeperServer {
  readonly id: number;
  readonly host: "127.0.0.1";
  readonly port: number;
  /** Changes at every restart. */
  readonly pid: number;
  pause(): void;
  resume(): void;
  kill(): Promise<void>;
  /** Starts again with the same data on the same port. */
  restart(): Promise<void>;
  /** A four-letter command: `srvr`, `ruok`, `cons`, `dump`, `wchs`. */
  ask(word: string): Promise<string>;
  /** `standalone`, `leader` or `follower`; `undefined` while it serves no client. */
  role(): Promise<string | undefined>;
}

export interface ZooKeeperLab extends AsyncDisposable {
  readonly servers: readonly ZooKeeperServer[];
  readonly url: string;
  /** Waits until one of the servers leads (or the only one serves). */
  leader(): Promise<ZooKeeperServer>;
  stop(): Promise<void>;
}

const LOGGING = `log4j.rootLogger=INFO, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d{ABSOLUTE} %-5p %m%n
`;

interface Ports {
  readonly client: number;
  readonly peer: number;
  readonly election: number;
}

/** Starts the servers and resolves when they serve clients. */
export async function startZooKeeper(options: ZooKeeperOptions = {}): Promise<ZooKeeperLab> {
  const place = makeScratch();
  const servers: ZooKeeperServer[] = [];
  const stop = async (): Promise<void> => {
    await Promise.all(servers.map((server) => server.kill()));
    removeScratch(place);
  };
  try {
    const started = await onFreePort(freePort, (first) => startAll(place, first, options));
    servers.push(...started);
    const leader = (): Promise<ZooKeeperServer> => findLeader(servers);
    await leader();
    await until("every server serves clients", async () => {
      const roles = await Promise.all(servers.map((server) => server.role()));
      return roles.every((role) => role !== undefined) ? true : undefined;
    });
    const hosts = servers.map((server) => `${HOST}:${server.port}`).join(",");
    return { servers, url: `zk://${hosts}`, leader, stop, [Symbol.asyncDispose]: stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

async function startAll(place: string, first: number, options: ZooKeeperOptions): Promise<readonly ZooKeeperServer[]> {
  const count = options.servers ?? 1;
  const ports: Ports[] = [];
  for (let i = 0; i < count; i++) {
    ports.push({ client: i === 0 ? first : await freePort(), peer: await freePort(), election: await freePort() });
  }
  const launches = await Promise.all(ports.map((_, i) => prepare(place, i + 1, ports, options)));
  const outcomes = await Promise.allSettled(launches.map((launch) => launch()));
  const failed = outcomes.find((outcome) => outcome.status === "rejected");
  if (failed !== undefined) {
    const others = outcomes.filter((outcome) => outcome.status === "fulfilled");
    await Promise.all(others.map(({ value }) => value.end()));
    throw failed.reason;
  }
  return outcomes.map((outcome, i) => {
    if (outcome.status === "rejected") throw outcome.reason;
    return toServer(i + 1, (ports[i] as Ports).client, outcome.value, launches[i] as () => Promise<Child>);
  });
}

/** Writes the server's files, and returns what starts it. */
async function prepare(
  place: string,
  id: number,
  ports: readonly Ports[],
  options: ZooKeeperOptions,
): Promise<() => Promise<Child>> {
  const dir = join(place, String(id));
  mkdirSync(join(dir, "data"), { recursive: true });
  writeFileSync(join(dir, "data", "myid"), `${id}\n`);
  writeFileSync(join(dir, "log4j.properties"), LOGGING);
  const reached = options.peerPort === undefined ? ports : await through(options.peerPort, id, ports);
  writeFileSync(join(dir, "zoo.cfg"), zooCfg(dir, id, reached, options));
  const main = ports.length === 1 ? "ZooKeeperServerMain" : "quorum.QuorumPeerMain";
  return async () => {
    const classes = await sharedClasses("zookeeper", (args) => startAndExit(args));
    const more = [...classes, ...(options.javaArgs ?? [])];
    return await startJava(dir, { main, more, jars: options.jars ?? [] });
  };
}

interface JavaOptions {
  readonly main: string;
  readonly more: readonly string[];
  readonly jars?: readonly string[];
}

async function startJava(dir: string, { main, more, jars = [] }: JavaOptions): Promise<Child> {
  const jar = await findProgram("zookeeper.jar");
  const all = [jar, "/usr/share/java/slf4j-log4j12.jar", "/usr/share/java/log4j-1.2.jar", ...jars];
  const args = [
    "-Xmx128m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dzookeeper.jmx.log4j.disable=true",
    // Not found by the class path, which may name jars only: otherwise Java shares no classes.
    `-Dlog4j.configuration=file:${join(dir, "log4j.properties")}`,
    // A server that missed a message of an election gets it again soon, and not after up to a minute.
    "-Dzookeeper.fastleader.maxNotificationInterval=1000",
    ...more,
    "-cp",
    all.join(":"),
    `org.apache.zookeeper.server.${main}`,
    join(dir, "zoo.cfg"),
  ];
  return await startChild(await findProgram("java"), { args, cwd: dir, ready: /binding to port/u });
}

/** An ensemble of one that serves clients and exits: by then it has loaded what servers load, alone or together. */
async function startAndExit(more: readonly string[]): Promise<void> {
  const place = makeScratch();
  try {
    await onFreePort(freePort, async (port) => {
      mkdirSync(join(place, "data"), { recursive: true });
      writeFileSync(join(place, "log4j.properties"), LOGGING);
      writeFileSync(join(place, "data", "myid"), "1\n");
      const peers = [`server.1=${HOST}:${await freePort()}:${await freePort()}`, "standaloneEnabled=false"];
      const alone = [{ client: port, peer: 0, election: 0 }];
      writeFileSync(join(place, "zoo.cfg"), zooCfg(place, 1, alone, { config: peers }));
      const child = await startJava(place, { main: "quorum.QuorumPeerMain", more });
      await until("an ensemble of one serves clients", () => roleOf(port));
      await child.end("SIGTERM");
    });
  } finally {
    removeScratch(place);
  }
}

async function through(
  peerPort: NonNullable<ZooKeeperOptions["peerPort"]>,
  from: number,
  ports: readonly Ports[],
): Promise<readonly Ports[]> {
  return Promise.all(
    ports.map(async (one, i) => (i + 1 === from ? one : { ...one, peer: await peerPort(from, i + 1, one.peer) })),
  );
}

function zooCfg(dir: string, id: number, ports: readonly Ports[], options: ZooKeeperOptions): string {
  const peers = ports.map(({ peer, election }, i) => `server.${i + 1}=${HOST}:${peer}:${election}`);
  const lines = [
    `tickTime=${options.tickMs ?? 200}`,
    "initLimit=25",
    "syncLimit=10",
    `dataDir=${join(dir, "data")}`,
    `clientPort=${ports[id - 1]?.client}`,
    `clientPortAddress=${HOST}`,
    "maxClientCnxns=0",
    `minSessionTimeout=${options.minSessionMs ?? 1000}`,
    `maxSessionTimeout=${options.maxSessionMs ?? 60_000}`,
    "4lw.commands.whitelist=*",
    "admin.enableServer=false",
    "extendedTypesEnabled=true",
    // These files are not read after a power cut.
    "forceSync=no",
    ...(ports.length === 1 ? [] : peers),
    ...(options.config ?? []),
  ];
  return `${lines.join("\n")}\n`;
}

function toServer(id: number, port: number, first: Child, launch: () => Promise<Child>): ZooKeeperServer {
  let child = first;
  const server: ZooKeeperServer = {
    id,
    host: HOST,
    port,
    get pid() {
      return child.pid;
    },
    pause: () => child.pause(),
    resume: () => child.resume(),
    kill: () => child.end("SIGKILL"),
    restart: async () => {
      await child.end("SIGKILL");
      child = await launch();
    },
    ask: (word) => askFour(port, word),
    role: () => roleOf(port),
  };
  return server;
}

function findLeader(servers: readonly ZooKeeperServer[]): Promise<ZooKeeperServer> {
  return until("a ZooKeeper server leads", async () => {
    const roles = await Promise.all(servers.map((server) => server.role()));
    return servers.find((_, i) => roles[i] === "leader" || roles[i] === "standalone");
  });
}

async function roleOf(port: number): Promise<string | undefined> {
  const answer = await askFour(port, "srvr").catch(() => "");
  return /Mode: (\w+)/u.exec(answer)?.[1];
}

function askFour(port: number, word: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, HOST);
    let answer = "";
    socket.setTimeout(1000, () => socket.destroy(new Error(`no answer to ${word}`)));
    socket.on("connect", () => socket.write(word));
    socket.on("data", (data) => (answer += data.toString()));
    socket.on("error", reject);
    socket.on("close", () => resolve(answer));
  });
}
