/** A Redis primary with two replicas, watched by three sentinels that really fail over. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { onFreePort } from "./child.ts";
import { freePort } from "./free-port.ts";
import { HOST, makeScratch, removeScratch } from "./scratch.ts";
import { startRedis, startServer } from "./redis.ts";
import type { RedisServer } from "./redis.ts";
import { labPassword } from "./secret.ts";

export interface SentinelOptions {
  /** How long the primary must be silent before sentinels call it down. @default 500 */
  readonly downAfterMs?: number | undefined;
  /** @default 2 */
  readonly replicas?: number | undefined;
  /** Further arguments of the primary and the replicas, such as `["--min-replicas-to-write", "1"]`. */
  readonly args?: readonly string[] | undefined;
  readonly env?: Readonly<Record<string, string>> | undefined;
  /** Puts something in front of the primary, such as a proxy: replicas, sentinels and clients see the port it resolves to. */
  readonly front?: ((primary: RedisServer) => Promise<number>) | undefined;
}

export interface SentinelLab extends AsyncDisposable {
  readonly service: "holdfast";
  /** The server that was primary at the start; see currentPrimary(). */
  readonly primary: RedisServer;
  readonly replicas: readonly RedisServer[];
  readonly sentinels: readonly RedisServer[];
  /** With the password, and a query: options go after it with "&". */
  readonly url: string;
  /** The primary's port, as most sentinels that answer say. */
  currentPrimary(): Promise<number>;
  /** Waits until sentinels name another primary than the one on `port`; resolves to that server. */
  failedOver(port: number): Promise<RedisServer>;
  stop(): Promise<void>;
}

const SERVICE = "holdfast";
/** Sentinels that split their votes try again after twice this. */
const FAILOVER_TIMEOUT_MS = 2000;
const LIMIT_MS = 60_000;
/** Usually two seconds; twelve when a sentinel missed something at its first look. */
const WEAVE_MS = 25_000;
const START_TRIES = 4;

class TooLateError extends Error {}

/** Starts all servers and resolves when the replicas are online and the sentinels know each other. */
export async function startSentinels(options: SentinelOptions = {}): Promise<SentinelLab> {
  for (let tries = 1; ; tries++) {
    try {
      return await startOnce(options);
    } catch (error) {
      // On a starved machine sentinels may fail over before they know each other, and never agree then.
      if (!(error instanceof TooLateError) || tries === START_TRIES) throw error;
    }
  }
}

async function startOnce(options: SentinelOptions): Promise<SentinelLab> {
  const { args = [], env, replicas: count = 2 } = options;
  const started: RedisServer[] = [];
  const places: string[] = [];
  const stop = async (): Promise<void> => {
    await Promise.all(started.map((server) => server.stop()));
    for (const place of places) removeScratch(place);
  };
  try {
    // No waiting for more replicas to come before the first transfer.
    const quick = ["--repl-diskless-sync-delay", "0", ...args];
    const primary = await startRedis({ args: quick, env });
    started.push(primary);
    const primaryPort = (await options.front?.(primary)) ?? primary.port;
    const follow = [...quick, "--replicaof", `${HOST} ${primaryPort}`];
    const replicas = await Promise.all(Array.from({ length: count }, () => startRedis({ args: follow, env })));
    started.push(...replicas);
    // A sentinel that sees no replica at its first look does not look again for ten seconds.
    await untilOnline(primary, count);
    const sentinels = await Promise.all(
      Array.from({ length: 3 }, () => {
        const place = makeScratch();
        places.push(place);
        return startSentinel(place, primaryPort, options);
      }),
    );
    started.push(...sentinels);
    await untilWoven(sentinels, count);
    const currentPrimary = (): Promise<number> => ask(sentinels);
    const hosts = sentinels.map((sentinel) => `${HOST}:${sentinel.port}`).join(",");
    return {
      service: SERVICE,
      primary,
      replicas,
      sentinels,
      url: `redis+sentinel://:${labPassword()}@${hosts}/${SERVICE}?sentinelPassword=${labPassword()}`,
      currentPrimary,
      failedOver: (port) => untilFailedOver(port, currentPrimary, [primary, ...replicas]),
      stop,
      [Symbol.asyncDispose]: stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

function startSentinel(place: string, primaryPort: number, options: SentinelOptions): Promise<RedisServer> {
  return onFreePort(freePort, (port) => {
    const file = join(place, "sentinel.conf");
    const lines = [
      `port ${port}`,
      `bind ${HOST}`,
      `dir ${place}`,
      `requirepass "${labPassword()}"`,
      `sentinel monitor ${SERVICE} ${HOST} ${primaryPort} 2`,
      `sentinel auth-pass ${SERVICE} ${labPassword()}`,
      `sentinel down-after-milliseconds ${SERVICE} ${options.downAfterMs ?? 500}`,
      `sentinel failover-timeout ${SERVICE} ${FAILOVER_TIMEOUT_MS}`,
      `sentinel parallel-syncs ${SERVICE} 1`,
    ];
    writeFileSync(file, `${lines.join("\n")}\n`, { mode: 0o600 });
    return startServer("redis-sentinel", place, port, undefined, [file]);
  });
}

async function untilOnline(primary: RedisServer, replicas: number): Promise<void> {
  await until("the replicas are online", async () => {
    const info = await primary.cli("INFO", "replication");
    return (info.match(/state=online/gu) ?? []).length >= replicas ? true : undefined;
  });
}

async function untilWoven(sentinels: readonly RedisServer[], replicas: number): Promise<void> {
  const look = async (): Promise<true | undefined> => {
    const views = await Promise.all(sentinels.map((sentinel) => sentinel.cli("SENTINEL", "MASTER", SERVICE)));
    const woven = views.every(
      (view) => fieldOf(view, "num-slaves") >= replicas && fieldOf(view, "num-other-sentinels") >= 2,
    );
    return woven ? true : undefined;
  };
  await until("the sentinels know each other", look, WEAVE_MS);
}

/** redis-cli prints a map as lines: name, value, name, value. */
function fieldOf(lines: string, name: string): number {
  const all = lines.split("\n");
  return Number(all[all.indexOf(name) + 1]);
}

async function ask(sentinels: readonly RedisServer[]): Promise<number> {
  const answers = await Promise.allSettled(
    sentinels.map((one) => one.cli("SENTINEL", "get-master-addr-by-name", SERVICE)),
  );
  const ports = answers
    .filter((answer) => answer.status === "fulfilled")
    .map(({ value }) => Number(value.split("\n")[1]));
  const most = ports.find((port) => ports.filter((other) => other === port).length * 2 > ports.length);
  if (most === undefined) throw new Error(`The sentinels disagree about the primary: ${ports.join(", ")}`);
  return most;
}

async function untilFailedOver(
  port: number,
  currentPrimary: () => Promise<number>,
  servers: readonly RedisServer[],
): Promise<RedisServer> {
  return until("a fail-over", async () => {
    const now = await currentPrimary().catch(() => port);
    return now === port ? undefined : servers.find((server) => server.port === now);
  });
}

/** Looks until `look` finds something. */
export async function until<T>(
  what: string,
  look: () => Promise<T | undefined>,
  limitMs: number = LIMIT_MS,
): Promise<T> {
  const deadlineMs = performance.now() + limitMs;
  for (;;) {
    const found = await look();
    if (found !== undefined) return found;
    if (performance.now() > deadlineMs) throw new TooLateError(`did not happen within ${limitMs} ms: ${what}`);
    await sleep(25);
  }
}
