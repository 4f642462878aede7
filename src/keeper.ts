/**
 * The keeper (others say watchdog): renews every hold of this process from one timer, in batches, and ends those that
 * can no longer be trusted. A hold is renewed after a third of its ttl and asked for again until its instant passes.
 */
import { Alarm, type Bell } from "./alarm.ts";
import type { Backend, Renewal } from "./backend.ts";
import type { Chance } from "./chance.ts";
import type { Clock } from "./clock.ts";
import { Cohort } from "./cohort.ts";
import { renewChannel } from "./events.ts";
import type { Hold } from "./hold.ts";

/** Cohorts due within this part of their ttl ride along: so that leases taken at random moments end up in few batches. */
const RIDE_ALONG = 1 / 10;
/** A new hold joins the youngest cohort for this part of its ttl; it is renewed that much early, once. */
const JOIN = 1 / 30;
const RETRY_MIN_MS = 10;

export class Keeper {
  readonly #backend: Backend;
  readonly #clock: Clock;
  readonly #chance: Chance;
  readonly #lose: (hold: Hold, reason: string) => void;
  readonly #alarm: Alarm<Bell>;
  /** Per ttl, the cohort that new holds join. */
  readonly #youngest: Map<number, { readonly cohort: Cohort; readonly untilMs: number }> = new Map();

  constructor(backend: Backend, clock: Clock, chance: Chance, lose: (hold: Hold, reason: string) => void) {
    this.#backend = backend;
    this.#clock = clock;
    this.#chance = chance;
    this.#lose = lose;
    this.#alarm = new Alarm<Bell>(clock, false, (nowMs) => this.#sweep(nowMs));
  }

  keep(hold: Hold): void {
    // What is not renewed from here has only its end to be watched.
    if (hold.spec.renew !== true) return this.#alarm.set(hold, hold.trustedUntilMs);
    const nowMs = hold.grantedAtMs;
    // A lease that was handed over has used up some of its trust: renewed no later than half-way to its end.
    const latestMs = nowMs + (hold.trustedUntilMs - nowMs) / 2;
    const youngest = this.#youngest.get(hold.ttlMs);
    if (youngest !== undefined && nowMs < youngest.untilMs && youngest.cohort.place >= 0) {
      if (youngest.cohort.renewAtMs <= latestMs) return youngest.cohort.add(hold);
    }
    const dueMs = nowMs + this.#thirdMs(hold.ttlMs);
    const cohort = new Cohort(hold.ttlMs, Math.min(dueMs, latestMs));
    cohort.add(hold);
    if (dueMs <= latestMs) this.#youngest.set(hold.ttlMs, { cohort, untilMs: nowMs + hold.ttlMs * JOIN });
    return this.#alarm.set(cohort, cohort.renewAtMs);
  }

  /** From this moment on nothing renews the hold, not even an answer that is on its way. */
  drop(hold: Hold): void {
    this.#alarm.clear(hold);
    hold.cohort?.remove(hold);
    hold.cohort = undefined;
  }

  /** Renews everything now. `afresh`: what was asked before may never be answered, as after a reconnect. */
  doubt(afresh: boolean): void {
    const nowMs = this.#clock.now();
    for (const bell of this.#alarm.all()) {
      if (!(bell instanceof Cohort) || (!afresh && bell.isAsking(nowMs))) continue;
      bell.renewAtMs = nowMs;
      bell.askedAtMs = -Infinity;
      this.#alarm.set(bell, nowMs);
    }
  }

  stop(): void {
    this.#alarm.stop();
  }

  #sweep(nowMs: number): void {
    const due: Cohort[] = [];
    const ends: Hold[] = [];
    let slackMs = 0;
    for (let bell = this.#alarm.take(nowMs); bell !== undefined; bell = this.#alarm.take(nowMs + slackMs)) {
      if (bell instanceof Cohort) {
        due.push(bell);
        slackMs = Math.max(slackMs, bell.ttlMs * RIDE_ALONG);
      } else ends.push(bell as Hold);
    }
    for (const hold of ends) this.#lookAtEnd(hold, nowMs);
    const asked = this.#ask(due, nowMs);
    for (const cohort of due) this.#setBell(cohort);
    for (const cohorts of asked) void this.#renew(cohorts);
  }

  /** A hold that is not renewed from here, or only by a thread, is due to end. */
  #lookAtEnd(hold: Hold, nowMs: number): void {
    if (nowMs >= hold.trustedUntilMs) this.#lose(hold, whyEnded(hold, nowMs, 0));
    else if (hold.spec.renew === false && hold.sleptThrough(nowMs))
      this.#lose(hold, "the machine slept longer than the ttl");
    else this.#alarm.set(hold, hold.trustedUntilMs);
  }

  /** Decides who is asked for, in which calls: the healthy in one, those in trouble each on their own. */
  #ask(due: readonly Cohort[], nowMs: number): Cohort[][] {
    const healthy = new Map<number, Cohort>();
    const alone: Cohort[][] = [];
    for (const cohort of due) {
      if (nowMs >= cohort.firstEndMs) this.#loseEnded(cohort, nowMs);
      if (cohort.holds.length === 0 || cohort.isAsking(nowMs) || nowMs + cohort.ttlMs * RIDE_ALONG < cohort.renewAtMs)
        continue;
      cohort.askedAtMs = nowMs;
      const other = healthy.get(cohort.ttlMs);
      if (cohort.failures > 0) alone.push([cohort]);
      else if (other === undefined) healthy.set(cohort.ttlMs, cohort);
      else other.merge(cohort);
    }
    return healthy.size > 0 ? [[...healthy.values()], ...alone] : alone;
  }

  #loseEnded(cohort: Cohort, nowMs: number): void {
    // A copy, because losing a hold takes it out.
    for (const hold of cohort.holds.slice()) {
      if (nowMs >= hold.trustedUntilMs) this.#lose(hold, whyEnded(hold, nowMs, cohort.failures));
    }
  }

  #setBell(cohort: Cohort): void {
    if (cohort.holds.length === 0) return this.#alarm.clear(cohort);
    const nextMs = cohort.askedAtMs > -Infinity ? cohort.askedAtMs + cohort.ttlMs / 3 : cohort.renewAtMs;
    if (cohort.firstEndMs < nextMs) cohort.findFirstEnd();
    return this.#alarm.set(cohort, Math.min(nextMs, cohort.firstEndMs));
  }

  async #renew(cohorts: readonly Cohort[]): Promise<void> {
    // Copies of the right size from the start: lists that grow to thousands leave as much behind for the garbage collector.
    const holds = cohorts.length === 1 ? cohorts[0]!.holds.slice() : cohorts.flatMap((cohort) => cohort.holds);
    const claims = holds.map((hold) => hold.claim);
    const sentAtMs = this.#clock.now();
    const wallLeadMs = this.#clock.wall() - sentAtMs;
    let answers: readonly Renewal[] | undefined;
    try {
      const renewals = await this.#backend.renew(claims);
      // What does not answer each claim is no answer.
      if (Array.isArray(renewals) && renewals.length === claims.length) answers = renewals;
    } catch {
      // Unknown is neither yes nor no: asked again below, until the instant passes.
    }
    const nowMs = this.#clock.now();
    const unknown: Hold[] = [];
    for (let index = 0; index < holds.length; index++) {
      const hold = holds[index]!;
      // Released or lost while the answer was on its way: a lease ends once.
      if (hold.state !== "held" || hold.cohort === undefined) continue;
      const renewal = answers?.[index];
      // Only a trusted lease can be prolonged. A yes that comes after the instant must not revive it.
      if (nowMs >= hold.trustedUntilMs) this.#lose(hold, whyEnded(hold, nowMs, hold.cohort.failures));
      else if (renewal?.held === true) hold.confirm(renewal.fromMs ?? sentAtMs, sentAtMs, wallLeadMs);
      else if (renewal?.held === false) this.#lose(hold, renewal.reason);
      else unknown.push(hold);
    }
    this.#settle(cohorts, unknown, nowMs, answers === undefined);
    if (renewChannel.hasSubscribers) this.#publish(claims.length, answers, nowMs - sentAtMs);
  }

  #settle(cohorts: readonly Cohort[], unknown: readonly Hold[], nowMs: number, allFailed: boolean): void {
    const failures = 1 + Math.max(...cohorts.map((cohort) => cohort.failures));
    for (const hold of unknown) hold.cohort?.remove(hold);
    for (const cohort of cohorts) {
      cohort.askedAtMs = -Infinity;
      cohort.failures = 0;
      cohort.renewAtMs = nowMs + this.#thirdMs(cohort.ttlMs);
      this.#setBell(cohort);
    }
    // A call that failed as a whole is halved, so that one claim the store chokes on cannot take the others with it.
    const half = allFailed ? Math.ceil(unknown.length / 2) : unknown.length;
    this.#retry(unknown.slice(0, half), failures, nowMs);
    this.#retry(unknown.slice(half), failures, nowMs);
  }

  #retry(holds: readonly Hold[], failures: number, nowMs: number): void {
    const perTtl = new Map<number, Cohort>();
    for (const hold of holds) {
      let cohort = perTtl.get(hold.ttlMs);
      if (cohort === undefined) {
        const leftMs = hold.trustedUntilMs - nowMs;
        const pauseMs = Math.max(RETRY_MIN_MS, leftMs / 8) * (0.5 + 0.5 * this.#chance.fraction());
        perTtl.set(hold.ttlMs, (cohort = new Cohort(hold.ttlMs, nowMs + pauseMs)));
        cohort.failures = failures;
      }
      cohort.add(hold);
    }
    for (const cohort of perTtl.values()) this.#setBell(cohort);
  }

  /** A third of the ttl, jittered, so that processes started together do not renew together for ever. */
  #thirdMs(ttlMs: number): number {
    return (ttlMs / 3) * (0.9 + 0.1 * this.#chance.fraction());
  }

  #publish(asked: number, answers: readonly Renewal[] | undefined, tookMs: number): void {
    const count = (held: Renewal["held"]): number => answers?.filter((answer) => answer?.held === held).length ?? 0;
    const [renewed, gone] = [count(true), count(false)];
    renewChannel.publish({
      backend: this.#backend.name,
      asked,
      renewed,
      gone,
      unknown: asked - renewed - gone,
      tookMs,
    });
  }
}

function whyEnded(hold: Hold, nowMs: number, failures: number): string {
  if (nowMs >= hold.endAtMs) return "it was held for its maxHold";
  if (hold.spec.renew === false) return "its ttl passed and it is not renewed";
  if (failures > 0) return `its ttl passed while the store did not confirm it (${failures} renewals failed)`;
  const lateMs = Math.round(nowMs - hold.trustedUntilMs);
  return `its ttl passed before it could be renewed (noticed ${lateMs} ms late: the event loop was blocked, the process paused, or the store hung)`;
}
