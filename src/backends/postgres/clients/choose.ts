/** Finds out which client library an object is from: by structure, because there may be several copies of a library in one process. */
import type { Clock } from "../../../contract/clock.ts";
import { ArgumentError, got } from "../../../contract/argument-error.ts";
import type { Connection } from "../connection.ts";
import { ClientConnection, knowsState, PoolConnection } from "./pg.ts";
import { PostgresJsConnection } from "./postgres-js.ts";
import { isClient, isPool, isPostgresJs, isScoped } from "./structure.ts";

/** `end`: closes the client, if it is ours; `silent`: see postgres-js.ts. Throws an `ArgumentError` for what cannot serve. */
export function connectionOf(
  client: unknown,
  clock: Clock,
  limitMs: number,
  end?: () => Promise<void>,
  silent?: () => void,
): Connection {
  if (isScoped(client)) {
    throw new ArgumentError(
      "Expected the `sql` that postgres() returned, not the one of a transaction or a reserved connection: a lease in a transaction that is rolled back would be held by two",
    );
  }
  if (isPostgresJs(client)) {
    if (client.options.max < 2) {
      throw new ArgumentError(
        "Expected postgres.js with `max` of 2 or more: with a single connection, a BEGIN of yours would take our statements along",
      );
    }
    return new PostgresJsConnection(client, clock, limitMs, end, silent);
  }
  if (isPool(client)) return new PoolConnection(client, clock, limitMs, end);
  if (isClient(client)) {
    if (!knowsState(client)) {
      throw new ArgumentError(
        "Expected a pool: this version of pg cannot say whether its client is in a transaction of yours (it has no getTransactionStatus()). Give the locks a pool, or update pg",
      );
    }
    return new ClientConnection(client, clock, limitMs);
  }
  throw new ArgumentError(`Expected a pool or a client of \`pg\`, or \`sql\` of postgres.js, got ${got(client)}`);
}
