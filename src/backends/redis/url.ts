/**
 * Reads Redis URLs. Our own parser, because several hosts in one URL are no standard URL.
 *
 *   redis://[user:password@]host[:port][/db]            rediss:// with TLS
 *   redis+sentinel://[user:password@]h1[:port],h2/service[/db]
 *   redis+cluster://[user:password@]h1[:port],h2
 *   redis+unix://[user:password@]/path/to/redis.sock[?db=n]
 *
 * The backend's options may follow as a query. No error repeats the URL, because it may hold a password.
 */
import { ArgumentError, got } from "../../contract/argument-error.ts";
import type { Duration } from "../../contract/duration.ts";
import type { Topology } from "./connection.ts";
import type { Durability, RedisOptions } from "./options.ts";
import { type TlsOptions, toTls } from "./tls.ts";

export interface Address {
  readonly host: string;
  readonly port: number;
}

export interface Login {
  readonly username?: string | undefined;
  readonly password?: string | undefined;
}

export interface Endpoint {
  readonly topology: Topology;
  /** Absent: without TLS. */
  readonly tls?: TlsOptions | undefined;
  /** Of the sentinels, of some cluster nodes, or of the one server. Empty with `path`. */
  readonly addresses: readonly Address[];
  readonly path?: string | undefined;
  readonly service?: string | undefined;
  readonly db: number;
  readonly login: Login;
  readonly sentinelLogin: Login;
  /** Which client library to use; without it, whichever is installed. */
  readonly client?: "ioredis" | "redis" | undefined;
  readonly options: RedisOptions;
}

const URL_PATTERN = /^([a-z+-]+):\/\/(?:([^@/?#]*)@)?([^/?#]*)(\/[^?#]*)?(?:\?([^#]*))?$/iu;
const RAW_CREDENTIALS = /^rediss?(?:[+-](?:sentinel|cluster))?:\/\/[^@]*[/#?][^@]*@/iu;
const HOST_PATTERN = /^(\[[0-9a-f:.]+\]|[^:[\]@]+)(?::(\d{1,5}))?$/iu;
const KINDS: Readonly<Record<string, { topology: Topology; tls: boolean; unix?: boolean }>> = {
  redis: { topology: "standalone", tls: false },
  rediss: { topology: "standalone", tls: true },
  "redis+sentinel": { topology: "sentinel", tls: false },
  "redis-sentinel": { topology: "sentinel", tls: false },
  "rediss+sentinel": { topology: "sentinel", tls: true },
  "redis+cluster": { topology: "cluster", tls: false },
  "rediss+cluster": { topology: "cluster", tls: true },
  "redis+unix": { topology: "standalone", tls: false, unix: true },
};

/** Throws a `TypeError` that says what is wrong with it. `own`: options of a layout, which were taken out of it. */
export function parseUrl(url: string, own: readonly string[] = []): Endpoint {
  try {
    return parse(url, own);
  } catch (error) {
    // An unescaped / # or ? in a password ends the part before the hosts, and everything behind it is misread.
    if (!RAW_CREDENTIALS.test(url)) throw error;
    throw new ArgumentError(
      "Expected the user name and the password in `url` to be percent-encoded, but there is a /, # or ? before the @: write %2F, %23 or %3F (encodeURIComponent() does it)",
    );
  }
}

function parse(url: string, own: readonly string[]): Endpoint {
  const [, scheme = "", login, hosts = "", path = "", query] = URL_PATTERN.exec(url) ?? [];
  const kind = KINDS[scheme.toLowerCase()];
  if (kind === undefined) {
    throw new ArgumentError(`Expected \`url\` to look like "${Object.keys(KINDS).join('://…", "')}://…"`);
  }
  const params = new URLSearchParams(query ?? "");
  const known: string[] = ["layout", ...own];
  const take = (name: string): string | undefined => {
    known.push(name);
    const value = params.get(name) ?? undefined;
    params.delete(name);
    return value;
  };
  const { topology, tls } = kind;
  const segments = kind.unix ? [] : path.split("/").slice(1).filter(Boolean).map(decode);
  if (kind.unix && path.length < 2)
    throw new ArgumentError('Expected `url` to look like "redis+unix:///path/to/redis.sock"');
  const service = topology === "sentinel" ? segments.shift() : undefined;
  if (topology === "sentinel" && service === undefined) {
    throw new ArgumentError(
      'Expected `url` to name the service that the sentinels watch: "redis+sentinel://host:port/service"',
    );
  }
  const endpoint: Endpoint = {
    topology,
    tls: toTls(tls, take),
    addresses: kind.unix ? [] : toAddresses(hosts, topology === "sentinel" ? 26_379 : 6379),
    path: kind.unix ? decode(path) : undefined,
    service,
    db: toDb(segments.shift() ?? take("db")),
    login: toLogin(login),
    sentinelLogin: { username: take("sentinelUser"), password: take("sentinelPassword") },
    client: toClient(take("client")),
    options: toOptions(take),
  };
  const [unknown] = params.keys();
  if (unknown !== undefined) {
    throw new ArgumentError(`Expected \`url\` to have options of ${known.join(", ")} only, got ${got(unknown)}`);
  }
  const [more] = segments;
  if (more !== undefined) throw new ArgumentError(`Expected no \`${more.slice(0, 40)}\` in \`url\``);
  return endpoint;
}

/** Where it is, for messages; never with credentials. */
export function describe({ addresses, path, service }: Endpoint): string {
  const hosts = addresses.map(({ host, port }) => `${host.includes(":") ? `[${host}]` : host}:${port}`).join(", ");
  const where = path ?? hosts;
  return service === undefined ? where : `${where} (service ${service})`;
}

function toAddresses(hosts: string, port: number): readonly Address[] {
  return hosts.split(",").map((text, index) => {
    const [, host, given] = HOST_PATTERN.exec(text) ?? [];
    if (host === undefined || Number(given ?? port) > 65_535) {
      throw new ArgumentError(`Expected host ${index + 1} of \`url\` to look like "host", "host:port" or "[::1]:port"`);
    }
    return { host: host.replace(/^\[|\]$/gu, ""), port: Number(given ?? port) };
  });
}

function toLogin(text: string | undefined): Login {
  if (text === undefined || text === "") return {};
  const colon = text.indexOf(":");
  const username = decode(colon < 0 ? text : text.slice(0, colon));
  const password = colon < 0 ? undefined : decode(text.slice(colon + 1));
  return { username: username === "" ? undefined : username, password };
}

function toDb(text: string | undefined): number {
  if (text === undefined) return 0;
  if (!/^\d{1,6}$/u.test(text)) throw new ArgumentError("Expected the database in `url` to be a number");
  return Number(text);
}

function toClient(text: string | undefined): Endpoint["client"] {
  if (text === undefined || text === "ioredis" || text === "redis") return text;
  throw new ArgumentError("Expected `client` in `url` to be ioredis or redis");
}

/** Their values are checked where all options are. */
function toOptions(take: (name: string) => string | undefined): RedisOptions {
  const replicas = take("replicas");
  const wait = toDuration(take("wait"));
  const durability: Durability | undefined = replicas === undefined ? undefined : { replicas: Number(replicas), wait };
  const run = take("run");
  const checkReplicas = take("checkReplicas");
  return {
    prefix: take("prefix"),
    run: run === undefined ? undefined : Number(run),
    idle: toDuration(take("idle")),
    ticket: toDuration(take("ticket")),
    durability,
    failover: take("failover") as "quarantine" | undefined,
    maxTtl: toDuration(take("maxTtl")),
    maxLag: toDuration(take("maxLag")),
    checkReplicas: checkReplicas === undefined ? undefined : checkReplicas !== "false",
  };
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
