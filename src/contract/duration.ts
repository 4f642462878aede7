/** Durations as people write them, checked at the door; inside, everything is `…Ms`. */
import { ArgumentError, got } from "./argument-error.ts";

/** Milliseconds, or a text such as `"250ms"`, `"2s"`, `"5m"` or `"1h"`. */
export type Duration = number | `${number}ms` | `${number}s` | `${number}m` | `${number}h`;

const UNITS = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 } as const;
const PATTERN = /^(\d{1,15})(ms|s|m|h)$/;

/** The longest ttl: a lease that outlives its dead holder by more than a day is of no use. */
export const MAX_TTL_MS: number = 24 * 3_600_000;

export interface DurationRange {
  /** @default 1 */
  readonly minMs?: number;
  /** Largest value allowed; `Infinity` allows `Infinity` itself. @default Number.MAX_SAFE_INTEGER */
  readonly maxMs?: number;
}

/** Turns a duration into whole milliseconds. Throws a `TypeError` that names `option`. */
export function toMs(
  value: unknown,
  option: string,
  { minMs = 1, maxMs = Number.MAX_SAFE_INTEGER }: DurationRange = {},
): number {
  const ms = typeof value === "string" ? parse(value) : value;
  if (ms === Infinity && maxMs === Infinity) return Infinity;
  if (typeof ms !== "number" || !Number.isSafeInteger(ms) || ms < minMs || ms > maxMs) {
    const upper = maxMs < Number.MAX_SAFE_INTEGER ? ` up to ${formatMs(maxMs)}` : "";
    const lower = minMs > 1 ? `of at least ${formatMs(minMs)}` : minMs > 0 ? "above 0" : "of 0 or more";
    const hint = typeof value === "number" && value > 0 && value < minMs ? " (numbers are milliseconds)" : "";
    throw new ArgumentError(
      `Expected \`${option}\` to be a duration ${lower}${upper}, such as 250, "250ms", "2s", "5m" or "1h", got ${got(value)}${hint}`,
    );
  }
  return ms;
}

/** Writes milliseconds for people: `850 ms`, `2.5 s`, `3 m 20 s`, `1 h 5 m`. */
export function formatMs(ms: number): string {
  if (ms === Infinity) return "for ever";
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 60_000) return `${Number((ms / 1000).toFixed(1))} s`;
  const minutes = Math.floor(ms / 60_000);
  if (minutes < 60) return pair(minutes, "m", Math.floor((ms % 60_000) / 1000), "s");
  return pair(Math.floor(minutes / 60), "h", minutes % 60, "m");
}

function pair(big: number, bigUnit: string, small: number, smallUnit: string): string {
  return small === 0 ? `${big} ${bigUnit}` : `${big} ${bigUnit} ${small} ${smallUnit}`;
}

function parse(text: string): number | undefined {
  const match = PATTERN.exec(text);
  return match ? Number(match[1]) * UNITS[match[2] as keyof typeof UNITS] : undefined;
}
