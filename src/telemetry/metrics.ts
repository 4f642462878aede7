/**
 * The figures: their names, units and buckets, and by which facts each is kept apart. One table, so that OpenTelemetry, Prometheus
 * and the dashboard have the same.
 */

export interface Metric {
  /** As OpenTelemetry names it. */
  readonly name: string;
  readonly kind: "histogram" | "gauge" | "counter";
  /** In UCUM. */
  readonly unit: string;
  readonly help: string;
  /** Of a histogram, in seconds. */
  readonly buckets: readonly number[];
}

export type MetricName = "acquire" | "hold" | "held" | "waiting" | "lost" | "renewal" | "fenceRejected" | "deadlocks";

/** Those that are added up. The others are as they are now. */
export type SummedName = Exclude<MetricName, "held" | "waiting">;

/** What series of a figure are kept apart by. Not all that is here, and none of it the name of a lock. */
export interface Facts {
  readonly backend?: string | undefined;
  readonly mode?: string | undefined;
  /** Empty: it is not kept apart. */
  readonly template?: string | undefined;
  readonly outcome?: string | undefined;
  readonly errorType?: string | undefined;
  /** The kind of a loss. */
  readonly loss?: string | undefined;
  readonly guard?: string | undefined;
}

/** What each fact is called by who reads it. */
export type FactNames = Readonly<Record<keyof Facts, string>>;

/** Facts under the names of their reader. What says nothing is left out. */
export function factsAs(names: FactNames, facts: Facts): Record<string, string> {
  const named: Record<string, string> = {};
  for (const [fact, value] of Object.entries(facts) as [keyof Facts, string | undefined][])
    if (value !== undefined && value !== "") named[names[fact]] = value;
  return named;
}

const WAITS = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];
const HOLDS = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 3600];
const DELAYS = [0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];

export const METRICS: Readonly<Record<MetricName, Metric>> = {
  acquire: {
    name: "holdfast.acquire.duration",
    kind: "histogram",
    unit: "s",
    help: "How long acquires took, with the waiting, whatever came of them.",
    buckets: WAITS,
  },
  hold: {
    name: "holdfast.hold.duration",
    kind: "histogram",
    unit: "s",
    help: "How long leases were held, until they were released or lost.",
    buckets: HOLDS,
  },
  held: {
    name: "holdfast.held",
    kind: "gauge",
    unit: "{lease}",
    help: "Leases that this process holds now.",
    buckets: [],
  },
  waiting: {
    name: "holdfast.waiting",
    kind: "gauge",
    unit: "{acquire}",
    help: "Acquires of this process that are not over.",
    buckets: [],
  },
  lost: {
    name: "holdfast.lost",
    kind: "counter",
    unit: "{lease}",
    help: "Leases that ended before they were released.",
    buckets: [],
  },
  renewal: {
    name: "holdfast.renewal.delay",
    kind: "histogram",
    unit: "s",
    help: "How long after a batch of renewals was due its answer came.",
    buckets: DELAYS,
  },
  fenceRejected: {
    name: "holdfast.fence.rejected",
    kind: "counter",
    unit: "{write}",
    help: "Writes that a guard refused, because a later holder had been there.",
    buckets: [],
  },
  deadlocks: {
    name: "holdfast.deadlocks",
    kind: "counter",
    unit: "{deadlock}",
    help: "Deadlocks that a waiter of this process was part of.",
    buckets: [],
  },
};

export const METRIC_NAMES: readonly MetricName[] = Object.keys(METRICS) as MetricName[];

/** As Prometheus names it: with its unit, and `_total` for a counter. */
export function prometheusName({ name, kind, unit }: Metric): string {
  const seconds = unit === "s" ? "_seconds" : "";
  return `${name.replaceAll(".", "_")}${seconds}${kind === "counter" ? "_total" : ""}`;
}
