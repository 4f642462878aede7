/**
 * The last minutes of each lock: who held it and who waited, from one second to the next, and to the instant from the events
 * of this process. What began and ended between two looks in another process is not seen.
 */
import type { Forced } from "../contract/backend.ts";
import type { Changes, FullRow, Rows } from "./rows.ts";
import { LastValues, Rate } from "./percentiles.ts";
import type { HolderView, Mode, Segment } from "./wire.ts";

/** How long a lock's past is kept. */
export const PAST_MS = 600_000;
/** Of one lock; the oldest go first. */
const SEGMENTS_MAX = 400;
/** Of all locks that are free now; the oldest go first. */
const FREE_LOCKS_MAX = 2000;
/** Segments of all locks: those of the locks that changed least lately go first. */
const KEPT_MAX = 50_000;
/** How much there may be above these between two looks. */
const SLACK = 1000;
const RATE_MS = 10_000;
/** A lease with less than this left when it was last seen ran out, as far as can be seen. */
const OUT_MS = 1500;

type Open = { -readonly [Field in keyof Segment]: Segment[Field] } & {
  /** When a lease runs out. */
  endsMs?: number | null;
};

interface Past {
  readonly over: Segment[];
  readonly holds: Map<string, Open>;
  readonly waits: Map<string, Open>;
  /** Leases of this process, by their fences, whose events were heard. */
  readonly own: Set<string>;
  changedMs: number;
}

export class Timeline {
  readonly #locks: Map<string, Past> = new Map();
  readonly #unwatched: [fromMs: number, toMs: number][] = [];
  readonly wait: LastValues = new LastValues();
  readonly hold: LastValues = new LastValues();
  readonly #acquires: Rate = new Rate(RATE_MS);
  /** Leases that were ended by force, or ran out, as far as was seen. */
  lost = 0;
  /** Leases that began since the look before. */
  begun = 0;
  #lastMs: number | undefined;
  #sinceMs = 0;
  readonly #forced: Set<string> = new Set();
  #shown: ReadonlyMap<string, FullRow> = new Map();
  #kept = 0;

  /** When no one watched, nothing was seen. What is still there at the next look went on all the time; of others the end is not known. */
  pause(fromMs: number, toMs: number): void {
    for (const past of this.#locks.values())
      for (const open of [...past.holds.values(), ...past.waits.values()]) open.seenMs = this.#lastMs ?? open.seenMs;
    this.#unwatched.push([fromMs, toMs]);
    while ((this.#unwatched[0]?.[1] ?? toMs) < toMs - PAST_MS) this.#unwatched.shift();
    this.#lastMs = undefined;
    this.#sinceMs = toMs;
  }

  acquiresPerSecond(nowMs: number): number {
    return this.#acquires.perSecond(nowMs, this.#sinceMs);
  }

  /** After each look: rows that did not change were seen again. */
  look(rows: Rows, { changed, gone }: Changes, forced: readonly Forced[], nowMs: number): void {
    const isFirst = this.#lastMs === undefined;
    const lastMs = this.#lastMs;
    if (isFirst && this.#sinceMs === 0) this.#sinceMs = nowMs;
    const byForce = new Set(forced.map(({ name, fence }) => `${name}\n${fence}`));
    const isForced = (name: string, fence: string | undefined): boolean => byForce.has(`${name}\n${fence}`);
    this.#countForced(forced, isFirst);
    this.begun = 0;
    // A row that did not change had the same leases all the time: only these are gone through.
    for (const name of gone) this.#lookAt(name, undefined, lastMs, nowMs, isForced);
    for (const row of isFirst ? [...rows.all.values()] : changed) this.#lookAt(row.name, row, lastMs, nowMs, isForced);
    // What was there at first began at some time before.
    if (isFirst) this.begun = 0;
    this.#acquires.add(nowMs, this.begun);
    this.#lastMs = nowMs;
    this.#shown = rows.all;
    this.#forget(nowMs);
  }

  #lookAt(
    name: string,
    row: FullRow | undefined,
    lastMs: number | undefined,
    nowMs: number,
    isForced: (name: string, fence: string | undefined) => boolean,
  ): void {
    const past = this.#past(name, nowMs);
    const holders = new Map(row?.holders.filter(({ remainder }) => remainder === undefined).map((h) => [h.key, h]));
    const waiters = new Map(row?.all.map((waiter) => [waiter.key, waiter]));
    for (const [key, open] of past.holds) {
      if (holders.has(key)) continue;
      past.holds.delete(key);
      if (lastMs === undefined) {
        this.#close(past, open, open.seenMs, isForced(name, open.fence) ? "forced" : "over");
        continue;
      }
      open.seenMs = lastMs;
      const isOut = typeof open.endsMs === "number" && open.endsMs - lastMs < OUT_MS && open.endsMs <= nowMs;
      const end = isForced(name, open.fence) ? "forced" : isOut ? "out" : "over";
      if (end === "out") this.lost++;
      // The next holder's lease began later than this one ended.
      const nextMs = [...holders.values()].filter((one) => !past.holds.has(one.key)).map(({ sinceMs }) => sinceMs);
      this.#close(past, open, Math.max(lastMs, Math.min(nowMs, ...nextMs)), end);
      this.hold.add(lastMs - open.sinceMs);
    }
    for (const [key, open] of past.waits) {
      if (waiters.has(key)) continue;
      past.waits.delete(key);
      if (lastMs === undefined) {
        this.#close(past, open, open.seenMs, "over");
        continue;
      }
      open.seenMs = lastMs;
      const begunMs = holders.get(key)?.sinceMs;
      this.#close(past, open, begunMs ?? nowMs, "over");
      this.wait.add(Math.max(0, (begunMs ?? lastMs) - open.sinceMs));
    }
    for (const [key, holder] of holders) this.#hold(past, key, holder, nowMs);
    for (const [key, { holder, mode, sinceMs }] of waiters) {
      if (!past.waits.has(key)) past.waits.set(key, { kind: "wait", holder, mode, sinceMs, seenMs: nowMs });
    }
  }

  #hold(past: Past, key: string, { holder, fence, mode, sinceMs, endsMs }: HolderView, nowMs: number): void {
    const known = past.holds.get(key);
    if (known !== undefined) {
      known.endsMs = endsMs;
      return;
    }
    this.begun++;
    past.holds.set(key, { kind: "hold", holder, fence, mode, sinceMs, seenMs: nowMs, endsMs });
  }

  /** A lease of this process is over: known to the instant, also if it was too short to be seen. */
  ownHold(name: string, fence: string, mode: Mode, heldMs: number, end: "over" | "lost", nowMs: number): void {
    const past = this.#past(name, nowMs);
    const isIt = (one: Segment): boolean => one.kind === "hold" && one.fence === fence;
    // That it is gone may have been seen before.
    const seen = [...past.holds.values()].find(isIt) ?? past.over.findLast(isIt);
    const holder = seen?.holder ?? "this process";
    past.own.add(fence);
    const sinceMs = nowMs - heldMs;
    this.#push(past, { kind: "hold", holder, fence, mode, sinceMs, seenMs: nowMs, endMs: nowMs, end, exact: true });
    // Where the store cannot be looked at, events come nevertheless.
    if (this.#free > FREE_LOCKS_MAX + SLACK || this.#kept > KEPT_MAX + SLACK) this.#forget(nowMs);
  }

  /** Of one lock, the oldest first. */
  segments(name: string, nowMs: number): readonly Segment[] {
    const past = this.#locks.get(name);
    if (past === undefined) return [];
    const open = [...past.holds.values(), ...past.waits.values()];
    return [...past.over, ...open.map((one): Segment => ({ ...one, seenMs: nowMs }))]
      .filter((one) => one.exact === true || one.kind === "wait" || one.fence === undefined || !past.own.has(one.fence))
      .toSorted((a, b) => a.sinceMs - b.sinceMs);
  }

  get unwatched(): readonly (readonly [fromMs: number, toMs: number])[] {
    return this.#unwatched;
  }

  #countForced(forced: readonly Forced[], isFirst: boolean): void {
    for (const { name, fence } of forced) {
      const key = `${name}\n${fence}`;
      if (this.#forced.has(key)) continue;
      this.#forced.add(key);
      if (!isFirst) this.lost++;
    }
    if (this.#forced.size <= forced.length) return;
    const now = new Set(forced.map(({ name, fence }) => `${name}\n${fence}`));
    for (const key of this.#forced) if (!now.has(key)) this.#forced.delete(key);
  }

  #past(name: string, nowMs: number): Past {
    const past = this.#locks.get(name) ?? {
      over: [],
      holds: new Map<string, Open>(),
      waits: new Map<string, Open>(),
      own: new Set<string>(),
      changedMs: nowMs,
    };
    past.changedMs = nowMs;
    // The last to change is the last to be forgotten.
    this.#locks.delete(name);
    this.#locks.set(name, past);
    return past;
  }

  #close(past: Past, { kind, holder, fence, mode, sinceMs, seenMs }: Open, endMs: number, end: Segment["end"]): void {
    this.#push(past, { kind, holder, fence, mode, sinceMs, seenMs, endMs, end });
  }

  #push(past: Past, segment: Segment): void {
    past.over.push(segment);
    this.#kept++;
    const oldestMs = (segment.endMs ?? segment.seenMs) - PAST_MS;
    while (past.over.length > SEGMENTS_MAX || (past.over[0]?.endMs ?? oldestMs) < oldestMs) {
      const first = past.over.shift();
      this.#kept--;
      if (first?.fence !== undefined) past.own.delete(first.fence);
    }
  }

  /** How many locks have a past and no row, nearly: one that was just taken may have no row yet. */
  get #free(): number {
    return this.#locks.size - this.#shown.size;
  }

  #forget(nowMs: number): void {
    for (const [name, past] of this.#locks) {
      const isOld = past.changedMs < nowMs - PAST_MS;
      // They are in the order of their last change.
      if (!isOld && this.#free <= FREE_LOCKS_MAX && this.#kept <= KEPT_MAX) break;
      const isShown = this.#shown.has(name);
      if (isShown && !isOld && this.#kept <= KEPT_MAX) continue;
      this.#kept -= past.over.length;
      past.over.length = 0;
      past.own.clear();
      if (!isShown) this.#locks.delete(name);
    }
  }
}
