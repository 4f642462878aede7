/** The ZooKeeper backend: a recipe for each claim, a lease for each claim that holds, and one session for all of them. */
import type {
  Abilities,
  Backend,
  Claim,
  Granted,
  Listener,
  LockState,
  Outcome,
  Refused,
  Released,
  Renewal,
  Snapshot,
} from "../../contract/backend.ts";
import { LockBackendError } from "../../contract/errors.ts";
import { refuseOutcomes } from "../../contract/declined.ts";
import type { LossReason } from "../../contract/loss.ts";
import { CAN } from "./abilities.ts";
import { chooseRecipe, type RecipeSetup } from "./choose-recipe.ts";
import type { ZooKeeperClient } from "./client/client.ts";
import { closeAll } from "./close.ts";
import { toLockError } from "./errors.ts";
import { forceRelease, lossReason, SESSION_ENDED } from "./force-release.ts";
import { type LocalLease, LocalLeases, toGranted } from "./local-leases.ts";
import { MutexRecipe } from "./mutex-recipe.ts";
import { deleteNodesOf, PendingDeletes } from "./pending-deletes.ts";
import { rewriteClaim } from "./node-data.ts";
import { inspect, readHoldings, snapshot } from "./query.ts";
import type { AttemptResult } from "./recipe.ts";
import { confirm, NOT_HELD, renewLeases } from "./renewals.ts";
import { type SerialClaim, SerialClaims } from "./serial.ts";

export interface BackendSetup extends RecipeSetup {
  /** For messages. */
  readonly servers: string;
}

export class ZooKeeperBackend implements Backend {
  readonly name = "zookeeper";
  /** Its nodes end with its session. */
  readonly ephemeral = true;
  readonly can: Abilities = CAN;
  /** Also for guards, which check in one transaction that the lease's node exists. */
  readonly client: ZooKeeperClient;
  readonly #setup: BackendSetup;
  readonly #leases: LocalLeases;
  readonly #claims: SerialClaims;
  readonly #deletes = new PendingDeletes();
  #listener: Listener | undefined;
  #closing: Promise<void> | undefined;

  /** @internal Use {@link zookeeper}. */
  constructor(setup: BackendSetup) {
    this.#setup = setup;
    this.client = setup.client;
    this.#claims = new SerialClaims((claim) => chooseRecipe(setup, claim, this.#deletes));
    this.#leases = new LocalLeases(this.client, {
      expired: (lease) => this.#expire(lease),
      nodeGone: (lease) => void this.#loseNode(lease),
      wanted: ({ claim }) => this.#listener?.wanted?.(claim.id),
    });
  }

  listen(listener: Listener): void {
    this.#listener = listener;
  }

  attempt(claim: Claim): Promise<Granted | Refused> {
    return this.#ask(claim.name, async () => {
      refuseOutcomes("zookeeper", CAN, claim);
      const isKnown = this.#claims.get(claim.id) !== undefined;
      const local = this.#claims.add(claim);
      const turn = local.enter();
      if (turn !== undefined) await turn;
      try {
        // Released while this attempt waited for its turn: start again.
        if (this.#claims.get(claim.id) !== local) return await this.attempt(claim);
        if (isKnown) this.#tell(claim, true);
        const granted = this.#leases.get(claim.id) && (await this.#confirm(local, claim));
        // The lease ended while it was confirmed, and its node is being deleted: start again too.
        if (this.#claims.get(claim.id) !== local) return await this.attempt(claim);
        return granted ?? (await this.#attempt(local, claim, () => local.recipe.attempt()));
      } finally {
        local.leave();
      }
    });
  }

  watch(claim: Claim, signal: AbortSignal): Promise<Granted | undefined> {
    return this.#ask(claim.name, async () => {
      const local = this.#claims.get(claim.id);
      if (local === undefined || this.#leases.get(claim.id) !== undefined) return undefined;
      // Outside of the serial order: a release must not wait for this.
      const result = await local.recipe.watch(signal);
      if (result?.holds !== true || signal.aborted || this.#claims.get(claim.id) !== local) return undefined;
      return this.#leases.begin(claim, result.node, result.provenMs, result.isWanted);
    });
  }

  renew(claims: readonly Claim[], fences?: readonly bigint[]): Promise<readonly Renewal[]> {
    return this.#ask(claims[0]?.name ?? "", () =>
      renewLeases(this.client, claims, fences, {
        find: ({ id }) => this.#leases.get(id),
        apply: (lease, answer) => this.#apply(lease, answer),
        tell: (claim) => this.#tell(claim, claim.changed === true),
      }),
    );
  }

  expectWanted(claim: Claim): void {
    this.#leases.expectWanted(claim);
  }

  release(claim: Claim, outcome?: Outcome): Promise<Released> {
    return this.#ask(claim.name, async () => {
      if (outcome !== undefined) refuseOutcomes("zookeeper", CAN, claim, outcome);
      const local = this.#claims.get(claim.id);
      if (local === undefined) return this.#releaseUnknown(claim);
      const turn = local.enter();
      if (turn !== undefined) await turn;
      try {
        if (this.#claims.get(claim.id) !== local) return await this.#releaseUnknown(claim);
        const lease = this.#leases.get(claim.id);
        this.#claims.delete(claim.id);
        if (lease !== undefined) {
          this.#leases.end(lease);
          const restMs = this.#deletes.delay(claim, local.recipe, lease.sinceMs + claim.minHoldMs);
          if (restMs > 0) {
            await local.recipe.tell(rewriteClaim(claim, Date.now() + restMs), 0);
            return "held";
          }
        }
        return await this.#deletes.delete(claim, local.recipe, lease === undefined ? "queued" : "held");
      } finally {
        local.leave();
      }
    });
  }

  swap(held: Claim, next: Claim): Promise<Granted | Refused> {
    return this.#ask(held.name, async () => {
      const old = this.#claims.get(held.id)?.recipe;
      const lease = this.#leases.get(held.id);
      const mayEnd = lease !== undefined && lease.sinceMs + held.minHoldMs <= performance.now();
      const isKnown = this.#claims.get(next.id) !== undefined || held.name !== next.name;
      if (!mayEnd || isKnown || !(old instanceof MutexRecipe) || next.limit !== 1) {
        await this.release(held);
        return this.attempt(next);
      }
      this.#forget(lease);
      const local = this.#claims.add(next);
      await local.enter();
      try {
        return await this.#attempt(local, next, () => (local.recipe as MutexRecipe).attemptAfter(old));
      } catch (error) {
        // It is unknown whether the old node is gone: delete it for certain.
        void this.#deletes.deleteQuietly(held, old, "held");
        throw error;
      } finally {
        local.leave();
      }
    });
  }

  inspect(name: string): Promise<LockState> {
    return this.#ask(name, () => inspect(this.client, name, this.#setup.paths.path(name)));
  }

  query(prefix: string): Promise<Snapshot> {
    return this.#ask(prefix, () => snapshot(this.client, this.#setup.paths, prefix));
  }

  forceRelease(name: string, fence: bigint, by: string, reason: string): Promise<boolean> {
    return this.#ask(name, () => forceRelease(this.client, this.#setup.paths.path(name), fence, by, reason));
  }

  /** The path of the node that is this process's lease with `fence`: while it exists, no other client holds the lock. */
  leaseNode(name: string, fence: bigint): string | undefined {
    return this.#leases.all().find(({ claim, node }) => claim.name === name && node.czxid === fence)?.node.path;
  }

  close(): Promise<void> {
    if (this.#closing !== undefined) return this.#closing;
    this.#listener = undefined;
    this.#leases.stop();
    return (this.#closing = closeAll(this.client, this.#setup.servers, this.#claims.all(), this.#deletes));
  }

  /** @internal Called by the client. */
  connected(isNew: boolean): void {
    if (isNew) return;
    this.#deletes.retryAll();
    this.#leases.reconnected();
    this.#listener?.doubt();
  }

  /** @internal Called by the client: all nodes of the session are gone. */
  expired(): void {
    this.#deletes.clear();
    for (const lease of this.#leases.all()) this.#lose(lease, SESSION_ENDED);
  }

  async #ask<T>(name: string, work: () => Promise<T>): Promise<T> {
    try {
      if (this.#closing !== undefined) {
        throw new LockBackendError(this.name, name, "The ZooKeeper backend is closed.", { fatal: true });
      }
      return await work();
    } catch (error) {
      throw toLockError(name, this.#setup.servers, error);
    }
  }

  #tell(claim: Claim, isNew: boolean): void {
    this.#claims.get(claim.id)?.tell(claim, isNew, Math.min(claim.ttlMs, this.client.trustedMs) / 3);
  }

  /** The answer to a holder that attempts again. `undefined`: it does not hold any more, and may queue again. */
  async #confirm(local: SerialClaim, claim: Claim): Promise<Granted | undefined> {
    const lease = this.#leases.get(claim.id);
    if (lease === undefined) return undefined;
    const [answer] = await confirm(this.client, [lease]);
    if (answer?.held === "unknown") throw answer.cause;
    if (answer?.held !== true) {
      this.#leases.end(lease);
      local.recipe = this.#claims.recipe(claim);
      return undefined;
    }
    if (this.#apply(lease, answer).held !== true) return undefined;
    return toGranted(lease, answer.fromMs, lease.wanted?.isWanted === true);
  }

  async #attempt(local: SerialClaim, claim: Claim, attempt: () => Promise<AttemptResult>): Promise<Granted | Refused> {
    try {
      const result = await attempt();
      if (result.holds) return this.#leases.begin(claim, result.node, result.provenMs, result.isWanted);
      return await this.#refuse(local, claim, result);
    } catch (error) {
      // A claim that can never be granted leaves nothing behind.
      if (error instanceof LockBackendError && error.fatal) {
        this.#claims.delete(claim.id);
        await this.#deletes.deleteQuietly(claim, local.recipe, "queued");
      }
      throw error;
    }
  }

  async #refuse(local: SerialClaim, claim: Claim, result: AttemptResult & { holds: false }): Promise<Refused> {
    const heldBy = await readHoldings(this.client, claim.name, result.holders);
    if (claim.queues) {
      return { granted: false, heldBy, position: result.position, retryMs: Math.ceil(this.client.trustedMs / 3) };
    }
    this.#claims.delete(claim.id);
    await this.#deletes.delete(claim, local.recipe, "queued");
    return { granted: false, heldBy };
  }

  /** This process did not make the claim's node, or has deleted it: it may be another process's, or not exist. */
  async #releaseUnknown(claim: Claim): Promise<Released> {
    const retried = this.#deletes.retry(claim.id);
    if (retried !== undefined) return retried;
    if (this.#deletes.isDelayed(claim.id)) return "absent";
    return deleteNodesOf(this.client, claim, this.#setup.paths.path(claim.name));
  }

  /** A yes that comes after the lease's end is about a node that is being deleted: it counts as a no. */
  #apply(lease: LocalLease, answer: Renewal): Renewal {
    if (answer.held === true && !this.#leases.extend(lease, answer.fromMs ?? performance.now())) return NOT_HELD;
    if (answer.held === false) this.#forget(lease);
    return answer;
  }

  /** `false`: it was forgotten before. */
  #forget(lease: LocalLease): boolean {
    if (!this.#leases.end(lease)) return false;
    this.#claims.delete(lease.claim.id);
    return true;
  }

  #lose(lease: LocalLease, reason: LossReason): void {
    if (this.#forget(lease)) this.#listener?.lost(lease.claim.id, reason);
  }

  async #loseNode(lease: LocalLease): Promise<void> {
    if (!this.#forget(lease)) return;
    const { claim, node } = lease;
    const reason = await lossReason(this.client, this.#setup.paths.path(claim.name), node.czxid);
    this.#listener?.lost(claim.id, reason);
  }

  #expire(lease: LocalLease): void {
    const recipe = this.#claims.get(lease.claim.id)?.recipe;
    if (!this.#forget(lease) || recipe === undefined) return;
    void this.#deletes.deleteQuietly(lease.claim, recipe, "held");
  }
}
