/** Roads: the connections of one client may be of different kinds (commands, messages), and each kind has a network of its own. */

export type Direction = "requests" | "replies";
export const BOTH: readonly Direction[] = ["requests", "replies"];

/** A part of a proxy's connections, disturbed separately from the others. Methods mean what they mean for the whole proxy. */
export interface Road {
  /** Connections open from clients now. */
  readonly connections: number;
  cut(): void;
  delay(ms: number, direction?: Direction | "both", jitterMs?: number): void;
  hang(direction?: Direction | "both"): void;
  drop(direction: Direction | "both"): void;
  /** Everything passes again, what was held back first. */
  heal(): void;
}

/** The road of connections that have none of their own. */
export const MAIN_ROAD = "main";

export type State = "pass" | "hang" | "drop";

/** What the network is like on one road. */
export interface Conditions {
  readonly state: Record<Direction, State>;
  readonly delay: Record<Direction, { readonly ms: number; readonly jitterMs: number }>;
}

/** The conditions of every road. A condition of all roads also holds for roads that are not in use yet. */
export class RoadBook {
  readonly #common: Conditions = fair();
  readonly #roads: Map<string, Conditions> = new Map();

  of(road: string): Conditions {
    let conditions = this.#roads.get(road);
    if (conditions === undefined) {
      conditions = { state: { ...this.#common.state }, delay: { ...this.#common.delay } };
      this.#roads.set(road, conditions);
    }
    return conditions;
  }

  /** The conditions of one road, or of all. */
  some(road: string | undefined): readonly Conditions[] {
    return road === undefined ? [this.#common, ...this.#roads.values()] : [this.of(road)];
  }
}

function fair(): Conditions {
  const none = { ms: 0, jitterMs: 0 };
  return { state: { requests: "pass", replies: "pass" }, delay: { requests: none, replies: none } };
}

export function directions(direction: Direction | "both"): readonly Direction[] {
  return direction === "both" ? BOTH : [direction];
}
