/**
 * Log lines about what an operator should know: leases that were lost or ended by force, renewals that come late, deadlocks, and waits
 * and holds that take long, which are reported when they have taken that long, and not only when they are over.
 */
import { ArgumentError, got } from "../../contract/argument-error.ts";
import { type Clock, systemClock } from "../../contract/clock.ts";
import { type Deadline, Deadlines } from "../../contract/deadlines.ts";
import { type Duration, toMs } from "../../contract/duration.ts";
import type { AcquireEvent, HoldEvent } from "../../contract/events.ts";
import { Guard, endedBy, listen, type Telemetry } from "../telemetry.ts";
import { Limiter } from "./limiter.ts";
import { deadlockLine, forceLine, heldLine, lateLine, type Line, longLine, lostLine, waitedLine } from "./lines.ts";
import { type Fields, type Level, type Logger, type Write, writerFor } from "./logger.ts";

export interface LogOptions {
  /** An acquire that takes this long is reported. @default "5s" */
  readonly longWait?: Duration | undefined;
  /** A lease that is held for this long is reported. `Infinity`: none is. @default "1m" */
  readonly longHold?: Duration | undefined;
  /** How many lines of a kind may be written in each `every`. @default 10 */
  readonly lines?: number | undefined;
  /** @default "10s" */
  readonly every?: Duration | undefined;
  /** For tests. @default the system's clock */
  readonly clock?: Clock | undefined;
}

const DEFAULTS = { longWait: "5s", longHold: "1m", lines: 10, every: "10s" } as const satisfies LogOptions;
const FOREVER = { maxMs: Infinity };
/** A renewal is due after a third of the ttl. With another third gone, the next delay may be the last. */
const LATE = 1 / 3;

type Kind = "lost" | "long-wait" | "long-hold" | "force-release" | "late-renewal" | "deadlock";

/** An acquire or a lease that may take long. */
class Lasting implements Deadline {
  readonly event: AcquireEvent | HoldEvent;
  readonly sinceMs: number;
  /** It was reported. */
  isLong = false;

  // The deadlines' own notes.
  atMs = 0;
  heapIndex = -1;

  constructor(event: AcquireEvent | HoldEvent, sinceMs: number) {
    this.event = event;
    this.sinceMs = sinceMs;
  }
}

class EventLog {
  readonly #write: (level: Level, fields: Fields, message: string) => void;
  readonly #clock: Clock;
  readonly #longWaitMs: number;
  readonly #longHoldMs: number;
  readonly #lasting: Map<AcquireEvent | HoldEvent, Lasting> = new Map();
  readonly #limiters: Readonly<Record<Kind, Limiter>>;
  readonly #deadlines: Deadlines<Lasting | Limiter>;
  readonly #end: () => void;

  constructor(write: Write, options: LogOptions) {
    const clock = options.clock ?? systemClock;
    const guard = new Guard("holdfast/log");
    const most = toCount(options.lines ?? DEFAULTS.lines);
    const everyMs = toMs(options.every ?? DEFAULTS.every, "every");
    this.#clock = clock;
    this.#longWaitMs = toMs(options.longWait ?? DEFAULTS.longWait, "longWait", FOREVER);
    this.#longHoldMs = toMs(options.longHold ?? DEFAULTS.longHold, "longHold", FOREVER);
    this.#write = (level, fields, message) => {
      guard.call(() => write(level, fields, message));
    };
    const limiter = (kind: Kind): Limiter => new Limiter(kind, most, everyMs);
    this.#limiters = {
      lost: limiter("lost"),
      "long-wait": limiter("long-wait"),
      "long-hold": limiter("long-hold"),
      "force-release": limiter("force-release"),
      "late-renewal": limiter("late-renewal"),
      deadlock: limiter("deadlock"),
    };
    // One timer for all, which keeps no process alive, and is not set while nothing is waited for or held.
    this.#deadlines = new Deadlines<Lasting | Limiter>(clock, false, (nowMs) => {
      guard.call(() => this.#look(nowMs));
    });
    this.#end = listen(
      {
        acquireStart: (event) => this.#begin(event, this.#longWaitMs),
        acquireEnd: (event) => this.#endWait(event),
        holdStart: (event) => this.#begin(event, this.#longHoldMs),
        holdEnd: (event) => this.#endHold(event),
        lost: (event) => this.#line("lost", "error", () => lostLine(event)),
        forceRelease: (event) => this.#line("force-release", "warn", () => forceLine(event)),
        deadlock: (event) => this.#line("deadlock", "error", () => deadlockLine(event)),
        renew: (event) => {
          if (event.delayMs >= event.ttlMs * LATE) this.#line("late-renewal", "warn", () => lateLine(event));
        },
      },
      guard,
    );
  }

  end(): void {
    this.#end();
    for (const limiter of Object.values(this.#limiters)) this.#tellSuppressed(limiter);
    this.#deadlines.stop();
    this.#lasting.clear();
  }

  #begin(event: AcquireEvent | HoldEvent, longMs: number): void {
    if (longMs === Infinity) return;
    const nowMs = this.#clock.now();
    const lasting = new Lasting(event, nowMs);
    this.#lasting.set(event, lasting);
    this.#deadlines.set(lasting, nowMs + longMs);
  }

  /** Some have taken long by now, or lines were left out for long enough. */
  #look(nowMs: number): void {
    for (let due = this.#deadlines.take(nowMs); due !== undefined; due = this.#deadlines.take(nowMs)) {
      if (due instanceof Limiter) this.#tellSuppressed(due);
      else this.#tellLong(due, nowMs);
    }
  }

  #tellLong(lasting: Lasting, nowMs: number): void {
    lasting.isLong = true;
    const { event, sinceMs } = lasting;
    const kind = "ttlMs" in event ? "long-hold" : "long-wait";
    this.#line(kind, "warn", () => longLine(event, Math.round(nowMs - sinceMs)));
  }

  #endWait(event: AcquireEvent): void {
    if (this.#take(event)) this.#line("long-wait", "info", () => waitedLine(event));
  }

  #endHold(event: HoldEvent): void {
    if (this.#take(event)) this.#line("long-hold", "info", () => heldLine(event));
  }

  /** Whether it was reported as long. */
  #take(event: AcquireEvent | HoldEvent): boolean {
    const lasting = this.#lasting.get(event);
    if (lasting === undefined) return false;
    this.#lasting.delete(event);
    this.#deadlines.clear(lasting);
    return lasting.isLong;
  }

  /** What is left out is not even worded: on a bad day that is most of it. */
  #line(kind: Kind, level: Level, toLine: () => Line): void {
    const limiter = this.#limiters[kind];
    if (!limiter.admit(this.#clock.now())) return this.#deadlines.set(limiter, limiter.untilMs);
    this.#tellSuppressed(limiter);
    const { fields, message } = toLine();
    return this.#write(level, { event: `holdfast:${kind}`, ...fields }, message);
  }

  #tellSuppressed(limiter: Limiter): void {
    const suppressed = limiter.takeSuppressed();
    if (suppressed === 0) return;
    this.#deadlines.clear(limiter);
    const event = `holdfast:${limiter.kind}`;
    this.#write("warn", { event, suppressed }, `${suppressed} more lines of ${event} were not written`);
  }
}

/** Writes to the logger what an operator should know of all locks of this process, from now on. */
export function logEvents(logger: Logger, options: LogOptions = {}): Telemetry {
  if (typeof options !== "object" || options === null)
    throw new ArgumentError(`Expected \`options\` to be an object, got ${got(options)}`);
  const log = new EventLog(writerFor(logger), options);
  return endedBy(() => log.end());
}

function toCount(lines: unknown): number {
  if (typeof lines === "number" && Number.isInteger(lines) && lines >= 1) return lines;
  throw new ArgumentError(`Expected \`lines\` to be a whole number of at least 1, got ${got(lines)}`);
}
