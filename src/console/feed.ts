/**
 * Looks at the store once a second while someone watches, and sends what changed to all who do. One query serves them all; a lock whose
 * page is open is inspected besides, once for all who look at it; and where locks are waited for that none holds, one of these is, because
 * only inspect() shows a quarantine.
 */
import type { Timer } from "../contract/clock.ts";
import { messageOf } from "../contract/errors.ts";
import type { Locks, LocksSnapshot } from "../core/api.ts";
import { DeadlockLooks } from "../core/deadlock-looks.ts";
import { storedSnapshot } from "../core/stored-snapshot.ts";
import { WaitSamples } from "../core/wait-samples.ts";
import { clean } from "../telemetry/clean.ts";
import { HealthChecks } from "./health.ts";
import { deadlockView, type Inspected, toPage } from "./lock-page.ts";
import type { CheckedOptions } from "./options.ts";
import { OwnEvents } from "./own-events.ts";
import { brief, type Changes, type FullRow, Rows } from "./rows.ts";
import { PAST_MS, Timeline } from "./timeline.ts";
import { toEvent, type Viewer } from "./viewers.ts";
import type { DeadlockView, Overview, Point, StoreView } from "./wire.ts";

export const EVERY_MS = 1000;
/** A store that has not answered by then is down, as far as the page is concerned. */
const ANSWER_MS = 10_000;
/** Rows in one event, so that a page is not busy for long with one. */
const ROWS_AT_ONCE = 1000;
/** How many locks are inspected at a time; more open pages take turns. */
const INSPECTED_MAX = 8;
const POINTS_MAX = 300;
const CONTENDED_MAX = 10;

export class Feed {
  readonly #locks: Locks;
  readonly #options: CheckedOptions;
  readonly #viewers: Set<Viewer> = new Set();
  readonly #rows: Rows = new Rows();
  readonly #timeline: Timeline = new Timeline();
  readonly #own: OwnEvents;
  readonly #health: HealthChecks;
  readonly #samples: WaitSamples = new WaitSamples();
  readonly #deadlockLooks: DeadlockLooks = new DeadlockLooks();
  readonly #inspected: Map<string, Inspected> = new Map();
  readonly #quarantines: Map<string, number> = new Map();
  #deadlocks: readonly DeadlockView[] = [];
  #points: Point[] = [];
  #store: StoreView = { state: "asking" };
  #forced: LocksSnapshot["forced"] = [];
  #timer: Timer;
  #stoppedMs: number | undefined;
  #asking: Promise<void> | undefined;
  #turn = 0;

  constructor(locks: Locks, options: CheckedOptions) {
    this.#locks = locks;
    this.#options = options;
    this.#own = new OwnEvents(locks, this.#timeline, () => options.clock.now());
    this.#health = new HealthChecks(options);
  }

  get viewers(): number {
    return this.#viewers.size;
  }

  find(id: string): Viewer | undefined {
    return [...this.#viewers].find((viewer) => viewer.id === id);
  }

  add(viewer: Viewer): void {
    this.#viewers.add(viewer);
    if (this.#viewers.size === 1) this.#start();
    // What is known is shown at once; what is new comes with the next look.
    if (this.#store.state === "up" && this.#timer !== undefined) void this.#sendTo([viewer], undefined);
    else viewer.send(toEvent("overview", this.#overview(undefined, this.#points)));
  }

  remove(viewer: Viewer): void {
    if (!this.#viewers.delete(viewer) || this.#viewers.size > 0) return;
    const { clock } = this.#options;
    clock.clearTimer(this.#timer);
    this.#timer = undefined;
    this.#stoppedMs = clock.now();
    this.#own.stop();
  }

  /** Another lock's page is open there now. */
  async show(viewer: Viewer, lock: string | undefined): Promise<void> {
    viewer.lock = lock;
    if (lock === undefined) return;
    const { clock } = this.#options;
    const isOld = clock.now() - (this.#inspected.get(lock)?.atMs ?? -Infinity) >= EVERY_MS;
    if (isOld) await this.#inspect([lock]);
    if (viewer.lock === lock && viewer.isReady(clock.now())) viewer.send(this.#lockEvent(lock));
  }

  /** Looks now, unless it is doing so: for who needs the figures once. */
  async fresh(): Promise<{ readonly rows: ReadonlyMap<string, FullRow>; readonly isUp: boolean }> {
    const isOld = this.#options.clock.now() - (this.#store.answeredMs ?? -Infinity) >= EVERY_MS;
    if (this.#asking !== undefined || isOld) await this.#ask();
    return { rows: this.#rows.all, isUp: this.#store.state === "up" };
  }

  end(): void {
    for (const viewer of this.#viewers) {
      viewer.end();
      this.remove(viewer);
    }
  }

  #start(): void {
    const { clock } = this.#options;
    const nowMs = clock.now();
    this.#timeline.pause(this.#stoppedMs ?? nowMs - PAST_MS, nowMs);
    this.#store = { ...this.#store, state: "asking" };
    this.#own.start();
    this.#tick();
  }

  /** Once a second: a store that takes longer is not asked twice at a time, and the pages hear of it. */
  #tick(): void {
    const { clock } = this.#options;
    this.#timer = clock.setTimer(() => this.#tick(), EVERY_MS);
    this.#health.tick();
    if (this.#asking !== undefined) void this.#sendTo([...this.#viewers], { changed: [], gone: [] });
    else void this.#ask();
  }

  #ask(): Promise<void> {
    this.#asking ??= this.#look().finally(() => (this.#asking = undefined));
    return this.#asking;
  }

  async #look(): Promise<void> {
    const { clock } = this.#options;
    const askedMs = clock.now();
    try {
      const snapshot = await this.#locks.query("", { timeout: ANSWER_MS });
      const nowMs = clock.now();
      const backend = storedSnapshot(snapshot)?.backend;
      this.#own.backend = backend;
      this.#store = { state: "up", backend, answerMs: nowMs - askedMs, answeredMs: nowMs };
      const changes = this.#take(snapshot, nowMs);
      await this.#inspect(this.#toInspect());
      await this.#sendTo([...this.#viewers], changes);
    } catch (error) {
      this.#store = { ...this.#store, state: "down", error: clean(messageOf(error)) };
      await this.#sendTo([...this.#viewers], { changed: [], gone: [] });
    }
  }

  #take(snapshot: LocksSnapshot, nowMs: number): Changes {
    const found = this.#deadlockLooks.look(snapshot);
    this.#deadlocks = found.map(deadlockView);
    const deadlocked = new Set(found.flatMap(({ members }) => members.map(({ waitsFor }) => waitsFor)));
    for (const [name, endsMs] of this.#quarantines) if (endsMs <= nowMs) this.#quarantines.delete(name);
    const changes = this.#rows.look(snapshot, nowMs, { quarantines: this.#quarantines, deadlocked });
    this.#timeline.look(this.#rows, changes, snapshot.forced, nowMs);
    this.#samples.look(snapshot, nowMs);
    this.#forced = snapshot.forced;
    const waiting = [...this.#rows.all.values()].reduce((sum, row) => sum + row.waiting, 0);
    this.#points.push({ atMs: nowMs, held: snapshot.held.length, waiting, acquires: this.#timeline.begun });
    if (this.#points.length > POINTS_MAX) this.#points.shift();
    return changes;
  }

  /** The locks whose pages are open; and one that none holds though it is waited for, in turn. */
  #toInspect(): readonly string[] {
    const open = [...new Set([...this.#viewers].flatMap(({ lock }) => lock ?? []))];
    const from = open.length > INSPECTED_MAX ? (this.#turn * INSPECTED_MAX) % open.length : 0;
    const idle = [...this.#rows.all.values()].filter((row) => row.holders.length === 0);
    const one = idle[this.#turn++ % Math.max(1, idle.length)];
    const chosen = [...open, ...open].slice(from, from + Math.min(open.length, INSPECTED_MAX));
    return [...new Set([...chosen, ...(one === undefined ? [] : [one.name])])];
  }

  async #inspect(names: readonly string[]): Promise<void> {
    const { clock } = this.#options;
    await Promise.all(
      names.map(async (name) => {
        // What cannot be had now is asked for the next time; that the store is down is seen by the query.
        const found = await this.#locks.inspect(name, { timeout: ANSWER_MS }).catch(() => undefined);
        if (found === undefined) return;
        const nowMs = clock.now();
        if ((found.quarantineMs ?? 0) > 0) this.#quarantines.set(name, Math.round(nowMs + found.quarantineMs!));
        this.#inspected.set(name, Object.assign(found, { atMs: nowMs }));
      }),
    );
    const open = new Set([...this.#viewers].map(({ lock }) => lock));
    for (const name of this.#inspected.keys()) if (!open.has(name)) this.#inspected.delete(name);
  }

  /** `changes` absent: all rows, to those who have none yet. */
  async #sendTo(viewers: readonly Viewer[], changes: Changes | undefined): Promise<void> {
    const nowMs = this.#options.clock.now();
    const own = await this.#own.figures();
    const overview = toEvent("overview", this.#overview(own, this.#points.slice(-1)));
    const some = changes === undefined ? [] : this.#rowEvents(changes, false);
    let all: readonly Buffer[] | undefined;
    const pages = new Map<string, Buffer>();
    for (const viewer of viewers) {
      if (!viewer.isReady(nowMs)) continue;
      if (viewer.wantsAll) {
        viewer.send(toEvent("overview", this.#overview(own, this.#points)));
        if (this.#store.answeredMs !== undefined) {
          all ??= this.#rowEvents({ changed: [...this.#rows.all.values()], gone: [] }, true);
          for (const event of all) viewer.send(event);
          viewer.wantsAll = false;
        }
      } else {
        for (const event of some) viewer.send(event);
        viewer.send(overview);
      }
      const { lock } = viewer;
      if (lock === undefined || this.#store.answeredMs === undefined) continue;
      const page = pages.get(lock) ?? this.#lockEvent(lock);
      pages.set(lock, page);
      viewer.send(page);
    }
  }

  #rowEvents({ changed, gone }: Changes, reset: boolean): readonly Buffer[] {
    const nowMs = this.#options.clock.now();
    const events: Buffer[] = [];
    for (let at = 0; at < changed.length || (at === 0 && (reset || gone.length > 0)); at += ROWS_AT_ONCE) {
      const rows = changed.slice(at, at + ROWS_AT_ONCE).map(brief);
      const isFirst = at === 0;
      events.push(toEvent("rows", { nowMs, reset: reset && isFirst, rows, gone: isFirst ? gone : [] }));
    }
    return events;
  }

  #overview(own: Overview["own"], points: readonly Point[]): Overview {
    const nowMs = this.#options.clock.now();
    const rows = [...this.#rows.all.values()];
    return {
      nowMs,
      store: { ...this.#store, ...this.#health.show() },
      viewers: this.#viewers.size,
      locks: rows.length,
      held: rows.reduce((sum, { holders }) => sum + holders.length, 0),
      waiting: rows.reduce((sum, { waiting }) => sum + waiting, 0),
      forced: this.#forced.length,
      seen: {
        acquiresPerSecond: this.#timeline.acquiresPerSecond(nowMs),
        wait: this.#timeline.wait.show(),
        hold: this.#timeline.hold.show(),
        lost: this.#timeline.lost,
        renewalsLate: rows.reduce((sum, { holders }) => sum + holders.filter(({ late }) => late).length, 0),
        contended: this.#samples
          .rows()
          .slice(0, CONTENDED_MAX)
          .map(({ name, waiting, waitMs, holders }) => ({ name, waiting, waitMs, holders: holders.slice(0, 3) })),
      },
      ...(own === undefined ? {} : { own }),
      deadlocks: this.#deadlocks,
      points,
    };
  }

  #lockEvent(name: string): Buffer {
    const nowMs = this.#options.clock.now();
    const known = { row: this.#rows.all.get(name), inspected: this.#inspected.get(name), deadlocks: this.#deadlocks };
    return toEvent("lock", { nowMs, page: toPage(name, known, this.#timeline, nowMs) });
  }
}
