/** The figures of this process, added up here, so that a lock pays for a few additions and not for a metrics library. */
import type { LossReason } from "../../contract/loss.ts";
import { goingOn } from "../going-on.ts";
import { type Group, Groups, type TemplateOptions, Templates } from "../groups.ts";
import { METRICS } from "../metrics.ts";
import { acquireErrorType, holdErrorType, holdOutcome, renewOutcome } from "../outcome.ts";
import { Guard, listen } from "../telemetry.ts";

export interface Labels {
  readonly [label: string]: string | undefined;
}

/** One series of a histogram. The counts are of each bucket alone; the last is of what is greater than all. */
export class Histogram {
  readonly labels: Labels;
  readonly buckets: readonly number[];
  readonly counts: number[];
  sum = 0;

  constructor(labels: Labels, buckets: readonly number[]) {
    this.labels = labels;
    this.buckets = buckets;
    this.counts = Array.from({ length: buckets.length + 1 }, () => 0);
  }

  observe(value: number): void {
    let at = 0;
    while (at < this.buckets.length && value > this.buckets[at]!) at++;
    this.counts[at]!++;
    this.sum += value;
  }
}

/** One series of a counter. */
export interface Counter {
  readonly labels: Labels;
  value: number;
}

export class Figures {
  readonly #templates: Templates;
  readonly #groups: Groups<Histogram>;
  readonly #lost: Map<string, Counter> = new Map();
  readonly #renewals: Map<string, Histogram> = new Map();
  readonly #rejected: Map<string, Counter> = new Map();
  readonly #deadlocks: Map<string, Counter> = new Map();
  readonly #end: () => void;

  constructor({ template }: TemplateOptions) {
    const guard = new Guard("holdfast/prometheus");
    this.#templates = new Templates(template, guard);
    this.#groups = new Groups(this.#templates);
    const listeners = goingOn(this.#groups, {
      acquireEnd(group, event) {
        const { outcome = "error", waitedMs = 0 } = event;
        const error = acquireErrorType(event);
        series(group, group.acquires, outcome, error, METRICS.acquire.buckets).observe(waitedMs / 1000);
      },
      holdEnd(group, event) {
        const error = holdErrorType(event);
        series(group, group.holds, holdOutcome(event), error, METRICS.hold.buckets).observe((event.heldMs ?? 0) / 1000);
      },
    });
    this.#end = listen(
      {
        ...listeners,
        lost: ({ backend, name, loss }) =>
          this.#count(this.#lost, { backend, ...this.#templateOf(name), reason: kindOf(loss) }),
        fenceRejected: ({ guard: by, name }) => this.#count(this.#rejected, { guard: by, ...this.#templateOf(name) }),
        deadlock: ({ backend, rejects }) =>
          this.#count(this.#deadlocks, { backend, outcome: rejects ? "rejected" : "reported" }),
        renew: (event) => {
          const labels = { backend: event.backend, outcome: renewOutcome(event) };
          const key = JSON.stringify(labels);
          let found = this.#renewals.get(key);
          if (found === undefined) {
            found = new Histogram(labels, METRICS.renewal.buckets);
            this.#renewals.set(key, found);
          }
          found.observe(event.delayMs / 1000);
        },
      },
      guard,
    );
  }

  get groups(): Iterable<Group<Histogram>> {
    return this.#groups.all();
  }

  get lost(): Iterable<Counter> {
    return this.#lost.values();
  }

  get renewals(): Iterable<Histogram> {
    return this.#renewals.values();
  }

  get rejected(): Iterable<Counter> {
    return this.#rejected.values();
  }

  get deadlocks(): Iterable<Counter> {
    return this.#deadlocks.values();
  }

  /** Hears nothing from here on. What was counted stays. */
  end(): void {
    this.#end();
  }

  #templateOf(name: string): Labels {
    return toLabels({ template: this.#templates.of(name) });
  }

  #count(counters: Map<string, Counter>, labels: Labels): void {
    const key = JSON.stringify(labels);
    const found = counters.get(key);
    if (found === undefined) counters.set(key, { labels, value: 1 });
    else found.value++;
  }
}

/** Labels that say nothing are left out: for Prometheus that is the same. */
function toLabels(labels: Labels): Labels {
  return Object.fromEntries(Object.entries(labels).filter(([, value]) => value !== undefined && value !== ""));
}

export function labelsOf({ backend, mode, template }: Group<unknown>): Labels {
  return toLabels({ backend, mode, template });
}

function series(
  group: Group<Histogram>,
  among: Map<string, Histogram>,
  outcome: string,
  error: string | undefined,
  buckets: readonly number[],
): Histogram {
  const key = error === undefined ? outcome : `${outcome} ${error}`;
  let found = among.get(key);
  if (found === undefined) {
    found = new Histogram(toLabels({ ...labelsOf(group), outcome, error_type: error }), buckets);
    among.set(key, found);
  }
  return found;
}

function kindOf(loss: LossReason | undefined): string | undefined {
  return loss?.kind;
}
