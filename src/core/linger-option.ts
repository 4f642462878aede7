/** The option `linger`, checked: what it contradicts, and where it does not count. */
import { ArgumentError, got } from "../contract/argument-error.ts";
import { formatMs, MAX_TTL_MS, toMs } from "../contract/duration.ts";
import type { AcquireOptions, LocksOptions } from "./api.ts";

interface Terms {
  readonly ttlMs: number;
  readonly mode: string;
  readonly limit: number;
  readonly lockDelayMs: number;
  readonly minHoldMs: number;
  readonly maxHoldMs: number;
  readonly renew: boolean | "thread";
}

/** What is changed of checked options. */
interface Lingering {
  readonly lingerMs: number;
  readonly shareKey: string;
}

/** Longer, and a crash leaves an unused lock for nearly as long as it was used. */
const PART_OF_TTL = 1 / 10;

/** What cannot go with it. */
const NEVER_WITH: readonly (readonly [keyof AcquireOptions, (terms: Terms) => boolean])[] = [
  ["lockDelay", ({ lockDelayMs }) => lockDelayMs > 0],
  ["minHold", ({ minHoldMs }) => minHoldMs > 0],
  ["maxHold", ({ maxHoldMs }) => maxHoldMs < Infinity],
  // A thread would renew it while nothing here runs that could give it back, and does not hear that it is wanted.
  ["renew", ({ renew }) => renew !== true],
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
export function withoutLinger<T extends Lingering>(verb: string, own: object | undefined, check: () => T): T {
  const { linger } = (own ?? {}) as AcquireOptions;
  if (linger !== undefined && linger !== 0)
    throw new ArgumentError(`Expected no \`linger\` for ${verb}(): its lease is over with its work`);
  const checked = check();
  // Not shared with those that linger.
  return checked.lingerMs === 0 ? checked : { ...checked, lingerMs: 0, shareKey: `${verb} ${checked.shareKey}` };
}
