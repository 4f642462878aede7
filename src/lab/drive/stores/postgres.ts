/** Postgres under the driver: one server that loses nothing at a crash. A client is a pool of `pg`, with one connection that listens. */
import { setTimeout as sleep } from "node:timers/promises";
import type { Locks } from "../../../core/api.ts";
import { LOCKS_MIGRATION } from "../../../backends/postgres/index.ts";
import { startProxy } from "../../proxy.ts";
import { startPostgres } from "../../servers/postgres.ts";
import { labPassword } from "../../servers/secret.ts";
import { until } from "../../servers/sentinels.ts";
import type { Holdfast } from "../library.ts";
import { type DrivenStore, MESSAGES } from "../store.ts";

/** Shorter than the longest fault, so that statements are given up in the middle of one. */
const ANSWER_MS = 2000;
const PATIENCE_MS = 60_000;
const CONNECTIONS = 4;
/** What query() does not show: waiters whose time is over, and rows of further holders. */
const LEFT = `select 'a waiter of ' || encode(lock, 'escape') from holdfast.waiter where till_us > holdfast.now_us()
union all select 'a waiter of ' || encode(lock, 'escape') from holdfast.lease where (waiting).till_us > holdfast.now_us()
union all select 'an outcome of ' || encode(lock, 'escape') from holdfast.outcome where till_us > holdfast.now_us()`;

/** The connection that listens for messages. */
function postgresRoad(request: Buffer): string | undefined {
  return request.includes('listen "holdfast_') ? MESSAGES : undefined;
}

export async function drivePostgres({ createLocks, postgres, lingers }: Holdfast): Promise<DrivenStore> {
  const { default: pg } = await import("pg");
  const server = await startPostgres({ settings: { max_connections: "100" } });
  const poolOf = (port: number, patienceMs: number): InstanceType<typeof pg.Pool> => {
    const pool = new pg.Pool({
      connectionString: `postgres://postgres:${labPassword()}@127.0.0.1:${port}/postgres`,
      max: CONNECTIONS,
      connectionTimeoutMillis: patienceMs,
    });
    pool.on("error", () => undefined);
    return pool;
  };
  // What it asks is no part of the drive: a machine that is busy must not end it.
  const direct = poolOf(server.port, PATIENCE_MS);
  const observer = createLocks(postgres(direct, { listen: false, answer: PATIENCE_MS }), { holder: "observer" });
  const stop = async (): Promise<void> => {
    await observer.close().catch(() => undefined);
    await direct.end();
    await server.stop();
  };
  await server.sql(LOCKS_MIGRATION);
  return {
    name: "postgres",
    possible: {
      clients: 3,
      servers: 1,
      serverActs: ["pause", "restart"],
      processActs: [],
      network: true,
      limits: true,
      ttls: [500, 1000, 1500],
      linger: lingers,
    },
    client: async () => {
      const proxy = await startProxy({ port: server.port, roadOf: postgresRoad });
      const pool = poolOf(proxy.port, ANSWER_MS);
      return {
        proxies: [proxy],
        open: (holder, run): Locks => createLocks(postgres(pool, { run, answer: ANSWER_MS }), { holder }),
        listeners: () => pool.eventNames().reduce((sum, event) => sum + pool.listenerCount(event), 0),
        close: async () => {
          // First the proxy: a pool waits for connections that hang.
          await proxy.stop();
          await pool.end();
        },
      };
    },
    look: (prefix) => observer.query(prefix),
    strike: async (what, _at, forMs) => {
      if (what === "pause") {
        server.pause();
        await sleep(forMs);
        server.resume();
      } else {
        await server.crash();
        await sleep(forMs / 4);
        await server.restart();
      }
    },
    calm: async () => {
      server.resume();
      await until("the server answers again", () =>
        server.sql("select 1").then(
          (answer) => (answer === "1" ? true : undefined),
          () => undefined,
        ),
      );
    },
    leaks: async () => (await server.sql(LEFT)).split("\n").filter((line) => line !== ""),
    stop,
    [Symbol.asyncDispose]: stop,
  };
}
