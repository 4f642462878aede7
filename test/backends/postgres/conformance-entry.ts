/** The conformance suite over one client library, direct or through PgBouncer in transaction mode. */
import pg from "pg";
import postgresJs from "postgres";
import { LOCKS_MIGRATION, postgres, type PostgresClient } from "../../../src/backends/postgres/index.ts";
import { startPgBouncer } from "../../../src/lab/servers/pgbouncer.ts";
import { startPostgres } from "../../../src/lab/servers/postgres.ts";
import type { ConformanceEntry } from "../../conformance/conformance-tests.ts";

export type Library = "pg pool" | "pg client" | "postgres.js";
export type Road = "direct" | "PgBouncer";

const DEAF = {
  "reports to the holder that its lease was ended by force, and why":
    "no message of the server reaches a client behind a pooler: its next renewal says it",
};

interface Opened {
  readonly client: PostgresClient;
  close(): Promise<void>;
}

async function openClient(library: Library, url: string): Promise<Opened> {
  if (library === "postgres.js") {
    const sql = postgresJs(url, { max: 8, fetch_types: false, onnotice: () => undefined });
    return { client: sql, close: () => sql.end({ timeout: 1 }) };
  }
  if (library === "pg client") {
    const client = new pg.Client(url);
    await client.connect();
    return { client, close: () => client.end() };
  }
  const pool = new pg.Pool({ connectionString: url, max: 8 });
  pool.on("error", () => undefined);
  return { client: pool, close: () => pool.end() };
}

export function postgresEntry(library: Library, road: Road): ConformanceEntry {
  const stops: (() => Promise<void>)[] = [];
  return {
    name: `postgres, ${library}, ${road}`,
    start: async () => {
      const server = await startPostgres({ settings: { max_connections: "200" } });
      stops.push(() => server.stop());
      const bouncer = road === "PgBouncer" ? await startPgBouncer(server) : undefined;
      if (bouncer !== undefined) stops.push(() => bouncer.stop());
      const opened = await openClient(library, (bouncer ?? server).url);
      stops.push(() => opened.close());
      await server.sql(LOCKS_MIGRATION);
      return { open: () => postgres(opened.client) };
    },
    stop: async () => {
      for (const stop of stops.toReversed()) await stop();
    },
    ...(road === "PgBouncer" ? { declined: DEAF } : {}),
  };
}
