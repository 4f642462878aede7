/** Opens Postgres by URL, with whichever client library is installed; and closes what it opened. */
import { ArgumentError } from "../../contract/argument-error.ts";
import { isIP } from "node:net";
import { checkServerIdentity, type PeerCertificate } from "node:tls";
import type { Backend, Renewer } from "../../contract/backend.ts";
import { LockBackendError } from "../../contract/errors.ts";
import { PostgresBackend } from "./backend.ts";
import { connectionOf } from "./clients/choose.ts";
import { within } from "./clients/limit.ts";
import { Sockets } from "./clients/sockets.ts";
import type { Connection } from "./connection.ts";
import { isRefusal, toBackendError, wordsOf } from "./errors.ts";
import { MIGRATE, VERSION } from "./migrate.ts";
import { type Settings, toSettings } from "./options.ts";
import { Renewals } from "./renewals.ts";
import { checkStore, setUp } from "./setup.ts";
import { describe, type Endpoint, parseUrl } from "./url.ts";

/**
 * Opens the backend, and makes sure that a server with our tables answers. Otherwise rejects with a {@link LockBackendError}: fatal if the URL or
 * the server is wrong, but not if there is no answer, because the server may start later.
 */
export async function openBackend(url: string): Promise<Backend> {
  const { endpoint, settings, connection } = await openConnection(url);
  try {
    await (settings.migrate ? setUp(connection) : checkStore(connection));
  } catch (error) {
    await connection.close();
    throw explained(endpoint, error);
  }
  return new PostgresBackend(connection, settings, { renewer: { module: import.meta.url, data: url } });
}

/** Makes the tables and functions. Resolves to their version. */
export async function migrateUrl(url: string): Promise<number> {
  const { endpoint, connection } = await openConnection(url);
  try {
    await connection.script(MIGRATE);
    return VERSION;
  } catch (error) {
    throw explained(endpoint, error);
  } finally {
    await connection.close();
  }
}

/** For a worker thread that renews the claims of a backend opened with the same URL. */
export async function openRenewer(data: unknown): Promise<Renewer> {
  if (typeof data !== "string") throw new ArgumentError("Expected the renewer's data to be a Postgres URL");
  const { settings, connection } = await openConnection(data);
  const renewals = new Renewals(connection, settings);
  return { renew: (claims, fences) => renewals.renew(claims, fences), close: () => connection.close() };
}

export interface OpenConnection {
  readonly endpoint: Endpoint;
  readonly settings: Settings;
  readonly connection: Connection;
}

/** How long the library may take to end its connections: what hangs is cut off then. */
const END_MS = 1000;
/** How long postgres.js waits before it connects again, at most. */
const BACKOFF_MAX_S = 0.5;

/** Connects only when it is first asked. */
export async function openConnection(url: string): Promise<OpenConnection> {
  const endpoint = parseUrl(url);
  const settings = toSettings(endpoint.options);
  return { endpoint, settings, connection: await load(endpoint, settings) };
}

async function load(endpoint: Endpoint, settings: Settings): Promise<Connection> {
  const { host, port, user, password, database, connections } = endpoint;
  // With the name from the URL, whatever the library calls the server: for an address, postgres.js names none, and Node then takes "localhost".
  const ssl = endpoint.ssl && {
    checkServerIdentity: (_: string, certificate: PeerCertificate) => checkServerIdentity(host, certificate),
    ...endpoint.ssl,
  };
  if (endpoint.client !== "postgres") {
    const library = await import("pg").catch(missing);
    if (library !== undefined) {
      const sockets = new Sockets(host, port);
      const pool = new library.default.Pool({
        host,
        port,
        ...(user === undefined ? {} : { user }),
        ...(password === undefined ? {} : { password }),
        ...(database === undefined ? {} : { database }),
        ssl: ssl as never,
        max: connections,
        connectionTimeoutMillis: settings.answerMs,
        keepAlive: true,
        application_name: "holdfast",
        stream: () => sockets.make(),
      });
      // A connection that breaks while it is idle is replaced by the next statement.
      pool.on("error", () => undefined);
      const end = async (): Promise<void> => {
        // It waits for every answer that is out, and for the other side.
        await within(settings.clock, END_MS, pool.end()).catch(() => undefined);
        sockets.close();
      };
      return connectionOf(pool, settings.clock, settings.answerMs, end);
    }
  }
  if (endpoint.client !== "pg") {
    const library = await import("postgres").catch(missing);
    if (library !== undefined) {
      const sockets = new Sockets(host, port);
      const sql = library.default({
        host,
        port,
        ...(user === undefined ? {} : { user }),
        ...(password === undefined ? {} : { password }),
        ...(database === undefined ? {} : { database }),
        // With a socket of ours it does not know the host, by which many servers choose the certificate, or the database.
        ssl: (ssl && { ...(isIP(host) === 0 ? { servername: host } : {}), ...ssl }) as never,
        // One alone could be taken by a transaction; see choose.ts.
        max: Math.max(2, connections),
        connect_timeout: Math.ceil(settings.answerMs / 1000),
        // Its own goes up to 20 s: longer than most leases, and the process cannot end meanwhile.
        backoff: (retries) => Math.min(BACKOFF_MAX_S, 2 ** retries / 100),
        connection: { application_name: "holdfast" },
        prepare: false,
        // See WHO_SERVES in clients/postgres-js.ts. Its types do not know it.
        ...({ max_pipeline: 0, socket: () => sockets.open() } as object),
        fetch_types: false,
        onnotice: () => undefined,
      });
      const end = (): Promise<void> => sql.end({ timeout: END_MS / 1000 }).finally(() => sockets.close());
      return connectionOf(sql, settings.clock, settings.answerMs, end, () => sockets.destroyAll());
    }
  }
  const text =
    endpoint.client === undefined
      ? "pg, or postgres: npm install pg"
      : `${endpoint.client}: npm install ${endpoint.client}`;
  throw new LockBackendError("postgres", "", `Postgres by URL needs a client library. Install ${text}.`, {
    fatal: true,
  });
}

function missing(error: unknown): undefined {
  if ((error as { code?: string }).code === "ERR_MODULE_NOT_FOUND") return undefined;
  throw error;
}

/** PgBouncer's words, with a code that says nothing of it. It stays no fatal error: a pooler may say so while it cannot ask its server. */
const LOGIN_TROUBLE = /authentication failed|no such user/iu;
const TLS_TROUBLE = /certificate|self[- ]signed|SSL|TLS/iu;

/** The error of a connection that was just opened, with its address, and without credentials. */
export function explained(endpoint: Endpoint, error: unknown): LockBackendError {
  const known = toBackendError(error, "", false);
  const words = wordsOf(error);
  const start = `Postgres at ${describe(endpoint)}: `;
  if (known.fatal || isRefusal(error)) {
    const text = known.message.replace(/^Postgres locks: /u, "");
    return new LockBackendError("postgres", "", start + text, { fatal: known.fatal, cause: known.cause });
  }
  let text = `nothing usable answers (${words}). Check that Postgres runs there and that host and port are right.`;
  if (TLS_TROUBLE.test(words))
    text = `TLS: ${words}. Check sslmode and sslrootcert in the URL, and that the server has TLS on.`;
  else if (LOGIN_TROUBLE.test(words))
    text = `a pooler refused the user name or the password (${words}). Check the credentials in the URL.`;
  return new LockBackendError("postgres", "", start + text, { fatal: false, cause: known.cause });
}
