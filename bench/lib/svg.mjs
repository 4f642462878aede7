/** Two kinds of charts, written as SVG. They have no background and follow the reader's light or dark scheme. */
import { shown } from "./table.mjs";

const WIDTH = 760;
const LABELS = 210;
const NOTES = 225;
const ROW = 30;
const TOP = 74;

const STYLE = `
  text { font-family: -apple-system, "Segoe UI", Inter, Roboto, Helvetica, Arial, sans-serif; fill: #1f2328; }
  .title { font-size: 17px; font-weight: 600; }
  .sub, .axis { font-size: 12px; fill: #59636e; }
  .label { font-size: 13px; }
  .value { font-size: 13px; font-variant-numeric: tabular-nums; }
  .note { font-size: 12px; fill: #59636e; }
  .own { font-weight: 600; }
  .bar { fill: #9aa7b4; }
  .bar.own, .dot.own { fill: #0a7d6c; }
  .bar.limit { fill: none; stroke: #9aa7b4; stroke-width: 1.5; stroke-dasharray: 4 3; }
  .line { fill: none; stroke: #9aa7b4; stroke-width: 2; }
  .line.own { stroke: #0a7d6c; stroke-width: 3; }
  .dot { fill: #9aa7b4; }
  .grid { stroke: #d1d9e0; stroke-width: 1; }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc; }
    .sub, .axis, .note { fill: #9198a1; }
    .bar, .dot { fill: #57606a; }
    .bar.own, .dot.own { fill: #2dd4b4; }
    .bar.limit { stroke: #7d8590; }
    .line { stroke: #57606a; }
    .line.own { stroke: #2dd4b4; }
    .grid { stroke: #3d444d; }
  }`;

/** One bar per row: `{ label, value, own, limit, note }`. Rows without a value show their note alone. */
export function barChart({ title, subtitle, rows }) {
  const most = Math.max(...rows.map(({ value }) => (Number.isFinite(value) ? value : 0)), Number.MIN_VALUE);
  const span = WIDTH - LABELS - NOTES;
  const lines = rows.map((row, i) => bar(row, TOP + i * ROW, most, span));
  return picture(TOP + rows.length * ROW + 12, title, subtitle, lines.join("\n"));
}

function bar({ label, value, own, limit, note }, y, most, span) {
  const kind = own ? " own" : limit ? " limit" : "";
  const text = `<text class="label${own ? " own" : ""}" x="${LABELS - 12}" y="${y + 17}" text-anchor="end">${escape(label)}</text>`;
  if (!Number.isFinite(value))
    return `${text}<text class="note" x="${LABELS}" y="${y + 17}">${escape(note ?? "–")}</text>`;
  const width = Math.max(1.5, (value / most) * span);
  const figure = `<tspan class="value${own ? " own" : ""}">${shown(value)}</tspan>${note ? `<tspan class="note" dx="8">${escape(note)}</tspan>` : ""}`;
  return `${text}<rect class="bar${kind}" x="${LABELS}" y="${y + 4}" width="${width.toFixed(1)}" height="18" rx="3"/><text x="${(LABELS + width + 8).toFixed(1)}" y="${y + 17}">${figure}</text>`;
}

/** Lines over logarithmic axes: `series` are `{ label, own, points: [x, y][] }`. */
export function lineChart({ title, subtitle, xTitle, series }) {
  const [left, right, top, bottom] = [70, WIDTH - 170, TOP, TOP + 260];
  const all = series.flatMap(({ points }) => points);
  const xs = decades(all.map(([x]) => x));
  const ys = decades(all.map(([, y]) => y));
  const x = (value) => left + ((Math.log10(value) - xs.from) / (xs.to - xs.from)) * (right - left);
  const y = (value) => bottom - ((Math.log10(value) - ys.from) / (ys.to - ys.from)) * (bottom - top);
  const grid = [
    ...ys.ticks.map(
      (tick) =>
        `<line class="grid" x1="${left}" x2="${right}" y1="${y(tick)}" y2="${y(tick)}"/><text class="axis" x="${left - 8}" y="${y(tick) + 4}" text-anchor="end">${shown(tick)}</text>`,
    ),
    ...xs.ticks.map(
      (tick) => `<text class="axis" x="${x(tick)}" y="${bottom + 18}" text-anchor="middle">${shown(tick)}</text>`,
    ),
    `<text class="axis" x="${(left + right) / 2}" y="${bottom + 36}" text-anchor="middle">${escape(xTitle)}</text>`,
  ];
  const ends = spaced(series.map(({ points }) => y(points.at(-1)[1])));
  const lines = series.map(({ label, own, points }, i) => {
    const kind = own ? " own" : "";
    const path = points.map(([px, py], n) => `${n === 0 ? "M" : "L"}${x(px).toFixed(1)} ${y(py).toFixed(1)}`).join(" ");
    const dots = points.map(
      ([px, py]) => `<circle class="dot${kind}" cx="${x(px).toFixed(1)}" cy="${y(py).toFixed(1)}" r="4"/>`,
    );
    return `<path class="line${kind}" d="${path}"/>${dots.join("")}<text class="label${kind}" x="${x(points.at(-1)[0]) + 10}" y="${ends[i] + 4}">${escape(label)}</text>`;
  });
  return picture(bottom + 52, title, subtitle, [...grid, ...lines].join("\n"));
}

/** Moves labels apart that would lie on each other. */
function spaced(places) {
  const order = places.map((place, i) => ({ place, i })).sort((a, b) => a.place - b.place);
  let last = -Infinity;
  for (const one of order) {
    one.place = Math.max(one.place, last + 16);
    last = one.place;
  }
  return order.sort((a, b) => a.i - b.i).map(({ place }) => place);
}

function decades(values) {
  const from = Math.floor(Math.log10(Math.min(...values)));
  const to = Math.max(from + 1, Math.ceil(Math.log10(Math.max(...values))));
  return { from, to, ticks: Array.from({ length: to - from + 1 }, (_, i) => 10 ** (from + i)) };
}

function picture(height, title, subtitle, content) {
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" role="img" aria-label="${escape(title)}">
<style>${STYLE}
</style>
<text class="title" x="14" y="28">${escape(title)}</text>
<text class="sub" x="14" y="50">${escape(subtitle)}</text>
${content}
</svg>
`;
}

function escape(text) {
  return String(text)
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replaceAll('"', "&quot;");
}
