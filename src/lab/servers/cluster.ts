/** A Redis Cluster, of three primaries unless another number is asked for, with one replica each. */
import { onFreePort } from "./child.ts";
import { freePort } from "./free-port.ts";
import { HOST, makeScratch, removeScratch } from "./scratch.ts";
import { startServer } from "./redis.ts";
import type { RedisServer } from "./redis.ts";
import { labPassword } from "./secret.ts";
import { until } from "./sentinels.ts";

export interface ClusterOptions {
  /** @default 3 */
  readonly primaries?: number | undefined;
  /** @default 1000 */
  readonly nodeTimeoutMs?: number | undefined;
  /** Further arguments of every node. */
  readonly args?: readonly string[] | undefined;
  readonly env?: Readonly<Record<string, string>> | undefined;
}

export interface ClusterLab extends AsyncDisposable {
  /** The first half of them were primaries at the start. */
  readonly nodes: readonly RedisServer[];
  readonly url: string;
  /** The primary that serves this key's slot, as a living node says. */
  primaryOf(key: string): Promise<RedisServer>;
  /** Moves the key's slot with all its keys to another primary, as resharding does. Resolves to the new one. */
  moveSlot(key: string, steps?: SlotSteps): Promise<RedisServer>;
  stop(): Promise<void>;
}

export interface SlotSteps {
  /** Called when the slot is half-way: both sides know of the move, and no key has moved yet. */
  readonly whileMigrating?: (() => Promise<void>) | undefined;
}

const SLOTS = 16_384;

/** Starts all nodes and resolves when all slots are served and every replica is online. */
export async function startCluster(options: ClusterOptions = {}): Promise<ClusterLab> {
  const places: string[] = [];
  const started: RedisServer[] = [];
  const stop = async (): Promise<void> => {
    await Promise.all(started.map((server) => server.stop()));
    for (const place of places) removeScratch(place);
  };
  try {
    const startOne = async (): Promise<RedisServer> => {
      const place = makeScratch();
      places.push(place);
      const node = await startNode(place, options);
      started.push(node);
      return node;
    };
    const nodes = await Promise.all(Array.from({ length: 2 * (options.primaries ?? 3) }, startOne));
    await weave(nodes);
    const primaryOf = (key: string): Promise<RedisServer> => findPrimary(nodes, key);
    return {
      nodes,
      url: `redis+cluster://:${labPassword()}@${nodes.map((node) => `${HOST}:${node.port}`).join(",")}`,
      primaryOf,
      moveSlot: (key, steps = {}) => moveSlot(nodes, key, steps),
      stop,
      [Symbol.asyncDispose]: stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

async function startNode(place: string, options: ClusterOptions): Promise<RedisServer> {
  const { args = [], nodeTimeoutMs = 1000 } = options;
  return onFreePort(freePort, async (port) => {
    const busPort = await freePort();
    const cluster = [
      "--cluster-enabled",
      "yes",
      "--cluster-port",
      String(busPort),
      "--cluster-node-timeout",
      String(nodeTimeoutMs),
    ];
    return startServer("redis-server", place, port, options.env, [
      ...cluster,
      "--repl-diskless-sync-delay",
      "0",
      ...args,
    ]);
  });
}

async function weave(nodes: readonly RedisServer[]): Promise<void> {
  const count = nodes.length / 2;
  const primaries = nodes.slice(0, count);
  const [first] = nodes as [RedisServer];
  const busPorts = await Promise.all(
    nodes.map(async (node) => (await node.cli("CONFIG", "GET", "cluster-port")).split("\n")[1] ?? ""),
  );
  await Promise.all(
    nodes.slice(1).map((node, i) => first.cli("CLUSTER", "MEET", HOST, String(node.port), busPorts[i + 1] ?? "")),
  );
  await Promise.all(
    primaries.map(async (node, i) => {
      const from = Math.ceil((SLOTS * i) / count);
      const to = Math.ceil((SLOTS * (i + 1)) / count) - 1;
      await node.cli("CLUSTER", "SET-CONFIG-EPOCH", String(i + 1)).catch(() => undefined);
      await node.cli("CLUSTER", "ADDSLOTSRANGE", String(from), String(to));
    }),
  );
  const ids = await Promise.all(primaries.map((node) => node.cli("CLUSTER", "MYID")));
  await Promise.all(
    nodes.slice(count).map((node, i) =>
      // The replica must have met its primary first.
      until("a replica finds its primary", () => node.cli("CLUSTER", "REPLICATE", ids[i] ?? "").catch(() => undefined)),
    ),
  );
  await until("the cluster is whole", async () => {
    const infos = await Promise.all(nodes.map((node) => node.cli("CLUSTER", "INFO")));
    const lists = await Promise.all(nodes.map((node) => node.cli("CLUSTER", "NODES")));
    const replication = await Promise.all(primaries.map((node) => node.cli("INFO", "replication")));
    const whole =
      infos.every(
        (info) => info.includes("cluster_state:ok") && info.includes(`cluster_known_nodes:${nodes.length}`),
      ) &&
      lists.every((list) => (list.match(/ (?:myself,)?slave /gu) ?? []).length === count) &&
      replication.every((info) => info.includes("state=online"));
    return whole ? true : undefined;
  });
}

async function findPrimary(nodes: readonly RedisServer[], key: string): Promise<RedisServer> {
  for (const node of nodes) {
    const lists = await node.cli("CLUSTER", "NODES").catch(() => undefined);
    if (lists === undefined) continue;
    const slot = Number(await node.cli("CLUSTER", "KEYSLOT", key));
    const port = lists
      .split("\n")
      .map(parseLine)
      .find(({ slots }) => slots.some(([from, to]) => from <= slot && slot <= to))?.port;
    const found = nodes.find((one) => one.port === port);
    if (found !== undefined) return found;
  }
  throw new Error(`No living node knows who serves ${key}`);
}

/** `<id> <host:port@bus> <flags> <primary> <ping> <pong> <epoch> <link> <slot>…` */
function parseLine(line: string): { port: number; slots: readonly (readonly [number, number])[] } {
  const [, address = "", , , , , , , ...ranges] = line.split(" ");
  const slots = ranges
    .filter((range) => /^\d/u.test(range))
    .map((range) => {
      const [from, to = from] = range.split("-").map(Number);
      return [from ?? -1, to ?? -1] as const;
    });
  return { port: Number(/:(\d+)@/u.exec(address)?.[1]), slots };
}

async function moveSlot(nodes: readonly RedisServer[], key: string, steps: SlotSteps): Promise<RedisServer> {
  const from = await findPrimary(nodes, key);
  const to = nodes.slice(0, nodes.length / 2).find((node) => node !== from);
  if (to === undefined) throw new Error("A cluster needs two primaries to move a slot");
  const slot = await from.cli("CLUSTER", "KEYSLOT", key);
  const [fromId, toId] = [await from.cli("CLUSTER", "MYID"), await to.cli("CLUSTER", "MYID")];
  await to.cli("CLUSTER", "SETSLOT", slot, "IMPORTING", fromId);
  await from.cli("CLUSTER", "SETSLOT", slot, "MIGRATING", toId);
  await steps.whileMigrating?.();
  for (;;) {
    const keys = (await from.cli("CLUSTER", "GETKEYSINSLOT", slot, "100")).split("\n").filter((name) => name !== "");
    if (keys.length === 0) break;
    await from.cli("MIGRATE", HOST, String(to.port), "", "0", "5000", "AUTH", to.password, "KEYS", ...keys);
  }
  // The new one first: between the two calls no node serves the slot, instead of both.
  await to.cli("CLUSTER", "SETSLOT", slot, "NODE", toId);
  await from.cli("CLUSTER", "SETSLOT", slot, "NODE", toId);
  return to;
}
