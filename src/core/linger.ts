/**
 * `linger`: a hold that no request here wants is kept for a moment, so that the next one takes it in memory. It is renewed and trusted as
 * any other. It goes back when its moment is over, when the store says that it is wanted, when a request cannot use it, and on close().
 */
import { ArgumentError, got } from "../contract/argument-error.ts";
import type { Clock } from "../contract/clock.ts";
import { type Deadline, Deadlines } from "../contract/deadlines.ts";
import { formatMs, MAX_TTL_MS, toMs } from "../contract/duration.ts";
import type { AcquireOptions, LocksOptions } from "./api.ts";
import type { Hold } from "./hold.ts";
import type { CheckedOptions } from "./options.ts";

type Terms = Pick<CheckedOptions, "ttlMs" | "mode" | "limit" | "lockDelayMs" | "minHoldMs" | "maxHoldMs" | "renew">;

/** Longer, and a crash leaves an unused lock for nearly as long as it was used. */
const PART_OF_TTL = 1 / 10;

/** What cannot go with it. */
const NEVER_WITH: readonly (readonly [keyof AcquireOptions, (terms: Terms) => boolean])[] = [
  ["lockDelay", ({ lockDelayMs }) => lockDelayMs > 0],
  ["minHold", ({ minHoldMs }) => minHoldMs > 0],
  ["maxHold", ({ maxHoldMs }) => maxHoldMs < Infinity],
  ["renew", ({ renew }) => renew === false],
  ["mode", ({ mode }) => mode === "shared"],
  ["limit", ({ limit }) => limit > 1],
];

/** How long a hold lingers. A default gives way to what a call asks for; what contradicts itself is an error. */
export function toLingerMs(own: AcquireOptions, defaults: LocksOptions, terms: Terms): number {
  const given = own.linger ?? defaults.linger;
  if (given === undefined) return 0;
  const lingerMs = toMs(given, "linger", { minMs: 0, maxMs: MAX_TTL_MS * PART_OF_TTL });
  if (lingerMs === 0) return 0;
  const isDefault = own.linger === undefined;
  const option = NEVER_WITH.find(([, is]) => is(terms))?.[0];
  if (option !== undefined) {
    if (isDefault && own[option] !== undefined) return 0;
    throw new ArgumentError(
      `Expected no \`linger\` with this \`${option}\`: it is for leases that are renewed, of one holder at a time, and over with their release`,
    );
  }
  const mostMs = Math.floor(terms.ttlMs * PART_OF_TTL);
  if (lingerMs <= mostMs) return lingerMs;
  if (isDefault && own.ttl !== undefined) return mostMs;
  throw new ArgumentError(
    `Expected \`linger\` to be at most a tenth of \`ttl\`, which is ${formatMs(mostMs)}, got ${got(given)}`,
  );
}

/** For a verb that never lingers. A default does not count there. */
export function withoutLinger(verb: string, own: object | undefined, check: () => CheckedOptions): CheckedOptions {
  const { linger } = (own ?? {}) as AcquireOptions;
  if (linger !== undefined && linger !== 0)
    throw new ArgumentError(`Expected no \`linger\` for ${verb}(): its lease is over with its work`);
  const checked = check();
  // Not shared with those that linger.
  return checked.lingerMs === 0 ? checked : { ...checked, lingerMs: 0, shareKey: `${verb} ${checked.shareKey}` };
}

/** A hold's place among those that linger. */
export interface Idle extends Deadline {
  readonly hold: Hold;
  /** It lingers until then. `undefined`: it is in use, or over. */
  untilMs: number | undefined;
}

/** All holds that linger, behind one timer, which keeps the process alive: they are to be given back. */
export class Lingering {
  readonly #deadlines: Deadlines<Idle>;

  constructor(clock: Clock) {
    this.#deadlines = new Deadlines<Idle>(clock, true, (nowMs) => this.#look(nowMs));
  }

  /** From now on no lease uses it. Its deadline is not moved each time: that would cost more than the rest. */
  begin(hold: Hold, nowMs: number): void {
    const idle = (hold.idle ??= { hold, untilMs: undefined, atMs: 0, heapIndex: -1 });
    idle.untilMs = nowMs + hold.options.lingerMs;
    if (idle.heapIndex < 0) this.#deadlines.set(idle, idle.untilMs);
  }

  /** It is over. */
  drop({ idle }: Hold): void {
    if (idle !== undefined) this.#deadlines.clear(idle);
  }

  stop(): void {
    this.#deadlines.stop();
  }

  #look(nowMs: number): void {
    const due: Hold[] = [];
    for (let idle = this.#deadlines.take(nowMs); idle !== undefined; idle = this.#deadlines.take(nowMs)) {
      const { untilMs, hold } = idle;
      if (untilMs === undefined) continue;
      if (untilMs > nowMs) this.#deadlines.set(idle, untilMs);
      else due.push(hold);
    }
    for (const hold of due) hold.letGo();
  }
}
