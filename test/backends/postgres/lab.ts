/** What the Postgres tests share: pools that are closed for them, and how the core waits. */
import pg from "pg";
import { vi } from "vitest";
import { LOCKS_MIGRATION, postgres, type PostgresOptions } from "../../../src/backends/postgres/index.ts";
import type { Backend, Claim, Granted } from "../../../src/contract/backend.ts";
import {
  type PostgresOptions as ServerOptions,
  type PostgresServer,
  startPostgres,
} from "../../../src/lab/servers/postgres.ts";
import { labPassword } from "../../../src/lab/servers/secret.ts";
import { eventually } from "../../../src/testing/eventually.ts";

export { granted, refused } from "../../../src/testing/attempts.ts";
export { newClaim as claimOf, rivalOf } from "../../../src/testing/claim.ts";
export { eventually };

// On a busy machine a server takes its time to start. These limits only end what has failed anyway.
vi.setConfig({ testTimeout: 240_000, hookTimeout: 240_000 });

/** A server that is asked over one connection: a process for each question would be most of what a test costs. */
export async function startAsked(options: ServerOptions = {}): Promise<PostgresServer> {
  const server = await startPostgres(options);
  const text = (value: string): string => value;
  let client: pg.Client | undefined;
  const sql = async (statement: string): Promise<string> => {
    if (client === undefined) {
      const opened = new pg.Client({ connectionString: server.url, types: { getTypeParser: () => text } as never });
      // It ends when the server does; the next question opens another.
      opened.on("error", () => (client = undefined));
      await opened.connect();
      client = opened;
    }
    const results = [await client.query({ text: statement, rowMode: "array" })].flat() as pg.QueryArrayResult[];
    return (results.at(-1)?.rows ?? []).map((row) => row.map((value) => value ?? "").join("|")).join("\n");
  };
  const stop = async (): Promise<void> => {
    await client?.end().catch(() => undefined);
    await server.stop();
  };
  return Object.assign(Object.create(server) as PostgresServer, { sql, stop, [Symbol.asyncDispose]: stop });
}

/** The same, with our tables. */
export async function startMigrated(options: ServerOptions = {}): Promise<PostgresServer> {
  const server = await startAsked(options);
  await server.sql(LOCKS_MIGRATION);
  return server;
}

export function urlOf(port: number, user = "postgres", database = "postgres"): string {
  return `postgres://${user}:${labPassword()}@127.0.0.1:${port}/${database}`;
}

/** Pools, clients and backends that are closed at the end of a test. */
export class Clients implements AsyncDisposable {
  readonly #closes: (() => unknown)[] = [];

  pool(port: number, options: pg.PoolConfig = {}): pg.Pool {
    const pool = new pg.Pool({ connectionString: urlOf(port), max: 4, ...options });
    pool.on("error", () => undefined);
    this.later(() => pool.end());
    return pool;
  }

  async client(port: number): Promise<pg.Client> {
    const client = new pg.Client(urlOf(port));
    client.on("error", () => undefined);
    await client.connect();
    this.later(() => client.end());
    return client;
  }

  backend(port: number, options: PostgresOptions = {}, pool: pg.PoolConfig = {}): Backend {
    return this.own(postgres(this.pool(port, pool), options));
  }

  own<T extends { close(): unknown }>(opened: T): T {
    this.later(() => opened.close());
    return opened;
  }

  later(close: () => unknown): void {
    this.#closes.push(close);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const close of this.#closes.toReversed()) await close();
  }
}

/** Waits as the core does, without its pace: attempt, watch, attempt. */
export async function waitFor(backend: Backend, claim: Claim): Promise<Granted> {
  return eventually(`${claim.name} is granted`, async () => {
    const answer = await backend.attempt(claim);
    if (answer.granted) return answer;
    return backend.watch?.(claim, AbortSignal.timeout(answer.retryMs ?? 1000));
  });
}

/** Waiters, wherever they stand: the first may be in row 0 of the lock. */
export const WAITERS =
  "(select w.* from holdfast.waiter as w union all select (l.waiting).* from holdfast.lease as l where (l.waiting).claim is not null)";

/** Everything that the store sends to the process of this claim, held or queued, from now on. */
export async function tapInbox(server: PostgresServer, clients: Clients, { id }: Claim): Promise<readonly string[]> {
  const inbox = await server.sql(
    `select rtrim(inbox, '!') from holdfast.lease where claim = '${id}' union all select inbox from ${WAITERS} as w where claim = '${id}'`,
  );
  const ear = await clients.client(server.port);
  const heard: string[] = [];
  ear.on("notification", ({ payload = "" }) => heard.push(payload.split(" ")[1] ?? ""));
  await ear.query(`listen "${inbox}"`);
  return heard;
}

/** Messages of one channel come in the order of commits: when this one is there, all before it are. */
export async function whenTold(
  server: PostgresServer,
  clients: Clients,
  heard: readonly string[],
  claim: Claim,
): Promise<void> {
  const inbox = await server.sql(`select rtrim(inbox, '!') from holdfast.lease where claim = '${claim.id}'`);
  const sender = await clients.client(server.port);
  await sender.query("select pg_notify($1, 'x last x')", [inbox]);
  await eventually("the last message", () => (heard.includes("last") ? true : undefined));
}
