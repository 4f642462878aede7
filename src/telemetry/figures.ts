/**
 * The figures of this process: which event counts in which series. Each series is made once, when its first event comes, so that a
 * lock pays for looking it up and for one `add()`. What a series is, who reads them decides: sums in memory, or an instrument.
 */
import { goingOn } from "./going-on.ts";
import { type Group, Groups, GROUPS_MAX, OTHER, type Templates } from "./groups.ts";
import type { Facts, SummedName } from "./metrics.ts";
import { acquireErrorType, holdErrorType, holdOutcome, renewOutcome } from "./outcome.ts";
import { type Guard, listen } from "./telemetry.ts";

export interface Series {
  /** Seconds, for a histogram; for a counter, how many. */
  add(value: number): void;
}

export type MakeSeries<S extends Series> = (metric: SummedName, facts: Facts) => S;

export class Figures<S extends Series> {
  readonly #make: MakeSeries<S>;
  readonly #templates: Templates;
  readonly #groups: Groups<S>;
  readonly #all: Readonly<Record<SummedName, S[]>> = {
    acquire: [],
    hold: [],
    lost: [],
    renewal: [],
    fenceRejected: [],
    deadlocks: [],
  };
  /** Those of events that are rare. */
  readonly #rare: Map<string, S> = new Map();
  readonly #end: () => void;
  #isOver = false;

  constructor(templates: Templates, guard: Guard, make: MakeSeries<S>) {
    this.#templates = templates;
    this.#make = make;
    this.#groups = new Groups(templates);
    const listeners = goingOn(this.#groups, {
      acquireEnd: (group, event) => {
        const { outcome = "error", waitedMs = 0 } = event;
        this.#ended("acquire", group, group.acquires, outcome, acquireErrorType(event)).add(waitedMs / 1000);
      },
      holdEnd: (group, event) => {
        const { heldMs = 0 } = event;
        this.#ended("hold", group, group.holds, holdOutcome(event), holdErrorType(event)).add(heldMs / 1000);
      },
    });
    this.#end = listen(
      {
        ...listeners,
        lost: ({ backend, name, loss }) =>
          this.#add("lost", { backend, template: this.#templates.of(name), loss: loss?.kind }),
        fenceRejected: ({ guard: by, name }) =>
          this.#add("fenceRejected", { guard: by, template: this.#templates.of(name) }),
        deadlock: ({ backend, rejects }) =>
          this.#add("deadlocks", { backend, outcome: rejects ? "rejected" : "reported" }),
        renew: (event) =>
          this.#add("renewal", { backend: event.backend, outcome: renewOutcome(event) }, event.delayMs / 1000),
      },
      guard,
    );
  }

  /** What is held and waited for now. After the end that is unknown. */
  get groups(): Iterable<Group<S>> {
    return this.#isOver ? [] : this.#groups.all();
  }

  /** All series of it, in the order of their first events. */
  of(metric: SummedName): readonly S[] {
    return this.#all[metric];
  }

  /** Hears nothing from here on. What was counted stays. */
  end(): void {
    this.#isOver = true;
    this.#end();
  }

  #ended(
    metric: "acquire" | "hold",
    group: Group<S>,
    among: Map<string, S>,
    outcome: string,
    errorType: string | undefined,
  ): S {
    const key = errorType === undefined ? outcome : `${outcome} ${errorType}`;
    const found = among.get(key);
    if (found !== undefined) return found;
    const made = this.#made(metric, { ...factsOf(group), outcome, errorType });
    among.set(key, made);
    return made;
  }

  #add(metric: SummedName, facts: Facts, value = 1): void {
    const isFull = this.#rare.size >= GROUPS_MAX && !this.#rare.has(rareKey(metric, facts));
    this.#rareOf(metric, isFull ? amongOthers(facts) : facts).add(value);
  }

  #rareOf(metric: SummedName, facts: Facts): S {
    const key = rareKey(metric, facts);
    const found = this.#rare.get(key);
    if (found !== undefined) return found;
    const made = this.#made(metric, facts);
    this.#rare.set(key, made);
    return made;
  }

  #made(metric: SummedName, facts: Facts): S {
    const made = this.#make(metric, facts);
    this.#all[metric].push(made);
    return made;
  }
}

function rareKey(metric: SummedName, facts: Facts): string {
  return JSON.stringify([metric, facts]);
}

/** Where there are too many: all else that they are kept apart by is one of few. */
function amongOthers(facts: Facts): Facts {
  const { backend, template } = facts;
  return { ...facts, backend: backend && OTHER, template: template === undefined ? undefined : OTHER };
}

export function factsOf({ backend, mode, template }: Group<unknown>): Facts {
  return { backend, mode, template };
}
