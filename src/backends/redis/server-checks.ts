/** Whether a server is fit for what is asked of it: as a quorum member, or under a quarantine. */
import type { Claim } from "../../contract/backend.ts";
import { formatMs } from "../../contract/duration.ts";
import { LockBackendError, quote } from "../../contract/errors.ts";
import type { Connection } from "./connection.ts";
import { beat } from "./generated/scripts.ts";
import { type Identity, identifyOne } from "./query.ts";
import type { Names } from "./keys.ts";
import { quarantineText, type Settings } from "./options.ts";
import { runScript } from "./script.ts";

/** Before this version scripts wrote also where `min-replicas-to-write` forbade it. */
const OLDEST = [6, 2, 7] as const;
/** A replica's silence is counted once a second, and the count may be a second old. */
const LAG_MARGIN_MS = 2000;

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

/** Why a claim is refused that could last longer than `maxTtl`, and so than a quarantine; else `undefined`. */
export function tooLong(claim: Claim, maxTtlMs: number): LockBackendError | undefined {
  const { name, ttlMs, lockDelayMs, minHoldMs } = claim;
  const longestMs = Math.max(ttlMs + lockDelayMs, minHoldMs);
  if (longestMs <= maxTtlMs) return undefined;
  const text = `asked for ${formatMs(longestMs)}, but \`maxTtl\` is ${formatMs(maxTtlMs)}: a quarantine after a fail-over would not outlast it. Ask for less, or raise \`maxTtl\` everywhere`;
  return new LockBackendError("redis", name, `Lock ${quote(name)}: ${text}.`, { fatal: true });
}

/** Why a quarantine would promise nothing on this primary, or `undefined`. */
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
    return `\`min-replicas-to-write\` is 0, and a cut-off primary would go on renewing. Set it (CONFIG SET min-replicas-to-write 1), ${otherwise}`;
  }
  if (minReplicasMaxLagMs === 0) {
    return `\`min-replicas-max-lag\` is 0, which switches \`min-replicas-to-write\` off. Set it (CONFIG SET min-replicas-max-lag 10), ${otherwise}`;
  }
  if (minReplicasMaxLagMs !== undefined && minReplicasMaxLagMs + LAG_MARGIN_MS > maxLagMs) {
    const [lag, needed] = [formatMs(minReplicasMaxLagMs), formatMs(minReplicasMaxLagMs + LAG_MARGIN_MS)];
    return `\`min-replicas-max-lag\` is ${lag}, so that a cut-off primary may go on renewing for ${needed}, but \`maxLag\` is ${formatMs(maxLagMs)}. Lower the one or raise the other, ${otherwise}`;
  }
  // Where CONFIG is forbidden, INFO still tells whether both are set.
  if (!guardsWrites) {
    return `it does not tell \`min-replicas-to-write\`, and INFO shows no sign of it. Set it and \`min-replicas-max-lag\`, allow CONFIG GET, ${otherwise}`;
  }
  return undefined;
}

function isOlder(version: string): boolean {
  const parts = /^(\d+)\.(\d+)\.(\d+)/u.exec(version)?.slice(1).map(Number);
  if (parts === undefined) return false;
  const at = OLDEST.findIndex((oldest, index) => parts[index] !== oldest);
  return at >= 0 && (parts[at] as number) < (OLDEST[at] as number);
}

/** Makes sure that a quarantine promises something, on each primary for itself: one that is not fit keeps no lock of another from being granted. */
export class Fitness {
  readonly #connection: Connection;
  readonly #names: Names;
  readonly #settings: Settings;
  readonly #checks: Map<string, Promise<void>> = new Map();
  #begun = false;

  constructor(connection: Connection, names: Names, settings: Settings) {
    this.#connection = connection;
    this.#names = names;
    this.#settings = settings;
  }

  /** Refuses what a quarantine could not outlast, and looks once at the primary that has the lock. Rejects with a fatal error where it would promise nothing. */
  async check(claim: Claim): Promise<void> {
    const refusal = tooLong(claim, this.#settings.maxTtlMs);
    if (refusal !== undefined) throw refusal;
    this.#begin();
    const address = this.#connection.nodeOf(this.#names.lock(claim.name));
    let check = this.#checks.get(address);
    if (check === undefined) {
      check = this.#look(address);
      this.#checks.set(address, check);
      check.catch(() => this.#checks.delete(address));
    }
    await check;
  }

  /** The primary may be another, or another server: all are looked at again. */
  forget(): void {
    this.#checks.clear();
    this.#begun = false;
  }

  async #look(address: string): Promise<void> {
    const primaries = await this.#connection.primaries();
    const primary = address === "" ? primaries[0] : primaries.find((one) => one.address === address);
    if (primary === undefined) {
      // The client has not learned of a fail-over yet. The attempt teaches it; and a new primary grants nothing before it is looked at.
      this.#checks.delete(address);
      return;
    }
    const trouble = cannotQuarantine(await identifyOne(primary), this.#settings);
    if (trouble === undefined) return;
    const where = primary.address === "" ? "" : ` on ${primary.address}`;
    throw new LockBackendError(
      "redis",
      "",
      `Redis locks: failover: "quarantine" promises nothing${where}: ${trouble}.`,
      {
        fatal: true,
      },
    );
  }

  /** A cluster has a marker per bucket: each begins now, and not at its first lock. Nobody waits for it, because an attempt looks at its own. */
  #begin(): void {
    if (this.#begun || this.#connection.topology !== "cluster") return;
    this.#begun = true;
    const args = ["0", quarantineText(this.#settings)];
    // A beat for no claim looks at the marker alone.
    for (const marker of this.#names.markers()) void runScript(this.#connection, beat, [marker], args).catch(() => {});
  }
}
