/** One round: a schedule is played on a store, everything is healed, and then all must settle and nothing may be left. */
import { setTimeout as sleep } from "node:timers/promises";
import type { Snapshot } from "../../contract/backend.ts";
import { checkHistory } from "../../testing/history/check.ts";
import { type HistoryEvent } from "../../testing/history/events.ts";
import { machineMs } from "../../contract/machine-clock.ts";
import type { OwnAct } from "./actor.ts";
import type { Cast, CastTerms } from "./cast.ts";
import { spoil } from "./faults.ts";
import { type Finding, Report } from "./report.ts";
import { type Act, type Schedule, scheduleOf, type Step } from "./schedule.ts";
import type { DrivenStore } from "./store.ts";

/** What a store may still have after all have left, because a request came late, is gone after its ttl and this. */
const LEFT_SLACK_MS = 15_000;
/** A force is done at some instant after it was called; its victim may believe for the rest of its ttl. */
const FORCE_LATE_MS = 3000;

export interface RoundResult {
  readonly seed: number;
  readonly findings: readonly Finding[];
  readonly counts: ReadonlyMap<string, number>;
  readonly steps: number;
  readonly faults: number;
}

/** Says who plays. */
export type CastMaker = (store: DrivenStore, report: Report, terms: CastTerms) => Promise<Cast>;

export async function playRound(store: DrivenStore, seed: number, makeCast: CastMaker): Promise<RoundResult> {
  const round = new Round(store, scheduleOf(seed, store.possible));
  return round.play(makeCast);
}

class Round {
  readonly #store: DrivenStore;
  readonly #schedule: Schedule;
  readonly #prefix: string;
  readonly #report = new Report();
  readonly #mends: Map<NodeJS.Timeout, () => void> = new Map();
  /** By server or client: what is being done to one is over before the next begins. */
  readonly #strikes: Map<string, Promise<void>> = new Map();
  #faults = 0;
  /** A server that was away may carry out what it was asked before, after what it was asked later. */
  #serverStruck = false;
  #cast: Cast | undefined;

  constructor(store: DrivenStore, schedule: Schedule) {
    this.#store = store;
    this.#schedule = schedule;
    this.#prefix = `drive:${schedule.seed}:${Date.now().toString(36)}:`;
  }

  async play(makeCast: CastMaker): Promise<RoundResult> {
    const { run, darkEnd, steps, seed } = this.#schedule;
    const closed = (...args: Parameters<CastTerms["closed"]>): Promise<void> => this.#closed(...args);
    const cast = await makeCast(this.#store, this.#report, { prefix: this.#prefix, run, closed });
    this.#cast = cast;
    try {
      await this.#perform(cast);
      if (darkEnd) await cast.settled();
      await this.#mend(cast);
      await cast.settled();
      await cast.finish();
      await this.#untilEmpty();
    } finally {
      await this.#mend(cast);
      await cast.stop();
    }
    this.#judge();
    const { findings, counts } = this.#report;
    return { seed, findings, counts, steps: steps.length, faults: this.#faults };
  }

  async #perform(cast: Cast): Promise<void> {
    const startMs = machineMs();
    for (const step of this.#schedule.steps) {
      const waitMs = startMs + step.atMs - machineMs();
      if (waitMs > 1) await sleep(waitMs);
      this.#step(cast, step);
    }
  }

  #step(cast: Cast, { n, client, act }: Step): void {
    if (isOwn(act)) return cast.perform(client, n, act);
    if (act.do === "server") {
      this.#fault(`server: ${act.what}`);
      this.#serverStruck = true;
      return this.#strike(`server ${act.server}`, () => this.#store.strike(act.what, act.server, act.forMs));
    }
    if (act.do === "process") {
      this.#fault(`process: ${act.what}`);
      return this.#strike(`client ${client}`, async () => cast.process?.(client, act.what, act.forMs));
    }
    this.#fault(act.do);
    const proxies = cast.clients[client]?.proxies ?? [];
    const hit = act.server === undefined ? proxies : proxies.slice(act.server, act.server + 1);
    spoil(hit, act, (ms, mend) => this.#later(ms, mend));
  }

  #strike(whom: string, strike: () => Promise<void>): void {
    this.#strikes.set(whom, (this.#strikes.get(whom) ?? Promise.resolve()).then(strike));
  }

  #fault(kind: string): void {
    this.#faults++;
    this.#report.count(`fault: ${kind}`);
  }

  #later(ms: number, mend: () => void): void {
    const timer = setTimeout(() => {
      this.#mends.delete(timer);
      // In a round that ends in the dark nothing comes back in time.
      if (!this.#isDark(ms)) mend();
    }, ms);
    this.#mends.set(timer, mend);
  }

  #isDark(ms: number): boolean {
    return this.#schedule.darkEnd && ms > this.#schedule.ttlMs;
  }

  async #mend(cast: Cast): Promise<void> {
    for (const timer of this.#mends.keys()) clearTimeout(timer);
    this.#mends.clear();
    await Promise.all(this.#strikes.values());
    this.#strikes.clear();
    await Promise.all(cast.clients.flatMap(({ proxies }) => proxies.map((proxy) => proxy.heal())));
    await this.#store.calm();
  }

  /** close() resolved: nothing of that holder may be left now. Where requests may come late, it may be left until its ttl is over. */
  async #closed(client: number, holder: string, step: number, clean: boolean): Promise<void> {
    const late = (this.#cast?.clients[client]?.proxies ?? []).some(({ outlived, holding }) => outlived + holding > 0);
    if (!clean || late || this.#serverStruck) return;
    const left = (await this.#left()).filter(({ who }) => who === holder);
    if (left.length > 0)
      this.#find(step, "left after close", `close() of ${holder} left ${left.map(({ text }) => text).join(", ")}`);
  }

  async #left(): Promise<readonly { readonly who: string; readonly text: string }[]> {
    const { held, pending } = await this.#look();
    return [
      ...held.map(({ name, holder, fence }) => ({ who: holder, text: `a lease of ${holder} on ${name} (${fence})` })),
      ...pending.map(({ name, holder }) => ({ who: holder, text: `a claim of ${holder} waiting for ${name}` })),
    ];
  }

  /** Asks until there is an answer: a store that was restarted may need a moment. */
  async #look(): Promise<Snapshot> {
    const deadlineMs = machineMs() + LEFT_SLACK_MS;
    for (;;) {
      try {
        return await this.#store.look(this.#prefix);
      } catch (error) {
        if (machineMs() > deadlineMs) throw error;
        await sleep(50);
      }
    }
  }

  async #untilEmpty(): Promise<void> {
    const deadlineMs = machineMs() + this.#schedule.ttlMs + LEFT_SLACK_MS;
    for (;;) {
      const left = await this.#left();
      if (left.length === 0) break;
      if (machineMs() > deadlineMs) {
        this.#find(0, "left in the store", left.map(({ text }) => text).join(", "));
        break;
      }
      await sleep(50);
    }
    const endless = await this.#store.leaks();
    if (endless.length > 0) this.#find(0, "endless keys", endless.join(", "));
  }

  #find(step: number, rule: string, message: string): void {
    this.#report.find({ step, rule, message });
  }

  #judge(): void {
    const { events, findings } = this.#report;
    const history = events.toSorted((a, b) => a.atMs - b.atMs);
    const forces = history.filter((event) => event.kind === "dropped");
    const excused = (lock: string, atMs: number): boolean =>
      forces.some((force) => force.lock === lock && atMs >= force.atMs && atMs <= force.atMs + this.#forceMs);
    for (const { oracle, lock, atMs, message } of checkHistory(history)) {
      if (oracle === "O1 exclusion" && excused(lock, atMs)) continue;
      this.#find(stepOf(history, atMs), oracle, `${lock}: ${message}. ${storyOf(history, lock, message, atMs)}`);
    }
    const broken = new Set(forces.map(({ lock }) => lock));
    const forgotten = this.#serverStruck && this.#store.possible.mayForget === true;
    const counted = findings
      .filter(({ locks }) => locks === undefined || !locks.some((lock) => broken.has(lock)))
      .filter(({ rule }) => rule !== "lost though held" || !forgotten);
    findings.splice(0, findings.length, ...counted.toSorted((a, b) => a.step - b.step));
  }

  get #forceMs(): number {
    return 2 * this.#schedule.ttlMs + FORCE_LATE_MS;
  }
}

/** What a client does by itself; the rest is done to it. */
function isOwn(act: Act): act is OwnAct {
  return act.do === "take" || act.do === "force" || act.do === "block" || act.do === "close";
}

/** The step that the believer of that instant comes from. */
function stepOf(history: readonly HistoryEvent[], atMs: number): number {
  const event = history.find((one) => one.atMs === atMs && "who" in one);
  return event !== undefined && "who" in event ? Number(/#(\d+)/u.exec(event.who)?.[1] ?? 0) : 0;
}

/** The events of the claimants that the message names, in ms before and after it happened. */
function storyOf(history: readonly HistoryEvent[], lock: string, message: string, atMs: number): string {
  const lines = history.flatMap((event) => {
    if (!("who" in event) || event.lock !== lock || !message.includes(`${event.who} (`)) return [];
    const until = "trustedUntilMs" in event ? ` until ${((event.trustedUntilMs ?? Infinity) - atMs).toFixed(1)}` : "";
    return [`${event.who} ${event.kind} ${(event.atMs - atMs).toFixed(1)}${until}`];
  });
  return lines.join("; ");
}
