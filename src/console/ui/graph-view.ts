/** Who waits for whom, as a circle: callers point to the locks that they wait for, and locks to the callers that hold them. */
import { h, svg } from "./dom.ts";
import { visible } from "./format.ts";
import type { DeadlockView } from "../wire.ts";

const WIDTH = 640;
const BOX = { width: 168, height: 30 };

interface Spot {
  readonly x: number;
  readonly y: number;
}

export function graphView({ members, description }: DeadlockView): HTMLElement {
  const locks = [...new Set(members.map(({ waitsFor }) => waitsFor))];
  const spots = new Map<string, Spot>();
  // Each caller is followed by the lock that it waits for.
  const order = members.flatMap(({ waitsFor }, at) => {
    const isFirst = members.findIndex((one) => one.waitsFor === waitsFor) === at;
    return isFirst ? [`caller ${at}`, `lock ${waitsFor}`] : [`caller ${at}`];
  });
  const height = Math.max(220, Math.min(460, order.length * 46));
  for (const [at, id] of order.entries()) {
    const angle = (at / order.length) * 2 * Math.PI - Math.PI / 2;
    spots.set(id, {
      x: WIDTH / 2 + Math.cos(angle) * (WIDTH / 2 - 100),
      y: height / 2 + Math.sin(angle) * (height / 2 - 28),
    });
  }
  const edges = members.flatMap(({ waitsFor, holds }, at) => [
    edge(spots.get(`caller ${at}`)!, spots.get(`lock ${waitsFor}`)!, "waits"),
    ...holds
      .filter(({ name }) => locks.includes(name))
      .map(({ name }) => edge(spots.get(`lock ${name}`)!, spots.get(`caller ${at}`)!, "held")),
  ]);
  return h(
    "figure",
    { class: "graph" },
    svg(
      "svg",
      {
        role: "img",
        "aria-label": "A circle of callers and the locks that they wait for",
        viewBox: `0 0 ${WIDTH} ${height}`,
      },
      svg("defs", {}, arrow("waits"), arrow("held")),
      ...edges,
      ...members.map(({ holder }, at) => node(spots.get(`caller ${at}`)!, holder, "caller")),
      ...locks.map((lock) => node(spots.get(`lock ${lock}`)!, lock, "lock")),
    ),
    h(
      "figcaption",
      {},
      h(
        "p",
        { class: "legend" },
        h("span", { class: "edge waits" }, "waits for"),
        h("span", { class: "edge held" }, "is held by"),
      ),
      visible(description),
    ),
  );
}

function arrow(kind: string): SVGElement {
  return svg(
    "marker",
    {
      id: `arrow-${kind}`,
      class: `edge-${kind}`,
      viewBox: "0 0 8 8",
      refX: 7,
      refY: 4,
      markerWidth: 7,
      markerHeight: 7,
      orient: "auto",
    },
    svg("path", { d: "M0 0 L8 4 L0 8 z" }),
  );
}

function node({ x, y }: Spot, text: string, kind: "caller" | "lock"): SVGElement {
  const shown = visible(text);
  const short = shown.length > 22 ? `${shown.slice(0, 21)}…` : shown;
  return svg(
    "g",
    { class: `node ${kind}` },
    svg("title", {}, `${kind} ${shown}`),
    svg("rect", {
      x: x - BOX.width / 2,
      y: y - BOX.height / 2,
      width: BOX.width,
      height: BOX.height,
      rx: kind === "caller" ? 15 : 3,
    }),
    svg("text", { x, y: y + 4, "text-anchor": "middle" }, short),
  );
}

/** From the edge of one box to that of the other. */
function edge(from: Spot, to: Spot, kind: "waits" | "held"): SVGElement {
  const [start, end] = [border(from, to), border(to, from)];
  return svg("line", {
    class: `edge-${kind}`,
    x1: start.x,
    y1: start.y,
    x2: end.x,
    y2: end.y,
    "marker-end": `url(#arrow-${kind})`,
  });
}

function border(of: Spot, towards: Spot): Spot {
  const [dx, dy] = [towards.x - of.x, towards.y - of.y];
  const part = Math.min(BOX.width / 2 / Math.max(1, Math.abs(dx)), BOX.height / 2 / Math.max(1, Math.abs(dy)), 0.5);
  return { x: of.x + dx * part, y: of.y + dy * part };
}
