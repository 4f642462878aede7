/** Whether a server is fit for what is asked of it: as a quorum member, or under a quarantine. */
import type { Claim } from "../backend.ts";
import { formatMs } from "../duration.ts";
import { LockBackendError, quote } from "../errors.ts";
import type { Connection } from "./connection.ts";
import { beat } from "./generated/beat.ts";
import { type Identity, identify } from "./inspect.ts";
import type { Names } from "./names.ts";
import type { Settings } from "./options.ts";
import { runScript } from "./script.ts";

/** Why this server cannot be a quorum member, or `undefined`. */
export function unfit(identity: Identity, allowEviction: boolean): string | undefined {
  if (identity.role === "sentinel") return "it is a sentinel. Use the address of a Redis server";
  if (identity.role === "slave")
    return "it is a replica, and would only repeat its primary's vote. Use independent servers";
  if (identity.cluster) return "it is a node of a Redis Cluster. Use independent servers";
  if (!allowEviction && identity.policy !== "noeviction") {
    return `its maxmemory-policy is ${identity.policy}, so it may forget leases when memory is short. Set it to noeviction`;
  }
  return undefined;
}

/** Throws when a claim could last longer than `maxTtl`, and so than a quarantine. */
export function checkOutlasted({ name, ttlMs, lockDelayMs, minHoldMs }: Claim, maxTtlMs: number): void {
  const longestMs = Math.max(ttlMs + lockDelayMs, minHoldMs);
  if (longestMs <= maxTtlMs) return;
  const text = `asked for ${formatMs(longestMs)}, but \`maxTtl\` is ${formatMs(maxTtlMs)}: a quarantine after a fail-over would not outlast it. Ask for less, or raise \`maxTtl\` everywhere`;
  throw new LockBackendError("redis", name, `Lock ${quote(name)}: ${text}.`, { fatal: true });
}

/** Makes sure that a quarantine promises something, and begins it everywhere at once. Rejects with a fatal error otherwise. */
export async function beginQuarantine(connection: Connection, names: Names, settings: Settings): Promise<void> {
  if (settings.checkReplicas && (await identify(connection)).minReplicas === 0) {
    const text =
      'failover: "quarantine" promises nothing while `min-replicas-to-write` is 0, because a cut-off primary would go on renewing. Set it (CONFIG SET min-replicas-to-write 1), or pass `checkReplicas: false`';
    throw new LockBackendError("redis", "", `Redis locks: ${text}.`, { fatal: true });
  }
  // A beat for no claim looks at the marker alone. A cluster has one per bucket, so that each begins now and not at its first lock.
  const touch = (marker: string): Promise<unknown> =>
    runScript(connection, beat, [marker], ["0", String(settings.quarantineMs)]);
  await Promise.all(names.markers().map(touch));
}
