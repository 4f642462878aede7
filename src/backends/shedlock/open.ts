/** Opens `postgres+shedlock:` URLs: those of Postgres, with the name of the table. */
import { ArgumentError } from "../../contract/argument-error.ts";
import type { Backend, Renewer } from "../../contract/backend.ts";
import { LockBackendError } from "../../contract/errors.ts";
import type { Connection } from "../postgres/connection.ts";
import { explained, openConnection } from "../postgres/open.ts";
import { inTurn } from "../postgres/migrate.ts";
import type { Endpoint } from "../postgres/url.ts";
import { ShedLockBackend, setUp } from "./backend.ts";
import { toBackendError } from "./errors.ts";
import { type Settings, toSettings } from "./options.ts";
import { renew } from "./renewals.ts";
import { statementsFor } from "./statements.ts";
import { tableText } from "./table.ts";

const SCHEME = /^postgres\+shedlock:/iu;
/** Of the options of postgres:// only these mean something here. */
const FOREIGN = ["run", "idle", "ticket", "listen", "failover", "maxTtl"];

export interface Opened {
  readonly connection: Connection;
  readonly settings: Settings;
  readonly endpoint: Endpoint;
}

/** Opens the backend, and makes sure that a server with a usable table answers. */
export async function openBackend(url: string): Promise<Backend> {
  const { connection, settings, endpoint } = await open(url);
  try {
    await setUp(connection, settings);
  } catch (error) {
    await connection.close();
    throw failed(endpoint, error);
  }
  return new ShedLockBackend(connection, settings, { renewer: { module: import.meta.url, data: url } });
}

/** Makes the table, if there is none. */
export async function migrateUrl(url: string): Promise<string> {
  const { connection, settings, endpoint } = await open(url);
  try {
    await connection.script(inTurn(tableText(settings.table)));
    return settings.table;
  } catch (error) {
    throw failed(endpoint, error);
  } finally {
    await connection.close();
  }
}

/** For a worker thread that renews the claims of a backend opened with the same URL. */
export async function openRenewer(data: unknown): Promise<Renewer> {
  if (typeof data !== "string") throw new ArgumentError("Expected the renewer's data to be a URL");
  const { connection, settings } = await open(data);
  const statements = statementsFor(settings.table);
  return {
    renew: (claims, fences) => renew(connection, statements, claims, fences),
    close: () => connection.close(),
  };
}

export async function open(url: string): Promise<Opened> {
  if (!SCHEME.test(url)) throw new ArgumentError('Expected `url` to start with "postgres+shedlock://"');
  const plain = url.replace(SCHEME, "postgres:");
  const at = plain.indexOf("?");
  const params = new URLSearchParams(at < 0 ? "" : plain.slice(at + 1));
  const foreign = FOREIGN.find((name) => params.has(name));
  if (foreign !== undefined) {
    throw new ArgumentError(`Expected no \`${foreign}\` in \`url\`: ShedLock's table knows nothing of it`);
  }
  const table = params.get("table") ?? undefined;
  params.delete("table");
  const { endpoint, connection } = await openConnection(at < 0 ? plain : `${plain.slice(0, at)}?${params.toString()}`);
  const { migrate, answer } = endpoint.options;
  return { connection, settings: toSettings({ table, migrate, answer }), endpoint };
}

function failed(endpoint: Endpoint, error: unknown): LockBackendError {
  const known = toBackendError(error, "", false);
  const { message, fatal, cause } = explained(endpoint, known.fatal ? known : error);
  return new LockBackendError("shedlock", "", message, { fatal, cause });
}
