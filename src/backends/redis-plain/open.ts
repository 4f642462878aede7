/** Opens `redis:` URLs with `layout=plain`: those of Redis, with the options of this layout. */
import { ArgumentError } from "../../contract/argument-error.ts";
import type { Backend, Member, Renewer } from "../../contract/backend.ts";
import type { Duration } from "../../contract/duration.ts";
import { connectionOf } from "../redis/clients/choose.ts";
import type { Opened } from "../redis/clients/open-ioredis.ts";
import type { Connection } from "../redis/connection.ts";
import { confirm, openClient } from "../redis/open.ts";
import { type Endpoint, parseUrl } from "../redis/url.ts";
import { RedisPlainBackend } from "./backend.ts";
import { toBackendError } from "./errors.ts";
import { Names } from "./keys.ts";
import { type Settings, toSettings } from "./options.ts";
import { renew } from "./renewals.ts";

interface OpenedPlain {
  readonly backend: RedisPlainBackend;
  readonly endpoint: Endpoint;
  readonly opened: Opened;
  readonly connection: Connection;
}

/** Opens the backend, and makes sure that a primary answers. */
export async function openBackend(url: string): Promise<Backend> {
  const { backend, endpoint, opened, connection } = await open(url);
  try {
    await confirm(endpoint, opened, connection);
    return backend;
  } catch (error) {
    await backend.close();
    throw toBackendError(error, "", false);
  }
}

/** Opens the backend without waiting for the server: a quorum must start even if one of its members is down. */
export async function openMember(url: string): Promise<Member & RedisPlainBackend> {
  const { backend, opened } = await open(url);
  void opened.connect().catch(() => {});
  return backend;
}

/** For a worker thread that renews the claims of a backend opened with the same URL. */
export async function openRenewer(data: unknown): Promise<Renewer> {
  if (typeof data !== "string") throw new ArgumentError("Expected the renewer's data to be a Redis URL");
  const { endpoint, settings } = parsePlainUrl(data);
  const opened = await openClient(endpoint);
  const connection = connectionOf(opened.client);
  const names = new Names(settings.prefix, connection.keyPrefix);
  void opened.connect().catch(() => {});
  return { renew: (claims, fences) => renew(connection, names, claims, fences), close: () => opened.close() };
}

async function open(url: string): Promise<OpenedPlain> {
  const { endpoint, settings } = parsePlainUrl(url);
  const opened = await openClient(endpoint);
  const connection = connectionOf(opened.client);
  const own = { close: () => opened.close(), renewer: { module: import.meta.url, data: url } };
  return { backend: new RedisPlainBackend(connection, settings, own), endpoint, opened, connection };
}

function parsePlainUrl(url: string): { readonly endpoint: Endpoint; readonly settings: Settings } {
  const at = url.indexOf("?");
  const params = new URLSearchParams(at < 0 ? "" : url.slice(at + 1));
  const take = (name: string): string | undefined => {
    const value = params.get(name) ?? undefined;
    params.delete(name);
    return value;
  };
  if (take("layout") !== "plain") throw new ArgumentError("Expected `url` to have `layout=plain` in its query");
  const gap = take("gap");
  const events = take("events");
  if (events !== undefined && events !== "true" && events !== "false")
    throw new ArgumentError("Expected `events` in `url` to be true or false");
  const endpoint = parseUrl(params.size === 0 ? url.slice(0, at) : `${url.slice(0, at)}?${params.toString()}`);
  const { prefix, idle, ...others } = endpoint.options;
  const other = Object.entries(others).find(([, value]) => value !== undefined)?.[0];
  if (other !== undefined) {
    throw new ArgumentError(`Expected no \`${other}\` in \`url\`: layout=plain knows nothing of it`);
  }
  const settings = toSettings({
    prefix,
    idle,
    gap: gap !== undefined && /^\d+$/u.test(gap) ? Number(gap) : (gap as Duration | undefined),
    events: events === undefined ? undefined : events === "true",
  });
  return { endpoint, settings };
}
