/** Opens `redis:` URLs with `layout=redisson`: those of Redis, with the options of this layout. */
import { ArgumentError } from "../../contract/argument-error.ts";
import type { Renewer } from "../../contract/backend.ts";
import { connectionOf } from "../redis/clients/choose.ts";
import { commonOptions, durationOf, parseLayoutUrl } from "../redis/layouts/url.ts";
import { confirm, openClient } from "../redis/open.ts";
import type { Endpoint } from "../redis/url.ts";
import { RedissonBackend } from "./backend.ts";
import { errors } from "./errors.ts";
import { Names } from "./keys.ts";
import { type RedissonKind, type Settings, toSettings } from "./options.ts";
import { renew } from "./renewals.ts";

/** Opens the backend, and makes sure that a primary answers. */
export async function openBackend(url: string): Promise<RedissonBackend> {
  const { endpoint, settings } = parseRedissonUrl(url);
  const opened = await openClient(endpoint);
  const connection = connectionOf(opened.client);
  const own = { close: () => opened.close(), renewer: { module: import.meta.url, data: url } };
  const backend = new RedissonBackend(connection, settings, own);
  try {
    await confirm(endpoint, opened, connection);
    return backend;
  } catch (error) {
    await backend.close();
    throw errors.toBackendError(error, "", false);
  }
}

/** For a worker thread that renews the claims of a backend opened with the same URL. */
export async function openRenewer(data: unknown): Promise<Renewer> {
  if (typeof data !== "string") throw new ArgumentError("Expected the renewer's data to be a Redis URL");
  const { endpoint, settings } = parseRedissonUrl(data);
  const opened = await openClient(endpoint);
  const connection = connectionOf(opened.client);
  const names = new Names(connection, settings);
  void opened.connect().catch(() => {});
  return { renew: (claims, fences) => renew(connection, names, settings, claims, fences), close: () => opened.close() };
}

function parseRedissonUrl(url: string): { readonly endpoint: Endpoint; readonly settings: Settings } {
  const { endpoint, own } = parseLayoutUrl(url, "redisson", ["kind", "watchdog", "gap"]);
  const settings = toSettings({
    ...commonOptions(endpoint, "redisson"),
    kind: own.kind as RedissonKind | undefined,
    watchdog: durationOf(own.watchdog),
    gap: durationOf(own.gap),
  });
  return { endpoint, settings };
}
