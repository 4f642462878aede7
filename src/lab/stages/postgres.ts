/** One Postgres, which loses nothing at a crash. */
import { LOCKS_MIGRATION } from "../../backends/postgres/index.ts";
import { openObserver } from "../observers.ts";
import { startPostgres } from "../servers/postgres.ts";
import { labPassword } from "../servers/secret.ts";
import type { Stage } from "../stage.ts";
import { makeLinks } from "./proxied-links.ts";

/**
 * Waiters, outcomes and leases of any holder whose time is not over. Rows whose time is over count for nothing: they go when the lock is used
 * again, or with the clean-up.
 */
export const LEFT = `select 'a waiter ' || claim || ' of ' || encode(lock, 'escape') from holdfast.waiter
where till_us > (extract(epoch from clock_timestamp()) * 1000000)::bigint
union all select 'a waiter ' || (waiting).claim || ' of ' || encode(lock, 'escape') from holdfast.lease
where (waiting).till_us > (extract(epoch from clock_timestamp()) * 1000000)::bigint
union all select 'an outcome of ' || encode(lock, 'escape') from holdfast.outcome
where till_us > (extract(epoch from clock_timestamp()) * 1000000)::bigint
union all select 'a lease ' || coalesce(claim, '') || ' of ' || encode(lock, 'escape') from holdfast.lease
where until_us > (extract(epoch from clock_timestamp()) * 1000000)::bigint and not kept`;

export async function openPostgresStage(): Promise<Stage> {
  const server = await startPostgres({ settings: { max_connections: "200" } });
  const links = makeLinks([server.port], ([host]) => `postgres://postgres:${labPassword()}@${host}/postgres`);
  const stop = async (): Promise<void> => {
    await links.stop();
    await server.stop();
  };
  try {
    await server.sql(LOCKS_MIGRATION);
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    backend: "postgres",
    servers: [
      {
        name: "Postgres",
        pause: () => server.pause(),
        resume: () => server.resume(),
        kill: () => server.crash(),
        restart: () => server.restart(),
      },
    ],
    link: (client) => links.link(client),
    observe: async () => [await openObserver("Postgres", server.url)],
    // Rows of locks have no end of their own: they are removed when they were not used for a while.
    leaks: async () => [],
    left: async () => (await server.sql(LEFT)).split("\n").filter((line) => line !== ""),
    stop,
    [Symbol.asyncDispose]: stop,
  };
}
