/**
 * What a claim shows of itself (its meta, and the facts of its process) after that has changed. It is for people, and decides
 * nothing. The claim's own key is never written for it, because the revision of that is the fence: so it is in a key beside it.
 */
import type { EtcdClient } from "./client/client.ts";
import type { NameKeys } from "./keys.ts";
import type { LocalClaim } from "./local-claim.ts";
import { holdsText } from "../../contract/local-facts.ts";
import { writeShown } from "./record.ts";

/** Written at most so often within a ttl, unless those who wait hold other locks than before. */
const PER_TTL = 3;

export class Showing {
  readonly #client: EtcdClient;
  readonly #keys: NameKeys;

  constructor(client: EtcdClient, keys: NameKeys) {
    this.#client = client;
    this.#keys = keys;
  }

  /**
   * Writes what the claim is to show, if it differs from what it showed and that was not written a short while ago: otherwise the
   * next call does it. Never rejects: what could not be written is tried again.
   */
  async show(local: LocalClaim): Promise<void> {
    const { place, toShow } = local;
    const created = place?.createRevision;
    if (toShow === undefined || place === undefined || created === undefined || local.isLeaving) return;
    const holds = holdsText(toShow.local);
    if (performance.now() < local.shownMs + toShow.ttlMs / PER_TTL && holds === local.shownHolds) return;
    const value = writeShown(toShow, local.heldSinceMs);
    local.toShow = undefined;
    if (value === undefined) return;
    // Before it is sent: what removes the claim's key removes this one too.
    place.shownKey = this.#keys.beside.shown(toShow.name, place.key);
    local.shownMs = performance.now();
    local.shownHolds = holds;
    try {
      await this.#client.txn({
        when: [{ key: place.key, createRevision: created }],
        success: [{ put: { key: place.shownKey, value, lease: place.lease.id } }],
      });
    } catch {
      local.toShow ??= toShow;
    }
  }
}
