/** Redis under the driver: one server that loses nothing at a crash, or three independent members of a quorum. */
import { setTimeout as sleep } from "node:timers/promises";
import type { Locks } from "../../../core/api.ts";
import { type Proxy, startProxy } from "../../proxy.ts";
import { type RedisServer, startRedis } from "../../servers/redis.ts";
import { endlessKeys } from "../../stages/redis.ts";
import { until } from "../../servers/sentinels.ts";
import { type ClientLibrary, type Connected, connectRedis } from "../connections.ts";
import type { Holdfast } from "../library.ts";
import type { Possibilities, ServerAct } from "../schedule.ts";
import { type DrivenStore, redisRoad, type StoreClient, type StoreName } from "../store.ts";

const DURABLE = ["--appendonly", "yes", "--appendfsync", "always"];
const MEMBERS = 3;
/** The group's longest lease: a member that forgot abstains for so long. */
const MEMBER_TTL_MS = 1000;

/** A store of independent servers: how it is opened is all that differs. */
interface Kind {
  readonly name: StoreName;
  readonly servers: readonly RedisServer[];
  readonly possible: Possibilities;
  open(holdfast: Holdfast, connected: readonly Connected[], holder: string, run: number): Locks;
}

export async function driveRedis(holdfast: Holdfast, library: ClientLibrary): Promise<DrivenStore> {
  const servers = [await startRedis({ args: DURABLE })];
  return toStore(holdfast, library, {
    name: "redis",
    servers,
    possible: { ...possibleFor(servers, ["pause", "restart"], true, [500, 1000, 1500]), linger: holdfast.lingers },
    open: ({ createLocks, redis }, [connected], holder, run) =>
      createLocks(redis((connected as Connected).client, { run }), { holder }),
  });
}

export async function driveQuorum(holdfast: Holdfast, library: ClientLibrary): Promise<DrivenStore> {
  const servers = await Promise.all(Array.from({ length: MEMBERS }, () => startRedis()));
  const options = { maxTtl: MEMBER_TTL_MS };
  const membersOf = (connected: readonly Connected[]): ReturnType<Holdfast["redis"]>[] =>
    connected.map(({ client }) => holdfast.redis(client));
  const store = await toStore(holdfast, library, {
    name: "quorum",
    servers,
    possible: {
      ...possibleFor(servers, ["pause", "restart", "flush"], false, [MEMBER_TTL_MS]),
      linger: holdfast.lingers,
    },
    open: ({ createLocks, quorum }, connected, holder) =>
      createLocks(quorum(membersOf(connected), options), { holder }),
  });
  // New members abstain until their quarantine is ended.
  const direct = await connectAll(
    "ioredis",
    servers.map(({ port }) => port),
  );
  const members = membersOf(direct);
  await holdfast.initMembers(members, options);
  await Promise.all(members.map((member) => member.close()));
  await Promise.all(direct.map((connected) => connected.close()));
  return store;
}

function possibleFor(
  servers: readonly RedisServer[],
  serverActs: readonly ServerAct[],
  limits: boolean,
  ttls: readonly number[],
): Possibilities {
  return { clients: 3, servers: servers.length, serverActs, processActs: [], network: true, limits, ttls };
}

async function toStore(holdfast: Holdfast, library: ClientLibrary, kind: Kind): Promise<DrivenStore> {
  const { name, servers, possible } = kind;
  const ports = servers.map(({ port }) => port);
  const direct = await connectAll("ioredis", ports);
  const observer = kind.open(holdfast, direct, "observer", 1);
  const stop = async (): Promise<void> => {
    await observer.close().catch(() => undefined);
    await Promise.all(direct.map((connected) => connected.close()));
    await Promise.all(servers.map((server) => server.stop()));
  };
  return {
    name,
    possible,
    client: () => openClient(holdfast, library, kind),
    look: (prefix) => observer.query(prefix),
    strike: (what, at, forMs) => {
      // A quorum may lose what a minority knew, and a member abstains for longer than a round takes: always the same forgets.
      const forgets = servers.length > 1 && what !== "pause";
      return strike(servers[forgets ? 0 : at % servers.length] as RedisServer, what, forMs);
    },
    calm: () => calm(servers),
    leaks: async () => (await Promise.all(servers.map(endlessKeys))).flat(),
    stop,
    [Symbol.asyncDispose]: stop,
  };
}

async function openClient(holdfast: Holdfast, library: ClientLibrary, kind: Kind): Promise<StoreClient> {
  const proxies = await proxiesFor(kind.servers.map(({ port }) => port));
  const connected = await connectAll(
    library,
    proxies.map(({ port }) => port),
  );
  return {
    proxies,
    open: (holder, run) => kind.open(holdfast, connected, holder, run),
    listeners: () => connected.reduce((sum, one) => sum + one.listeners(), 0),
    close: async () => {
      await Promise.all(connected.map((one) => one.close()));
      await Promise.all(proxies.map((proxy) => proxy.stop()));
    },
  };
}

function connectAll(library: ClientLibrary, ports: readonly number[]): Promise<Connected[]> {
  return Promise.all(ports.map((port) => connectRedis(library, { topology: "standalone", ports: [port] })));
}

export function proxiesFor(ports: readonly number[]): Promise<Proxy[]> {
  return Promise.all(ports.map((port) => startProxy({ port, roadOf: redisRoad })));
}

export async function strike(server: RedisServer, what: ServerAct, forMs: number): Promise<void> {
  if (what === "pause") {
    server.pause();
    await sleep(forMs);
    server.resume();
  } else if (what === "restart") {
    await server.kill();
    await sleep(forMs / 4);
    await server.restart();
  } else if (what === "flush") {
    // It may be away just then.
    await server.cli("FLUSHALL").catch(() => undefined);
  }
}

/** Every server answers. */
export async function calm(servers: readonly RedisServer[]): Promise<void> {
  for (const server of servers) {
    server.resume();
    await until("a server answers again", () =>
      server.cli("PING").then(
        (answer) => (answer === "PONG" ? true : undefined),
        () => undefined,
      ),
    );
  }
}
