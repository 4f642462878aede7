/** Times, sizes and people as text. */
import type { Who } from "../wire.ts";

/** `850 ms`, `2.5 s`, `3 m 20 s`, `1 h 05 m`, `4 d 2 h`. */
export function duration(ms: number): string {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 60_000) return `${(Math.floor(ms / 100) / 10).toFixed(1)} s`;
  const minutes = Math.floor(ms / 60_000);
  if (minutes < 60) return `${minutes} m ${two(Math.floor((ms % 60_000) / 1000))} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${two(minutes % 60)} m` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

/** Whole seconds, for what moves. */
export function clock(ms: number): string {
  return ms < 10_000
    ? `${(Math.max(0, Math.floor(ms / 100)) / 10).toFixed(1)} s`
    : duration(Math.floor(ms / 1000) * 1000).replace(".0 s", " s");
}

function two(n: number): string {
  return String(n).padStart(2, "0");
}

export function count(n: number): string {
  return n.toLocaleString("en-US");
}

export function rate(perSecond: number): string {
  if (perSecond === 0) return "0";
  return perSecond < 10 ? perSecond.toFixed(1) : count(Math.round(perSecond));
}

export function bytes(n: number): string {
  return n < 1024 ? `${n} bytes` : `${(n / 1024).toFixed(1)} KiB`;
}

export function plural(n: number, one: string, many: string = `${one}s`): string {
  return `${count(n)} ${n === 1 ? one : many}`;
}

export function app({ app: name, version }: Pick<Who, "app" | "version">): string {
  return [name, version].filter((text) => text !== undefined).join(" ");
}

/** Also letters that are blank, spaces that are none, and spaces where no one sees them. */
const UNSEEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}\p{Default_Ignorable_Code_Point}\u2800]|(?! )\p{Zs}|^ +| +$| (?= )/gu;

/** What cannot be seen is shown as an escape: a name must not look like another. */
export function visible(text: string): string {
  return text.replace(UNSEEN, (unseen) =>
    Array.from(unseen, (char) => `\\u{${(char.codePointAt(0) ?? 0).toString(16)}}`).join(""),
  );
}
