/** The figures as instruments of OpenTelemetry. What is held and waited for is read when it is asked for, and costs an addition. */
import type { Meter, MetricOptions, ObservableResult } from "@opentelemetry/api";
import { factsOf, Figures, type Series } from "../figures.ts";
import type { Templates } from "../groups.ts";
import { type Metric, METRICS, type SummedName } from "../metrics.ts";
import type { Guard } from "../telemetry.ts";
import { attributesOf, valueTypeOf } from "./attributes.ts";

type Attributed = (attributes: ReturnType<typeof attributesOf>) => Series;

/** What returned ends it. */
export function meter(given: Meter, templates: Templates, guard: Guard): () => void {
  const instruments: Readonly<Record<SummedName, Attributed>> = {
    acquire: histogram(given, METRICS.acquire),
    hold: histogram(given, METRICS.hold),
    lost: counter(given, METRICS.lost),
    renewal: histogram(given, METRICS.renewal),
    fenceRejected: counter(given, METRICS.fenceRejected),
    deadlocks: counter(given, METRICS.deadlocks),
  };
  // All that may fail comes first: what listens must not be left behind.
  const gauges = (["held", "waiting"] as const).map((metric) => {
    return [metric, given.createObservableUpDownCounter(METRICS[metric].name, optionsOf(METRICS[metric]))] as const;
  });
  const figures = new Figures(templates, guard, (metric, facts) => instruments[metric](attributesOf(facts)));
  const ends = gauges.map(([metric, gauge]) => {
    const observe = (result: ObservableResult): void => {
      for (const group of figures.groups) result.observe(group[metric], attributesOf(factsOf(group)));
    };
    gauge.addCallback(observe);
    return () => gauge.removeCallback(observe);
  });
  return () => {
    figures.end();
    for (const end of ends) end();
  };
}

function histogram(given: Meter, metric: Metric): Attributed {
  const advice = { explicitBucketBoundaries: [...metric.buckets] };
  const made = given.createHistogram(metric.name, { ...optionsOf(metric), advice });
  return (attributes) => ({ add: (seconds) => made.record(seconds, attributes) });
}

function counter(given: Meter, metric: Metric): Attributed {
  const made = given.createCounter(metric.name, optionsOf(metric));
  return (attributes) => ({ add: (count) => made.add(count, attributes) });
}

function optionsOf(metric: Metric): MetricOptions {
  return { description: metric.help, unit: metric.unit, valueType: valueTypeOf(metric) };
}
