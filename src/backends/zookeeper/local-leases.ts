/**
 * The leases of this process. ZooKeeper keeps a node as long as its session, and the session as long as the process; a lease
 * must also end when it is not renewed. So each lease has a local deadline, at which its node is removed.
 */
import type { Claim, Granted } from "../../contract/backend.ts";
import { systemClock } from "../../contract/clock.ts";
import { Deadlines, type Deadline } from "../../contract/deadlines.ts";
import { LockBackendError, quote } from "../../contract/errors.ts";
import type { OurNode } from "./claim-node.ts";
import type { ZooKeeperClient } from "./client/client.ts";
import { hasCode } from "./client/errors.ts";
import type { WatchEvent } from "./client/protocol.ts";
import { WantedWatch } from "./wanted.ts";

/** Its deadline passes when it was not renewed in time. */
export interface LocalLease extends Deadline {
  readonly claim: Claim;
  readonly node: OurNode;
  /** When the lease began, by the local clock. */
  readonly sinceMs: number;
  /** How long a confirmation is trusted. */
  readonly ttlMs: number;
  /** Called when another process deletes or changes the node. */
  readonly watcher: (event: WatchEvent) => void;
  /** Set once its holder wants to know when the lock is wanted. */
  wanted: WantedWatch | undefined;
}

export interface LeaseListener {
  /** The lease was not renewed in time: its node must go. */
  expired(lease: LocalLease): void;
  /** Its node is gone, and we did not remove it. */
  nodeGone(lease: LocalLease): void;
  /** Another claim begins to wait for it. Only for leases with {@link LocalLeases.expectWanted}. */
  wanted(lease: LocalLease): void;
}

const WANTED = { wanted: true } as const;

/** Most leases end sooner, and need no watch of their own. */
const WATCH_AFTER_MS = 100;

export class LocalLeases {
  readonly #client: ZooKeeperClient;
  readonly #listener: LeaseListener;
  readonly #held = new Map<string, LocalLease>();
  readonly #unwatched = new Set<LocalLease>();
  // The process may exit: the ensemble then ends the session.
  readonly #deadlines: Deadlines<LocalLease> = new Deadlines(systemClock, false, (nowMs) => this.#expire(nowMs));
  #watchTimer: NodeJS.Timeout | undefined;

  constructor(client: ZooKeeperClient, listener: LeaseListener) {
    this.#client = client;
    this.#listener = listener;
  }

  get(claimId: string): LocalLease | undefined {
    return this.#held.get(claimId);
  }

  all(): readonly LocalLease[] {
    return [...this.#held.values()];
  }

  /** Begins a lease that was certainly ours at `provenMs`. Throws a fatal error where the session is too short for its lock delay. */
  begin(claim: Claim, node: OurNode, provenMs: number, isWanted: boolean): Granted {
    const maxMs = this.#client.trustedMs - claim.lockDelayMs;
    if (maxMs < Math.min(claim.ttlMs, this.#client.trustedMs / 3)) {
      const message = `Lock ${quote(claim.name)}: a lockDelay of ${claim.lockDelayMs} ms needs a longer session than the ${this.#client.timeoutMs} ms that the ensemble gives: three quarters of it must hold ttl and lockDelay.`;
      throw new LockBackendError("zookeeper", claim.name, message, { fatal: true });
    }
    const fromMs = this.#client.since(provenMs);
    const ttlMs = Math.min(claim.ttlMs, maxMs);
    const watcher = (event: WatchEvent): void => this.#nodeChanged(lease, event);
    const sinceMs = performance.now();
    const lease: LocalLease = { claim, node, sinceMs, ttlMs, watcher, wanted: undefined, atMs: 0, heapIndex: -1 };
    this.#held.set(claim.id, lease);
    this.extend(lease, fromMs);
    this.#watchSoon(lease);
    return toGranted(lease, fromMs, isWanted);
  }

  /** Reports from now on when another claim begins to wait for this one's lease. */
  expectWanted({ id }: Claim): void {
    const lease = this.#held.get(id);
    if (lease !== undefined) lease.wanted ??= new WantedWatch(this.#client, lease, () => this.#listener.wanted(lease));
  }

  /** Asks again what was under way when the connection broke. The client has restored the watches. */
  reconnected(): void {
    for (const { wanted } of this.#held.values()) void wanted?.look();
  }

  /** The lease was confirmed, and lasts from `fromMs`. `false`: it had ended before. */
  extend(lease: LocalLease, fromMs: number): boolean {
    if (this.#held.get(lease.claim.id) !== lease) return false;
    this.#deadlines.set(lease, fromMs + lease.ttlMs + lease.claim.lockDelayMs);
    return true;
  }

  /** Forgets the lease. `false`: it was forgotten before. */
  end(lease: LocalLease): boolean {
    this.#deadlines.clear(lease);
    this.#unwatched.delete(lease);
    lease.wanted?.stop();
    this.#client.unwatch(lease.node.path, lease.watcher);
    return this.#held.get(lease.claim.id) === lease && this.#held.delete(lease.claim.id);
  }

  stop(): void {
    clearTimeout(this.#watchTimer);
    this.#deadlines.stop();
    for (const lease of this.all()) this.end(lease);
  }

  #expire(nowMs: number): void {
    for (let due = this.#deadlines.take(nowMs); due !== undefined; due = this.#deadlines.take(nowMs)) {
      this.#listener.expired(due);
    }
  }

  #watchSoon(lease: LocalLease): void {
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

  async #watch(lease: LocalLease): Promise<void> {
    try {
      // getData, not exists: on a node that is gone, exists would leave a watch behind.
      await this.#client.getData(lease.node.path, lease.watcher);
      if (this.#held.get(lease.claim.id) !== lease) this.#client.unwatch(lease.node.path, lease.watcher);
    } catch (error) {
      if (this.#held.get(lease.claim.id) !== lease) return;
      if (hasCode(error, "NONODE")) this.#listener.nodeGone(lease);
      else if (hasCode(error, "CONNECTIONLOSS")) this.#watchSoon(lease);
    }
  }

  #nodeChanged(lease: LocalLease, { type }: WatchEvent): void {
    if (this.#held.get(lease.claim.id) !== lease) return;
    if (type === "deleted") this.#listener.nodeGone(lease);
    // Another process wrote to our node, as Curator's revocation does: keep watching.
    else if (type === "changed") this.#watchSoon(lease);
  }
}

export function toGranted({ node, ttlMs }: LocalLease, fromMs: number | undefined, isWanted: boolean): Granted {
  return { granted: true, fence: node.czxid, run: 1, fromMs, ttlMs, mayLinger: true, ...(isWanted && WANTED) };
}
