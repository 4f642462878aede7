/**
 * Reads Postgres URLs, as libpq writes them, with the backend's options beside them:
 *
 *   postgres://[user[:password]@]host[:port][/database][?sslmode=verify-full&sslrootcert=/path/ca.pem&failover=quarantine…]
 *   postgres://[user[:password]@]/database?host=/var/run/postgresql
 *
 * No error repeats the URL, because it may hold a password.
 */
import { ArgumentError, got } from "../../contract/argument-error.ts";
import { readFileSync } from "node:fs";
import type { Duration } from "../../contract/duration.ts";
import { quote } from "../../contract/errors.ts";
import type { PostgresOptions } from "./options.ts";

export interface Ssl {
  readonly rejectUnauthorized: boolean;
  readonly ca?: string | undefined;
  readonly cert?: string | undefined;
  readonly key?: string | undefined;
  /** Absent: the name in the certificate must be the host's. */
  readonly checkServerIdentity?: (() => undefined) | undefined;
}

export interface Endpoint {
  /** A name, an address, or the directory of a unix socket. */
  readonly host: string;
  readonly port: number;
  readonly user: string | undefined;
  readonly password: string | undefined;
  readonly database: string | undefined;
  /** `false`: without TLS. */
  readonly ssl: Ssl | false;
  /** How many connections at most, beside the one that listens. */
  readonly connections: number;
  /** Which client library to use; without it, whichever is installed. */
  readonly client: "pg" | "postgres" | undefined;
  readonly options: PostgresOptions;
}

const URL_PATTERN = /^postgres(?:ql)?:\/\/(?:([^@/?#]*)@)?([^@/?#]*)(\/[^?#]*)?(?:\?([^#]*))?$/iu;
const HOST_PATTERN = /^(\[[0-9a-f:.]+\]|[^:[\],]+)(?::(\d{1,5}))?$/iu;
const RAW_CREDENTIALS = /^postgres(?:ql)?:\/\/[^@]*[/#?][^@]*@/iu;
const CONNECTIONS = 4;

/** Throws an `ArgumentError` that says what is wrong with it. */
export function parseUrl(url: string): Endpoint {
  // An unescaped / # or ? in a password ends the part before the host, and everything behind it is misread, and shown as what it is not.
  if (RAW_CREDENTIALS.test(url)) {
    throw new ArgumentError(
      "Expected the user name and the password in `url` to be percent-encoded, but there is a /, # or ? before the @: write %2F, %23 or %3F (encodeURIComponent() does it), and %40 for an @ in the name of the database",
    );
  }
  const [whole, login, hosts = "", path = "", query] = URL_PATTERN.exec(url) ?? [];
  if (whole === undefined) {
    throw new ArgumentError('Expected `url` to look like "postgres://user:password@host:5432/database"');
  }
  const params = new URLSearchParams(query ?? "");
  const known: string[] = [];
  const take = (name: string): string | undefined => {
    known.push(name);
    const value = params.get(name) ?? undefined;
    params.delete(name);
    return value;
  };
  const [user, password] = toLogin(login);
  const endpoint: Endpoint = {
    ...toAddress(hosts, take("host"), take("port")),
    user: user ?? take("user"),
    password: password ?? take("password"),
    database: path.length > 1 ? decode(path.slice(1)) : take("dbname"),
    ssl: toSsl(take),
    connections: toCount(take("connections"), "connections", CONNECTIONS),
    client: toClient(take("client")),
    options: toOptions(take),
  };
  const [unknown] = params.keys();
  if (unknown !== undefined) {
    throw new ArgumentError(`Expected \`url\` to have options of ${known.join(", ")} only, got ${got(unknown)}`);
  }
  return endpoint;
}

/** Where it is, for messages; never with credentials. */
export function describe({ host, port, database }: Endpoint): string {
  const where = host.startsWith("/") ? host : `${host.includes(":") ? `[${host}]` : host}:${port}`;
  return database === undefined ? where : `${where}, database ${database}`;
}

function toAddress(
  hosts: string,
  host: string | undefined,
  port: string | undefined,
): { readonly host: string; readonly port: number } {
  if (hosts.includes(",")) {
    throw new ArgumentError(
      "Expected one host in `url`: give the address that follows the primary, such as that of a proxy or a pooler",
    );
  }
  const [, name, given] = HOST_PATTERN.exec(hosts) ?? [];
  if (hosts !== "" && name === undefined) {
    throw new ArgumentError('Expected the host of `url` to look like "host", "host:port" or "[::1]:port"');
  }
  const number = Number(given ?? port ?? 5432);
  if (!Number.isSafeInteger(number) || number < 1 || number > 65_535) {
    throw new ArgumentError("Expected the port in `url` to be a number from 1 to 65535");
  }
  return { host: name?.replace(/^\[|\]$/gu, "") ?? host ?? "localhost", port: number };
}

function toLogin(text: string | undefined): readonly [user?: string, password?: string] {
  if (text === undefined || text === "") return [];
  const colon = text.indexOf(":");
  return colon < 0 ? [decode(text)] : [decode(text.slice(0, colon)), decode(text.slice(colon + 1))];
}

/** As libpq has it, without `allow` and `prefer`, which would send everything in the clear to a server that says that it knows no TLS. */
function toSsl(take: (name: string) => string | undefined): Ssl | false {
  const mode = take("sslmode");
  const [ca, cert, key] = ["sslrootcert", "sslcert", "sslkey"].map((name) => read(name, take(name)));
  if ((cert === undefined) !== (key === undefined)) {
    throw new ArgumentError("Expected `sslcert` and `sslkey` in `url` together: a client certificate and its key");
  }
  if (mode === undefined && ca === undefined && cert === undefined) return false;
  switch (mode ?? "verify-full") {
    case "disable":
      if (ca !== undefined || cert !== undefined) {
        throw new ArgumentError("Expected no certificates in `url` with sslmode=disable");
      }
      return false;
    case "require":
      return { rejectUnauthorized: ca !== undefined, ca, cert, key, checkServerIdentity: () => undefined };
    case "verify-ca":
      return { rejectUnauthorized: true, ca, cert, key, checkServerIdentity: () => undefined };
    case "verify-full":
      return { rejectUnauthorized: true, ca, cert, key };
    default:
      throw new ArgumentError("Expected `sslmode` in `url` to be disable, require, verify-ca or verify-full");
  }
}

function read(name: string, path: string | undefined): string | undefined {
  if (path === undefined) return undefined;
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new ArgumentError(
      `Expected \`${name}\` in \`url\` to be the path of a PEM file, but ${quote(path)} cannot be read (${code})`,
    );
  }
}

function toCount(text: string | undefined, name: string, usual: number): number {
  if (text === undefined) return usual;
  if (!/^[1-9]\d{0,2}$/u.test(text))
    throw new ArgumentError(`Expected \`${name}\` in \`url\` to be a number from 1 to 999`);
  return Number(text);
}

function toClient(text: string | undefined): Endpoint["client"] {
  if (text === undefined || text === "pg" || text === "postgres") return text;
  throw new ArgumentError("Expected `client` in `url` to be pg or postgres");
}

/** Their values are checked where all options are. */
function toOptions(take: (name: string) => string | undefined): PostgresOptions {
  const run = take("run");
  return {
    migrate: toFlag(take("migrate"), "migrate"),
    run: run === undefined ? undefined : Number(run),
    idle: toDuration(take("idle")),
    ticket: toDuration(take("ticket")),
    answer: toDuration(take("answer")),
    listen: toFlag(take("listen"), "listen"),
    failover: take("failover") as "quarantine" | undefined,
    maxTtl: toDuration(take("maxTtl")),
  };
}

function toFlag(text: string | undefined, name: string): boolean | undefined {
  if (text === undefined) return undefined;
  if (text !== "true" && text !== "false")
    throw new ArgumentError(`Expected \`${name}\` in \`url\` to be true or false`);
  return text === "true";
}

function toDuration(text: string | undefined): Duration | undefined {
  return text !== undefined && /^\d+$/u.test(text) ? Number(text) : (text as Duration | undefined);
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new ArgumentError("Expected `url` to have no % other than in escapes such as %40");
  }
}
