/** What `holdfast top` shows, as lines of text: no terminal in here. */
import type { LockHolder, LockWaiter } from "../../core/api.ts";
import { formatMs } from "../../contract/duration.ts";
import { type Style } from "../io.ts";
import type { WaitRow } from "../../core/wait-samples.ts";
import { waitRows, waitTable } from "./waits-view.ts";
import { printable } from "../../contract/foreign.ts";
import { fit, padEnd, padStart } from "../format-text.ts";
import { countWaiters, grouped } from "../../core/read-snapshot.ts";
import { type Snapshot, leftText, modeText, whoText } from "../format-lock.ts";

/** By `wait` it is another table: see waits-view.ts. */
export const SORTS = ["name", "held", "left", "waiters", "fence", "wait"] as const;
export type Sort = (typeof SORTS)[number];

export interface TopState {
  readonly url: string;
  readonly snapshot: Snapshot | undefined;
  /** How old the snapshot is: times go on between two looks at the store. */
  readonly ageMs: number;
  readonly sort: Sort;
  readonly descending: boolean;
  readonly filter: string;
  /** True while the filter is being typed. */
  readonly typing: boolean;
  readonly offset: number;
  readonly paused: boolean;
  readonly trouble: string | undefined;
  /** The most time ever seen left on each lease: what its bar is full at. */
  readonly fullMs: ReadonlyMap<string, number>;
  /** Who waited for whom, since the first look. */
  readonly waits: readonly WaitRow[];
}

export interface Row {
  readonly name: string;
  readonly holding: LockHolder | undefined;
  readonly waiters: readonly LockWaiter[];
  /** With those who wait in other processes behind an entry. */
  readonly waiting: number;
}

export type Paint = (style: Style, text: string) => string;

const BAR_CELLS = 10;
const RIGHT = { held: 9, left: 9, fence: 17, waiters: 8 } as const;

/** The identity of a lease on the screen. */
export function leaseId({ name, fence, holder }: LockHolder): string {
  return `${name}\0${fence}\0${holder}`;
}

function rowsOf({ snapshot, filter, sort, descending }: TopState): readonly Row[] {
  if (snapshot === undefined) return [];
  const rows: Row[] = [];
  const waitersOf = grouped(snapshot.pending);
  const holdersOf = grouped(snapshot.held);
  for (const holding of snapshot.held) {
    const { name } = holding;
    const waiters = waitersOf.get(name) ?? [];
    const held = holdersOf.get(name) ?? [];
    rows.push({ name, holding, waiters, waiting: countWaiters({ held, pending: waiters }) });
  }
  for (const [name, waiters] of waitersOf) {
    if (holdersOf.has(name)) continue;
    rows.push({ name, holding: undefined, waiters, waiting: countWaiters({ held: [], pending: waiters }) });
  }
  const wanted = filter.toLowerCase();
  const matching = rows.filter(({ name, holding }) =>
    `${name} ${holding?.holder ?? ""}`.toLowerCase().includes(wanted),
  );
  const direction = descending ? -1 : 1;
  return matching.toSorted((a, b) => direction * compare(a, b, sort) || (a.name < b.name ? -1 : 1));
}

/** The whole screen, `height` lines of at most `width` cells. */
export function screen(state: TopState, width: number, height: number, paint: Paint): readonly string[] {
  const room = Math.max(0, height - 4);
  const count = countRows(state);
  const table = state.sort === "wait" ? waitTable(state, width, room) : lockTable(state, width, room, paint);
  const [columns = "", ...rows] = table;
  const lines = [
    paint("bold", fit(title(state), width)),
    fit(status(state, count), width),
    paint("inverse", padEnd(fit(columns, width), width)),
    ...rows,
  ];
  if (count === 0) lines.push(fit(emptyText(state), width));
  while (lines.length < height - 1) lines.push("");
  return [...lines.slice(0, height - 1), fit(footer(state), width)];
}

/** How many rows there are to scroll through. */
export function countRows(state: TopState): number {
  return state.sort === "wait" ? waitRows(state).length : rowsOf(state).length;
}

function lockTable(state: TopState, width: number, room: number, paint: Paint): readonly string[] {
  const shown = rowsOf(state).slice(state.offset, state.offset + room);
  const widths = flexible(width, shown);
  return [heading(widths, state), ...shown.map((row) => line(row, widths, state, width, paint))];
}

function title({ url, paused }: TopState): string {
  return `holdfast top · ${printable(url)}${paused ? " · paused" : ""}`;
}

function status({ snapshot, trouble, filter, typing }: TopState, shown: number): string {
  if (trouble !== undefined) return `! ${printable(trouble)}`;
  const count = `${snapshot?.held.length ?? 0} held, ${snapshot === undefined ? 0 : countWaiters(snapshot)} waiting`;
  if (!typing && filter === "") return count;
  return `${count}, ${shown} shown · filter: ${printable(filter)}${typing ? "_" : ""}`;
}

function emptyText({ snapshot, filter, sort }: TopState): string {
  if (snapshot === undefined) return "asking the store …";
  if (filter !== "") return "Nothing matches the filter.";
  return sort === "wait" ? "No claim was seen to wait." : "No lock is held or waited for.";
}

function footer({ typing }: TopState): string {
  if (typing) return "type to filter · Enter keep · Esc clear";
  return "q quit · / filter · s sort by · r reverse · ↑↓ scroll · space pause";
}

interface Widths {
  readonly name: number;
  readonly mode: number;
  readonly holder: number;
}

/** Names and holders share what the fixed columns leave. */
function flexible(width: number, rows: readonly Row[]): Widths {
  const mode = 9;
  const fixed = mode + RIGHT.held + RIGHT.left + BAR_CELLS + RIGHT.fence + RIGHT.waiters + 7 * 2;
  const room = Math.max(16, width - fixed);
  const longest = Math.max(5, ...rows.map(({ name }) => printable(name).length));
  const name = Math.min(longest, Math.max(8, Math.floor(room / 2)));
  return { name, mode, holder: Math.max(8, room - name) };
}

function heading(widths: Widths, { sort, descending }: TopState): string {
  const mark = (column: Sort, text: string): string => (sort === column ? `${text}${descending ? "▾" : "▴"}` : text);
  return [
    padEnd(mark("name", "NAME"), widths.name),
    padEnd("MODE", widths.mode),
    padEnd("HOLDER", widths.holder),
    padStart(mark("held", "HELD FOR"), RIGHT.held),
    padStart(mark("left", "LEFT"), RIGHT.left),
    padEnd("", BAR_CELLS),
    padStart(mark("fence", "FENCE"), RIGHT.fence),
    padStart(mark("waiters", "WAITERS"), RIGHT.waiters),
  ].join("  ");
}

function line(
  { name, holding, waiters, waiting }: Row,
  widths: Widths,
  state: TopState,
  width: number,
  paint: Paint,
): string {
  const sample = holding ?? waiters[0];
  const leftMs = holding === undefined ? 0 : Math.max(0, holding.remainingMs - state.ageMs);
  const part = holding === undefined ? 0 : leftMs / Math.max(1, state.fullMs.get(leaseId(holding)) ?? leftMs);
  const cells = [
    padEnd(fit(printable(name), widths.name), widths.name),
    padEnd(sample === undefined ? "" : modeText(sample), widths.mode),
    padEnd(fit(holding === undefined ? "(none)" : whoText(holding.holder, holding.meta), widths.holder), widths.holder),
    padStart(holding === undefined ? "" : formatMs(holding.heldMs + state.ageMs), RIGHT.held),
    padStart(holding === undefined ? "" : leftText(leftMs), RIGHT.left),
    bar(part),
    padStart(holding === undefined ? "" : String(holding.fence), RIGHT.fence),
    padStart(waiting === 0 ? "" : String(waiting), RIGHT.waiters),
  ];
  const text = fit(cells.join("  "), width);
  if (holding !== undefined && part < 0.2) return paint("red", text);
  return waiting > 0 ? paint("yellow", text) : text;
}

/** Eighths of a cell, so that it shrinks smoothly. */
function bar(part: number): string {
  const eighths = Math.round(Math.min(1, Math.max(0, part)) * BAR_CELLS * 8);
  const full = "█".repeat(Math.floor(eighths / 8));
  const rest = eighths % 8 === 0 ? "" : "▏▎▍▌▋▊▉"[(eighths % 8) - 1]!;
  return padEnd(full + rest, BAR_CELLS);
}

function compare(a: Row, b: Row, sort: Sort): number {
  const number = (row: Row): number => {
    if (sort === "waiters") return row.waiting;
    if (sort === "held") return row.holding?.heldMs ?? -1;
    if (sort === "left") return row.holding?.remainingMs ?? -1;
    return Number(row.holding?.fence ?? -1n);
  };
  if (sort !== "name") return number(a) - number(b);
  if (a.name === b.name) return 0;
  return a.name < b.name ? -1 : 1;
}
