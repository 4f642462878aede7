/** Releases claims, held or queued, and keeps the outcomes of their work. Until the store has answered, the claim stays in the list of local claims, and close() waits for it. */
import type { Claim, Outcome, Released } from "../../contract/backend.ts";
import { LockBackendError, quote } from "../../contract/errors.ts";
import type { Connection } from "./connection.ts";
import { finish, release, wake } from "./generated/scripts.ts";
import type { Names } from "./keys.ts";
import { type Entry, LEAVING, type LocalClaims } from "./local-claims.ts";
import type { Settings } from "./options.ts";
import { outcomeArgs } from "./outcomes.ts";
import { isBusy, toCount, toReleased, unexpected } from "./replies.ts";
import { type Scripts, TooFewReplicas } from "./scripts.ts";
import type { Waiters } from "./waiting.ts";
import { MARK } from "./wire.ts";

/** How many calls may follow one that found more lapsed tickets than a call may skip. After that, the waiters' heartbeats do it. */
export const FOLLOWS_MAX = 1000;

/**
 * The claim's id as release and swap expect it. Its minHold counts if the claim has one: a lease that no caller had is given back without.
 * A process that resumes another process's lease need not know its terms, so those of the record count.
 */
export function leavingId({ id, minHoldMs, resumes }: Claim): string {
  return minHoldMs > 0 || resumes === true ? id + MARK.keeps : id;
}

export class Releases {
  readonly #connection: Connection;
  readonly #names: Names;
  readonly #scripts: Scripts;
  readonly #claims: LocalClaims;
  readonly #waiters: Waiters;
  /** Nothing but the script itself is needed for an answer. */
  readonly #plain: boolean;

  constructor(
    connection: Connection,
    names: Names,
    { quarantineMs }: Settings,
    scripts: Scripts,
    claims: LocalClaims,
    waiters: Waiters,
  ) {
    this.#connection = connection;
    this.#names = names;
    this.#scripts = scripts;
    this.#claims = claims;
    this.#waiters = waiters;
    this.#plain = quarantineMs === 0;
  }

  release(claim: Claim): Promise<Released> {
    this.#waiters.forget(claim.id);
    const entry = this.#claims.leave(claim);
    this.#claims.begin(entry, LEAVING);
    const breaks = this.#connection.breaks();
    const key = this.#names.lock(claim.name);
    const id = leavingId(claim);
    const released = this.#plain
      ? this.#connection.evalshaOn(release.sha, key, this.#names.markerBeside(key, false), id, undefined)
      : this.#scripts.run(release, key, [id]);
    return released.then(
      (reply) => this.#answered(claim, entry, reply, breaks),
      async (error: unknown) => {
        const again = this.#scripts.afterNoScript(error, release, key, [id]);
        const reply = await again.catch((known: unknown) => this.#failed(claim, entry, known));
        return this.#answered(claim, entry, reply, breaks);
      },
    );
  }

  /** Also keeps the outcome, if the claim held the lock; with `durability`, the answer is unknown until enough replicas have it. */
  async finish(claim: Claim, outcome: Outcome): Promise<Released> {
    this.#waiters.forget(claim.id);
    const entry = this.#claims.leave(claim);
    this.#claims.begin(entry, LEAVING);
    const breaks = this.#connection.breaks();
    const key = this.#names.lock(claim.name);
    const args = [leavingId(claim), ...outcomeArgs(claim, outcome)];
    const asked = this.#scripts.runDurably(finish, key, args, isKept);
    const reply = await asked.catch((error: unknown) => this.#failed(claim, entry, error));
    const [was, place] = Array.isArray(reply) ? [reply[0] as unknown, toCount(reply[1])] : [];
    if (place === undefined) return this.#failed(claim, entry, unexpected(claim.name));
    // No caller waits for this. If it fails, the waiters' heartbeats do the same.
    if (place > 0) void this.#wake(key, place).catch(() => {});
    return this.#answered(claim, entry, was, breaks);
  }

  /** The rest of a long queue learns of an outcome, portion by portion. */
  async #wake(key: string, from: number): Promise<void> {
    let place = from;
    for (let i = 0; place > 0 && i < FOLLOWS_MAX && !this.#claims.isClosing; i++)
      place = toCount(await this.#scripts.run(wake, key, [String(place)])) ?? 0;
  }

  #answered(claim: Claim, entry: Entry, reply: unknown, breaks: number): Released {
    this.#claims.left(entry, true);
    this.#claims.end(entry, LEAVING);
    if (reply === 1) return "held";
    const was = toReleased(claim.name, reply);
    // No caller waits for this. If it fails, the waiters' heartbeats do the same.
    if (isBusy(reply)) void this.#follow(claim).catch(() => {});
    if (was === "held" || this.#connection.breaks() === breaks) return was;
    // Some client libraries repeat a command whose connection ended: then "no" may follow a "yes" that was lost; also "queued",
    // where an attempt of the same claim arrived in between.
    const text =
      "the connection ended during the release, and Redis no longer knows the lease. Either the first of two requests released it, or it was over before";
    throw new LockBackendError("redis", claim.name, `Lock ${quote(claim.name)}: ${text}.`);
  }

  async #follow(claim: Claim): Promise<void> {
    const key = this.#names.lock(claim.name);
    let busy = true;
    for (let i = 0; busy && i < FOLLOWS_MAX && !this.#claims.isClosing; i++)
      busy = isBusy(await this.#scripts.run(release, key, [claim.id]));
  }

  #failed(claim: Claim, entry: Entry, error: unknown): never {
    this.#claims.left(entry, false);
    this.#claims.end(entry, LEAVING);
    if (error instanceof TooFewReplicas) {
      const text = `${error.message}: the outcome is kept, and would be lost with this server. Check the replicas, or ask for fewer`;
      throw new LockBackendError("redis", claim.name, `Lock ${quote(claim.name)}: ${text}.`);
    }
    return this.#scripts.explained(claim.name)(error);
  }
}

/** From what finish.lua answers. */
function isKept(reply: unknown): boolean {
  return Array.isArray(reply) && (toCount(reply[0]) ?? 0) % 4 === 1;
}
