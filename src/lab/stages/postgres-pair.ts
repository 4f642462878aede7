/**
 * A Postgres with a standby that follows it asynchronously. When the primary is killed the standby is promoted, and new connections go to it, as
 * by an address that follows the primary.
 */
import { LOCKS_MIGRATION } from "../../backends/postgres/index.ts";
import { openObserver } from "../observers.ts";
import { type PostgresServer, type PostgresStandby, startPostgres, startStandby } from "../servers/postgres.ts";
import { labPassword } from "../servers/secret.ts";
import { until } from "../servers/sentinels.ts";
import type { Stage } from "../stage.ts";
import { LEFT } from "./postgres.ts";
import { makeLinks } from "./proxied-links.ts";

export interface PostgresPairOptions {
  /** Appended to the URL, such as `failover=quarantine`. */
  readonly query?: string | undefined;
}

export async function openPostgresPairStage({ query = "" }: PostgresPairOptions = {}): Promise<Stage> {
  const first = await startPostgres({ settings: { wal_level: "replica" } });
  let standby: PostgresStandby | undefined;
  let primary: PostgresServer = first;
  const followed = {
    get port() {
      return primary.port;
    },
  };
  const links = makeLinks([followed], ([host]) => `postgres://postgres:${labPassword()}@${host}/postgres?${query}`);
  const stop = async (): Promise<void> => {
    await links.stop();
    await standby?.stop();
    await first.stop();
  };
  try {
    await first.sql(LOCKS_MIGRATION);
    const follower = (standby = await startStandby(first));
    return {
      backend: "postgres",
      servers: [
        {
          name: "primary",
          kill: async () => {
            await first.crash();
            await follower.promote();
            primary = follower;
          },
        },
      ],
      link: (client) => links.link(client),
      observe: async () => [await openObserver("Postgres", (await links.link("observer")).url)],
      leaks: async () => [],
      left: async () => (await primary.sql(LEFT)).split("\n").filter((line) => line !== ""),
      cutReplication: async () => {
        // What came before is not to be lost: the log of a release that no claim waited for may not even have been written yet.
        await first.sql("checkpoint");
        const written = await first.sql("select pg_current_wal_flush_lsn()");
        await until("the standby has all that came before", async () => {
          const has = await follower.sql(`select pg_last_wal_replay_lsn() >= '${written}'`);
          return has === "t" ? true : undefined;
        });
        await follower.sql("alter system set primary_conninfo = ''");
        await follower.sql("select pg_reload_conf()");
        await until("the standby no longer follows", async () => {
          const followers = await first.sql("select count(*) from pg_stat_replication");
          return followers === "0" ? true : undefined;
        });
      },
      stop,
      [Symbol.asyncDispose]: stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}
