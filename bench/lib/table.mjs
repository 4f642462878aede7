/** Results as text: one table per part, one line per bar. */
import { SCALE_HEADINGS } from "../scale/headings.mjs";

const HEADINGS = {
  perSecond: ["per second"],
  clientCpuUs: ["client CPU µs"],
  offUs: ["off, client CPU µs"],
  onUs: ["on"],
  ratio: ["on / off"],
  storeCpuUs: ["store CPU µs"],
  storeCommands: ["commands"],
  storeCalls: ["calls in store"],
  waitMs: ["wait p50 ms", "p99", "max"],
  tookMs: ["p50 ms", "p99", "max"],
  handOverMs: ["hand-over p50 ms", "p99", "max"],
  handOvers: ["hand-overs"],
  recoverMs: ["after SIGKILL ms"],
  jain: ["Jain"],
  starved: ["starved"],
  violations: ["violations"],
  lost: ["lost"],
  cpuPercent: ["client % of a core"],
  storePercent: ["store % of a core"],
  minifiedKb: ["minified kB"],
  gzipKb: ["compressed kB"],
  files: ["files"],
  commandsPerSecond: ["commands/s"],
  ...SCALE_HEADINGS,
};

/** The table's head: one entry per printed column. */
export function headings(columns) {
  return columns.flatMap((column) => HEADINGS[column]);
}

export function cells(row, columns) {
  return columns.flatMap((column) => {
    const value = row[column];
    const width = HEADINGS[column].length;
    if (width === 1) return [shown(value)];
    return value === undefined
      ? Array.from({ length: width }, () => "–")
      : ["p50", "p99", "max"].map((name) => shown(value[name]));
  });
}

/** Three significant digits, thousands separated: more digits are of no use in a figure that moves. */
export function shown(value) {
  if (value === undefined || value === null || Number.isNaN(value)) return "–";
  if (Number.isInteger(value) || Math.abs(value) >= 1000) return Math.round(value).toLocaleString("en");
  return Math.abs(value) >= 100 ? value.toFixed(0) : Number(value.toPrecision(3)).toString();
}

export function label(row) {
  return row.version === undefined ? row.name : `${row.name.replace(/ 5 beta$/, "")} ${row.version}`;
}

export function partText({ title, columns, rows }) {
  const head = ["", ...headings(columns)];
  const body = rows.map((row) =>
    row.ran ? [label(row), ...cells(row, columns)] : [label(row), `did not run: ${row.reason}`],
  );
  const widths = head.map((_, i) =>
    Math.max(head[i].length, ...body.map((line) => (line.length === 2 && i === 1 ? 0 : (line[i]?.length ?? 0)))),
  );
  const text = (line) =>
    line.map((cell, i) => (i === 0 ? cell.padEnd(widths[i]) : cell.padStart(widths[i] ?? 0))).join("  ");
  return [`  ${title}`, ...[head, ...body].map((line) => `    ${text(line)}`.trimEnd())].join("\n");
}

export function barText({ text, value, limit, sign, met, detail }) {
  const by = detail === undefined ? "" : ` (${detail})`;
  return `  ${met ? "met    " : "NOT MET"}  ${text}${by}: ${shown(value)} ${sign} ${shown(limit)}`;
}
