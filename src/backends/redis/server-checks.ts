/** Checks whether a server can do what is asked of it: as a quorum member, or with `failover: "quarantine"`. */
import type { Claim } from "../../contract/backend.ts";
import { formatMs } from "../../contract/duration.ts";
import { LockBackendError, quote } from "../../contract/errors.ts";
import type { Connection } from "./connection.ts";
import { beat } from "./generated/scripts.ts";
import { type Identity, identifyOne } from "./query.ts";
import type { Names } from "./keys.ts";
import { quarantineText, type Settings } from "./options.ts";
import { runScript } from "./scripts.ts";

/** Before this version scripts wrote also where `min-replicas-to-write` forbade it. */
const OLDEST = [6, 2, 7] as const;
/** A replica's silence is counted once a second, and the count may be a second old. */
const LAG_MARGIN_MS = 2000;

/** Why this server cannot be a quorum member, or `undefined`. */
export function whyNoMember(identity: Identity, allowEviction: boolean): string | undefined {
  if (identity.role === "sentinel") return "it is a sentinel. Use the address of a Redis server";
  if (identity.role === "slave")
    return "it is a replica, and would only repeat its primary's vote. Use independent servers";
  if (identity.cluster) return "it is a node of a Redis Cluster. Use independent servers";
  if (!allowEviction && identity.policy !== "noeviction") {
    return `its maxmemory-policy is ${identity.policy}, so it may evict leases when memory is short. Set it to noeviction`;
  }
  return undefined;
}

/** Why a claim is rejected that could last longer than `maxTtl`, and so longer than a quarantine; otherwise `undefined`. */
export function tooLong(claim: Claim, maxTtlMs: number): LockBackendError | undefined {
  const { name, ttlMs, lockDelayMs, minHoldMs } = claim;
  const longestMs = Math.max(ttlMs + lockDelayMs, minHoldMs);
  if (longestMs <= maxTtlMs) return undefined;
  const text = `asked for ${formatMs(longestMs)}, but \`maxTtl\` is ${formatMs(maxTtlMs)}: a quarantine after a fail-over would be too short. Ask for less, or raise \`maxTtl\` everywhere`;
  return new LockBackendError("redis", name, `Lock ${quote(name)}: ${text}.`, { fatal: true });
}

/** Why a quarantine would be useless on this primary, or `undefined`. */
export function cannotQuarantine(
  identity: Identity,
  { maxLagMs, checkReplicas }: Pick<Settings, "maxLagMs" | "checkReplicas">,
): string | undefined {
  const { version, minReplicas, minReplicasMaxLagMs, guardsWrites } = identity;
  if (isOlder(version)) {
    return `Redis ${version} lets scripts write where \`min-replicas-to-write\` forbids it. Use ${OLDEST.join(".")} or later`;
  }
  if (!checkReplicas) return undefined;
  const otherwise = "or pass `checkReplicas: false`";
  if (minReplicas === 0) {
    return `\`min-replicas-to-write\` is 0, so a primary without replicas would continue to renew. Set it (CONFIG SET min-replicas-to-write 1), ${otherwise}`;
  }
  if (minReplicasMaxLagMs === 0) {
    return `\`min-replicas-max-lag\` is 0, which switches \`min-replicas-to-write\` off. Set it (CONFIG SET min-replicas-max-lag 10), ${otherwise}`;
  }
  if (minReplicasMaxLagMs !== undefined && minReplicasMaxLagMs + LAG_MARGIN_MS > maxLagMs) {
    const [lag, needed] = [formatMs(minReplicasMaxLagMs), formatMs(minReplicasMaxLagMs + LAG_MARGIN_MS)];
    return `\`min-replicas-max-lag\` is ${lag}, so a primary without replicas may continue to renew for ${needed}, but \`maxLag\` is ${formatMs(maxLagMs)}. Lower the one or raise the other, ${otherwise}`;
  }
  // If CONFIG is forbidden, INFO still shows whether both are set.
  if (!guardsWrites) {
    return `it does not show \`min-replicas-to-write\`, neither by CONFIG nor in INFO. Set it and \`min-replicas-max-lag\`, allow CONFIG GET, ${otherwise}`;
  }
  return undefined;
}

function isOlder(version: string): boolean {
  const parts = /^(\d+)\.(\d+)\.(\d+)/u.exec(version)?.slice(1).map(Number);
  if (parts === undefined) return false;
  const at = OLDEST.findIndex((oldest, index) => parts[index] !== oldest);
  return at >= 0 && (parts[at] as number) < (OLDEST[at] as number);
}

/** Checks that a quarantine is effective, for each primary separately: one with wrong settings does not affect locks on the others. */
export class ServerChecks {
  readonly #connection: Connection;
  readonly #names: Names;
  readonly #settings: Settings;
  readonly #checks: Map<string, Promise<void>> = new Map();
  #madeMarkers = false;

  constructor(connection: Connection, names: Names, settings: Settings) {
    this.#connection = connection;
    this.#names = names;
    this.#settings = settings;
  }

  /** Rejects leases longer than the quarantine, and checks once that the settings of the lock's primary make the quarantine effective. */
  async check(claim: Claim): Promise<void> {
    const refusal = tooLong(claim, this.#settings.maxTtlMs);
    if (refusal !== undefined) throw refusal;
    this.#makeMarkers();
    const address = this.#connection.nodeOf(this.#names.lock(claim.name));
    let check = this.#checks.get(address);
    if (check === undefined) {
      check = this.#look(address);
      this.#checks.set(address, check);
      check.catch(() => this.#checks.delete(address));
    }
    await check;
  }

  /** A primary may have changed: all are checked again. */
  forget(): void {
    this.#checks.clear();
    this.#madeMarkers = false;
  }

  async #look(address: string): Promise<void> {
    const primaries = await this.#connection.primaries();
    const primary = address === "" ? primaries[0] : primaries.find((one) => one.address === address);
    if (primary === undefined) {
      // The client has not noticed a fail-over yet. The attempt makes it notice; and a new primary grants nothing before it is checked.
      this.#checks.delete(address);
      return;
    }
    const trouble = cannotQuarantine(await identifyOne(primary), this.#settings);
    if (trouble === undefined) return;
    const where = primary.address === "" ? "" : ` on ${primary.address}`;
    throw new LockBackendError("redis", "", `Redis locks: failover: "quarantine" has no effect${where}: ${trouble}.`, {
      fatal: true,
    });
  }

  /** A cluster has a marker per bucket: all are made now, and not at the first lock. This is not awaited, because an attempt checks its own marker. */
  #makeMarkers(): void {
    if (this.#madeMarkers || this.#connection.topology !== "cluster") return;
    this.#madeMarkers = true;
    const args = ["0", quarantineText(this.#settings)];
    // A heartbeat for no claim looks at the marker only.
    for (const marker of this.#names.markers()) void runScript(this.#connection, beat, [marker], args).catch(() => {});
  }
}
