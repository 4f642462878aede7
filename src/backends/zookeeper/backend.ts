/** The ZooKeeper backend: tickets for claims, leases for tickets whose turn has come, and one session for them all. */
import type {
  Backend,
  Claim,
  Granted,
  Listener,
  Refused,
  Released,
  Renewal,
  Snapshot,
} from "../../contract/backend.ts";
import { LockBackendError, quote } from "../../contract/errors.ts";
import type { ZooKeeperClient } from "./client/client.ts";
import { closeAll } from "./close.ts";
import { Entry } from "./serial.ts";
import { toFailure } from "./errors.ts";
import { breakLease, SESSION_ENDED, whyGone } from "./force-release.ts";
import { type HeldLease, Leases, toGranted } from "./local-leases.ts";
import { LineTicket } from "./mutex-recipe.ts";
import type { Dialect, Places } from "./paths.ts";
import { removeOf, Removals } from "./pending-deletes.ts";
import { confirm } from "./renewals.ts";
import { SemaphoreTicket } from "./semaphore-recipe.ts";
import { see, snapshot, toHolding } from "./query.ts";
import type { Ticket, Verdict } from "./recipe.ts";

export interface BackendSetup {
  readonly client: ZooKeeperClient;
  /** For messages. */
  readonly servers: string;
  readonly places: Places;
  readonly dialect: (name: string) => Dialect;
}

const NOT_HELD: Renewal = { held: false, reason: "this process does not hold it" };

export class ZooKeeperBackend implements Backend {
  readonly name = "zookeeper";
  /** Its nodes go with its session. */
  readonly ephemeral = true;
  /** The connection: also for guards, which check in one transaction that the lease's node is there. */
  readonly client: ZooKeeperClient;
  readonly #setup: BackendSetup;
  readonly #leases: Leases;
  readonly #entries = new Map<string, Entry>();
  readonly #removals = new Removals();
  #listener: Listener | undefined;
  #closing: Promise<void> | undefined;

  /** @internal Use {@link zookeeper}. */
  constructor(setup: BackendSetup) {
    this.#setup = setup;
    this.client = setup.client;
    this.#leases = new Leases(this.client, {
      lapsed: (lease) => this.#lapse(lease),
      vanished: (lease) => void this.#vanish(lease),
    });
  }

  listen(listener: Listener): void {
    this.#listener = listener;
  }

  attempt(claim: Claim): Promise<Granted | Refused> {
    return this.#ask(claim.name, async () => {
      const entry = this.#entry(claim);
      const turn = entry.enter();
      if (turn !== undefined) await turn;
      try {
        // Released while this attempt waited for its turn: it starts anew.
        if (this.#entries.get(claim.id) !== entry) return await this.attempt(claim);
        const granted = this.#leases.get(claim.id) && (await this.#again(entry, claim));
        // Over while it was asked for, and on its way out: it starts anew too.
        if (this.#entries.get(claim.id) !== entry) return await this.attempt(claim);
        return granted ?? (await this.#attempt(entry, claim, () => entry.ticket.attempt()));
      } finally {
        entry.leave();
      }
    });
  }

  watch(claim: Claim, signal: AbortSignal): Promise<Granted | undefined> {
    return this.#ask(claim.name, async () => {
      const entry = this.#entries.get(claim.id);
      if (entry === undefined || this.#leases.get(claim.id) !== undefined) return undefined;
      // Not in turn: a release must not wait for this.
      const verdict = await entry.ticket.watch(signal);
      if (verdict?.holds !== true || signal.aborted || this.#entries.get(claim.id) !== entry) return undefined;
      return this.#grant(claim, verdict);
    });
  }

  renew(claims: readonly Claim[], fences?: readonly bigint[]): Promise<readonly Renewal[]> {
    return this.#ask(claims[0]?.name ?? "", async () => {
      const leases = claims.map(({ id }, at) => {
        const lease = this.#leases.get(id);
        return fences === undefined || lease?.node.czxid === fences[at] ? lease : undefined;
      });
      const known = leases.filter((lease) => lease !== undefined);
      const answers = await confirm(this.client, known);
      const byLease = new Map(known.map((lease, index) => [lease, this.#take(lease, answers[index] as Renewal)]));
      return leases.map((lease) => (lease && byLease.get(lease)) ?? NOT_HELD);
    });
  }

  release(claim: Claim): Promise<Released> {
    return this.#ask(claim.name, async () => {
      const entry = this.#entries.get(claim.id);
      if (entry === undefined) return this.#releaseUnknown(claim);
      const turn = entry.enter();
      if (turn !== undefined) await turn;
      try {
        if (this.#entries.get(claim.id) !== entry) return await this.#releaseUnknown(claim);
        const lease = this.#leases.get(claim.id);
        this.#entries.delete(claim.id);
        if (lease !== undefined) {
          this.#leases.end(lease);
          if (this.#removals.keep(claim, entry.ticket, lease.sinceMs + claim.minHoldMs)) return "held";
        }
        return await this.#removals.discard(claim, entry.ticket, lease === undefined ? "queued" : "held");
      } finally {
        entry.leave();
      }
    });
  }

  swap(held: Claim, next: Claim): Promise<Granted | Refused> {
    return this.#ask(held.name, async () => {
      const from = this.#entries.get(held.id);
      const lease = this.#leases.get(held.id);
      const isOver = lease !== undefined && lease.sinceMs + held.minHoldMs <= performance.now();
      const isKnown = this.#entries.has(next.id) || held.name !== next.name;
      if (!isOver || isKnown || !(from?.ticket instanceof LineTicket) || next.limit !== 1) {
        await this.release(held);
        return this.attempt(next);
      }
      const old = from.ticket;
      this.#forget(lease);
      const entry = this.#entry(next);
      await entry.enter();
      try {
        return await this.#attempt(entry, next, () => (entry.ticket as LineTicket).attemptAfter(old));
      } catch (error) {
        // Nobody knows whether the old one is gone: it must be.
        void this.#removals.discardQuietly(held, old, "held");
        throw error;
      } finally {
        entry.leave();
      }
    });
  }

  query(prefix: string): Promise<Snapshot> {
    return this.#ask(prefix, () => snapshot(this.client, this.#setup.places, prefix));
  }

  forceRelease(name: string, fence: bigint, by: string, reason: string): Promise<boolean> {
    return this.#ask(name, () => breakLease(this.client, this.#setup.places.path(name), fence, by, reason));
  }

  /** The path of the node that is this process's lease with `fence`: while it exists, nobody else holds the lock. */
  leaseNode(name: string, fence: bigint): string | undefined {
    const lease = this.#leases.all().find(({ claim, node }) => claim.name === name && node.czxid === fence);
    return lease?.node.path;
  }

  close(): Promise<void> {
    if (this.#closing !== undefined) return this.#closing;
    this.#listener = undefined;
    this.#leases.stop();
    return (this.#closing = closeAll(this.client, this.#setup.servers, [...this.#entries.values()], this.#removals));
  }

  /** @internal Called by the client. */
  connected(isNew: boolean): void {
    if (isNew) return;
    this.#removals.retry();
    this.#listener?.doubt();
  }

  /** @internal Called by the client: all nodes of the session are gone. */
  expired(): void {
    this.#removals.clear();
    for (const lease of this.#leases.all()) this.#lose(lease, SESSION_ENDED);
  }

  async #ask<T>(name: string, work: () => Promise<T>): Promise<T> {
    try {
      if (this.#closing !== undefined) {
        throw new LockBackendError(this.name, name, "The ZooKeeper backend is closed.", { fatal: true });
      }
      return await work();
    } catch (error) {
      throw toFailure(name, this.#setup.servers, error);
    }
  }

  #entry(claim: Claim): Entry {
    const known = this.#entries.get(claim.id);
    if (known !== undefined) return known;
    const entry = new Entry(this.#ticket(claim));
    this.#entries.set(claim.id, entry);
    return entry;
  }

  #ticket(claim: Claim): Ticket {
    const path = this.#setup.places.path(claim.name);
    const dialect = this.#setup.dialect(claim.name);
    if (claim.limit === 1) return new LineTicket(this.client, claim, path, dialect);
    if (dialect === "kazoo") {
      const message = `Lock ${quote(claim.name)}: kazoo's semaphores have a layout of their own; limits need dialect "curator".`;
      throw new LockBackendError(this.name, claim.name, message, { fatal: true });
    }
    return new SemaphoreTicket(this.client, claim, path, (turn) =>
      this.#removals.discardQuietly({ id: `${claim.id}/turn`, name: claim.name }, turn, "queued"),
    );
  }

  /** The answer to a holder that asks again. `undefined`: it does not hold any more, and may get in line anew. */
  async #again(entry: Entry, claim: Claim): Promise<Granted | undefined> {
    const lease = this.#leases.get(claim.id);
    if (lease === undefined) return undefined;
    const [answer] = await confirm(this.client, [lease]);
    if (answer?.held === "unknown") throw answer.cause;
    if (answer?.held !== true) {
      this.#leases.end(lease);
      entry.ticket = this.#ticket(claim);
      return undefined;
    }
    return this.#take(lease, answer).held === true ? toGranted(lease, answer.fromMs) : undefined;
  }

  async #attempt(entry: Entry, claim: Claim, look: () => Promise<Verdict>): Promise<Granted | Refused> {
    try {
      const verdict = await look();
      return verdict.holds ? this.#grant(claim, verdict) : await this.#refuse(entry, claim, verdict);
    } catch (error) {
      // A claim that can never be granted leaves nothing behind.
      if (error instanceof LockBackendError && error.fatal) {
        this.#entries.delete(claim.id);
        await this.#removals.discardQuietly(claim, entry.ticket, "queued");
      }
      throw error;
    }
  }

  async #refuse(entry: Entry, claim: Claim, verdict: Verdict & { holds: false }): Promise<Refused> {
    const seen = await Promise.all(verdict.holders.map((path) => see(this.client, path))).catch(() => []);
    const heldBy = seen.flatMap((one) => (one === undefined ? [] : [toHolding(claim.name, one)]));
    if (claim.queues) {
      return { granted: false, heldBy, position: verdict.position, retryMs: Math.ceil(this.client.trustedMs / 3) };
    }
    this.#entries.delete(claim.id);
    await this.#removals.discard(claim, entry.ticket, "queued");
    return { granted: false, heldBy };
  }

  #grant(claim: Claim, verdict: Verdict & { holds: true }): Granted {
    const mostMs = this.client.trustedMs - claim.lockDelayMs;
    if (mostMs < Math.min(claim.ttlMs, this.client.trustedMs / 3)) {
      const message = `Lock ${quote(claim.name)}: a lockDelay of ${claim.lockDelayMs} ms needs a longer session than the ${this.client.timeoutMs} ms that the ensemble gives: three quarters of it must hold ttl and lockDelay.`;
      throw new LockBackendError(this.name, claim.name, message, { fatal: true });
    }
    const fromMs = this.client.since(verdict.provenMs);
    const lease = this.#leases.begin(claim, verdict.node, fromMs, Math.min(claim.ttlMs, mostMs));
    return toGranted(lease, fromMs);
  }

  /** The claim's node was removed by nobody here: it may be another process's, or not exist. */
  async #releaseUnknown(claim: Claim): Promise<Released> {
    const again = this.#removals.again(claim.id);
    if (again !== undefined) return again;
    if (this.#removals.isKept(claim.id)) return "absent";
    return removeOf(this.client, claim, this.#setup.places.path(claim.name));
  }

  /** A yes for a lease whose time was over before it came is about a node that goes: it is a no. */
  #take(lease: HeldLease, answer: Renewal): Renewal {
    if (answer.held === true && !this.#leases.extend(lease, answer.fromMs ?? performance.now())) return NOT_HELD;
    if (answer.held === false) this.#forget(lease);
    return answer;
  }

  /** `false`: it was forgotten before. */
  #forget(lease: HeldLease): boolean {
    const { id } = lease.claim;
    if (!this.#leases.end(lease)) return false;
    this.#entries.delete(id);
    return true;
  }

  #lose(lease: HeldLease, reason: string): void {
    if (this.#forget(lease)) this.#listener?.lost(lease.claim.id, reason);
  }

  async #vanish(lease: HeldLease): Promise<void> {
    if (!this.#forget(lease)) return;
    const { claim, node } = lease;
    const reason = await whyGone(this.client, this.#setup.places.path(claim.name), node.czxid);
    this.#listener?.lost(claim.id, reason);
  }

  #lapse(lease: HeldLease): void {
    const ticket = this.#entries.get(lease.claim.id)?.ticket;
    if (!this.#forget(lease) || ticket === undefined) return;
    void this.#removals.discardQuietly(lease.claim, ticket, "held");
  }
}
