/**
 * The contention profile: which locks were waited for most in this process, and for whom. Loaded and begun by the first
 * `locks.contention()`; until then none of it is there. Its memory is bounded, whatever the number of locks and holders is, besides a
 * small note for each call that waits and each lease that is held.
 */
import { ArgumentError, got } from "../contract/argument-error.ts";
import type { Holding } from "../contract/backend.ts";
import type { Clock } from "../contract/clock.ts";
import type { AcquireEvent, HoldEvent } from "../contract/events.ts";
import type { CallCounts, Contention, ContentionOptions, LockContention } from "./contention-api.ts";
import { Histogram, toMicroseconds } from "./histogram.ts";
import { checkObject } from "./options.ts";
import { GuardedProfile } from "./guarded-profile.ts";
import type { Profile, ProfiledHold, ProfileSlot } from "./profile.ts";
import { type OwnLease, WaitShares } from "./wait-shares.ts";

/** One more, and half of them give way. */
const LOCKS_MAX = 512;

export function contention(
  { contention: slot, clock }: { readonly contention: ProfileSlot; readonly clock: Clock },
  options: ContentionOptions,
): Contention {
  const { reset, end } = checked(options);
  const guarded =
    slot.profile instanceof GuardedProfile
      ? (slot.profile as GuardedProfile<ContentionProfile>)
      : new GuardedProfile(new ContentionProfile(clock));
  const { profile } = guarded;
  const shown = profile.show();
  slot.profile = end === true ? undefined : guarded;
  if (reset === true) profile.reset();
  return shown;
}

function checked(options: ContentionOptions): ContentionOptions {
  for (const [option, value] of Object.entries(checkObject(options))) {
    if (option !== "reset" && option !== "end") throw new ArgumentError(`contention() has no option \`${option}\``);
    if (value !== undefined && typeof value !== "boolean")
      throw new ArgumentError(`Expected \`${option}\` to be true or false, got ${got(value)}`);
  }
  return options;
}

/** What is noted of a call that waits, or of a lease, until it is over. */
class Note {
  readonly lock: LockFigures;
  readonly sinceMs: number;
  readonly lease: OwnLease | undefined;
  isOver = false;

  constructor(lock: LockFigures, sinceMs: number, lease?: OwnLease) {
    this.lock = lock;
    this.sinceMs = sinceMs;
    this.lease = lease;
  }
}

class Itself {
  constructor(event: object) {
    // oxlint-disable-next-line no-constructor-return
    return event;
  }
}

/** Adds a private field to an event, which no other sees. A Map of events would cost several times as much. */
class Noted extends Itself {
  #note: Note;

  constructor(event: object, note: Note) {
    super(event);
    this.#note = note;
  }

  static of(event: object): Note | undefined {
    return #note in event ? event.#note : undefined;
  }
}

type Counted = Exclude<keyof CallCounts, "waitMs">;
type Counts = Record<Counted, number>;

const NO_COUNTS: Readonly<Counts> = {
  acquires: 0,
  contended: 0,
  timeouts: 0,
  busy: 0,
  aborted: 0,
  errors: 0,
  lost: 0,
};

const COUNTED_AS: ReadonlyMap<AcquireEvent["outcome"], Counted> = new Map([
  ["busy", "busy"],
  ["timeout", "timeouts"],
  ["aborted", "aborted"],
  ["error", "errors"],
]);

class ContentionProfile implements Profile {
  readonly #clock: Clock;
  readonly #locks: Map<string, LockFigures> = new Map();
  #others: Counts & { locks: number; waitMs: number } = { locks: 0, ...NO_COUNTS, waitMs: 0 };
  #beganMs: number;
  #beganWallMs: number;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#beganMs = clock.now();
    this.#beganWallMs = clock.wall();
  }

  contended(event: AcquireEvent, enteredMs: number, heldBy: readonly Holding[], isNews: boolean): void {
    const nowMs = this.#clock.now();
    const known = Noted.of(event);
    const lock = known?.lock ?? this.#lock(event.name);
    lock.shares.hear(heldBy, nowMs, isNews);
    // Another has had it: what comes now was not handed on from a lease of this process.
    if (lock.shares.hasOthers) lock.endedMs = -Infinity;
    if (known !== undefined) return;
    void new Noted(event, new Note(lock, enteredMs));
    lock.shares.enter(enteredMs, nowMs);
  }

  over(event: AcquireEvent): void {
    const wait = Noted.of(event);
    const lock = wait?.lock ?? this.#lock(event.name);
    const nowMs = this.#clock.now();
    if (wait !== undefined) {
      lock.shares.leave(nowMs);
      lock.wait.add(nowMs - wait.sinceMs);
      if (lock.isGone) this.#others.waitMs += lock.takeWait();
    }
    const counts = lock.isGone ? this.#others : lock.counts;
    counts.acquires++;
    if (event.contended === true) counts.contended++;
    const counted = COUNTED_AS.get(event.outcome);
    if (counted !== undefined) counts[counted]++;
    lock.usedMs = nowMs;
  }

  began(event: HoldEvent, { meta, firstFence, claim }: ProfiledHold): void {
    const { mode, acquired, localHandOver, startedAtMs } = event;
    const { holder, limit, minHoldMs, lockDelayMs } = claim;
    const lock = this.#lock(event.name);
    // What did not wait was not handed on.
    const sinceMs = acquired?.contended === true ? startedAtMs - (acquired.waitedMs ?? 0) : Infinity;
    if (sinceMs <= lock.endedMs) (localHandOver ? lock.inMemory : lock.throughStore).add(startedAtMs - lock.endedMs);
    lock.endedMs = -Infinity;
    const remains = minHoldMs + lockDelayMs > 0;
    const lease = lock.shares.begin({ holder, meta, mode, limit, fence: firstFence, remains }, startedAtMs);
    void new Noted(event, new Note(lock, startedAtMs, lease));
  }

  ended(event: HoldEvent): void {
    const held = Noted.of(event);
    if (held?.lease === undefined || held.isOver) return;
    held.isOver = true;
    const { lock, sinceMs, lease } = held;
    const nowMs = this.#clock.now();
    lock.hold.add(nowMs - sinceMs);
    lock.endedMs = nowMs;
    lock.usedMs = nowMs;
    lock.shares.end(lease, nowMs);
  }

  lost(event: HoldEvent): void {
    const lock = Noted.of(event)?.lock ?? this.#lock(event.name);
    (lock.isGone ? this.#others : lock.counts).lost++;
    this.ended(event);
  }

  #lock(name: string): LockFigures {
    const known = this.#locks.get(name);
    if (known !== undefined) return known;
    if (this.#locks.size >= LOCKS_MAX) this.#giveWay();
    const lock = new LockFigures(name, this.#clock.wall());
    this.#locks.set(name, lock);
    return lock;
  }

  /** Half of them, so that it is seldom done. Those with the least wait, and of these the ones that were not used for longest. */
  #giveWay(): void {
    const nowMs = this.#clock.now();
    for (const lock of this.#locks.values()) lock.shares.settle(nowMs);
    const byWait = [...this.#locks.values()].toSorted(
      (a, b) => a.shares.waitMs - b.shares.waitMs || a.usedMs - b.usedMs,
    );
    for (const lock of byWait.slice(0, LOCKS_MAX / 2)) {
      this.#locks.delete(lock.name);
      lock.isGone = true;
      this.#others.locks++;
      this.#others.waitMs += lock.takeWait();
      for (const field of Object.keys(lock.counts) as Counted[]) this.#others[field] += lock.counts[field];
    }
  }

  show(): Contention {
    const nowMs = this.#clock.now();
    const locks = [...this.#locks.values()].map((lock) => lock.show(nowMs));
    return {
      sinceMs: this.#beganWallMs,
      forMs: toMicroseconds(nowMs - this.#beganMs),
      locks: locks.toSorted((a, b) => b.waitMs - a.waitMs || b.acquires - a.acquires),
      others: { ...this.#others, waitMs: toMicroseconds(this.#others.waitMs) },
    };
  }

  /** What goes on goes on. */
  reset(): void {
    this.#beganMs = this.#clock.now();
    this.#beganWallMs = this.#clock.wall();
    this.#others = { locks: 0, ...NO_COUNTS, waitMs: 0 };
    for (const lock of this.#locks.values()) {
      if (lock.shares.idle) this.#locks.delete(lock.name);
      else lock.reset(this.#beganMs, this.#beganWallMs);
    }
  }
}

/** What is counted of one lock. */
class LockFigures {
  readonly name: string;
  readonly shares: WaitShares = new WaitShares();
  counts: Counts = { ...NO_COUNTS };
  wait: Histogram = new Histogram();
  hold: Histogram = new Histogram();
  inMemory: Histogram = new Histogram();
  throughStore: Histogram = new Histogram();
  /** It has given way to others. */
  isGone = false;
  /** When the last lease of this process ended, where none has begun since. */
  endedMs = -Infinity;
  usedMs = -Infinity;
  #sinceMs: number;

  constructor(name: string, wallMs: number) {
    this.name = name;
    this.#sinceMs = wallMs;
  }

  takeWait(): number {
    const { waitMs } = this.shares;
    this.shares.waitMs = 0;
    return waitMs;
  }

  reset(nowMs: number, wallMs: number): void {
    this.shares.reset(nowMs);
    this.#sinceMs = wallMs;
    this.counts = { ...NO_COUNTS };
    this.wait = new Histogram();
    this.hold = new Histogram();
    this.inMemory = new Histogram();
    this.throughStore = new Histogram();
  }

  show(nowMs: number): LockContention {
    const { name, shares, counts } = this;
    shares.settle(nowMs);
    return {
      name,
      sinceMs: this.#sinceMs,
      waiting: shares.waiting,
      ...counts,
      waitMs: toMicroseconds(shares.waitMs),
      wait: this.wait.spread(),
      hold: this.hold.spread(),
      handOver: { memory: this.inMemory.spread(), store: this.throughStore.spread() },
      ...shares.show(),
    };
  }
}
