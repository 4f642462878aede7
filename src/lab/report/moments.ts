/** The moments of a play that people want to read: one line each, numbered as in the picture. */
import type { LabEvent } from "../events.ts";
import type { PlayResult } from "../play-types.ts";

export type Mark = "grant" | "lost" | "accepted" | "stale" | "refused" | "fault" | "heal" | "quiet";

export interface Moment {
  readonly number: number;
  readonly atMs: number;
  /** The lane of the picture on which it is marked. */
  readonly lane: string;
  /** Whose doing: a client, or `undefined` for the store and the network. */
  readonly client: string | undefined;
  readonly mark: Mark;
  readonly text: string;
}

export const PLAIN_LANE = "without a guard";
export const GUARDED_LANE = "with a guard";

/** Instants are relative to the start of the play. */
export function momentsOf(result: PlayResult, clients: ReadonlySet<string>): readonly Moment[] {
  const values = { plain: 0, guarded: 0 };
  const moments: Omit<Moment, "number">[] = [];
  for (const event of result.events) {
    const shown = momentOf(event, values);
    if (shown === undefined) continue;
    const client = event.kind === "write" ? event.by : event.lane;
    moments.push({ ...shown, atMs: event.atMs - result.startMs, client: clients.has(client) ? client : undefined });
    if (event.kind === "write" && event.accepted) values[event.register] = event.value;
  }
  return moments.map((moment, i) => ({ ...moment, number: i + 1 }));
}

function momentOf(
  event: LabEvent,
  values: Readonly<Record<"plain" | "guarded", number>>,
): Pick<Moment, "lane" | "mark" | "text"> | undefined {
  const { lane } = event;
  switch (event.kind) {
    case "granted":
      return {
        lane,
        mark: "grant",
        text: `${lane} gets the lock${event.fence === undefined ? "" : `, fence …${shortFence(event.fence)}`}`,
      };
    case "refused":
      return { lane, mark: "quiet", text: `${lane} does not get the lock` };
    case "lost":
      return { lane, mark: "lost", text: `${lane} learns that its lease is lost` };
    case "released":
      return { lane, mark: "quiet", text: `${lane} releases: “${event.result}”` };
    case "checked":
      return { lane, mark: "quiet", text: `${lane} asks “do I hold it?”: ${event.held ? "yes" : "no"}` };
    case "fault":
      return {
        lane,
        mark: event.sign === "heal" || event.sign === "resume" ? "heal" : "fault",
        text: `${lane}: ${event.text}`,
      };
    case "write":
      return tellWrite(event, values[event.register]);
    case "asked":
    case "trust":
    case "releasing":
    case "truth":
      return undefined;
  }
}

function tellWrite(event: LabEvent & { kind: "write" }, value: number): Pick<Moment, "lane" | "mark" | "text"> {
  const guarded = event.register === "guarded";
  const lane = guarded ? GUARDED_LANE : PLAIN_LANE;
  if (!event.accepted) return { lane, mark: "refused", text: `${event.by}'s stale write is refused by the guard` };
  const where = guarded ? "at the guard" : "without a guard";
  if (event.read === value) return { lane, mark: "accepted", text: `${event.by}'s write is accepted ${where}` };
  return { lane, mark: "stale", text: `${event.by}'s stale write is accepted ${where}: it overwrites a newer one` };
}

/** Fences of stores that count microseconds are long, and differ at the end. */
function shortFence(fence: bigint): string {
  return fence.toString().slice(-7);
}
