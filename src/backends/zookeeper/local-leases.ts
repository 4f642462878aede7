/**
 * The leases of this process. ZooKeeper keeps a node as long as its session, and the session as long as the process;
 * a lease must also end when nobody renews it. So each has a local deadline, at which its node is removed.
 */
import { Alarm, type Bell } from "../../contract/deadlines.ts";
import type { Claim, Granted } from "../../contract/backend.ts";
import { systemClock } from "../../contract/clock.ts";
import type { ZooKeeperClient } from "./client/client.ts";
import { hasCode } from "./client/errors.ts";
import type { WatchEvent } from "./client/protocol.ts";
import type { Placed } from "./claim-node.ts";

/** Its bell rings when nobody has renewed it in time. */
export interface HeldLease extends Bell {
  readonly claim: Claim;
  readonly node: Placed;
  /** When the lease began, by the local clock. */
  readonly sinceMs: number;
  /** How long a confirmation is trusted. */
  readonly ttlMs: number;
  /** Hears when somebody else removes the node. */
  readonly watcher: (event: WatchEvent) => void;
}

export interface LeaseListener {
  /** Nobody renewed the lease in time: its node must go. */
  lapsed(lease: HeldLease): void;
  /** Its node is gone, and we did not remove it. */
  vanished(lease: HeldLease): void;
}

/** Most leases end sooner, and need no watch of their own. */
const WATCH_AFTER_MS = 100;

export class Leases {
  readonly #client: ZooKeeperClient;
  readonly #listener: LeaseListener;
  readonly #held = new Map<string, HeldLease>();
  readonly #unwatched = new Set<HeldLease>();
  // A process that wants to exit may: the ensemble ends the session.
  readonly #alarm: Alarm<HeldLease> = new Alarm(systemClock, false, (nowMs) => this.#ring(nowMs));
  #watchTimer: NodeJS.Timeout | undefined;

  constructor(client: ZooKeeperClient, listener: LeaseListener) {
    this.#client = client;
    this.#listener = listener;
  }

  get(claimId: string): HeldLease | undefined {
    return this.#held.get(claimId);
  }

  all(): readonly HeldLease[] {
    return [...this.#held.values()];
  }

  begin(claim: Claim, node: Placed, fromMs: number, ttlMs: number): HeldLease {
    const watcher = (event: WatchEvent): void => this.#heard(lease, event);
    const lease: HeldLease = { claim, node, sinceMs: performance.now(), ttlMs, watcher, atMs: 0, place: -1 };
    this.#held.set(claim.id, lease);
    this.extend(lease, fromMs);
    this.#watchSoon(lease);
    return lease;
  }

  /** The lease was confirmed, and lasts from `fromMs`. `false`: it had ended before. */
  extend(lease: HeldLease, fromMs: number): boolean {
    if (this.#held.get(lease.claim.id) !== lease) return false;
    this.#alarm.set(lease, fromMs + lease.ttlMs + lease.claim.lockDelayMs);
    return true;
  }

  /** Forgets the lease. `false`: it was forgotten before. */
  end(lease: HeldLease): boolean {
    this.#alarm.clear(lease);
    this.#unwatched.delete(lease);
    this.#client.unwatch(lease.node.path, lease.watcher);
    return this.#held.get(lease.claim.id) === lease && this.#held.delete(lease.claim.id);
  }

  stop(): void {
    clearTimeout(this.#watchTimer);
    this.#alarm.stop();
    for (const lease of this.all()) this.end(lease);
  }

  #ring(nowMs: number): void {
    for (let due = this.#alarm.take(nowMs); due !== undefined; due = this.#alarm.take(nowMs)) {
      this.#listener.lapsed(due);
    }
  }

  #watchSoon(lease: HeldLease): void {
    this.#unwatched.add(lease);
    if (this.#watchTimer !== undefined) return;
    this.#watchTimer = setTimeout(() => {
      this.#watchTimer = undefined;
      const due = [...this.#unwatched];
      this.#unwatched.clear();
      for (const one of due) void this.#watch(one);
    }, WATCH_AFTER_MS);
    this.#watchTimer.unref();
  }

  async #watch(lease: HeldLease): Promise<void> {
    try {
      // getData, and not exists: on a node that is gone, the latter would leave a watch behind.
      await this.#client.getData(lease.node.path, lease.watcher);
      if (this.#held.get(lease.claim.id) !== lease) this.#client.unwatch(lease.node.path, lease.watcher);
    } catch (error) {
      if (this.#held.get(lease.claim.id) !== lease) return;
      if (hasCode(error, "NONODE")) this.#listener.vanished(lease);
      else if (hasCode(error, "CONNECTIONLOSS")) this.#watchSoon(lease);
    }
  }

  #heard(lease: HeldLease, { type }: WatchEvent): void {
    if (this.#held.get(lease.claim.id) !== lease) return;
    if (type === "deleted") this.#listener.vanished(lease);
    // Somebody wrote to our node, as Curator's revocation does: keep watching.
    else if (type === "changed") this.#watchSoon(lease);
  }
}

export function toGranted({ node, ttlMs }: HeldLease, fromMs: number | undefined): Granted {
  return { granted: true, fence: node.czxid, run: 1, fromMs, ttlMs };
}
