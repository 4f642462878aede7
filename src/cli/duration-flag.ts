/** Durations as people type them at a prompt: `500ms`, `90s`, `1m30s`, `1.5h`; a bare number is seconds, as in flock(1). */

const UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };
const PARTS = /^(?:\d+(?:\.\d+)?(?:ms|s|m|h|d))+$/;
const PART = /(\d+(?:\.\d+)?)(ms|s|m|h|d)/g;
const ENDLESS = new Set(["inf", "infinity", "forever"]);

/** Whole milliseconds, `Infinity` for `forever`, or `undefined` when `text` is no duration. */
export function parseDurationMs(text: string): number | undefined {
  if (ENDLESS.has(text.toLowerCase())) return Infinity;
  if (/^\d+(\.\d+)?$/.test(text)) return whole(Number(text) * 1000);
  if (!PARTS.test(text)) return undefined;
  let totalMs = 0;
  for (const [, amount, unit] of text.matchAll(PART)) totalMs += Number(amount) * (UNITS[unit ?? ""] ?? Number.NaN);
  return whole(totalMs);
}

function whole(ms: number): number | undefined {
  const rounded = Math.round(ms);
  return Number.isSafeInteger(rounded) ? rounded : undefined;
}
