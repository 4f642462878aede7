/** All locks in figures: how many are held and waited for, how long that takes, what costs the most waiting, and how the store is. */
import { h, svg } from "./dom.ts";
import { count, duration, plural, rate, visible } from "./format.ts";
import { graphView } from "./graph-view.ts";
import type { Model } from "./model.ts";
import type { ContendedView, Figures, Overview, Point, SpreadView, StoreView } from "../wire.ts";

const CHART = { width: 560, height: 120 };
const CHART_MS = 300_000;
const MARKS = { good: "✓", weak: "!", broken: "✗", unknown: "?" } as const;

export function overviewView(model: Model): readonly (HTMLElement | null)[] {
  const { overview, points } = model;
  if (overview === undefined) return [h("p", { class: "note" }, "Asking the store …")];
  const { held, waiting, seen, own, deadlocks, store } = overview;
  const nowMs = model.now();
  // Before the first answer nothing is known: that is not zero.
  const isKnown = store.answeredMs !== undefined;
  const known = (n: number): string => (isKnown ? count(n) : "—");
  return [
    h("h1", { class: "sr" }, "Overview"),
    h(
      "dl",
      { class: "tiles" },
      tile("Held", known(held)),
      tile("Waiting", known(waiting), waiting > 0 ? "note-waited" : ""),
      tile("Acquires a second", isKnown ? rate(Math.max(seen.acquiresPerSecond, own?.acquiresPerSecond ?? 0)) : "—"),
      tile("Lost", known(Math.max(seen.lost, own?.lost ?? 0)), seen.lost > 0 ? "bad" : ""),
      tile("Renewals late", known(seen.renewalsLate), seen.renewalsLate > 0 ? "warn" : ""),
      tile("Deadlocks", known(deadlocks.length), deadlocks.length > 0 ? "bad" : ""),
    ),
    h(
      "div",
      { class: "columns" },
      section(
        "Held and waiting, last 5 minutes",
        chart(points, nowMs, [
          ["held", (point) => point.held],
          ["waiting", (point) => point.waiting],
        ]),
      ),
      section("Leases begun, by second", chart(points, nowMs, [["acquires", (point) => point.acquires]])),
    ),
    h(
      "div",
      { class: "columns" },
      section("How long", figures(overview)),
      section("The store", ...health(store, nowMs)),
    ),
    section(
      "Most waited for",
      contended(own === undefined ? seen.contended : merged(seen, own), "No one has waited since this is watched."),
    ),
    deadlocks.length === 0 ? null : section(plural(deadlocks.length, "deadlock"), ...deadlocks.map(graphView)),
  ];
}

function section(title: string, ...inside: readonly (Node | string | null)[]): HTMLElement {
  return h("section", { class: "panel" }, h("h2", {}, title), ...inside);
}

function tile(name: string, value: string, look = ""): HTMLElement {
  return h("div", { class: `tile ${look}` }, h("dt", {}, name), h("dd", {}, value));
}

/** Looks see all processes, but nothing that is shorter than a second; events are exact, but of one process. */
function figures({ seen, own }: Overview): HTMLElement {
  const columns = [["in the store", seen] as const, ...(own === undefined ? [] : [["this process", own] as const])];
  const row = (title: string, of: (from: Figures) => string): HTMLElement =>
    h("tr", {}, h("th", { scope: "row" }, title), ...columns.map(([, from]) => h("td", {}, of(from))));
  const spread =
    (pick: (spread: SpreadView) => number, of: (from: Figures) => SpreadView) =>
    (from: Figures): string =>
      of(from).count === 0 ? "—" : duration(pick(of(from)));
  return h(
    "div",
    {},
    h(
      "table",
      { class: "plain figures" },
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          h("th", { scope: "col" }, h("span", { class: "sr" }, "Figure")),
          ...columns.map(([title]) => h("th", { scope: "col" }, title)),
        ),
      ),
      h(
        "tbody",
        {},
        row(
          "Wait, median",
          spread(
            (one) => one.p50Ms,
            ({ wait }) => wait,
          ),
        ),
        row(
          "Wait, 99 %",
          spread(
            (one) => one.p99Ms,
            ({ wait }) => wait,
          ),
        ),
        row(
          "Hold, median",
          spread(
            (one) => one.p50Ms,
            ({ hold }) => hold,
          ),
        ),
        row(
          "Hold, 99 %",
          spread(
            (one) => one.p99Ms,
            ({ hold }) => hold,
          ),
        ),
        row("Acquires a second", (from) => rate(from.acquiresPerSecond)),
        row("Lost", (from) => count(from.lost)),
      ),
    ),
    h(
      "p",
      { class: "note" },
      "The store is looked at once a second: holds and waits that are shorter are not seen there.",
    ),
  );
}

function merged(seen: Figures, own: Figures): readonly ContendedView[] {
  const known = new Set(seen.contended.map(({ name }) => name));
  return [...seen.contended, ...own.contended.filter(({ name }) => !known.has(name))]
    .toSorted((a, b) => b.waitMs - a.waitMs)
    .slice(0, 10);
}

function contended(rows: readonly ContendedView[], none: string): HTMLElement {
  if (rows.length === 0) return h("p", { class: "note" }, none);
  const most = Math.max(1, ...rows.map(({ waitMs }) => waitMs));
  return h(
    "table",
    { class: "plain contended" },
    h(
      "thead",
      {},
      h("tr", {}, ...["Lock", "Waited in all", "Waiting", "For whom"].map((title) => h("th", { scope: "col" }, title))),
    ),
    h(
      "tbody",
      {},
      ...rows.map(({ name, waiting, waitMs, holders }) => {
        const share = h("span", { class: "share" });
        share.style.setProperty("--part", String(waitMs / most));
        return h(
          "tr",
          {},
          h(
            "th",
            { scope: "row" },
            h("a", { href: `#/lock/${encodeURIComponent(name)}`, "data-key": `contended ${name}` }, visible(name)),
          ),
          h("td", {}, share, duration(waitMs)),
          h("td", {}, waiting > 0 ? count(waiting) : "—"),
          h(
            "td",
            {},
            holders
              .map(
                ({ holder, reason, waitMs: partMs }) =>
                  `${visible(holder)}${reason === undefined ? "" : ` (${visible(reason)})`} ${duration(partMs)}`,
              )
              .join(", "),
          ),
        );
      }),
    ),
  );
}

function health(store: StoreView, nowMs: number): readonly HTMLElement[] {
  const { state, backend, answerMs, answeredMs, error, findings, findingsError } = store;
  const says =
    state === "up"
      ? `The store${backend === undefined ? "" : ` (${backend})`} answered in ${duration(answerMs ?? 0)}.`
      : state === "down"
        ? `${error ?? "It does not answer."}${answeredMs === undefined ? "" : ` Its last answer was ${duration(nowMs - answeredMs)} ago.`}`
        : "Asking …";
  return [
    h("p", { class: state === "down" ? "bad" : "" }, says),
    ...(findingsError === undefined
      ? []
      : [h("p", { class: "warn" }, `holdfast doctor could not look at it: ${findingsError}`)]),
    ...(findings === undefined
      ? []
      : [
          h(
            "ul",
            { class: "findings" },
            ...findings.map(({ level, text }) =>
              h(
                "li",
                { class: level },
                h("span", { class: "mark", "aria-hidden": "true" }, MARKS[level]),
                h("span", { class: "sr" }, `${level}: `),
                visible(text),
              ),
            ),
          ),
        ]),
  ];
}

/** Lines over the last minutes, drawn by hand. */
function chart(
  points: readonly Point[],
  nowMs: number,
  series: readonly (readonly [name: string, of: (point: Point) => number])[],
): HTMLElement {
  const { width, height } = CHART;
  const recent = points.filter(({ atMs }) => atMs > nowMs - CHART_MS);
  const most = Math.max(1, ...recent.flatMap((point) => series.map(([, of]) => of(point))));
  const x = (atMs: number): number => width - ((nowMs - atMs) / CHART_MS) * width;
  const y = (value: number): number => height - 14 - (value / most) * (height - 28);
  const last = recent.at(-1);
  const words = series.map(([name, of]) => `${name} ${last === undefined ? 0 : of(last)}`).join(", ");
  return h(
    "div",
    { class: "chart" },
    h("p", { class: "scale" }, count(most)),
    svg(
      "svg",
      {
        role: "img",
        "aria-label": `Now: ${words}. Most: ${most}.`,
        viewBox: `0 0 ${width} ${height}`,
        preserveAspectRatio: "none",
      },
      svg("line", { class: "axis", x1: 0, x2: width, y1: height - 14, y2: height - 14 }),
      svg("line", { class: "axis dotted", x1: 0, x2: width, y1: 14, y2: 14 }),
      ...series.map(([name, of]) =>
        svg("polyline", {
          class: `series ${name}`,
          points: recent.map((point) => `${x(point.atMs).toFixed(1)},${y(of(point)).toFixed(1)}`).join(" "),
        }),
      ),
    ),
    h("p", { class: "scale ends" }, h("span", {}, `−${duration(CHART_MS).replace(" 00 s", "")}`), h("span", {}, "now")),
    h(
      "p",
      { class: "legend" },
      ...series.map(([name, of]) =>
        h("span", { class: `key ${name}` }, `${name} ${last === undefined ? "—" : count(of(last))}`),
      ),
    ),
  );
}
