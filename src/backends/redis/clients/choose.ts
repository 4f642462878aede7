/** Finds the adapter that fits a client which the user brought. */
import { ArgumentError } from "../../../contract/argument-error.ts";
import { refuseOldNodeRedis } from "../../../contract/node-redis.ts";
import type { Connection } from "../connection.ts";
import { adaptIoredis, isIoredis } from "./ioredis.ts";
import { adaptNodeRedis, isNodeRedis, whyUnusable } from "./node-redis.ts";

/** Recognises a client by what it can do, never by its class: two copies of a library in one program are common. */
export function connectionOf(client: unknown): Connection {
  const trouble = whyUnusable(client);
  if (trouble !== undefined)
    throw new ArgumentError(`Expected \`client\` to be a client that can run commands, got ${trouble}`);
  if (isIoredis(client)) return adaptIoredis(client);
  if (isNodeRedis(client)) {
    refuseOldNodeRedis(client);
    return adaptNodeRedis(client);
  }
  const hint = typeof client === "string" ? ", got a text. To open a URL use connect(url)" : "";
  throw new ArgumentError(
    `Expected \`client\` to be a client of ioredis (5 or 6) or node-redis (6.2.1 or later): standalone, Sentinel or Cluster${hint}`,
  );
}
