/** The page of one lock: who holds it, who waits in which order, its last minutes, and what can be done about it. */
import { modeText, moveBar } from "./bar.ts";
import { h } from "./dom.ts";
import { app, bytes, clock, duration, plural, visible } from "./format.ts";
import { graphView } from "./graph-view.ts";
import type { Model } from "./model.ts";
import { queueView } from "./queue-view.ts";
import { handOvers, timelineView } from "./timeline-view.ts";
import type { HolderView, LockPage, LockRow, Meta } from "../wire.ts";

const SPANS: readonly (readonly [label: string, ms: number])[] = [
  ["1 min", 60_000],
  ["5 min", 300_000],
  ["10 min", 600_000],
];

export interface LockViewState {
  spanMs: number;
}

export interface LockViewActions {
  readonly release: (row: LockRow, holder: HolderView) => void;
  readonly redraw: () => void;
}

export function lockView(
  model: Model,
  name: string,
  state: LockViewState,
  actions: LockViewActions,
  widthPx: number,
): readonly (HTMLElement | null)[] {
  const page = model.page?.name === name ? model.page : undefined;
  const row = page?.row ?? model.rows.get(name);
  const nowMs = model.now();
  return [
    h("p", { class: "crumbs" }, h("a", { href: "#/", "data-key": "back" }, "← All locks")),
    h("h1", { class: "lock-name" }, visible(name), ...chips(row, nowMs)),
    h("p", { class: "summary" }, summary(row)),
    ...(page?.deadlocks ?? []).map((deadlock) => panel("Deadlock", graphView(deadlock))),
    h(
      "div",
      { class: (row?.holders.length ?? 0) > 1 ? "stack" : "columns lock" },
      panel("Holders", holders(model, row, actions)),
      panel(
        row !== undefined && row.waiting > 0 ? `Queue, ${plural(row.waiting, "waiter")}` : "Queue",
        queueView(row, nowMs),
      ),
    ),
    page === undefined
      ? h("p", { class: "note" }, "Asking the store …")
      : timeline(page, nowMs, state, actions, widthPx),
    page === undefined || page.forced.length === 0 ? null : panel("Ended by force", forced(page, nowMs)),
    page?.outcome === undefined ? null : panel("Outcome of its work", outcome(page, nowMs)),
  ];
}

function panel(title: string, ...inside: readonly (HTMLElement | null)[]): HTMLElement {
  return h("section", { class: "panel" }, h("h2", {}, title), ...inside);
}

function chips(row: LockRow | undefined, nowMs: number): readonly HTMLElement[] {
  if (row === undefined) return [];
  return [
    ...(row.deadlocked === true ? [h("span", { class: "chip bad" }, "deadlock")] : []),
    ...(row.quarantineEndsMs === undefined
      ? []
      : [h("span", { class: "chip bad" }, `quarantine, ${clock(row.quarantineEndsMs - nowMs)} left`)]),
    ...(row.holders.some(({ late }) => late) ? [h("span", { class: "chip warn" }, "renewal late")] : []),
  ];
}

function summary(row: LockRow | undefined): string {
  if (row === undefined) return "Free: it is neither held nor waited for.";
  const use =
    row.limit > 1
      ? `${row.holders.length} of ${row.limit} places are taken`
      : row.holders.length === 0
        ? "Not held"
        : `Held, ${modeText(row)}`;
  return `${use}. ${row.waiting === 0 ? "No one waits." : `${plural(row.waiting, "waits", "wait")}.`}`;
}

function holders(model: Model, row: LockRow | undefined, actions: LockViewActions): HTMLElement {
  if (row === undefined || row.holders.length === 0) return h("p", { class: "note" }, "No one holds it now.");
  return h("ul", { class: "cards" }, ...row.holders.map((holder) => holderCard(model, row, holder, actions)));
}

function holderCard(model: Model, row: LockRow, holder: HolderView, actions: LockViewActions): HTMLElement {
  const nowMs = model.now();
  const bar = h("span", { class: "bar" }, h("span", { class: "fill" }), h("span", { class: "bar-text" }));
  moveBar(bar, {}, holder, nowMs);
  const canRelease = model.hello?.canRelease === true && holder.remainder === undefined;
  return h(
    "li",
    { class: "card" },
    h(
      "div",
      { class: "who" },
      h("strong", {}, visible(holder.host)),
      holder.pid === undefined ? null : h("span", { class: "dim" }, `pid ${holder.pid}`),
      app(holder) === "" ? null : h("span", { class: "dim" }, visible(app(holder))),
    ),
    h(
      "dl",
      { class: "facts" },
      ...fact("Held for", clock(nowMs - holder.sinceMs)),
      ...fact("Time left", bar),
      ...fact("Fence", h("code", {}, holder.fence)),
      ...(holder.users > 1 ? fact("Shared in its process by", String(holder.users)) : []),
      ...(holder.behind > 0 ? fact("Waiting in its process", String(holder.behind)) : []),
      ...metaFacts(holder.meta, model.hello?.traceUrl),
    ),
    canRelease
      ? h(
          "button",
          {
            type: "button",
            class: "danger",
            "data-key": `release ${holder.fence}`,
            onclick: () => actions.release(row, holder),
          },
          "Force release …",
        )
      : null,
  );
}

function fact(name: string, value: string | HTMLElement): readonly HTMLElement[] {
  return [h("dt", {}, name), h("dd", {}, value)];
}

/** What its holder says of itself. A trace is a link where the console knows where traces are shown. */
function metaFacts(meta: Meta, traceUrl: string | undefined): readonly HTMLElement[] {
  return Object.entries(meta)
    .filter(([field]) => field !== "app" && field !== "version")
    .flatMap(([field, text]) => {
      const [, traceId, spanId] =
        /^[\da-f]{2}-([\da-f]{32})-([\da-f]{16})-[\da-f]{2}$/.exec(field === "traceparent" ? text : "") ?? [];
      if (traceId === undefined || spanId === undefined) return fact(visible(field), visible(text));
      if (traceUrl === undefined) return fact("trace", h("code", {}, traceId));
      const href = traceUrl.replaceAll("{traceId}", traceId).replaceAll("{spanId}", spanId);
      return fact(
        "trace",
        h("a", { href, target: "_blank", rel: "noopener noreferrer", "data-key": `trace ${spanId}` }, traceId),
      );
    });
}

function timeline(
  page: LockPage,
  nowMs: number,
  state: LockViewState,
  actions: LockViewActions,
  widthPx: number,
): HTMLElement {
  const buttons = SPANS.map(([label, ms]) =>
    h(
      "button",
      {
        type: "button",
        "aria-pressed": String(state.spanMs === ms),
        "data-key": `span ${ms}`,
        onclick: () => {
          state.spanMs = ms;
          actions.redraw();
        },
      },
      label,
    ),
  );
  const changes = handOvers(page.timeline);
  return h(
    "section",
    { class: "panel" },
    h(
      "div",
      { class: "panel-head" },
      h("h2", {}, "Timeline"),
      h("div", { class: "segmented", role: "group", "aria-label": "How far back" }, ...buttons),
    ),
    timelineView(page, nowMs, state.spanMs, Math.max(280, widthPx)),
    h(
      "p",
      { class: "legend" },
      h("span", { class: "key hold" }, "held"),
      h("span", { class: "key wait" }, "waited"),
      h("span", { class: "key loss" }, "lost"),
      h("span", { class: "key unwatched" }, "not watched"),
    ),
    changes.length === 0
      ? null
      : h(
          "table",
          { class: "plain" },
          h("caption", {}, "Hand-overs, the last first"),
          h(
            "thead",
            {},
            h("tr", {}, ...["From", "To", "Gap", "How it ended"].map((title) => h("th", { scope: "col" }, title))),
          ),
          h(
            "tbody",
            {},
            ...changes.map(({ from, to, gapMs, isExact }) =>
              h(
                "tr",
                {},
                h("th", { scope: "row" }, visible(from.holder)),
                h("td", {}, visible(to.holder)),
                h("td", {}, `${isExact ? "" : "at most "}${duration(gapMs)}`),
                h("td", {}, endWords(from.end)),
              ),
            ),
          ),
        ),
    h(
      "p",
      { class: "note" },
      "The store is looked at once a second: holds and waits that are shorter are not seen, unless they are of the process that serves this page.",
    ),
  );
}

function endWords(end: string | undefined): string {
  return { forced: "ended by force", lost: "lost", out: "its time ran out" }[end ?? ""] ?? "released";
}

function forced({ forced: all }: LockPage, nowMs: number): HTMLElement {
  return h(
    "table",
    { class: "plain" },
    h("thead", {}, h("tr", {}, ...["When", "By", "Reason", "Fence"].map((title) => h("th", { scope: "col" }, title)))),
    h(
      "tbody",
      {},
      ...all.map(({ fence, by, reason, atMs }) =>
        h(
          "tr",
          {},
          h("td", {}, `${duration(nowMs - atMs)} ago`),
          h("th", { scope: "row" }, visible(by)),
          h("td", {}, visible(reason)),
          h("td", {}, h("code", {}, fence)),
        ),
      ),
    ),
  );
}

function outcome({ outcome: kept }: LockPage, nowMs: number): HTMLElement {
  const { bytes: size, atMs, endsMs, holder, fence } = kept!;
  return h(
    "dl",
    { class: "facts" },
    ...fact("Size", bytes(size)),
    ...fact("Age", duration(nowMs - atMs)),
    ...fact("Kept for", duration(Math.max(0, endsMs - nowMs))),
    ...fact("Done by", visible(holder)),
    ...fact("Fence", h("code", {}, fence)),
  );
}
