/** Real etcd members from Debian's package: one, or a cluster of three whose members can be cut off from each other. */
import { execFile } from "node:child_process";
import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { type Proxy, startProxy } from "../proxy.ts";
import { type Child, onFreePort, startChild } from "./child.ts";
import { findProgram } from "./programs.ts";
import { freePort } from "./free-port.ts";
import { HOST, makeScratch, removeScratch } from "./scratch.ts";
import { until } from "./sentinels.ts";

const run = promisify(execFile);

export interface EtcdOptions {
  /** @default 1 */
  readonly members?: 1 | 3 | undefined;
  /** How long a member waits for its leader. Leases last at least one and a half times that. @default 500, with three members 1000 */
  readonly electionMs?: number | undefined;
  /** True: members reach each other through proxies, so that isolate() works. @default false */
  readonly canIsolate?: boolean | undefined;
  /** Further arguments of every member. */
  readonly args?: readonly string[] | undefined;
  /** Further arguments of `etcdctl()`, and for the looks of this lab: certificates, a user. */
  readonly clientArgs?: readonly string[] | undefined;
  /** True: clients must use TLS; `args` name its files. @default false */
  readonly tls?: boolean | undefined;
}

export interface EtcdServer {
  readonly id: number;
  readonly host: "127.0.0.1";
  readonly port: number;
  /** Its data directory. */
  readonly data: string;
  /** Changes at every restart. */
  readonly pid: number;
  pause(): void;
  resume(): void;
  kill(): Promise<void>;
  /** Starts again with the same data on the same port. */
  restart(): Promise<void>;
  /** What this member says of itself; `undefined` while it does not answer. */
  status(): Promise<EtcdStatus | undefined>;
}

/** A member's own view. */
export interface EtcdStatus {
  readonly memberId: bigint;
  /** 0: it knows no leader. */
  readonly leaderId: bigint;
  readonly revision: bigint;
  readonly term: bigint;
}

export interface EtcdLab extends AsyncDisposable {
  readonly servers: readonly EtcdServer[];
  readonly url: string;
  /** `host:port` of all members, as `etcdctl --endpoints` takes them. */
  readonly endpoints: string;
  /** Waits until a member leads, by its own word and that of a majority. */
  leader(): Promise<EtcdServer>;
  /** Cuts a member off from the others, not from clients. */
  isolate(server: EtcdServer): Promise<void>;
  /** Members reach each other again. */
  rejoin(): Promise<void>;
  /** Runs Debian's etcdctl against all members, and resolves to what it printed. */
  etcdctl(...args: readonly string[]): Promise<string>;
  stop(): Promise<void>;
}

interface Ports {
  readonly client: number;
  readonly peer: number;
  /** Where the others reach it: its own, or a proxy's. */
  readonly reached: number;
}

const START_MS = 180_000;
const STATUS_MS = 1000;

/** Which member a connection between members comes from. */
const FROM = /X-Server-From: ([0-9a-f]+)/iu;

/** Starts the members and resolves when they serve clients. */
export async function startEtcd(options: EtcdOptions = {}): Promise<EtcdLab> {
  const place = makeScratch();
  const servers: EtcdServer[] = [];
  const proxies: Proxy[] = [];
  const stop = async (): Promise<void> => {
    await Promise.all(servers.map((server) => server.kill()));
    await Promise.all(proxies.map((proxy) => proxy.stop()));
    removeScratch(place);
  };
  try {
    const started = await onFreePort(freePort, (first) => startAll(place, first, proxies, options));
    servers.push(...started);
    const leader = (): Promise<EtcdServer> => findLeader(servers);
    await leader();
    const endpoints = servers.map(({ port }) => `${HOST}:${port}`).join(",");
    const etcdctl = await findProgram("etcdctl");
    return {
      servers,
      endpoints,
      url: `${options.tls === true ? "etcds" : "etcd"}://${endpoints}`,
      leader,
      isolate: (server) => isolate(server, servers, proxies),
      rejoin: async () => {
        await Promise.all(proxies.map((proxy) => proxy.heal()));
      },
      etcdctl: (...args) => runEtcdctl(etcdctl, endpoints, options, args),
      stop,
      [Symbol.asyncDispose]: stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

async function startAll(
  place: string,
  first: number,
  proxies: Proxy[],
  options: EtcdOptions,
): Promise<readonly EtcdServer[]> {
  const ports: Ports[] = [];
  for (let i = 0; i < (options.members ?? 1); i++) {
    const peer = await freePort();
    const proxy = options.canIsolate === true ? await startProxy({ port: peer, roadOf }) : undefined;
    if (proxy !== undefined) proxies.push(proxy);
    ports.push({ client: i === 0 ? first : await freePort(), peer, reached: proxy?.port ?? peer });
  }
  const program = await findProgram("etcd");
  const etcdctl = await findProgram("etcdctl");
  const launches = ports.map((_, i) => prepare(program, place, i, ports, options));
  const outcomes = await Promise.allSettled(launches.map((launch) => launch()));
  const failed = outcomes.find((outcome) => outcome.status === "rejected");
  if (failed !== undefined) {
    const others = outcomes.filter((outcome) => outcome.status === "fulfilled");
    await Promise.all(others.map(({ value }) => value.end()));
    throw failed.reason;
  }
  return outcomes.map((outcome, i) => {
    if (outcome.status === "rejected") throw outcome.reason;
    const { client } = ports[i] as Ports;
    const status = (): Promise<EtcdStatus | undefined> => askStatus(etcdctl, client, options);
    return toServer(i + 1, client, dataOf(place, i), outcome.value, launches[i] as () => Promise<Child>, status);
  });
}

function roadOf(request: Buffer): string | undefined {
  return FROM.exec(request.toString("latin1"))?.[1];
}

function dataOf(place: string, index: number): string {
  return join(place, String(index + 1));
}

function prepare(
  program: string,
  place: string,
  index: number,
  ports: readonly Ports[],
  options: EtcdOptions,
): () => Promise<Child> {
  const data = dataOf(place, index);
  // A start on other ports before this one may have left something: a new cluster begins without it.
  rmSync(data, { recursive: true, force: true });
  mkdirSync(data, { mode: 0o700 });
  const { client, peer, reached } = ports[index] as Ports;
  const electionMs = options.electionMs ?? (ports.length === 1 ? 500 : 1000);
  const client0 = `${options.tls === true ? "https" : "http"}://${HOST}:${client}`;
  const args = Object.entries({
    name: `m${index + 1}`,
    "data-dir": join(data, "data"),
    "listen-client-urls": client0,
    "advertise-client-urls": client0,
    "listen-peer-urls": `http://${HOST}:${peer}`,
    "initial-advertise-peer-urls": `http://${HOST}:${reached}`,
    "initial-cluster": ports.map((one, i) => `m${i + 1}=http://${HOST}:${one.reached}`).join(","),
    "initial-cluster-state": "new",
    "election-timeout": String(electionMs),
    "heartbeat-interval": String(Math.max(10, Math.floor(electionMs / 10))),
    logger: "zap",
    "log-level": "info",
  }).map(([name, value]) => `--${name}=${value}`);
  return () =>
    startChild(program, {
      args: [...args, ...(options.args ?? [])],
      cwd: data,
      ready: /serving client traffic/u,
      // It serves when it has a leader: on a machine that is too busy for elections that takes a while.
      startMs: START_MS,
    });
}

function toServer(
  id: number,
  port: number,
  data: string,
  first: Child,
  launch: () => Promise<Child>,
  status: EtcdServer["status"],
): EtcdServer {
  let child = first;
  return {
    id,
    host: HOST,
    port,
    data,
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
    status,
  };
}

/** Both ways: what the others send to it, and what it sends to them, is held back. */
async function isolate(server: EtcdServer, servers: readonly EtcdServer[], proxies: readonly Proxy[]): Promise<void> {
  if (proxies.length === 0) throw new TypeError("Start the cluster with canIsolate");
  const status = await server.status();
  if (status === undefined) throw new Error(`member ${server.id} does not say who it is`);
  const road = status.memberId.toString(16);
  for (const [i, proxy] of proxies.entries()) {
    if (servers[i] === server) proxy.hang();
    else proxy.road(road).hang();
  }
}

function findLeader(servers: readonly EtcdServer[]): Promise<EtcdServer> {
  return until("an etcd member leads", async () => {
    const all = await Promise.all(servers.map((server) => server.status()));
    return servers.find((_, i) => {
      const own = all[i];
      if (own === undefined || own.memberId !== own.leaderId) return false;
      const followers = all.filter((one) => one?.leaderId === own.memberId && one.term === own.term);
      return followers.length > servers.length / 2;
    });
  });
}

/** Asked of one member, without the others: its own view, right or wrong. Where TLS or a user is needed, by etcdctl. */
async function askStatus(etcdctl: string, port: number, options: EtcdOptions): Promise<EtcdStatus | undefined> {
  try {
    const isPlain = options.tls !== true && options.clientArgs === undefined;
    return await (isPlain ? askGateway(port) : askEtcdctl(etcdctl, port, options));
  } catch {
    return undefined;
  }
}

/** The same question as JSON over HTTP: a process for each look would take most of a test's time. */
async function askGateway(port: number): Promise<EtcdStatus> {
  const url = `http://${HOST}:${port}/v3/maintenance/status`;
  const response = await fetch(url, { method: "POST", body: "{}", signal: AbortSignal.timeout(STATUS_MS) });
  const { header, leader, raftTerm } = (await response.json()) as Readonly<Record<string, unknown>>;
  const { member_id: memberId, revision } = header as Readonly<Record<string, unknown>>;
  const number = (value: unknown): bigint => BigInt(typeof value === "string" ? value : 0);
  return { memberId: number(memberId), leaderId: number(leader), revision: number(revision), term: number(raftTerm) };
}

async function askEtcdctl(etcdctl: string, port: number, options: EtcdOptions): Promise<EtcdStatus> {
  const args = [`--command-timeout=${STATUS_MS}ms`, "endpoint", "status", "-w=fields"];
  const text = await runEtcdctl(etcdctl, `${HOST}:${port}`, options, args);
  const field = (name: string): bigint => BigInt(new RegExp(`"${name}" : (\\d+)`).exec(text)?.[1] ?? 0);
  return {
    memberId: field("MemberID"),
    leaderId: field("Leader"),
    revision: field("Revision"),
    term: field("RaftTerm"),
  };
}

async function runEtcdctl(
  etcdctl: string,
  endpoints: string,
  options: EtcdOptions,
  args: readonly string[],
): Promise<string> {
  const env = { ...process.env, ETCDCTL_API: "3" };
  // Without a scheme it would not encrypt.
  const hosts = options.tls === true ? endpoints.replaceAll(/[^,]+/gu, "https://$&") : endpoints;
  const { stdout } = await run(etcdctl, [`--endpoints=${hosts}`, ...(options.clientArgs ?? []), ...args], { env });
  return stdout;
}
