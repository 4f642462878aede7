/**
 * The keeper (others say watchdog): renews every hold of this process from one timer, in batches, and ends those that
 * can no longer be trusted. A hold is renewed after a third of its ttl and asked for again until its instant passes.
 *
 * To end a hold calls the user's abort listeners, which may release, acquire or close anything. So each step first decides,
 * then puts everything back in its place, and only then ends what has to end; what is asked for afterwards is looked at anew.
 */
import { Alarm, type Bell } from "./alarm.ts";
import { readRenewal } from "./answer.ts";
import type { Backend, Renewal } from "./backend.ts";
import type { Chance } from "./chance.ts";
import type { Clock } from "./clock.ts";
import { Cohort } from "./cohort.ts";
import { renewChannel } from "./events.ts";
import { departure, type Hold } from "./hold.ts";

/** Cohorts due within this part of their ttl ride along: so that leases taken at random moments end up in few batches. */
const RIDE_ALONG = 1 / 10;
/** A new hold joins the youngest cohort for this part of its ttl; it is renewed that much early, once. */
const JOIN = 1 / 30;
const RETRY_MIN_MS = 10;
/** How often holds that are not renewed are looked at: a machine that slept shows only by its wall clock. */
const SLEEP_LOOK_MS = 1000;
/** A timer that is this late is worth a word: the loop was blocked. */
const LATE_MS = 100;

/** A hold that cannot be trusted any more. */
interface Ended {
  readonly hold: Hold;
  readonly reason: string;
}

export class Keeper {
  readonly #backend: Backend;
  readonly #clock: Clock;
  readonly #chance: Chance;
  /** Every cohort that has holds, and every hold that is not renewed from here. */
  readonly #alarm: Alarm<Bell>;
  /** Per ttl, the cohort that new holds join. */
  readonly #youngest: Map<number, { readonly cohort: Cohort; readonly untilMs: number }> = new Map();
  #stopped = false;

  constructor(backend: Backend, clock: Clock, chance: Chance) {
    this.#backend = backend;
    this.#clock = clock;
    this.#chance = chance;
    this.#alarm = new Alarm<Bell>(clock, false, (nowMs) => this.#sweep(nowMs));
  }

  keep(hold: Hold): void {
    // What is not renewed from here has only its end to be watched.
    if (hold.spec.renew !== true) return this.#watchEnd(hold, hold.grantedAtMs);
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
    const { cohort } = hold;
    if (cohort === undefined) return this.#alarm.clear(hold);
    cohort.remove(hold);
    // An empty cohort stays until its time, so that a lock that is taken again and again costs no new one each time.
    return undefined;
  }

  /** Renews everything now. What was asked before may never be answered, as after a reconnect. */
  doubt(): void {
    const nowMs = this.#clock.now();
    for (const bell of this.#alarm.all()) {
      if (!(bell instanceof Cohort)) continue;
      bell.renewAtMs = nowMs;
      bell.askedAtMs = -Infinity;
      this.#alarm.set(bell, nowMs);
    }
  }

  /** Renews one hold now. `afresh`: an answer that is on its way may be older than the doubt. */
  confirm(hold: Hold, afresh: boolean): void {
    const { cohort } = hold;
    if (cohort === undefined) return;
    const nowMs = this.#clock.now();
    // It is being asked for, or will be soon: somebody who looks again and again does not make it more often.
    if (!afresh && (cohort.isAsking(nowMs) || cohort.failures > 0 || cohort.renewAtMs <= nowMs)) return;
    cohort.remove(hold);
    this.#put([hold], 0, nowMs);
  }

  stop(): void {
    this.#stopped = true;
    this.#alarm.stop();
  }

  #watchEnd(hold: Hold, nowMs: number): void {
    const { trustedUntilMs } = hold;
    const lookMs = hold.spec.renew === false ? nowMs + SLEEP_LOOK_MS : Infinity;
    this.#alarm.set(hold, Math.min(trustedUntilMs, lookMs));
  }

  #sweep(nowMs: number): void {
    const due: Cohort[] = [];
    const others: Hold[] = [];
    const ended: Ended[] = [];
    let slackMs = 0;
    for (let bell = this.#alarm.take(nowMs); bell !== undefined; bell = this.#alarm.take(nowMs + slackMs)) {
      if (bell instanceof Cohort) {
        due.push(bell);
        slackMs = Math.max(slackMs, bell.ttlMs * RIDE_ALONG);
      } else others.push(bell as Hold);
    }
    for (const hold of others) {
      if (hold.trusted(nowMs)) this.#watchEnd(hold, nowMs);
      else ended.push({ hold, reason: whyEnded(hold, nowMs, 0) });
    }
    for (const cohort of due) {
      if (nowMs >= cohort.firstEndMs) this.#findEnded(cohort, nowMs, ended);
      this.#setBell(cohort);
    }
    lose(ended);
    if (!this.#stopped) this.#ask(due, nowMs);
  }

  #findEnded(cohort: Cohort, nowMs: number, ended: Ended[]): void {
    for (const hold of cohort.holds) {
      if (!hold.trusted(nowMs)) ended.push({ hold, reason: whyEnded(hold, nowMs, cohort.failures) });
    }
  }

  /** Decides which of those that are due are asked for, in which calls: the healthy in one, those in trouble each on their own. */
  #ask(due: readonly Cohort[], nowMs: number): void {
    const healthy = new Map<number, Cohort>();
    const alone: Cohort[][] = [];
    for (const cohort of due) {
      if (cohort.holds.length === 0 || cohort.isAsking(nowMs) || nowMs + cohort.ttlMs * RIDE_ALONG < cohort.renewAtMs)
        continue;
      const other = healthy.get(cohort.ttlMs);
      if (cohort.failures > 0) alone.push([cohort]);
      else if (other === undefined) healthy.set(cohort.ttlMs, cohort);
      else {
        other.merge(cohort);
        this.#setBell(cohort);
      }
    }
    const calls = healthy.size > 0 ? [[...healthy.values()], ...alone] : alone;
    for (const cohorts of calls) {
      for (const cohort of cohorts) {
        cohort.askedAtMs = nowMs;
        this.#setBell(cohort);
      }
    }
    for (const cohorts of calls) void this.#renew(cohorts);
  }

  #setBell(cohort: Cohort): void {
    if (cohort.holds.length === 0) {
      this.#alarm.clear(cohort);
      if (this.#youngest.get(cohort.ttlMs)?.cohort === cohort) this.#youngest.delete(cohort.ttlMs);
      return;
    }
    const nextMs = cohort.askedAtMs > -Infinity ? cohort.askedAtMs + cohort.ttlMs / 3 : cohort.renewAtMs;
    if (cohort.firstEndMs < nextMs) cohort.findFirstEnd();
    this.#alarm.set(cohort, Math.min(nextMs, cohort.firstEndMs));
  }

  async #renew(cohorts: readonly Cohort[]): Promise<void> {
    // Copies of the right size from the start: lists that grow to thousands leave as much behind for the garbage collector.
    const holds = cohorts.length === 1 ? cohorts[0]!.holds.slice() : cohorts.flatMap((cohort) => cohort.holds);
    const claims = holds.map((hold) => hold.claim);
    const sent = departure(this.#clock);
    // While trust is whole the store cannot have let go. After a sleep it may have, and a yes must be about the same lease.
    const fences = holds.some((hold) => hold.inDoubt(sent.atMs)) ? holds.map((hold) => hold.firstFence) : undefined;
    let answers: readonly Renewal[] | undefined;
    try {
      const renewals = await this.#backend.renew(claims, fences);
      // What does not answer each claim is no answer.
      if (Array.isArray(renewals) && renewals.length === holds.length) answers = renewals;
    } catch {
      // Unknown is neither yes nor no: asked again below, until the instant passes.
    }
    if (this.#stopped) return;
    const nowMs = this.#clock.now();
    const ended: Ended[] = [];
    const unknown: Hold[] = [];
    let [renewed, gone] = [0, 0];
    for (let index = 0; index < holds.length; index++) {
      const hold = holds[index]!;
      const said = readRenewal(answers, index, sent.atMs, nowMs);
      if (typeof said === "number") renewed++;
      else if (said !== undefined) gone++;
      // Released or lost while the answer was on its way: a lease ends once.
      if (hold.state !== "held" || hold.cohort === undefined) continue;
      // Only a trusted lease can be prolonged. A yes that comes after the instant must not revive it.
      if (!hold.trusted(nowMs)) ended.push({ hold, reason: whyEnded(hold, nowMs, hold.cohort.failures) });
      else if (typeof said === "number") hold.confirm(said, sent);
      else if (said === undefined) unknown.push(hold);
      else ended.push({ hold, reason: said.gone });
    }
    this.#settle(cohorts, unknown, nowMs, answers === undefined);
    lose(ended);
    if (!renewChannel.hasSubscribers) return;
    const asked = holds.length;
    const tookMs = nowMs - sent.atMs;
    renewChannel.publish({
      backend: this.#backend.name,
      asked,
      renewed,
      gone,
      unknown: asked - renewed - gone,
      tookMs,
    });
  }

  #settle(cohorts: readonly Cohort[], unknown: readonly Hold[], nowMs: number, allFailed: boolean): void {
    const failures = 1 + Math.max(...cohorts.map((cohort) => cohort.failures));
    for (const hold of unknown) hold.cohort!.remove(hold);
    for (const cohort of cohorts) {
      cohort.askedAtMs = -Infinity;
      cohort.failures = 0;
      cohort.renewAtMs = nowMs + this.#thirdMs(cohort.ttlMs);
      this.#setBell(cohort);
    }
    // A call that failed as a whole is halved, so that one claim the store chokes on cannot take the others with it.
    const half = allFailed ? Math.ceil(unknown.length / 2) : unknown.length;
    this.#put(unknown.slice(0, half), failures, nowMs);
    this.#put(unknown.slice(half), failures, nowMs);
  }

  /** Puts holds into cohorts of their own: to be asked for at once, or, after failures, in a while. */
  #put(holds: readonly Hold[], failures: number, nowMs: number): void {
    const perTtl = new Map<number, Cohort>();
    for (const hold of holds) {
      let cohort = perTtl.get(hold.ttlMs);
      if (cohort === undefined) {
        const leftMs = hold.trustedUntilMs - nowMs;
        const pauseMs = Math.max(RETRY_MIN_MS, leftMs / 8) * (0.5 + 0.5 * this.#chance.fraction());
        perTtl.set(hold.ttlMs, (cohort = new Cohort(hold.ttlMs, failures === 0 ? nowMs : nowMs + pauseMs)));
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
}

/** Ends holds, one after the other. The listeners of one may have ended the next. */
function lose(ended: readonly Ended[]): void {
  for (const { hold, reason } of ended) hold.home.lose(hold, reason);
}

function whyEnded(hold: Hold, nowMs: number, failures: number): string {
  if (nowMs >= hold.endAtMs) return "it was held for its maxHold";
  if (nowMs < hold.trustedUntilMs) return "the machine slept past the end of its ttl";
  if (hold.spec.renew === false) return "its ttl passed and it is not renewed";
  if (failures > 0) return `its ttl passed while the store did not confirm it (${failures} renewals failed)`;
  const lateMs = Math.round(nowMs - hold.trustedUntilMs);
  const late = lateMs < LATE_MS ? "" : `noticed ${lateMs} ms late: `;
  return `its ttl passed before it could be renewed (${late}the event loop was blocked, the process paused, or the store hung)`;
}
