/**
 * The keeper (others say watchdog): renews every hold of this process from one timer, in batches, and ends those
 * that can no longer be trusted. A hold is renewed after a third of its ttl and asked again until its instant passes.
 */
import { Alarm } from "./alarm.ts";
import type { Backend, Claim, Renewal } from "./backend.ts";
import type { Chance } from "./chance.ts";
import type { Clock } from "./clock.ts";
import { renewChannel } from "./events.ts";
import type { Hold } from "./hold.ts";

/** Holds due within this part of their ttl ride along: so that leases taken at random moments end up in few batches. */
const RIDE_ALONG = 1 / 10;
const RETRY_MIN_MS = 10;

export class Keeper {
  readonly #backend: Backend;
  readonly #clock: Clock;
  readonly #chance: Chance;
  readonly #lose: (hold: Hold, reason: string) => void;
  readonly #alarm: Alarm<Hold>;

  constructor(backend: Backend, clock: Clock, chance: Chance, lose: (hold: Hold, reason: string) => void) {
    this.#backend = backend;
    this.#clock = clock;
    this.#chance = chance;
    this.#lose = lose;
    this.#alarm = new Alarm<Hold>(clock, false, (nowMs) => this.#sweep(nowMs));
  }

  get size(): number {
    return this.#alarm.size;
  }

  keep(hold: Hold): void {
    this.#alarm.set(hold, this.#renewAtMs(hold, this.#clock.now()));
  }

  /** From this moment on nothing renews the hold, not even an answer that is on its way. */
  drop(hold: Hold): void {
    this.#alarm.clear(hold);
  }

  /** Renews everything now: after a reconnect, or when the machine seems to have slept. */
  doubt(): void {
    const nowMs = this.#clock.now();
    for (const hold of this.#alarm.all()) {
      // What was asked before the trouble may never be answered.
      hold.askedAtMs = -Infinity;
      if (hold.spec.renew === true) this.#alarm.set(hold, nowMs);
    }
  }

  stop(): void {
    this.#alarm.stop();
  }

  #sweep(nowMs: number): void {
    const due: Hold[] = [];
    const early: Hold[] = [];
    for (;;) {
      const hold = this.#alarm.take(nowMs + (due[0] ?? early[0] ?? NONE).ttlMs * RIDE_ALONG);
      if (hold === undefined) break;
      if (!this.#ended(hold, nowMs)) (this.#mayRenew(hold, nowMs) ? due : early).push(hold);
    }
    for (const hold of early) this.#alarm.set(hold, this.#nextLookMs(hold, nowMs));
    // While the answer is out, only the end of trust can wake us for these.
    for (const hold of due) this.#alarm.set(hold, this.#nextLookMs(hold, nowMs));
    for (const batch of batches(due)) void this.#renew(batch);
  }

  /** Ends a hold whose instant has passed. */
  #ended(hold: Hold, nowMs: number): boolean {
    if (nowMs >= hold.trustedUntilMs) {
      this.#lose(hold, whyEnded(hold, nowMs));
      return true;
    }
    if (hold.spec.renew === false && hold.sleptThrough(nowMs)) {
      this.#lose(hold, "the machine slept longer than the ttl");
      return true;
    }
    return false;
  }

  #mayRenew(hold: Hold, nowMs: number): boolean {
    if (hold.spec.renew !== true || nowMs >= hold.endAtMs) return false;
    if (hold.askedAtMs + hold.ttlMs / 3 > nowMs) return false;
    return hold.atMs <= nowMs + hold.ttlMs * RIDE_ALONG;
  }

  /** When to look at a hold again that was not, or has just been, renewed: a hung request is repeated after a third. */
  #nextLookMs(hold: Hold, nowMs: number): number {
    const endMs = hold.trustedUntilMs;
    if (hold.spec.renew !== true || nowMs >= hold.endAtMs) return endMs;
    return Math.min(endMs, Math.max(hold.atMs, nowMs + hold.ttlMs / 3));
  }

  #renewAtMs(hold: Hold, nowMs: number): number {
    const endMs = hold.trustedUntilMs;
    if (hold.spec.renew !== true) return endMs;
    const jitter = 0.9 + 0.1 * this.#chance.fraction();
    return Math.min(endMs, nowMs + (hold.ttlMs / 3) * jitter);
  }

  async #renew(batch: readonly Hold[]): Promise<void> {
    const claims: Claim[] = [];
    for (const hold of batch) claims.push(hold.claim);
    const sentAtMs = this.#clock.now();
    const wallLeadMs = this.#clock.wall() - sentAtMs;
    for (const hold of batch) hold.askedAtMs = sentAtMs;
    const answers = await this.#backend.renew(claims).catch((cause: unknown) => cause);
    const doneAtMs = this.#clock.now();
    if (!Array.isArray(answers) || answers.length !== batch.length) {
      for (const hold of batch)
        this.#settle(hold, { held: "unknown", cause: answers }, batch.length, sentAtMs, wallLeadMs);
    } else {
      const renewAtMs = this.#jitteredThird(doneAtMs);
      for (const [index, hold] of batch.entries()) {
        this.#settle(hold, answers[index] as Renewal, batch.length, sentAtMs, wallLeadMs, renewAtMs);
      }
    }
    if (renewChannel.hasSubscribers)
      renewChannel.publish(summary(this.#backend.name, batch, answers, doneAtMs - sentAtMs));
  }

  /** One jitter for a whole batch, so that it stays together. */
  #jitteredThird(nowMs: number): (hold: Hold) => number {
    const jitter = 0.9 + 0.1 * this.#chance.fraction();
    return (hold) => Math.min(hold.trustedUntilMs, nowMs + (hold.ttlMs / 3) * jitter);
  }

  #settle(
    hold: Hold,
    renewal: Renewal,
    batchSize: number,
    sentAtMs: number,
    wallLeadMs: number,
    renewAtMs: (hold: Hold) => number = (h) => this.#renewAtMs(h, this.#clock.now()),
  ): void {
    hold.askedAtMs = -Infinity;
    // Released or lost while the answer was on its way: a lease ends once.
    if (hold.state !== "held" || hold.place < 0) return;
    const nowMs = this.#clock.now();
    // Only a trusted lease can be prolonged. A yes that comes after the instant must not revive it.
    if (nowMs >= hold.trustedUntilMs) return this.#drop(hold, whyEnded(hold, nowMs));
    if (renewal.held === true) {
      hold.confirm(renewal.fromMs ?? sentAtMs, sentAtMs, wallLeadMs);
      hold.failures = 0;
      hold.batchMax = Infinity;
      this.#alarm.set(hold, renewAtMs(hold));
      return;
    }
    if (renewal.held === false) return this.#drop(hold, renewal.reason);
    hold.failures++;
    // A whole batch that failed is halved, so that one claim the store chokes on cannot take the others with it.
    hold.batchMax = Math.max(1, Math.ceil(batchSize / 2));
    const pauseMs = Math.max(RETRY_MIN_MS, (hold.trustedUntilMs - nowMs) / 8) * (0.5 + 0.5 * this.#chance.fraction());
    this.#alarm.set(hold, Math.min(hold.trustedUntilMs, nowMs + pauseMs));
  }

  #drop(hold: Hold, reason: string): void {
    this.#alarm.clear(hold);
    this.#lose(hold, reason);
  }
}

const NONE = { ttlMs: 0 };

function whyEnded(hold: Hold, nowMs: number): string {
  if (nowMs >= hold.endAtMs) return "it was held for its maxHold";
  if (hold.spec.renew === false) return "its ttl passed and it is not renewed";
  if (hold.failures > 0) return `its ttl passed while the store did not confirm it (${hold.failures} renewals failed)`;
  const lateMs = Math.round(nowMs - hold.trustedUntilMs);
  return `its ttl passed before it could be renewed (noticed ${lateMs} ms late: the event loop was blocked, or the process paused)`;
}

/** Cuts the due holds into calls: all in one, unless a batch of theirs failed before. */
function batches(due: readonly Hold[]): Hold[][] {
  const result: Hold[][] = [];
  let current: Hold[] = [];
  let max = Infinity;
  for (const hold of due) {
    if (current.length >= Math.min(max, hold.batchMax)) {
      result.push(current);
      current = [];
      max = Infinity;
    }
    current.push(hold);
    max = Math.min(max, hold.batchMax);
  }
  if (current.length > 0) result.push(current);
  return result;
}

function summary(backend: string, batch: readonly Hold[], answers: unknown, tookMs: number): object {
  const counts = { renewed: 0, gone: 0, unknown: 0 };
  for (const index of batch.keys()) {
    const held = Array.isArray(answers) ? (answers as Renewal[])[index]?.held : "unknown";
    if (held === true) counts.renewed++;
    else if (held === false) counts.gone++;
    else counts.unknown++;
  }
  return { backend, asked: batch.length, ...counts, tookMs };
}
