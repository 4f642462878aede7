/** Opens `redis:` URLs with `layout=plain`: those of Redis, with the options of this layout. */
import { ArgumentError } from "../../contract/argument-error.ts";
import type { Backend, Member, Renewer } from "../../contract/backend.ts";
import { connectionOf } from "../redis/clients/choose.ts";
import type { Opened } from "../redis/clients/open-ioredis.ts";
import type { Connection } from "../redis/connection.ts";
import { confirm, openClient } from "../redis/open.ts";
import { commonOptions, durationOf, parseLayoutUrl } from "../redis/layouts/url.ts";
import type { Endpoint } from "../redis/url.ts";
import { RedisPlainBackend } from "./backend.ts";
import { errors } from "./errors.ts";
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
    throw errors.toBackendError(error, "", false);
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
  const { endpoint, own } = parseLayoutUrl(url, "plain", ["gap", "events"]);
  const { gap, events } = own;
  if (events !== undefined && events !== "true" && events !== "false")
    throw new ArgumentError("Expected `events` in `url` to be true or false");
  const settings = toSettings({
    ...commonOptions(endpoint, "plain"),
    gap: durationOf(gap),
    events: events === undefined ? undefined : events === "true",
  });
  return { endpoint, settings };
}
