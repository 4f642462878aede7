/**
 * The end of a backend: everything that it has under way in the ensemble goes, in bounded time, and what nobody knows to
 * be gone is named.
 */
import { LockBackendError, quote } from "../../contract/errors.ts";
import type { ZooKeeperClient } from "./client/client.ts";
import { inTime } from "./client/in-time.ts";
import type { Entry } from "./serial.ts";
import type { Removals } from "./pending-deletes.ts";

const CLOSE_MS = 2000;
const NAMES_SHOWN = 5;

/** Rejects with a {@link LockBackendError} where the ensemble did not confirm it. Never takes much longer than two seconds. */
export async function closeAll(
  client: ZooKeeperClient,
  servers: string,
  entries: readonly Entry[],
  removals: Removals,
): Promise<void> {
  const restMs = removals.stop() - performance.now();
  // The end of the session would remove what minHold keeps: so only the rest goes, and the ensemble ends the session.
  const left = restMs > 0 ? await leaveKept(client, entries, removals, restMs) : await leave(client, entries, removals);
  if (left.length === 0) return;
  const names = [...new Set(left)];
  const more = names.length > NAMES_SHOWN ? ` and ${names.length - NAMES_SHOWN} more` : "";
  const message = `ZooKeeper at ${servers} did not answer while the backend was closed, so nobody knows whether these claims are gone: ${names.slice(0, NAMES_SHOWN).map(quote).join(", ")}${more}. The ensemble removes them with the session, ${client.timeoutMs} ms after it last heard of this process.`;
  throw new LockBackendError("zookeeper", names.join(", "), message);
}

/** All at once: the nodes are the session's. What was asked before is answered before. */
async function leave(client: ZooKeeperClient, entries: readonly Entry[], removals: Removals): Promise<string[]> {
  const names = [...entries.map(({ ticket }) => ticket.claim.name), ...removals.all().map(({ name }) => name)];
  return (await client.close(CLOSE_MS)) ? [] : names;
}

/** One by one, and the session stays for `restMs`. */
async function leaveKept(
  client: ZooKeeperClient,
  entries: readonly Entry[],
  removals: Removals,
  restMs: number,
): Promise<string[]> {
  const rest = [
    ...entries.map((entry) => ({ name: entry.ticket.claim.name, remove: () => removeInTurn(entry) })),
    ...removals.all().map(({ name, what }) => ({ name, remove: () => what.remove() })),
  ];
  const removed = await Promise.all(rest.map(({ remove }) => inTime(remove(), CLOSE_MS / 2)));
  await client.linger(restMs);
  return rest.flatMap(({ name }, index) => (removed[index] === true ? [] : [name]));
}

/** After the attempt that may be making its node. */
async function removeInTurn(entry: Entry): Promise<void> {
  await entry.enter();
  await entry.ticket.remove();
}
