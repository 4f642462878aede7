/**
 * The figures as a MetricProducer: added up in memory, and handed to the SDK's readers when they collect. The instruments of the
 * SDK make a text of all attributes for each value, and look for its sum by that text, which costs more than the events themselves.
 */
import type { Attributes, HrTime, ValueType } from "@opentelemetry/api";
import { factsOf } from "../figures.ts";
import { checkOptions, type TemplateOptions, Templates } from "../groups.ts";
import { METRIC_NAMES, METRICS, type MetricName } from "../metrics.ts";
import { addUp, type Sum, type Sums } from "../sums.ts";
import { endedBy, Guard, type Telemetry } from "../telemetry.ts";
import { attributesOf, SCOPE, valueTypeOf } from "./attributes.ts";
import { isReplaced, only, replaceOthers } from "./once.ts";

export type MetricProducerOptions = TemplateOptions;

/** Goes into the `metricProducers` of each reader of the SDK that is to tell the figures. */
export interface MetricProducer extends Telemetry {
  /** For readers: all that was added up since it was turned on. */
  collect(): Promise<CollectedMetrics>;
}

/** What the SDK calls a CollectionResult. */
export interface CollectedMetrics {
  readonly resourceMetrics: {
    /** Empty: a reader takes that of its provider. */
    readonly resource: EmptyResource;
    readonly scopeMetrics: { readonly scope: { readonly name: string }; readonly metrics: CollectedMetric[] }[];
  };
  readonly errors: unknown[];
}

interface EmptyResource {
  readonly attributes: Attributes;
  merge(other: EmptyResource | null): EmptyResource;
  getRawAttributes(): never[];
}

/** What the SDK calls MetricData. */
export type CollectedMetric = Described &
  (
    | { readonly dataPointType: typeof HISTOGRAM; readonly dataPoints: Point<HistogramValue>[] }
    | { readonly dataPointType: typeof SUM; readonly dataPoints: Point<number>[]; readonly isMonotonic: boolean }
  );

interface Described {
  readonly descriptor: {
    readonly name: string;
    readonly description: string;
    readonly unit: string;
    readonly valueType: ValueType;
  };
  readonly aggregationTemporality: typeof CUMULATIVE;
}

interface Point<V> {
  readonly startTime: HrTime;
  readonly endTime: HrTime;
  readonly attributes: Attributes;
  readonly value: V;
}

interface HistogramValue {
  readonly buckets: { readonly boundaries: number[]; readonly counts: number[] };
  readonly sum: number;
  readonly count: number;
  readonly min: number;
  readonly max: number;
}

/** Of the SDK's `AggregationTemporality` and `DataPointType`, which it has at run time only. A test holds them to it. */
const CUMULATIVE = 1;
const HISTOGRAM = 0;
const SUM = 3;

const RESOURCE: EmptyResource = { attributes: {}, merge: (other) => other ?? RESOURCE, getRawAttributes: () => [] };

/**
 * Adds up what all locks of this process do, from now on, for readers that have it among their `metricProducers`. Throws while
 * instrument() counts, or another producer.
 */
export function metricProducer(options: MetricProducerOptions = {}): MetricProducer {
  const { template } = checkOptions(options);
  const guard = new Guard("holdfast/otel");
  const self = {};
  const leave = only("metrics", self);
  const sums = addUp(new Templates(template, guard), guard);
  replaceOthers(self);
  const time = sinceNow();
  return {
    ...endedBy(() => {
      sums.end();
      leave();
    }),
    collect() {
      // What was counted until its end is still reported, unless another has counted since: two of the same name would be added up.
      const metrics = isReplaced(self) ? [] : collected(sums, time());
      const scopeMetrics = metrics.length === 0 ? [] : [{ scope: { name: SCOPE }, metrics }];
      return Promise.resolve({ resourceMetrics: { resource: RESOURCE, scopeMetrics }, errors: [] });
    },
  };
}

interface Times {
  readonly startTime: HrTime;
  readonly endTime: HrTime;
}

/** From now until it is asked. Only readers outside see these times: nothing here depends on the wall clock, which may be set back. */
function sinceNow(): () => Times {
  const startMs = Date.now();
  let endMs = startMs;
  return () => {
    endMs = Math.max(endMs, Date.now());
    return { startTime: toHrTime(startMs), endTime: toHrTime(endMs) };
  };
}

function toHrTime(ms: number): HrTime {
  return [Math.floor(ms / 1000), (ms % 1000) * 1_000_000];
}

/** As the SDK does, it leaves out what there is nothing of. */
function collected(sums: Sums, times: Times): CollectedMetric[] {
  return METRIC_NAMES.map((metric) => one(sums, metric, times)).filter(({ dataPoints }) => dataPoints.length > 0);
}

function one(sums: Sums, metric: MetricName, times: Times): CollectedMetric {
  const { name, help, unit, kind } = METRICS[metric];
  const described: Described = {
    descriptor: { name, description: help, unit, valueType: valueTypeOf(METRICS[metric]) },
    aggregationTemporality: CUMULATIVE,
  };
  if (metric === "held" || metric === "waiting") {
    const dataPoints = Array.from(sums.groups, (group) => ({
      ...times,
      attributes: attributesOf(factsOf(group)),
      value: group[metric],
    }));
    return { ...described, dataPointType: SUM, isMonotonic: false, dataPoints };
  }
  const points = <V>(valueOf: (series: Sum) => V): Point<V>[] =>
    sums.of(metric).map((series) => ({ ...times, attributes: attributesOf(series.facts), value: valueOf(series) }));
  return kind === "histogram"
    ? { ...described, dataPointType: HISTOGRAM, dataPoints: points(histogramOf) }
    : { ...described, dataPointType: SUM, isMonotonic: true, dataPoints: points(({ sum }) => sum) };
}

/** Copies: an exporter may keep what it was given, and these go on. */
function histogramOf({ buckets, counts, sum, min, max }: Sum): HistogramValue {
  const count = counts.reduce((total, own) => total + own, 0);
  return { buckets: { boundaries: [...buckets], counts: [...counts] }, sum, count, min, max };
}
