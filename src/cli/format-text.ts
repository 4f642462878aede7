/** Text for terminals: columns aligned, lines cut to fit, and nothing in it that drives a terminal but colours. */
import { printable } from "../contract/foreign.ts";

const WIDE =
  /[\u1100-\u115f\u2e80-\u303e\u3041-\u33ff\u3400-\u4dbf\u4e00-\u9fff\ua000-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{1f300}-\u{1faff}\u{20000}-\u{3fffd}]/u;
const COMBINING = /\p{M}/u;

/** How many cells of a terminal `text` fills, colours not counted. */
export function width(text: string): number {
  let cells = 0;
  for (const char of withoutColours(text)) cells += cellsOf(char);
  return cells;
}

/** Cuts plain text to `cells`, with an ellipsis where something is missing. */
export function fit(text: string, cells: number): string {
  if (width(text) <= cells) return text;
  let kept = "";
  let used = 1;
  for (const char of text) {
    used += cellsOf(char);
    if (used > cells) break;
    kept += char;
  }
  return cells < 1 ? "" : `${kept}…`;
}

export function padEnd(text: string, cells: number): string {
  return text + " ".repeat(Math.max(0, cells - width(text)));
}

export function padStart(text: string, cells: number): string {
  return " ".repeat(Math.max(0, cells - width(text))) + text;
}

export interface Column {
  readonly title: string;
  readonly right?: boolean;
}

/** Lines of a table: a heading, then the rows, two blanks between columns. */
export function table(columns: readonly Column[], rows: readonly (readonly string[])[]): readonly string[] {
  const widths = columns.map(({ title }, i) => Math.max(width(title), ...rows.map((row) => width(row[i] ?? ""))));
  const line = (cells: readonly string[]): string =>
    columns
      .map(({ right }, i) => (right === true ? padStart : padEnd)(cells[i] ?? "", widths[i] ?? 0))
      .join("  ")
      .trimEnd();
  return [line(columns.map(({ title }) => title)), ...rows.map(line)];
}

/**
 * The last door before a terminal: ends of lines, tabs and colours pass, since they may be ours. Whatever others wrote has been
 * made printable where it was put into the text, colours too.
 */
export function harmless(text: string): string {
  // oxlint-disable-next-line no-control-regex
  const parts = text.split(/(\u001b\[[0-9;]*m|[\n\t])/);
  return parts.map((part, i) => (i % 2 === 0 ? printable(part) : part)).join("");
}

function cellsOf(char: string): number {
  if (COMBINING.test(char)) return 0;
  return WIDE.test(char) ? 2 : 1;
}

function withoutColours(text: string): string {
  // oxlint-disable-next-line no-control-regex
  return text.replace(/\u001b\[[0-9;]*m/g, "");
}
