/** Draws a play as one SVG: lanes for clients, stores and the protected thing; bars for belief and truth; numbered marks. */
import type { LabEvent } from "../events.ts";
import { beliefsOf } from "../history.ts";
import { awake } from "../judge.ts";
import type { PlayResult } from "../play-types.ts";
import { escapeHtml } from "./escape.ts";
import { GUARDED_LANE, momentsOf, PLAIN_LANE } from "./moments.ts";
import type { Moment } from "./moments.ts";

const LANE_HEIGHT = 46;
const BAR_TOP = 20;
const BAR_HEIGHT = 16;
const THIN_TOP = 24;
const THIN_HEIGHT = 8;
const MARK_RADIUS = 8;
const MARGIN = 10;
const AXIS_HEIGHT = 24;

export interface Picture {
  readonly svg: string;
  readonly moments: readonly Moment[];
}

interface Canvas {
  readonly width: number;
  readonly spanMs: number;
  readonly x: (ms: number) => number;
  readonly y: (lane: string) => number;
  readonly lanes: readonly Lane[];
  /** The class with a client's colour. */
  readonly tint: (client: string) => string;
}

interface Lane {
  readonly name: string;
  readonly label: string;
  readonly kind: "client" | "store" | "counter";
}

/** `width` is the picture's own width: text keeps its size, so a narrow picture is drawn, not shrunk. */
export function drawTimeline(result: PlayResult, width: number): Picture {
  const clients = clientsOf(result);
  const canvas = makeCanvas(result, clients, width);
  const moments = momentsOf(result, new Set(clients));
  const height = canvas.lanes.length * LANE_HEIGHT + AXIS_HEIGHT;
  const parts = [
    axis(canvas, height),
    ...canvas.lanes.map((lane) => laneTitle(canvas, lane)),
    overlaps(canvas, result, clients.length),
    ...beliefBars(canvas, result),
    ...truthBars(canvas, result),
    ...marks(canvas, moments),
  ];
  const title = escapeHtml(`${result.scenario.title} (${result.stage.backend})`);
  const svg = `<svg viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" aria-label="${title}">${parts.join("")}</svg>`;
  return { svg, moments };
}

function clientsOf(result: PlayResult): readonly string[] {
  const names = result.scenario.steps.flatMap((step) => ("who" in step ? [step.who] : []));
  return [...new Set(names)].toSorted();
}

function makeCanvas(result: PlayResult, clients: readonly string[], width: number): Canvas {
  const stores = new Set([...result.stage.observers, ...faultyServers(result, clients)]);
  const lanes: Lane[] = [
    ...clients.map((name) => ({ name, label: `client ${name}: what it believes`, kind: "client" as const })),
    ...[...stores].map((name) => ({ name, label: `${name}: who holds the lock`, kind: "store" as const })),
    { name: PLAIN_LANE, label: "protected thing, fencing off", kind: "counter" },
    { name: GUARDED_LANE, label: "protected thing, fencing on", kind: "counter" },
  ];
  const rows = new Map(lanes.map(({ name }, i) => [name, i * LANE_HEIGHT]));
  const spanMs = Math.max(1, result.endMs - result.startMs) * 1.02;
  return {
    width,
    spanMs,
    lanes,
    x: (ms) => MARGIN + (Math.max(0, Math.min(ms, spanMs)) / spanMs) * (width - 2 * MARGIN),
    y: (lane) => rows.get(lane) ?? 0,
    tint: (client) => (clients.includes(client) ? `c${clients.indexOf(client) % 5}` : "c-other"),
  };
}

/** Servers without an observer to which something happened. */
function faultyServers(result: PlayResult, clients: readonly string[]): readonly string[] {
  const lanes = result.events.filter(({ kind }) => kind === "fault").map(({ lane }) => lane);
  return lanes.filter((lane) => !clients.includes(lane));
}

function axis({ width, spanMs, x }: Canvas, height: number): string {
  const stepMs = [100, 200, 500, 1000, 2000, 5000, 10_000].find((ms) => (ms / spanMs) * width > 64) ?? 20_000;
  let drawn = "";
  for (let ms = 0; ms <= spanMs; ms += stepMs) {
    const at = x(ms).toFixed(1);
    drawn += `<line class="grid" x1="${at}" x2="${at}" y1="0" y2="${height - AXIS_HEIGHT + 4}"/>`;
    drawn += `<text class="tick" x="${at}" y="${height - 6}" text-anchor="${ms === 0 ? "start" : "middle"}">${ms / 1000} s</text>`;
  }
  return drawn;
}

function laneTitle({ width, y }: Canvas, lane: Lane): string {
  const top = y(lane.name);
  const middle = top + BAR_TOP + BAR_HEIGHT / 2;
  return (
    `<text class="lane" x="${MARGIN}" y="${top + 13}">${escapeHtml(lane.label)}</text>` +
    `<line class="rail" x1="${MARGIN}" x2="${width - MARGIN}" y1="${middle}" y2="${middle}"/>`
  );
}

function bar(canvas: Canvas, lane: string, fromMs: number, untilMs: number, style: string, thin = false): string {
  const [x1, x2] = [canvas.x(fromMs), canvas.x(untilMs)];
  const top = canvas.y(lane) + (thin ? THIN_TOP : BAR_TOP);
  const wide = Math.max(2, x2 - x1).toFixed(1);
  return `<rect class="${style}" x="${x1.toFixed(1)}" y="${top}" width="${wide}" height="${thin ? THIN_HEIGHT : BAR_HEIGHT}" rx="4"/>`;
}

function beliefBars(canvas: Canvas, result: PlayResult): readonly string[] {
  const { events, startMs, endMs } = result;
  const beliefs = beliefsOf(events, endMs);
  return [
    ...beliefs.map(({ client, fromMs, untilMs }) =>
      bar(canvas, client, fromMs - startMs, untilMs - startMs, `belief asleep ${canvas.tint(client)}`),
    ),
    ...awake(beliefs, events, endMs).map(({ client, fromMs, untilMs }) =>
      bar(canvas, client, fromMs - startMs, untilMs - startMs, `belief ${canvas.tint(client)}`),
    ),
    ...sleeps(events, endMs).map(({ lane, fromMs, untilMs }) =>
      bar(canvas, lane, fromMs - startMs, untilMs - startMs, "sleep"),
    ),
  ];
}

/** From stop to continuation, of clients and servers. */
function sleeps(
  events: readonly LabEvent[],
  endMs: number,
): readonly { lane: string; fromMs: number; untilMs: number }[] {
  const open = new Map<string, number>();
  const spans: { lane: string; fromMs: number; untilMs: number }[] = [];
  for (const event of events) {
    if (event.kind !== "fault") continue;
    const fromMs = open.get(event.lane);
    if (event.sign === "pause" || event.sign === "block" || event.sign === "kill") open.set(event.lane, event.atMs);
    else if ((event.sign === "resume" || event.sign === "restart") && fromMs !== undefined) {
      open.delete(event.lane);
      spans.push({ lane: event.lane, fromMs, untilMs: event.atMs });
    }
  }
  for (const [lane, fromMs] of open) spans.push({ lane, fromMs, untilMs: endMs });
  return spans;
}

function truthBars(canvas: Canvas, { stage, events, startMs, endMs }: PlayResult): readonly string[] {
  return stage.observers.flatMap((lane) => {
    const truths = events.flatMap((event) => (event.kind === "truth" && event.lane === lane ? [event] : []));
    return truths.flatMap((truth, i) => {
      const untilMs = (truths[i + 1]?.atMs ?? endMs) - startMs;
      const fromMs = truth.atMs - startMs;
      if (truth.away === true) return [bar(canvas, lane, fromMs, untilMs, "sleep", true)];
      return truth.holders.map((holder) => bar(canvas, lane, fromMs, untilMs, `truth ${canvas.tint(holder)}`, true));
    });
  });
}

/** Where two clients believed at once, over all clients' lanes. */
function overlaps(canvas: Canvas, result: PlayResult, clients: number): string {
  const { events, startMs, endMs } = result;
  const spans = awake(beliefsOf(events, endMs), events, endMs);
  let drawn = "";
  for (const [i, a] of spans.entries()) {
    for (const b of spans.slice(i + 1)) {
      const [fromMs, untilMs] = [Math.max(a.fromMs, b.fromMs), Math.min(a.untilMs, b.untilMs)];
      if (a.client === b.client || fromMs >= untilMs) continue;
      const [x1, x2] = [canvas.x(fromMs - startMs), canvas.x(untilMs - startMs)];
      drawn += `<rect class="overlap" x="${x1.toFixed(1)}" y="4" width="${Math.max(2, x2 - x1).toFixed(1)}" height="${clients * LANE_HEIGHT - 6}" rx="4"/>`;
    }
  }
  return drawn;
}

/** Marks that would cover each other are moved apart, and tied to their instant by a line. */
function marks(canvas: Canvas, moments: readonly Moment[]): readonly string[] {
  const places = placeMarks(canvas, moments);
  return moments.map(({ number, atMs, lane, client, mark, text }) => {
    const trueX = canvas.x(atMs);
    const x = places.get(number) ?? trueX;
    const y = canvas.y(lane) + BAR_TOP + BAR_HEIGHT / 2;
    const tint = client === undefined ? "" : ` ${canvas.tint(client)}`;
    const tie =
      Math.abs(x - trueX) > 1
        ? `<line class="tie" x1="${trueX.toFixed(1)}" x2="${x.toFixed(1)}" y1="${y}" y2="${y}"/>`
        : "";
    return (
      `${tie}<g class="mark ${mark}${tint}"><title>${escapeHtml(`${(atMs / 1000).toFixed(2)} s  ${text}`)}</title>` +
      `<circle cx="${x.toFixed(1)}" cy="${y}" r="${MARK_RADIUS}"/>` +
      `<text x="${x.toFixed(1)}" y="${y + 3.5}" text-anchor="middle">${number}</text></g>`
    );
  });
}

/** Lane by lane: to the right where there is no room, and back from the edge where that went too far. */
function placeMarks(canvas: Canvas, moments: readonly Moment[]): ReadonlyMap<number, number> {
  const places = new Map<number, number>();
  const apart = 2 * MARK_RADIUS + 1;
  for (const { name } of canvas.lanes) {
    const here = moments.filter(({ lane }) => lane === name);
    let least = MARK_RADIUS + 1;
    for (const { number, atMs } of here) {
      const x = Math.max(canvas.x(atMs), least);
      places.set(number, x);
      least = x + apart;
    }
    let most = canvas.width - MARK_RADIUS - 1;
    for (const { number } of here.toReversed()) {
      const x = Math.min(places.get(number) ?? 0, most);
      places.set(number, x);
      most = x - apart;
    }
  }
  return places;
}
