/** The etcd backend: a key in the lock's queue for each claim, and leases that keep the keys alive. */
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
  Swapped,
} from "../../contract/backend.ts";
import { LockBackendError } from "../../contract/errors.ts";
import { CAN } from "./abilities.ts";
import { Attempts, type AttemptResult, type Refusal } from "./attempts.ts";
import type { EtcdClient } from "./client/client.ts";
import { endWaiting } from "./close.ts";
import { toLockError } from "./errors.ts";
import { forceRelease } from "./force-release.ts";
import type { Held } from "./held-leases.ts";
import { Holders } from "./holders.ts";
import type { NameKeys } from "./keys.ts";
import { LeasePool } from "./lease-pool.ts";
import type { LocalClaim } from "./local-claim.ts";
import { OutcomeNews } from "./outcome-news.ts";
import { Outcomes } from "./outcomes.ts";
import { inspect, snapshot } from "./query.ts";
import { toRefused } from "./refusal.ts";
import { Releases } from "./release.ts";
import { Upkeep } from "./upkeep.ts";
import { turn } from "./waiting.ts";

export interface BackendSetup {
  readonly client: EtcdClient;
  readonly keys: NameKeys;
  readonly renewer?: Backend["renewer"];
  /** True: it renews claims that another thread took. @default false */
  readonly finds?: boolean | undefined;
}

export class EtcdBackend implements Backend {
  readonly name = "etcd";
  readonly can: Abilities = CAN;
  /** Also for guards, which check in one transaction that the lease's key exists. */
  readonly client: EtcdClient;
  /** It has the password, which must not be printed with the backend. */
  readonly #renewer: Backend["renewer"];
  readonly #keys: NameKeys;
  readonly #pool: LeasePool;
  readonly #attempts: Attempts;
  readonly #upkeep: Upkeep;
  readonly #outcomes: Outcomes;
  readonly #news: OutcomeNews;
  readonly #releases: Releases;
  readonly #holders: Holders;
  #closing: Promise<void> | undefined;

  /** @internal Use {@link etcd}. */
  constructor({ client, keys, renewer, finds = false }: BackendSetup) {
    this.client = client;
    this.#renewer = renewer;
    this.#keys = keys;
    this.#pool = new LeasePool(client);
    this.#attempts = new Attempts(client, this.#pool);
    this.#upkeep = new Upkeep(client, this.#pool);
    this.#outcomes = new Outcomes(client, keys);
    this.#news = new OutcomeNews(client);
    const [attempts, upkeep, outcomes, pool] = [this.#attempts, this.#upkeep, this.#outcomes, this.#pool];
    this.#releases = new Releases({ client, keys, attempts, upkeep, outcomes, finds });
    this.#holders = new Holders({ client, keys, pool, releases: this.#releases, finds });
  }

  get renewer(): Backend["renewer"] {
    return this.#renewer;
  }

  listen(listener: Listener): void {
    this.#holders.listener = listener;
  }

  attempt(claim: Claim): Promise<Granted | Refused> {
    return this.#ask(claim.name, async () => {
      if (claim.resumes === true && !this.#holders.claims.has(claim.id)) await this.#holders.resume(claim);
      const local = this.#holders.localClaim(claim);
      await local.enter();
      try {
        // Released while this attempt waited for its turn: start again.
        if (this.#holders.claims.get(claim.id) !== local) return await this.attempt(claim);
        const isNew = local.place === undefined;
        const { meta, local: facts } = local.claim;
        local.claim = claim;
        if (!isNew && (meta !== claim.meta || facts !== claim.local)) this.#holders.show(local, claim);
        const granted = await this.#holders.confirm(local);
        // The lease ended while it was confirmed, and its key is being removed: start again too.
        if (this.#holders.claims.get(claim.id) !== local) return await this.attempt(claim);
        return granted ?? (await this.#attempt(local, () => this.#attempts.attempt(local)));
      } finally {
        local.leave();
      }
    });
  }

  watch(claim: Claim, signal: AbortSignal): Promise<Granted | undefined> {
    return this.#ask(claim.name, async () => {
      const local = this.#holders.claims.get(claim.id);
      while (local !== undefined && this.#waits(local) && (await turn(this.client, this.#news, local, signal))) {
        await local.enter();
        try {
          if (signal.aborted || local.isLeaving || !this.#waits(local)) return undefined;
          const answer = await this.#attempt(local, () => this.#attempts.attempt(local));
          // A grant that comes too late for this watch is asked for again, and found.
          if (answer.granted) return signal.aborted ? undefined : answer;
        } finally {
          local.leave();
        }
      }
      return undefined;
    });
  }

  renew(claims: readonly Claim[], fences?: readonly bigint[]): Promise<readonly Renewal[]> {
    return this.#ask(claims[0]?.name ?? "", () => this.#holders.renew(claims, fences));
  }

  release(claim: Claim, outcome?: Outcome): Promise<Released> {
    return this.#ask(claim.name, async () => {
      const released = await this.#holders.release(claim, outcome);
      // An earlier request, whose answer was lost, may have kept it: then the lease was held until that.
      if (outcome === undefined || released === "held") return released;
      return (await this.#outcomes.isKept(claim, outcome)) ? "held" : released;
    });
  }

  swap(before: Claim, next: Claim): Promise<Swapped> {
    return this.#ask(before.name, async () => {
      const held = this.#holders.get(before.id);
      const isPlain = [before, next].every(({ limit, mode }) => limit === 1 && mode === "exclusive");
      const isNew = !this.#holders.claims.has(next.id) && before.name === next.name && next.queues;
      const wantsLock = next.wantsOutcome !== true;
      const mayEnd = held !== undefined && held.sinceMs + before.minHoldMs <= performance.now();
      if (!isPlain || !isNew || !wantsLock || !mayEnd) {
        const released = await this.release(before);
        return { ...(await this.attempt(next)), released };
      }
      return this.#swap(held, before, next);
    });
  }

  query(prefix: string): Promise<Snapshot> {
    return this.#ask(prefix, () => snapshot(this.client, this.#keys, prefix));
  }

  inspect(name: string): Promise<LockState> {
    return this.#ask(name, () => inspect(this.client, this.#keys, this.#outcomes, name));
  }

  forget(name: string, fence: bigint): Promise<boolean> {
    return this.#ask(name, () => this.#outcomes.forget(name, fence));
  }

  expectWanted(claim: Claim): void {
    this.#holders.expectWanted(claim.id);
  }

  forceRelease(name: string, fence: bigint, by: string, reason: string): Promise<boolean> {
    return this.#ask(name, () => forceRelease(this.client, this.#keys, name, fence, by, reason));
  }

  /** The key that is this process's lease with `fence`, and its creation: while that exists, no other client holds the lock. */
  leaseKey(name: string, fence: bigint): { readonly key: Buffer; readonly createRevision: bigint } | undefined {
    const held = this.#holders.all().find((one) => one.claim.name === name && one.fence === fence);
    const createRevision = held?.place.createRevision;
    return held && createRevision !== undefined ? { key: held.place.key, createRevision } : undefined;
  }

  close(): Promise<void> {
    return (this.#closing ??= this.#close());
  }

  /** Disconnects without releasing anything, as a crash would. */
  abandon(): Promise<void> {
    this.#stop();
    return (this.#closing ??= this.client.close());
  }

  /** @internal Called by the client. */
  connected(isFirst: boolean): void {
    if (!isFirst) this.#holders.listener?.doubt();
  }

  async #close(): Promise<void> {
    const { claims } = this.#holders;
    const waiting = [...claims.values()].filter((local) => this.#waits(local));
    this.#stop();
    try {
      await endWaiting(this.client, this.#releases, waiting);
    } finally {
      await this.#pool.close();
      await this.client.close();
    }
  }

  #stop(): void {
    this.#holders.stop();
    this.#upkeep.stop();
    this.#releases.stop();
  }

  async #ask<T>(name: string, work: () => Promise<T>): Promise<T> {
    try {
      if (this.#closing !== undefined) {
        throw new LockBackendError(this.name, name, "The etcd backend is closed.", { fatal: true });
      }
      return await work();
    } catch (error) {
      throw toLockError(name, this.client.endpoints, error);
    }
  }

  #waits(local: LocalClaim): boolean {
    return this.#holders.claims.get(local.claim.id) === local && this.#holders.get(local.claim.id) === undefined;
  }

  async #attempt(local: LocalClaim, attempt: () => Promise<AttemptResult>): Promise<Granted | Refused> {
    try {
      const before = local.place?.lease;
      const result = await attempt();
      if (before !== undefined && before !== local.place?.lease) this.#upkeep.remove(local, before);
      if (local.claim.resumes === true && (await this.#holders.isHeldByAnother(local))) return await this.#join(local);
      if (!result.holds) return await this.#refuse(local, result);
      this.#upkeep.remove(local);
      return this.#holders.begin(local, result.place, result.fence, result.revision, result.wanted);
    } catch (cause) {
      const error = toLockError(local.claim.name, this.client.endpoints, cause);
      // A claim that can never be granted leaves nothing behind.
      if (error instanceof LockBackendError && error.fatal) {
        this.#holders.claims.delete(local.claim.id);
        await this.#releases.removeQuietly(local);
      }
      throw error;
    }
  }

  /** Gives up its own key for the one by which the claim holds already. */
  async #join(local: LocalClaim): Promise<Granted | Refused> {
    this.#holders.claims.delete(local.claim.id);
    await this.#releases.removeQuietly(local);
    return this.attempt(local.claim);
  }

  async #refuse(local: LocalClaim, result: Refusal): Promise<Refused> {
    const { claim } = local;
    const outcome = claim.wantsOutcome === true ? await this.#outcomes.show(result.outcome) : undefined;
    if (claim.queues && outcome === undefined) this.#upkeep.add(local);
    else {
      this.#holders.claims.delete(claim.id);
      await this.#releases.removeQuietly(local);
    }
    return outcome === undefined ? toRefused(this.client, claim, result) : { granted: false, heldBy: [], outcome };
  }

  async #swap(held: Held, ending: Claim, next: Claim): Promise<Swapped> {
    const { local: before } = held;
    this.#holders.quiet(held);
    const local = this.#holders.localClaim(next);
    await Promise.all([before.enter(), local.enter()]);
    try {
      const result =
        this.#holders.get(held.claim.id) === held ? await this.#attempts.replace(before, local) : undefined;
      if (result === undefined) {
        const released = await this.#holders.end(before, ending);
        return { ...(await this.#attempt(local, () => this.#attempts.attempt(local))), released };
      }
      this.#holders.forget(held);
      this.#attempts.forget(before);
      return { ...(await this.#attempt(local, () => Promise.resolve(result))), released: "held" };
    } finally {
      before.leave();
      local.leave();
    }
  }
}
