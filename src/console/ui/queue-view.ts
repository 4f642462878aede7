/** Who waits for a lock, in order. */
import { h } from "./dom.ts";
import { app, clock, visible } from "./format.ts";
import type { LockRow, WaiterView } from "../wire.ts";

export function queueView(row: LockRow | undefined, nowMs: number): HTMLElement {
  if (row === undefined || row.waiters.length === 0) return h("p", { class: "note" }, "The queue is empty.");
  const { waiters } = row;
  // Columns without anything in them are room for the others.
  const isAny = {
    behind: waiters.some(({ behind }) => behind > 0),
    says: waiters.some((waiter) => says(waiter) !== ""),
  };
  return h(
    "table",
    { class: "plain queue" },
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        ...[
          "Place",
          "Who",
          "Waiting for",
          "Mode",
          ...(isAny.behind ? ["Behind it"] : []),
          ...(isAny.says ? ["Says"] : []),
        ].map((title) => h("th", { scope: "col" }, title)),
      ),
    ),
    h("tbody", {}, ...waiters.map((waiter) => queueRow(waiter, nowMs, isAny))),
  );
}

function says({ meta }: WaiterView): string {
  return Object.entries(meta)
    .filter(([field]) => field !== "app" && field !== "version")
    .map(([field, text]) => `${visible(field)}=${visible(text)}`)
    .join("  ");
}

function queueRow(
  waiter: WaiterView,
  nowMs: number,
  isAny: { readonly behind: boolean; readonly says: boolean },
): HTMLElement {
  return h(
    "tr",
    {},
    h("td", {}, String(waiter.position)),
    h(
      "th",
      { scope: "row" },
      visible(waiter.holder),
      app(waiter) === "" ? null : h("span", { class: "dim" }, ` ${visible(app(waiter))}`),
    ),
    h("td", {}, clock(nowMs - waiter.sinceMs)),
    h("td", {}, waiter.mode),
    isAny.behind ? h("td", {}, waiter.behind > 0 ? `${waiter.behind} of its process` : "—") : null,
    isAny.says ? h("td", { class: "dim" }, says(waiter)) : null,
  );
}
