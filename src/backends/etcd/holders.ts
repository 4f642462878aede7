/** The claims of this process that hold: confirmed, renewed, found again, and lost. */
import type { Claim, Granted, Listener, Outcome, Released, Renewal } from "../../contract/backend.ts";
import { declined } from "../../contract/declined.ts";
import { CAN } from "./abilities.ts";
import type { EtcdClient } from "./client/client.ts";
import { findClaim } from "./find-claim.ts";
import { lossReason } from "./force-release.ts";
import { type Held, HeldLeases, toGranted } from "./held-leases.ts";
import type { NameKeys } from "./keys.ts";
import type { LeasePool } from "./lease-pool.ts";
import { LocalClaim, type Place } from "./local-claim.ts";
import type { Releases } from "./release.ts";
import { confirm, type Confirmation } from "./renewals.ts";
import { Showing } from "./shown.ts";

const NOT_HELD: Renewal = { held: false, reason: { kind: "not-held" } };
const RETAKEN: Renewal = { held: false, reason: { kind: "retaken" } };

export interface HoldersSetup {
  readonly client: EtcdClient;
  readonly keys: NameKeys;
  readonly pool: LeasePool;
  readonly releases: Releases;
  /** True: claims that are to be renewed are looked for, as another thread took them. */
  readonly finds: boolean;
}

export class Holders {
  /** Every claim that this process knows, holding or waiting. */
  readonly claims: Map<string, LocalClaim> = new Map();
  listener: Listener | undefined;
  readonly #setup: HoldersSetup;
  readonly #held: HeldLeases;
  readonly #showing: Showing;

  constructor(setup: HoldersSetup) {
    this.#setup = setup;
    this.#showing = new Showing(setup.client, setup.keys);
    this.#held = new HeldLeases(setup.client, {
      expired: (held) => this.#expire(held),
      deleted: (held) => void this.#lose(held),
      unheard: ({ claim }) => this.listener?.doubt(claim.id),
      wanted: ({ claim }) => this.listener?.wanted?.(claim.id),
      lasts: ({ local }) => void this.#showing.show(local),
    });
  }

  get(claimId: string): Held | undefined {
    return this.#held.get(claimId);
  }

  all(): readonly Held[] {
    return this.#held.all();
  }

  /** The claim as this process knows it, from now on. */
  localClaim(claim: Claim): LocalClaim {
    const known = this.claims.get(claim.id);
    if (known !== undefined) return known;
    const local = new LocalClaim(claim, this.#setup.keys);
    this.claims.set(claim.id, local);
    return local;
  }

  begin(local: LocalClaim, place: Place, fence: bigint, revision: bigint, wanted: boolean): Granted {
    return this.#held.begin(local, place, fence, revision, wanted);
  }

  expectWanted(claimId: string): void {
    const held = this.#held.get(claimId);
    if (held !== undefined) this.#held.expectWanted(held);
  }

  /** The claim's process has something else to show with it. */
  show(local: LocalClaim, claim: Claim): void {
    local.toShow = claim;
    void this.#showing.show(local);
  }

  /** The answer to a holder that attempts again. `undefined`: it does not hold any more, and may queue again. */
  async confirm(local: LocalClaim): Promise<Granted | undefined> {
    const held = this.#held.get(local.claim.id);
    if (held === undefined) return undefined;
    const { client, pool, releases } = this.#setup;
    const [answer] = await confirm(client, pool, [held]);
    if (answer?.is === "unknown") throw answer.cause;
    if (answer?.is === "held") return this.#extend(held, answer) ? toGranted(held, answer.wanted) : undefined;
    this.#held.end(held);
    await releases.removeQuietly(local);
    return undefined;
  }

  async renew(claims: readonly Claim[], fences?: readonly bigint[]): Promise<readonly Renewal[]> {
    const { finds } = this.#setup;
    const failures = await this.#resumeAll(
      claims.filter(({ id, resumes }) => finds || (resumes && !this.claims.has(id))),
    );
    const all = claims.map((claim, at) => {
      const held = this.#held.get(claim.id);
      if (held === undefined) return undefined;
      // Believed for longer than the cluster keeps it, it would be held twice.
      const isTooLong = claim.ttlMs > held.ttlMs;
      if (fences !== undefined && held.fence !== fences[at]) failures.set(claim, RETAKEN);
      else if (isTooLong)
        failures.set(claim, { held: "unknown", cause: declined("etcd", CAN, "otherTtl", claim.name) });
      else {
        if (claim.changed === true) held.local.toShow = claim;
        return held;
      }
      return undefined;
    });
    const known = all.filter((held) => held !== undefined);
    const answers = await confirm(this.#setup.client, this.#setup.pool, known);
    const renewals = await Promise.all(known.map((held, index) => this.#apply(held, answers[index] as Confirmation)));
    const byHeld = new Map(known.map((held, index) => [held, renewals[index] as Renewal]));
    return all.map((held, at) => (held && byHeld.get(held)) ?? failures.get(claims[at] as Claim) ?? NOT_HELD);
  }

  /** Takes over a claim that another process, or another thread of this one, was granted, if it holds its lock. */
  async resume(claim: Claim): Promise<void> {
    const { client, keys, pool, releases } = this.#setup;
    // What this process gave up, and could not remove, will go: it must not be believed again.
    if (this.claims.has(claim.id) || releases.abandoned.has(claim.id)) return;
    const found = await findClaim(client, keys, claim);
    if (found === undefined || !found.holds) return;
    const { key, lease: id, createRevision, modRevision } = found.contender;
    const { grantedTtl } = await client.timeToLive(id);
    // Another call may have done it meanwhile.
    if (grantedTtl === 0 || this.claims.has(claim.id) || releases.abandoned.has(claim.id)) return;
    const local = this.localClaim(claim);
    const lease = pool.adopt(id, grantedTtl, claim.name);
    local.place = { key, lease, createRevision, mayAppear: false, shownKey: found.shownKey };
    this.#held.begin(local, local.place, modRevision, found.revision, false);
  }

  /** True: another process asked for the same claim at the same time, was before us, and holds the lock with it. */
  async isHeldByAnother({ claim, place }: LocalClaim): Promise<boolean> {
    const found = await findClaim(this.#setup.client, this.#setup.keys, claim);
    return found?.holds === true && place?.key.equals(found.contender.key) !== true;
  }

  /** Releases the claim, whether or not this process knows it. */
  release(claim: Claim, outcome: Outcome | undefined): Promise<Released> {
    const local = this.claims.get(claim.id);
    if (local === undefined) return this.#setup.releases.endUnknown(claim, outcome);
    const { ending } = local;
    // It waits for its turn among many. The core asks again after a while, and both together would take even longer.
    if (ending !== undefined && ending.outcome === outcome) return ending.released;
    const released = this.#release(local, local.enter(), claim, outcome);
    const begun = { outcome, released };
    local.ending = begun;
    const settled = (): void => {
      if (local.ending === begun) local.ending = undefined;
    };
    released.then(settled, settled);
    return released;
  }

  async #release(
    local: LocalClaim,
    turn: Promise<void> | undefined,
    claim: Claim,
    outcome: Outcome | undefined,
  ): Promise<Released> {
    await turn;
    try {
      if (this.claims.get(claim.id) !== local) return await this.#setup.releases.endUnknown(claim, outcome);
      return await this.end(local, claim, outcome);
    } finally {
      local.leave();
    }
  }

  /** Releases the claim. After a rejection all is as it was, so that it can be asked again. */
  async end(local: LocalClaim, claim: Claim, outcome?: Outcome): Promise<Released> {
    const { releases } = this.#setup;
    const held = this.#held.get(claim.id);
    if (held === undefined) return this.#leave(local);
    this.quiet(held);
    // What the claim holds now may be another lease than that of the work.
    const isIts = (outcome?.fence ?? held.fence) === held.fence;
    const restMs = held.sinceMs + claim.minHoldMs - performance.now();
    const ended = await releases.end(held, restMs, isIts ? outcome : undefined);
    this.forget(held);
    return ended && isIts ? "held" : "absent";
  }

  /** Leaves the queue. The caller may give up after a rejection: then it ends by itself. */
  async #leave(local: LocalClaim): Promise<Released> {
    const { releases } = this.#setup;
    const forget = (): void => {
      if (this.claims.get(local.claim.id) === local) this.claims.delete(local.claim.id);
    };
    try {
      const released = await releases.remove(local, "queued");
      forget();
      return released;
    } catch (error) {
      releases.giveUpLater(local, forget);
      throw error;
    }
  }

  /** It is about to be released: what becomes of its key is no news. */
  quiet(held: Held): void {
    this.#held.quiet(held);
  }

  /** Forgets that it holds. `false`: it was forgotten before. */
  forget(held: Held): boolean {
    if (!this.#held.end(held)) return false;
    this.claims.delete(held.claim.id);
    return true;
  }

  stop(): void {
    this.listener = undefined;
    this.#held.stop();
    for (const local of this.claims.values()) local.upset?.();
  }

  /** What could not be looked for is unknown, not absent. */
  async #resumeAll(claims: readonly Claim[]): Promise<Map<Claim, Renewal>> {
    const failures = new Map<Claim, Renewal>();
    await Promise.all(
      claims.map((claim) =>
        this.resume(claim).catch((cause: unknown) => {
          failures.set(claim, { held: "unknown", cause });
        }),
      ),
    );
    return failures;
  }

  /** A yes that comes after the lease's end is about a key that is being removed: it counts as a no. */
  async #apply(held: Held, answer: Confirmation): Promise<Renewal> {
    const { client, keys, releases } = this.#setup;
    if (answer.is === "unknown") return { held: "unknown", cause: answer.cause };
    if (answer.is === "held") {
      if (!this.#extend(held, answer)) return NOT_HELD;
      void this.#showing.show(held.local);
      return { held: true, fromMs: answer.fromMs, ...(held.wantedOf && { wanted: answer.wanted }) };
    }
    // It may be there all the same, overwritten by another program.
    if (this.forget(held)) void releases.removeQuietly(held.local);
    return { held: false, reason: await lossReason(client, keys, held.claim.name, held.fence) };
  }

  #extend(held: Held, { revision, wanted }: Confirmation & { readonly is: "held" }): boolean {
    if (revision > held.seenRevision) held.seenRevision = revision;
    if (!this.#held.extend(held)) return false;
    held.wantedWatch?.saw(wanted, revision);
    return true;
  }

  /** Its key was deleted. */
  async #lose(held: Held): Promise<void> {
    const { client, keys, releases } = this.#setup;
    if (!this.forget(held)) return;
    void releases.removeQuietly(held.local);
    const reason = await lossReason(client, keys, held.claim.name, held.fence);
    this.listener?.lost(held.claim.id, reason);
  }

  #expire(held: Held): void {
    if (this.forget(held)) void this.#setup.releases.removeQuietly(held.local);
  }
}
