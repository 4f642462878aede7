/**
 * The watchdog: renews every hold of this process from one timer, in batches, and ends those that
 * can no longer be trusted. A hold is renewed after a third of its ttl. Without an answer, that is retried for
 * as long as the lease can be trusted.
 *
 * To end a hold calls the user's abort listeners, which may release, acquire or close anything. So each step first decides,
 * then puts everything back in its place, and only then ends what has to end; what is asked for afterwards is looked at anew.
 */
import { Deadlines, type Deadline } from "../contract/deadlines.ts";
import { driftMs, readCause, readRenewal } from "../contract/answer.ts";
import type { Backend, Renewal } from "../contract/backend.ts";
import { type Chance, jitter } from "../contract/random.ts";
import type { Clock, SleepDetector } from "../contract/clock.ts";
import type { Runtime } from "./release-until.ts";
import type { RenewThread } from "./renew-thread.ts";
import { RenewalGroup } from "./renewal-group.ts";
import { publishRenewed, silentAmong } from "./hold-events.ts";
import type { Hold } from "./hold.ts";
import { type Ended, lose, whyEnded, troubled } from "./report-lost.ts";

/** Groups due within this part of their ttl are renewed along with others, so leases taken at random moments end up in few batches. */
const RIDE_ALONG = 1 / 10;
/** A new hold joins the youngest group for this part of its ttl; it is renewed that much early, once. */
const JOIN = 1 / 30;
const RETRY_MIN_MS = 10;
/** How often holds that are not renewed are looked at: a machine that slept shows only by its wall clock. */
const SLEEP_LOOK_MS = 1000;

export class Watchdog {
  readonly #backend: Backend;
  readonly #clock: Clock;
  readonly #chance: Chance;
  readonly #sleep: SleepDetector;
  /** Every group that has holds, and every hold that is not renewed from here. */
  readonly #deadlines: Deadlines<Deadline>;
  /** Per ttl, the group that new holds join. */
  readonly #youngest: Map<number, { readonly group: RenewalGroup; readonly untilMs: number }> = new Map();
  /** Holds by claim id. Only news of a single claim asks for it, so that there is none before the first. */
  #byId: Map<string, Hold> | undefined;
  #thread: RenewThread | undefined;
  /** All that wait here. Mostly there are none, and thousands of holds need not be asked who waits behind them. */
  readonly #requests: { readonly size: number };
  #stopped = false;

  constructor({ backend, clock, chance, sleep }: Runtime, requests: { readonly size: number }) {
    this.#requests = requests;
    this.#backend = backend;
    this.#clock = clock;
    this.#chance = chance;
    this.#sleep = sleep;
    this.#deadlines = new Deadlines<Deadline>(clock, false, (nowMs) => this.#sweep(nowMs));
  }

  /** A hold begins, which may be trusted until then. */
  keep(hold: Hold, trustedUntilMs: number, nowMs: number = hold.grantedAtMs): void {
    this.#byId?.set(hold.claim.id, hold);
    const { ttlMs } = hold;
    if (hold.options.renew === "thread") this.#thread!.keep(hold);
    // What is not renewed from here has only its end to be watched.
    if (hold.options.renew !== true) return this.#watchEnd(hold, nowMs);
    // A lease that was handed over has used up some of its trust: renewed no later than half-way to its end.
    const latestMs = nowMs + (trustedUntilMs - nowMs) / 2;
    const youngest = this.#youngest.get(ttlMs);
    if (youngest !== undefined && nowMs < youngest.untilMs && youngest.group.isDueBy(latestMs))
      return youngest.group.add(hold, trustedUntilMs);
    const dueMs = nowMs + this.#thirdMs(ttlMs);
    const group = new RenewalGroup(ttlMs, Math.min(dueMs, latestMs));
    group.add(hold, trustedUntilMs);
    if (dueMs <= latestMs) this.#youngest.set(hold.ttlMs, { group, untilMs: nowMs + hold.ttlMs * JOIN });
    return this.#deadlines.set(group, group.renewAtMs);
  }

  /** It has been renewed from elsewhere just now, perhaps for another ttl. */
  keepAnew(hold: Hold): void {
    hold.trouble = undefined;
    hold.group?.remove(hold);
    this.keep(hold, hold.trustedUntilMs, this.#clock.now());
  }

  /** From this moment on nothing renews the hold, not even an answer that is on its way. */
  drop(hold: Hold): void {
    this.#byId?.delete(hold.claim.id);
    if (hold.options.renew === "thread") this.#thread?.drop(hold);
    if (hold.group === undefined) this.#deadlines.clear(hold);
    // An empty group stays until its time, so that a lock that is taken repeatedly costs no new one each time.
    else hold.group.remove(hold);
  }

  /** Every hold. The heap is the only place where they are kept: each is in it, or in a group that is. */
  get all(): readonly Hold[] {
    return this.#deadlines.all().flatMap((entry) => (entry instanceof RenewalGroup ? entry.holds : (entry as Hold)));
  }

  /** The hold of a claim. */
  find(claimId: string): Hold | undefined {
    this.#byId ??= new Map(this.all.map((hold) => [hold.claim.id, hold]));
    return this.#byId.get(claimId);
  }

  /** From now on, what is to be renewed from a thread is renewed from this one. */
  useThread(thread: RenewThread): void {
    this.#thread = thread;
  }

  /** Renews everything now. What was asked before may never be answered, as after a reconnect. */
  doubt(): void {
    const nowMs = this.#clock.now();
    for (const entry of this.#deadlines.all()) {
      if (!(entry instanceof RenewalGroup)) {
        this.confirm(entry as Hold, true);
        continue;
      }
      entry.renewAtMs = nowMs;
      entry.dueMs = Math.min(entry.dueMs, nowMs);
      entry.askedAtMs = -Infinity;
      this.#deadlines.set(entry, nowMs);
    }
  }

  /** Renews one hold now. `afresh`: an answer that is on its way may be older than the doubt. */
  confirm(hold: Hold, afresh = false): void {
    if (hold.options.renew === "thread") return this.#thread?.renewNow(hold, afresh);
    const { group } = hold;
    if (group === undefined) return;
    const nowMs = this.#clock.now();
    // It is being asked for, or will be soon: a caller that looks often does not make it more often.
    if (!afresh && (group.isAsking(nowMs) || group.inTrouble || group.renewAtMs <= nowMs)) return;
    group.remove(hold);
    return this.#put([hold], false, nowMs);
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#deadlines.stop();
    await this.#thread?.close();
  }

  #watchEnd(hold: Hold, nowMs: number): void {
    const lookMs = hold.options.renew === false ? nowMs + SLEEP_LOOK_MS : Infinity;
    // A renewal that the thread has asked for may leave less time than there is now.
    const leastMs = hold.isShortened ? nowMs + hold.ttlMs - driftMs(hold.ttlMs) : Infinity;
    this.#deadlines.set(hold, Math.min(hold.trustedUntilMs, lookMs, leastMs));
  }

  #sweep(nowMs: number): void {
    const due: RenewalGroup[] = [];
    const others: Hold[] = [];
    const ended: Ended[] = [];
    let slackMs = 0;
    for (let entry = this.#deadlines.take(nowMs); entry !== undefined; entry = this.#deadlines.take(nowMs + slackMs)) {
      if (entry instanceof RenewalGroup) {
        due.push(entry);
        slackMs = Math.max(slackMs, entry.ttlMs * RIDE_ALONG);
      } else others.push(entry as Hold);
    }
    for (const hold of others) {
      if (hold.trusted(nowMs)) this.#watchEnd(hold, nowMs);
      else ended.push({ hold, loss: whyEnded(hold, nowMs) });
    }
    for (const group of due) {
      if (nowMs >= group.firstEndMs) this.#findEnded(group, nowMs, ended);
      this.#setDeadline(group);
    }
    lose(ended);
    if (!this.#stopped) this.#ask(due, nowMs);
  }

  #findEnded(group: RenewalGroup, nowMs: number, ended: Ended[]): void {
    for (const hold of group.holds) if (!hold.trusted(nowMs)) ended.push({ hold, loss: whyEnded(hold, nowMs) });
  }

  /** Decides which of those that are due are asked for, in which calls: the healthy in one, those in trouble each on their own. */
  #ask(due: readonly RenewalGroup[], nowMs: number): void {
    const tellSilent = silentAmong(due, this.#backend.name, nowMs);
    const healthy = new Map<number, RenewalGroup>();
    const alone: RenewalGroup[][] = [];
    for (const group of due) {
      if (group.holds.length === 0 || group.isAsking(nowMs) || nowMs + group.ttlMs * RIDE_ALONG < group.renewAtMs)
        continue;
      const other = healthy.get(group.ttlMs);
      if (group.inTrouble) alone.push([group]);
      else if (other === undefined) healthy.set(group.ttlMs, group);
      else {
        other.merge(group);
        this.#setDeadline(group);
      }
    }
    const calls = healthy.size > 0 ? [[...healthy.values()], ...alone] : alone;
    for (const group of calls.flat()) {
      group.askedAtMs = nowMs;
      this.#setDeadline(group);
    }
    for (const groups of calls) void this.#renew(groups);
    tellSilent();
  }

  #setDeadline(group: RenewalGroup): void {
    if (group.holds.length === 0) {
      this.#deadlines.clear(group);
      if (this.#youngest.get(group.ttlMs)?.group === group) this.#youngest.delete(group.ttlMs);
      return;
    }
    const nextMs = group.askedAtMs > -Infinity ? group.askedAtMs + group.ttlMs / 3 : group.renewAtMs;
    if (group.firstEndMs < nextMs) group.findFirstEnd();
    this.#deadlines.set(group, Math.min(nextMs, group.firstEndMs));
  }

  /** It may have less time than before, also in another group than that which was asked for. */
  #noteEnd(hold: Hold): void {
    const group = hold.group as RenewalGroup;
    group.noteEnd(hold.trustedUntilMs);
    this.#setDeadline(group);
  }

  async #renew(groups: readonly RenewalGroup[]): Promise<void> {
    // Copies of the right size from the start: lists that grow to thousands leave as much behind for the garbage collector.
    const holds = groups.length === 1 ? groups[0]!.holds.slice() : groups.flatMap((group) => group.holds);
    const claims = holds.map((hold) => hold.toRenew(this.#requests.size > 0));
    const sent = this.#sleep.sentNow();
    const fences = holds.some((hold) => hold.mayDiffer(sent.period)) ? holds.map((hold) => hold.firstFence) : undefined;
    let answers: readonly Renewal[] | undefined;
    let failed: unknown;
    try {
      const renewals = await this.#backend.renew(claims, fences);
      // An answer that does not cover each claim is invalid.
      if (Array.isArray(renewals) && renewals.length === holds.length) answers = renewals;
    } catch (error) {
      // Unknown is neither yes nor no: asked again below, until the instant passes.
      failed = error;
    }
    if (this.#stopped) return;
    const nowMs = this.#clock.now();
    const [ended, unknown]: [Ended[], Hold[]] = [[], []];
    let [renewed, gone] = [0, 0];
    for (let index = 0; index < holds.length; index++) {
      const hold = holds[index]!;
      const read = readRenewal(answers, index, sent.atMs, nowMs);
      const said = typeof read === "object" && "wantedFromMs" in read ? read.wantedFromMs : read;
      if (typeof said === "number") renewed++;
      else if (said !== undefined) gone++;
      // Released or lost while the answer was on its way: a lease ends once.
      if (hold.state !== "held" || hold.group === undefined) continue;
      // Only a trusted lease can be prolonged. A yes that comes after the instant must not revive it.
      if (!hold.trusted(nowMs)) ended.push({ hold, loss: whyEnded(hold, nowMs) });
      else if (typeof said === "number") {
        hold.trouble = undefined;
        hold.confirm(claims[index]!, said, sent);
        if (hold.isShortened) this.#noteEnd(hold);
        if (claims[index]!.changed === true) hold.shown(claims[index]!);
        hold.hearAnswer(read !== said, sent.atMs);
      } else if (said === undefined) unknown.push(troubled(hold, failed ?? readCause(answers, index)));
      else ended.push({ hold, loss: said.gone });
    }
    // Who is wanted may have been given back, and a backend may report anything then: a loss ends what was kept here, too.
    const kept = unknown.filter(({ state }) => state === "held");
    const dueMs = this.#settle(groups, kept, nowMs, answers === undefined);
    lose(ended);
    const counts = { asked: holds.length, renewed, gone, unknown: holds.length - renewed - gone };
    publishRenewed(this.#backend.name, counts, nowMs - sent.atMs, nowMs - dueMs, groups);
  }

  /** Returns when what was asked for was due. */
  #settle(groups: readonly RenewalGroup[], unknown: readonly Hold[], nowMs: number, allFailed: boolean): number {
    const dueMs = Math.min(...groups.map((group) => group.dueMs));
    for (const hold of unknown) hold.group!.remove(hold);
    for (const group of groups) {
      group.askedAtMs = -Infinity;
      group.inTrouble = false;
      group.dueMs = group.renewAtMs = nowMs + this.#thirdMs(group.ttlMs);
      this.#setDeadline(group);
    }
    // A call that failed as a whole is halved, so that one claim the store chokes on cannot take the others with it.
    const half = allFailed ? Math.ceil(unknown.length / 2) : unknown.length;
    this.#put(unknown.slice(0, half), true, nowMs, dueMs);
    this.#put(unknown.slice(half), true, nowMs, dueMs);
    return dueMs;
  }

  /** Puts holds into groups of their own: to be asked for at once, or, after a failure, in a while. */
  #put(holds: readonly Hold[], inTrouble: boolean, nowMs: number, dueMs = nowMs): void {
    const perTtl = new Map<number, RenewalGroup>();
    for (const hold of holds) {
      let group = perTtl.get(hold.ttlMs);
      if (group === undefined) {
        const leftMs = hold.trustedUntilMs - nowMs;
        const pauseMs = jitter(Math.max(RETRY_MIN_MS, leftMs / 8), 0.5, 1, this.#chance);
        perTtl.set(hold.ttlMs, (group = new RenewalGroup(hold.ttlMs, inTrouble ? nowMs + pauseMs : nowMs)));
        group.inTrouble = inTrouble;
        group.dueMs = dueMs;
      }
      group.add(hold, hold.trustedUntilMs);
    }
    for (const group of perTtl.values()) this.#setDeadline(group);
  }

  /** A third of the ttl, jittered, so that processes started together do not renew together for ever. */
  #thirdMs(ttlMs: number): number {
    return jitter(ttlMs / 3, 0.9, 1, this.#chance);
  }
}
