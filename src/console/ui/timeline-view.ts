/** The last minutes of a lock as a picture: who held it, who waited, how it changed hands, and what was lost. */
import { h, svg } from "./dom.ts";
import { duration, visible } from "./format.ts";
import type { LockPage, Segment } from "../wire.ts";

const LANE_PX = 22;
const LANES_MAX = 14;
const TOP_PX = 20;
const HAND_OVERS_MAX = 8;
const END_WORDS: Readonly<Record<string, string>> = { forced: "ended by force", lost: "lost", out: "its time ran out" };

interface Placed {
  readonly segment: Segment;
  readonly lane: number;
}

export interface HandOver {
  readonly from: Segment;
  readonly to: Segment;
  readonly gapMs: number;
  readonly isExact: boolean;
}

export function timelineView(page: LockPage, nowMs: number, spanMs: number, widthPx: number): HTMLElement {
  const fromMs = nowMs - spanMs;
  const all = page.timeline.filter(({ endMs }) => (endMs ?? nowMs) > fromMs);
  const holds = placed(
    all.filter(({ kind }) => kind === "hold"),
    0,
    nowMs,
  );
  const holdLanes = Math.max(1, ...holds.map(({ lane }) => lane + 1));
  const waits = placed(
    all.filter(({ kind }) => kind === "wait"),
    holdLanes,
    nowMs,
  );
  const shown = [...holds, ...waits].filter(({ lane }) => lane < LANES_MAX);
  const lanes = Math.min(LANES_MAX, Math.max(holdLanes, ...waits.map(({ lane }) => lane + 1)));
  const heightPx = TOP_PX + lanes * LANE_PX + 4;
  const x = (ms: number): number => ((Math.max(fromMs, ms) - fromMs) / spanMs) * widthPx;
  const label = `${holds.length} holds and ${waits.length} waits in the last ${duration(spanMs)}`;
  return h(
    "div",
    { class: "timeline" },
    svg(
      "svg",
      { role: "img", "aria-label": label, width: widthPx, height: heightPx, viewBox: `0 0 ${widthPx} ${heightPx}` },
      hatches(),
      ...ticks(spanMs, widthPx, heightPx),
      ...page.unwatched
        .filter(([, toMs]) => toMs > fromMs)
        .map(([start, end]) =>
          svg(
            "rect",
            {
              class: "unwatched",
              x: x(start),
              y: TOP_PX,
              width: Math.max(1, x(end) - x(start)),
              height: heightPx - TOP_PX,
            },
            svg("title", {}, "no one watched: nothing is known of this time"),
          ),
        ),
      ...shown.flatMap(({ segment, lane }) => bar(segment, TOP_PX + lane * LANE_PX, x, nowMs)),
    ),
    waits.some(({ lane }) => lane >= LANES_MAX)
      ? h("p", { class: "note" }, "More waits than there is room for.")
      : null,
  );
}

/** Bars that overlap lie below each other. */
function placed(segments: readonly Segment[], from: number, nowMs: number): readonly Placed[] {
  const ends: number[] = [];
  return segments.map((segment) => {
    const free = ends.findIndex((endMs) => endMs <= segment.sinceMs + 1);
    const at = free < 0 ? ends.length : free;
    ends[at] = segment.endMs ?? nowMs;
    return { segment, lane: from + at };
  });
}

function bar(segment: Segment, y: number, x: (ms: number) => number, nowMs: number): readonly SVGElement[] {
  const { kind, holder, fence, sinceMs, seenMs, endMs = nowMs, end } = segment;
  const [left, seen, right] = [x(sinceMs), x(Math.min(seenMs, endMs)), x(endMs)];
  const width = Math.max(2, right - left);
  const title = `${kind === "hold" ? "held by" : "waited:"} ${visible(holder)}${fence === undefined ? "" : `, fence ${fence}`}, ${duration(endMs - sinceMs)}${end === undefined ? ", still" : end === "over" ? "" : `, ${END_WORDS[end]}`}`;
  const isBad = end !== undefined && end !== "over";
  const height = LANE_PX - 6;
  return [
    svg("rect", { class: `${kind} maybe`, x: left, y, width, height, rx: 2 }, svg("title", {}, title)),
    svg(
      "rect",
      { class: kind, x: left, y, width: Math.max(2, Math.min(width, seen - left)), height, rx: 2 },
      svg("title", {}, title),
    ),
    ...(isBad
      ? [svg("rect", { class: "loss", x: right - 2, y: y - 2, width: 3, height: height + 4 }, svg("title", {}, title))]
      : []),
    ...(width > 90
      ? [svg("text", { class: `label ${kind}`, x: left + 6, y: y + 12 }, clip(visible(holder), width))]
      : []),
  ];
}

function clip(text: string, widthPx: number): string {
  const most = Math.floor((widthPx - 12) / 7);
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

function hatches(): SVGElement {
  return svg(
    "defs",
    {},
    svg(
      "pattern",
      { id: "hatch", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
      svg("rect", { class: "hatch", width: 2, height: 6 }),
    ),
  );
}

function ticks(spanMs: number, widthPx: number, heightPx: number): readonly SVGElement[] {
  const wanted = Math.max(2, Math.floor(widthPx / 130));
  const stepMs = [10_000, 15_000, 30_000, 60_000, 120_000, 300_000].find((step) => spanMs / step <= wanted) ?? 600_000;
  const marks = Array.from({ length: Math.floor(spanMs / stepMs) + 1 }, (_, at) => at * stepMs).filter(
    (ago) => ago < spanMs,
  );
  return marks.flatMap((ago) => {
    const at = widthPx - (ago / spanMs) * widthPx;
    const text = ago === 0 ? "now" : `−${duration(ago).replace(".0 s", " s").replace(" 00 s", "")}`;
    return [
      svg("line", { class: "tick", x1: at, x2: at, y1: TOP_PX - 4, y2: heightPx }),
      svg("text", { class: "tick-text", x: at - 4, y: 12, "text-anchor": "end" }, text),
    ];
  });
}

/** From one holder to the next, the newest first. Where the end was not seen to the instant, the gap is at most so long. */
export function handOvers(timeline: readonly Segment[]): readonly HandOver[] {
  const holds = timeline.filter(({ kind, mode }) => kind === "hold" && mode === "exclusive");
  const found: HandOver[] = [];
  for (const [at, to] of holds.entries()) {
    const from = holds[at - 1];
    if (from?.endMs === undefined || from.endMs > to.sinceMs + 1) continue;
    const wasWaited = timeline.some(
      ({ kind, sinceMs, endMs }) => kind === "wait" && sinceMs <= to.sinceMs && (endMs ?? Infinity) >= to.sinceMs - 1,
    );
    if (!wasWaited) continue;
    const isExact = from.exact === true && to.exact === true;
    found.push({ from, to, gapMs: Math.max(0, to.sinceMs - (isExact ? from.endMs : from.seenMs)), isExact });
  }
  return found.toReversed().slice(0, HAND_OVERS_MAX);
}
