/** A Redis primary with replicas and sentinels. The primary is reached through a proxy, so replication can be cut. */
import { leftInRedis } from "../leftovers.ts";
import { openObserver } from "../observers.ts";
import type { Proxy } from "../proxy.ts";
import { startProxy } from "../proxy.ts";
import type { RedisServer } from "../servers/redis.ts";
import { startSentinels } from "../servers/sentinels.ts";
import type { Stage, StageServer } from "../stage.ts";
import { endlessKeys } from "./redis.ts";

export interface SentinelStageOptions {
  /** Appended to the URL, such as `failover=quarantine`. */
  readonly query?: string | undefined;
  readonly args?: readonly string[] | undefined;
}

export async function openSentinelStage(options: SentinelStageOptions = {}): Promise<Stage> {
  let front: Proxy | undefined;
  let cutReplication = (): void => undefined;
  const lab = await startSentinels({
    args: options.args,
    // Sentinels never promote a replica whose link was down for ten times as long when they noticed: on a busy machine a play may
    // take some seconds from the cut to the kill.
    downAfterMs: 2000,
    front: async (primary) => {
      // A second try has another primary.
      await front?.stop();
      front = await startProxy(primary);
      cutReplication = watchReplication(front);
      return front.port;
    },
  });
  const proxy = front as Proxy | undefined;
  const servers = [lab.primary, ...lab.replicas];
  const stop = async (): Promise<void> => {
    await lab.stop();
    await proxy?.stop();
  };
  return {
    backend: "sentinel",
    servers: servers.map((server, i) => toStageServer(i === 0 ? "primary" : `replica ${i}`, server)),
    link: async () => ({
      url: options.query === undefined ? lab.url : `${lab.url}&${options.query}`,
      ports: lab.sentinels.map(({ port }) => port),
      proxies: [],
    }),
    observe: async () => [await openObserver("sentinels' primary", lab.url)],
    left: async () => {
      const port = await lab.currentPrimary();
      const primary = servers.find((server) => server.port === port);
      return primary === undefined ? [] : leftInRedis(primary);
    },
    leaks: async () => {
      const alive = await Promise.allSettled(servers.map(endlessKeys));
      return alive.flatMap((answer) => (answer.status === "fulfilled" ? answer.value : []));
    },
    cutReplication,
    stop,
    [Symbol.asyncDispose]: stop,
  };
}

/** Loses what goes to replicas from the call of the returned function on: a connection that says PSYNC is a replica's. */
function watchReplication(proxy: Proxy): () => void {
  const replicas = new Set<number>();
  let lost = false;
  proxy.onRequest = (chunk, connection) => {
    if (/psync|replconf/iu.test(chunk.toString("latin1"))) replicas.add(connection);
    return lost && replicas.has(connection) ? "drop" : undefined;
  };
  proxy.onReply = (_, connection) => (lost && replicas.has(connection) ? "drop" : undefined);
  return () => {
    lost = true;
  };
}

function toStageServer(name: string, server: RedisServer): StageServer {
  return {
    name,
    pause: () => server.pause(),
    resume: () => server.resume(),
    kill: () => server.kill(),
    restart: () => server.restart(),
    flush: async () => void (await server.cli("FLUSHALL")),
  };
}
