/** One line that says what a person waits for, redrawn in place on a terminal; nothing at all elsewhere. */
import type { Snapshot } from "./format-lock.ts";
import { formatMs } from "../contract/duration.ts";
import type { Io } from "./io.ts";
import { printable } from "../contract/foreign.ts";
import { fit } from "./format-text.ts";
import { only, ordinal, whoText } from "./format-lock.ts";

/** A lock that is free at once should not flicker. */
const FIRST_MS = 200;
const REDRAW_MS = 250;
const ASK_MS = 1000;
const CLEAR_LINE = "\r\u001b[K";

export interface ProgressOptions {
  readonly name: string;
  /** Our own holder text, by which we find our place in the queue. */
  readonly holder: string;
  readonly waitMs: number;
  readonly query: () => Promise<Snapshot>;
  /** What is waited for, such as `waiting for`. */
  readonly verb: string;
}

/** Draws until the returned function is called, which leaves an empty line. */
export function showProgress(io: Io, options: ProgressOptions): () => void {
  if (!io.stderr.isTTY || io.env["TERM"] === "dumb") return () => {};
  const startMs = performance.now();
  let seen: { snapshot: Snapshot; atMs: number } | undefined;
  let asking = false;
  let askedAtMs = -Infinity;
  let drawn = false;
  let done = false;

  const ask = async (): Promise<void> => {
    asking = true;
    askedAtMs = performance.now();
    try {
      const snapshot = only(options.name, await options.query());
      seen = { snapshot, atMs: performance.now() };
    } catch {
      // The line is for comfort: what is wrong with the store, the waiting itself reports.
    } finally {
      asking = false;
    }
  };
  const draw = (): void => {
    if (done) return;
    const nowMs = performance.now();
    if (!asking && nowMs - askedAtMs >= ASK_MS) void ask();
    const line = io.mask(lineOf(options, seen, nowMs - startMs, nowMs));
    io.stderr.write(CLEAR_LINE + fit(line, (io.stderr.columns || 80) - 1));
    drawn = true;
  };
  const first = setTimeout(draw, FIRST_MS);
  const again = setInterval(draw, REDRAW_MS);
  return () => {
    done = true;
    clearTimeout(first);
    clearInterval(again);
    if (drawn) io.stderr.write(CLEAR_LINE);
  };
}

function lineOf(
  { name, holder, waitMs, verb }: ProgressOptions,
  seen: { snapshot: Snapshot; atMs: number } | undefined,
  waitedMs: number,
  nowMs: number,
): string {
  const parts = [`${verb} ${printable(name)}`];
  const first = seen?.snapshot.held[0];
  if (seen !== undefined && first !== undefined) {
    const more = seen.snapshot.held.length - 1;
    const others = more === 0 ? "" : ` and ${more} more`;
    parts.push(`held by ${whoText(first.holder, first.meta)}${others} for ${whole(first.heldMs + nowMs - seen.atMs)}`);
  }
  const place = seen?.snapshot.pending.find((one) => one.holder === holder)?.position;
  if (place !== undefined) parts.push(`${ordinal(place)} in line`);
  parts.push(Number.isFinite(waitMs) ? `${whole(waitMs - waitedMs)} left to wait` : `waited ${whole(waitedMs)}`);
  return parts.join(" · ");
}

function whole(ms: number): string {
  return formatMs(Math.max(0, Math.floor(ms / 1000) * 1000 || 0)).replace(/^0 ms$/, "0 s");
}
