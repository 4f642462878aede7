/** Attempts, swaps and steals: how claims enter. Until the store has answered, close() waits for them, because a late grant is given back. */
import type { Claim, Granted, Refused, Released, Swapped } from "../../contract/backend.ts";
import { LockBackendError, quote } from "../../contract/errors.ts";
import type { Connection } from "./connection.ts";
import { LimitConflict, toBackendError } from "./errors.ts";
import { forceText } from "./force-release.ts";
import { attempt, type Script, steal, swap } from "./generated/scripts.ts";
import type { Inbox } from "./inbox.ts";
import type { Names } from "./keys.ts";
import { ENTERING, type Entry, type LocalClaims } from "./local-claims.ts";
import type { Settings } from "./options.ts";
import type { Terms } from "./records.ts";
import { FOLLOWS_MAX, leavingId, type Releases } from "./release.ts";
import { FORCED_MS } from "./query.ts";
import { isBusy, isYoung, toGranted, toRefused, toReleased, toRun } from "./replies.ts";
import { type Scripts, TooFewReplicas } from "./scripts.ts";
import type { ServerChecks } from "./server-checks.ts";
import type { Waiters } from "./waiting.ts";

/** How long the first claim of a process waits for its inbox, at most. */
const INBOX_WAIT_MS = 1000;

/** When to try again for a lock that still has lapsed tickets to skip. */
const BUSY_MS = 100;

/** The parts of the backend that an attempt uses. */
interface Parts {
  readonly connection: Connection;
  readonly names: Names;
  readonly settings: Settings;
  readonly scripts: Scripts;
  readonly terms: Terms;
  readonly checks: ServerChecks;
  readonly claims: LocalClaims;
  readonly waiters: Waiters;
  readonly releases: Releases;
  readonly inbox: Inbox;
}

/** How a claim enters. */
interface Way {
  readonly script: Script;
  readonly crowd: "calm" | "crowded";
  /** After the claim's id and terms. */
  readonly args: readonly string[];
  /** In a swap: what the claim was that left in the same step. */
  was?(known: Released): void;
}

const ATTEMPT: Way = { script: attempt, crowd: "calm", args: [] };

export class Attempts {
  readonly #parts: Parts;
  /** Nothing but the script itself is needed for an answer. */
  readonly #plain: boolean;

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#plain = parts.settings.quarantineMs === 0 && parts.settings.durability === undefined;
  }

  // No async functions on the hot path: each costs a promise and a turn of the microtask queue.

  attempt(claim: Claim): Promise<Granted | Refused> {
    const { connection, names, settings, terms, claims, inbox } = this.#parts;
    if (!this.#plain || !inbox.ready) return this.#firstAttempt(claim);
    const key = names.lock(claim.name);
    const text = terms.of(claim, claim.queues, "calm");
    const sentMs = settings.clock.now();
    const entry = claims.add(claim, sentMs);
    entry.breaks = connection.breaks();
    claims.begin(entry, ENTERING);
    return connection.evalshaOn(attempt.sha, key, names.markerBeside(key, false), claim.id, text).then(
      (reply) => this.#answered(claim, entry, key, reply, claim.queues, sentMs),
      (error: unknown) => this.#attemptAgain(claim, entry, key, text, error, sentMs),
    );
  }

  async swap(held: Claim, next: Claim): Promise<Swapped> {
    const { connection, claims, waiters } = this.#parts;
    waiters.forget(held.id);
    const breaks = connection.breaks();
    let released: Released | undefined;
    const answer = await this.#enter(next, next.queues, {
      script: swap,
      crowd: "crowded",
      args: [leavingId(held)],
      was: (known) => (released = known),
    });
    claims.left(claims.get(held), true);
    // "no" may follow a "held" that was lost: see release.ts.
    return released !== "held" && connection.breaks() !== breaks ? answer : { ...answer, released };
  }

  steal(claim: Claim, reason: string): Promise<Granted | Refused> {
    const { inbox } = this.#parts;
    if (!inbox.ready) void inbox.open();
    const args = [forceText(claim.holder, reason), String(FORCED_MS)];
    return this.#enter(claim, false, { script: steal, crowd: "calm", args });
  }

  /** A process's first attempt, and each that needs more than the script. */
  async #firstAttempt(claim: Claim): Promise<Granted | Refused> {
    const { connection, inbox } = this.#parts;
    if (inbox.ready || inbox.tried) return this.#enter(claim, claim.queues);
    const breaks = connection.breaks();
    void inbox.open();
    // Another process may have queued this very claim, and without a place of its own it would give that up.
    const answer = claim.resumes === true ? undefined : await this.#enter(claim, false);
    // A holder should hear at once of a forced end; and a claim that is queued before its process listens looks like one whose process is
    // gone. All works without messages too, so this does not wait long for them.
    await inbox.openWithin(Math.min(INBOX_WAIT_MS, claim.ttlMs / 4));
    return answer === undefined || (!answer.granted && claim.queues && answer.outcome === undefined)
      ? this.#enter(claim, claim.queues, ATTEMPT, 0, breaks)
      : answer;
  }

  async #attemptAgain(
    claim: Claim,
    entry: Entry,
    key: string,
    terms: string,
    error: unknown,
    sentMs: number,
  ): Promise<Granted | Refused> {
    const { scripts, claims } = this.#parts;
    const again = scripts.afterNoScript(error, attempt, key, [claim.id, terms]);
    const reply = await again.catch((known: unknown) => {
      claims.end(entry, ENTERING);
      throw this.#failed(claim, entry, key, claim.queues, known);
    });
    return this.#answered(claim, entry, key, reply, claim.queues, sentMs);
  }

  /**
   * With a quarantine every claim goes this way: one that would outlast the quarantine is rejected, and so is one on a server whose settings
   * make the quarantine useless. `way`: the script, if it is not attempt. `breaks`: as it was before the first of several questions, of
   * each of which a copy may still come.
   */
  async #enter(
    claim: Claim,
    queues: boolean,
    way: Way = ATTEMPT,
    follows = 0,
    breaks: number = this.#parts.connection.breaks(),
  ): Promise<Granted | Refused> {
    const { names, settings, scripts, terms, checks, claims, releases } = this.#parts;
    if (settings.quarantineMs > 0) await checks.check(claim).catch(scripts.explained(claim.name));
    const key = names.lock(claim.name);
    const args = [claim.id, terms.of(claim, queues, way.crowd), ...way.args];
    const sentMs = settings.clock.now();
    const entry = claims.add(claim, sentMs);
    entry.breaks = breaks;
    claims.begin(entry, ENTERING);
    let reply: unknown;
    try {
      reply = await scripts.runDurably(way.script, key, args);
    } catch (error) {
      claims.end(entry, ENTERING);
      // Not believed, so it is given back: nothing stays held, whatever its minHold.
      if (error instanceof TooFewReplicas) await releases.release({ ...claim, minHoldMs: 0 });
      throw this.#failed(claim, entry, key, queues, error);
    }
    if (way.was !== undefined && Array.isArray(reply)) {
      way.was(toReleased(claim.name, reply[0]));
      reply = reply[1];
    }
    return this.#answered(claim, entry, key, reply, queues, sentMs, follows);
  }

  #answered(
    claim: Claim,
    entry: Entry,
    key: string,
    reply: unknown,
    queues: boolean,
    sentMs: number,
    follows = 0,
  ): Granted | Refused | Promise<Granted | Refused> {
    const { connection, scripts, terms, checks, claims, waiters } = this.#parts;
    scripts.wrote = true; // A refusal is a write too.
    claims.end(entry, ENTERING);
    const isTwice = connection.breaks() !== entry.breaks;
    const fences = toRun(reply);
    if (fences !== undefined) {
      waiters.forget(claim.id);
      return isTwice ? { ...toGranted(fences, sentMs), sentTwice: true } : toGranted(fences, sentMs);
    }
    if (isBusy(reply)) return this.#follow(claim, entry, queues, follows);
    const { refused, learned, wallMs } = toRefused(claim.name, reply);
    // Perhaps after a fail-over: the new primary must be checked too.
    if (isYoung(reply)) checks.forget();
    if (learned === undefined) {
      waiters.forget(claim.id);
      claims.left(entry, true);
      return { ...refused, sentTwice: isTwice };
    }
    const ticketMs = terms.ticketMs(claim);
    waiters.queued(claim, key, ticketMs, sentMs, learned, wallMs);
    return { ...refused, retryMs: ticketMs, sentTwice: isTwice };
  }

  /** Tries again for a lock with many lapsed tickets, as long as the claim is wanted. The store does not know the claim yet. */
  #follow(claim: Claim, entry: Entry, queues: boolean, follows: number): Refused | Promise<Granted | Refused> {
    const { connection, claims } = this.#parts;
    const isWanted = entry.state === "wanted";
    if (isWanted && !claims.isClosing && follows < FOLLOWS_MAX)
      return this.#enter(claim, queues, ATTEMPT, follows + 1, entry.breaks);
    if (isWanted) claims.left(entry, true);
    return { granted: false, heldBy: [], retryMs: BUSY_MS, sentTwice: connection.breaks() !== entry.breaks };
  }

  #failed(claim: Claim, entry: Entry, key: string, queues: boolean, error: unknown): LockBackendError {
    const { scripts, terms, claims, waiters } = this.#parts;
    if (queues) waiters.unsure(claim, key, terms.ticketMs(claim));
    if (error instanceof TooFewReplicas) {
      const text = `${error.message}, so it was given back. Check the replicas, or ask for fewer`;
      return new LockBackendError("redis", claim.name, `Lock ${quote(claim.name)}: ${text}.`);
    }
    const known = toBackendError(error, claim.name, scripts.wrote);
    if (known.fatal) claims.left(entry, true);
    return known instanceof LimitConflict ? new LimitConflict(claim.name, known.inForce, claim.limit) : known;
  }
}
