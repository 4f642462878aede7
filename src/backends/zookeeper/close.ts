/**
 * Closing: everything that the backend has in the ensemble goes, in bounded time; if it is unknown whether a claim is gone,
 * the error names it.
 */
import { systemClock } from "../../contract/clock.ts";
import { LockBackendError, quote } from "../../contract/errors.ts";
import { within } from "../../contract/time-limit.ts";
import type { ZooKeeperClient } from "./client/client.ts";
import type { PendingDeletes } from "./pending-deletes.ts";
import type { SerialClaim } from "./serial.ts";

const CLOSE_MS = 2000;
const NAMES_SHOWN = 5;

/** Rejects with a {@link LockBackendError} where the ensemble did not confirm it. Never takes much longer than two seconds. */
export async function closeAll(
  client: ZooKeeperClient,
  servers: string,
  claims: readonly SerialClaim[],
  deletes: PendingDeletes,
): Promise<void> {
  const restMs = deletes.stop() - performance.now();
  // The end of the session would remove what minHold keeps: so only the rest is deleted, and the ensemble ends the session.
  const left =
    restMs > 0 ? await deleteOthers(client, claims, deletes, restMs) : await endSession(client, claims, deletes);
  if (left.length === 0) return;
  const names = [...new Set(left)];
  const more = names.length > NAMES_SHOWN ? ` and ${names.length - NAMES_SHOWN} more` : "";
  const message = `ZooKeeper at ${servers} did not answer while the backend was closed, so it is unknown whether these claims are gone: ${names.slice(0, NAMES_SHOWN).map(quote).join(", ")}${more}. The ensemble removes them with the session, ${client.timeoutMs} ms after it last heard of this process.`;
  throw new LockBackendError("zookeeper", names.join(", "), message);
}

/** All at once: the nodes belong to the session. Requests sent before are answered before. */
async function endSession(
  client: ZooKeeperClient,
  claims: readonly SerialClaim[],
  deletes: PendingDeletes,
): Promise<string[]> {
  const names = [...claims.map(({ recipe }) => recipe.claim.name), ...deletes.all().map(({ name }) => name)];
  return (await client.close(CLOSE_MS)) ? [] : names;
}

/** One by one, and the session stays for `restMs`. */
async function deleteOthers(
  client: ZooKeeperClient,
  claims: readonly SerialClaim[],
  deletes: PendingDeletes,
  restMs: number,
): Promise<string[]> {
  const rest = [
    ...claims.map((claim) => ({ name: claim.recipe.claim.name, remove: () => removeInTurn(claim) })),
    ...deletes.all().map(({ name, node }) => ({ name, remove: () => node.remove() })),
  ];
  const removed = await Promise.all(rest.map(({ remove }) => within(systemClock, succeeds(remove()), CLOSE_MS / 2)));
  await client.linger(restMs);
  return rest.flatMap(({ name }, index) => (removed[index] === true ? [] : [name]));
}

function succeeds(promise: Promise<unknown>): Promise<boolean> {
  return promise.then(
    () => true,
    () => false,
  );
}

/** After an attempt that may be making its node. */
async function removeInTurn(claim: SerialClaim): Promise<void> {
  await claim.enter();
  await claim.recipe.remove();
}
