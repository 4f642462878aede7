/** The claims of this process that hold: confirmed, renewed, found again, and lost. */
import type { Claim, Granted, Listener, Renewal } from "../../contract/backend.ts";
import { LockBackendError, quote } from "../../contract/errors.ts";
import type { EtcdClient } from "./client/client.ts";
import { findClaim } from "./find-claim.ts";
import { lossReason } from "./force-release.ts";
import { type Held, HeldLeases, toGranted } from "./held-leases.ts";
import { below, type NameKeys } from "./keys.ts";
import type { LeasePool } from "./lease-pool.ts";
import { LocalClaim, type Place } from "./local-claim.ts";
import type { Releases } from "./release.ts";
import { confirm, type Confirmation } from "./renewals.ts";

const NOT_HELD: Renewal = { held: false, reason: { kind: "not-held" } };

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

  constructor(setup: HoldersSetup) {
    this.#setup = setup;
    this.#held = new HeldLeases(setup.client, {
      expired: (held) => this.#expire(held),
      deleted: (held) => void this.#lose(held),
      unheard: ({ claim }) => this.listener?.doubt(claim.id),
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
    const local = new LocalClaim(claim, below(this.#setup.keys.prefix(claim.name)));
    this.claims.set(claim.id, local);
    return local;
  }

  begin(local: LocalClaim, place: Place, fence: bigint, revision: bigint): Granted {
    return this.#held.begin(local, place, fence, revision);
  }

  /** The answer to a holder that attempts again. `undefined`: it does not hold any more, and may queue again. */
  async confirm(local: LocalClaim): Promise<Granted | undefined> {
    const held = this.#held.get(local.claim.id);
    if (held === undefined) return undefined;
    const { client, pool, releases } = this.#setup;
    const [answer] = await confirm(client, pool, [held]);
    if (answer?.is === "unknown") throw answer.cause;
    if (answer?.is === "held") return this.#extend(held, answer.revision) ? toGranted(held) : undefined;
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
      if (held === undefined || (fences !== undefined && held.fence !== fences[at])) return undefined;
      // Believed for longer than the cluster keeps it, it would be held twice.
      if (claim.ttlMs <= held.ttlMs) return held;
      failures.set(claim, tooLong(claim, held.ttlMs));
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
    if (this.claims.has(claim.id) || releases.hasAbandoned(claim.id)) return;
    const found = await findClaim(client, keys, claim);
    if (found === undefined || !found.holds) return;
    const { key, lease: id, createRevision, modRevision } = found.contender;
    const { grantedTtl } = await client.timeToLive(id);
    // Another call may have done it meanwhile.
    if (grantedTtl === 0 || this.claims.has(claim.id) || releases.hasAbandoned(claim.id)) return;
    const local = this.localClaim(claim);
    const lease = pool.adopt(id, grantedTtl, claim.name);
    local.place = { key, lease, createRevision, mayAppear: false };
    this.#held.begin(local, local.place, modRevision, found.revision);
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
      return this.#extend(held, answer.revision) ? { held: true, fromMs: answer.fromMs } : NOT_HELD;
    }
    // It may be there all the same, overwritten by another program.
    if (this.forget(held)) void releases.removeQuietly(held.local);
    return { held: false, reason: await lossReason(client, keys, held.claim.name, held.fence) };
  }

  #extend(held: Held, revision: bigint): boolean {
    if (revision > held.seenRevision) held.seenRevision = revision;
    return this.#held.extend(held);
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

/** The length of a lease is fixed when it is granted. */
function tooLong({ name, ttlMs }: Claim, givenMs: number): Renewal {
  const message = `Lock ${quote(name)}: etcd cannot make a lease longer: this one was granted for ${givenMs} ms, and ${ttlMs} ms are asked for. Renew it with its own ttl, or release it and acquire it anew.`;
  return { held: "unknown", cause: new LockBackendError("etcd", name, message, { fatal: true }) };
}
