/** Attempts, swaps and steals: how claims enter. */
import type { Claim, Granted, Refused, Released, Swapped } from "../../contract/backend.ts";
import type { Connection } from "./connection.ts";
import { limitConflict, tooLong, unexpected } from "./errors.ts";
import { toForcer } from "./force-release.ts";
import { CALL_ATTEMPT, CALL_STEAL, CALL_SWAP } from "./generated/sql.ts";
import type { Inbox } from "./inbox.ts";
import type { LocalClaims } from "./local-claims.ts";
import type { Settings } from "./options.ts";
import { toBytes, toDone, toRefusal, toRun } from "./records.ts";
import { minHoldText, toReleased } from "./release-batches.ts";
import type { Waiters } from "./waiting.ts";
import { toDetail } from "./who.ts";

/** How long the first grant of a process waits for its inbox, at most. */
const INBOX_WAIT_MS = 1000;
const LIMIT = /^limit (\d{1,10})$/u;

/** The parts of the backend that an attempt uses. */
interface Parts {
  readonly connection: Connection;
  readonly settings: Settings;
  readonly claims: LocalClaims;
  readonly waiters: Waiters;
  readonly inbox: Inbox;
}

export class Attempts {
  readonly #parts: Parts;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  attempt(claim: Claim): Promise<Granted | Refused> {
    return this.#enter(claim, async () => {
      const { connection } = this.#parts;
      const { answers, sentMs } = await connection.ask(CALL_ATTEMPT, this.#terms(claim));
      return this.#answered(claim, answers[0], sentMs);
    });
  }

  steal(claim: Claim, reason: string): Promise<Granted | Refused> {
    const { connection, waiters } = this.#parts;
    waiters.forget(claim.id);
    return this.#enter(claim, async () => {
      const values = [toForcer(claim.holder, reason), ...this.#terms(claim)];
      const { answers, sentMs } = await connection.ask(CALL_STEAL, values);
      return this.#answered(claim, answers[0], sentMs);
    });
  }

  swap(held: Claim, next: Claim): Promise<Swapped> {
    const { connection, claims, waiters } = this.#parts;
    waiters.forget(held.id);
    return this.#enter(next, async () => {
      const values = [held.id, minHoldText(held), ...this.#terms(next)];
      const { answers, sentMs } = await claims.leave(held, () => connection.ask(CALL_SWAP, values));
      const [, was, answer] = /^(\w+) (.*)$/su.exec(answers[0] ?? "") ?? [];
      const released: Released = toReleased(held.name, was);
      claims.left(held);
      return { ...this.#answered(next, answer, sentMs), released };
    });
  }

  async #enter<T extends Granted | Refused>(claim: Claim, send: () => Promise<T>): Promise<T> {
    const { settings, claims, waiters, inbox } = this.#parts;
    if (claim.ttlMs + claim.lockDelayMs > settings.maxTtlMs) throw tooLong(claim.name, settings.maxTtlMs);
    const entered = claims.enter(claim, send).catch((error: unknown) => {
      if (claim.queues) waiters.unsure(claim, this.#ticketMs(claim));
      throw error;
    });
    if (inbox.isTried) return await entered;
    const opened = inbox.openWithin(Math.min(INBOX_WAIT_MS, claim.ttlMs / 4));
    const answer = await entered;
    // The first holder should hear at once of a forced end, too. A refusal waits for nothing: its process may have little time.
    if (answer.granted) await opened;
    return answer;
  }

  /** A waiter's ticket never outlives its ttl, because a hand-over counts from the last heartbeat. */
  #ticketMs({ ttlMs }: Claim): number {
    return Math.min(this.#parts.settings.ticketMs, ttlMs);
  }

  #terms(claim: Claim): (string | null)[] {
    const { settings, inbox } = this.#parts;
    return [
      toBytes(claim.name),
      claim.id,
      String(claim.mode === "shared"),
      String(claim.limit),
      String(claim.ttlMs),
      String(claim.lockDelayMs),
      String(claim.minHoldMs),
      String(settings.run),
      String(claim.queues ? this.#ticketMs(claim) : 0),
      inbox.address,
      toDetail(claim),
      String(claim.wantsOutcome === true),
      String(settings.quarantineMs),
    ];
  }

  #answered(claim: Claim, answer: string | null | undefined, sentMs: number): Granted | Refused {
    const { claims, waiters } = this.#parts;
    const run = toRun(answer);
    if (run !== undefined) {
      waiters.forget(claim.id);
      return { ...run, fromMs: sentMs };
    }
    const [, inForce] = LIMIT.exec(answer ?? "") ?? [];
    if (inForce !== undefined) throw limitConflict(claim.name, Number(inForce), claim.limit);
    if (typeof answer !== "string") throw unexpected(claim.name);
    const done = toDone(claim.name, answer);
    if (done !== undefined) {
      waiters.forget(claim.id);
      claims.left(claim);
      return done;
    }
    const { refused, learned, wallUs } = toRefusal(claim.name, answer);
    if (learned === undefined) {
      waiters.forget(claim.id);
      claims.left(claim);
      return refused;
    }
    const ticketMs = this.#ticketMs(claim);
    waiters.queued(claim, ticketMs, sentMs, learned, wallUs);
    return { ...refused, retryMs: ticketMs };
  }
}
