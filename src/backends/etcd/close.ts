/**
 * Closing: claims that wait leave the store, in bounded time; if it is unknown whether one has, the error names it. Claims that
 * hold are the business of their callers: what was not released ends with its lease.
 */
import { systemClock } from "../../contract/clock.ts";
import { LockBackendError, quote } from "../../contract/errors.ts";
import { within } from "../../contract/time-limit.ts";
import type { EtcdClient } from "./client/client.ts";
import type { LocalClaim } from "./local-claim.ts";
import type { Releases } from "./release.ts";

const CLOSE_MS = 2000;
const NAMES_SHOWN = 5;

/** Rejects with a {@link LockBackendError} where the cluster did not confirm it. Never takes much longer than two seconds. */
export async function endWaiting(
  client: EtcdClient,
  releases: Releases,
  waiting: readonly LocalClaim[],
): Promise<void> {
  const gone = await Promise.all(waiting.map((local) => within(systemClock, leave(releases, local), CLOSE_MS)));
  const names = [...new Set(waiting.filter((_, index) => gone[index] !== true).map(({ claim }) => claim.name))];
  if (names.length === 0) return;
  const more = names.length > NAMES_SHOWN ? ` and ${names.length - NAMES_SHOWN} more` : "";
  const message = `etcd at ${client.endpoints} did not answer while the backend was closed, so it is unknown whether these claims are gone: ${names.slice(0, NAMES_SHOWN).map(quote).join(", ")}${more}. The cluster removes them when their ttl is over.`;
  throw new LockBackendError("etcd", names.join(", "), message);
}

/** After an attempt that may be making its key. */
async function leave(releases: Releases, local: LocalClaim): Promise<boolean> {
  await local.enter();
  try {
    await releases.remove(local, "queued");
    return true;
  } catch {
    return false;
  }
}
