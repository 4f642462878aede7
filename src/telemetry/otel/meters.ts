/** The figures as instruments of OpenTelemetry. What is held and waited for is read when it is asked for, and costs an addition. */
import type { Attributes, Histogram, Meter, MetricOptions, ObservableResult } from "@opentelemetry/api";
import { goingOn } from "../going-on.ts";
import { type Group, Groups, type Templates } from "../groups.ts";
import { type Metric, METRICS } from "../metrics.ts";
import { acquireErrorType, holdErrorType, holdOutcome, renewOutcome } from "../outcome.ts";
import { type Guard, listen } from "../telemetry.ts";

/** What returned ends it. */
export function meter(given: Meter, templates: Templates, guard: Guard): () => void {
  const groups = new Groups<Attributes>(templates);
  const acquires = histogram(given, METRICS.acquire);
  const holds = histogram(given, METRICS.hold);
  const delays = histogram(given, METRICS.renewal);
  const lost = given.createCounter(METRICS.lost.name, optionsOf(METRICS.lost));
  const rejected = given.createCounter(METRICS.fenceRejected.name, optionsOf(METRICS.fenceRejected));
  const deadlocks = given.createCounter(METRICS.deadlocks.name, optionsOf(METRICS.deadlocks));
  const ends = (["held", "waiting"] as const).map((metric) => {
    const gauge = given.createObservableUpDownCounter(METRICS[metric].name, optionsOf(METRICS[metric]));
    const observe = (result: ObservableResult): void => {
      for (const group of groups.all()) result.observe(group[metric], attributesOf(group));
    };
    gauge.addCallback(observe);
    return () => gauge.removeCallback(observe);
  });
  const listeners = goingOn(groups, {
    acquireEnd(group, event) {
      const { outcome = "error", waitedMs = 0 } = event;
      acquires.record(waitedMs / 1000, ended(group, group.acquires, outcome, acquireErrorType(event)));
    },
    holdEnd(group, event) {
      const outcome = holdOutcome(event);
      holds.record((event.heldMs ?? 0) / 1000, ended(group, group.holds, outcome, holdErrorType(event)));
    },
  });
  const unlisten = listen(
    {
      ...listeners,
      lost: ({ backend, name, loss }) =>
        lost.add(1, { "holdfast.backend": backend, "holdfast.loss": loss.kind, ...templateOf(templates.of(name)) }),
      renew: (event) =>
        delays.record(event.delayMs / 1000, {
          "holdfast.backend": event.backend,
          "holdfast.outcome": renewOutcome(event),
        }),
      fenceRejected: ({ guard: by, name }) =>
        rejected.add(1, { "holdfast.guard": by, ...templateOf(templates.of(name)) }),
      deadlock: ({ backend, rejects }) =>
        deadlocks.add(1, { "holdfast.backend": backend, "holdfast.outcome": rejects ? "rejected" : "reported" }),
    },
    guard,
  );
  return () => {
    unlisten();
    for (const end of ends) end();
  };
}

function histogram(given: Meter, metric: Metric): Histogram {
  const advice = { explicitBucketBoundaries: [...metric.buckets] };
  return given.createHistogram(metric.name, { ...optionsOf(metric), advice });
}

function optionsOf({ help, unit }: Metric): MetricOptions {
  return { description: help, unit };
}

function attributesOf({ backend, mode, template }: Group<Attributes>): Attributes {
  return { "holdfast.backend": backend, "holdfast.mode": mode, ...templateOf(template) };
}

function templateOf(template: string): Attributes {
  return template === "" ? {} : { "holdfast.lock.template": template };
}

/** Made once for each outcome. */
function ended(
  group: Group<Attributes>,
  among: Map<string, Attributes>,
  outcome: string,
  errorType: string | undefined,
): Attributes {
  const key = errorType === undefined ? outcome : `${outcome} ${errorType}`;
  let found = among.get(key);
  if (found === undefined) {
    found = { ...attributesOf(group), "holdfast.outcome": outcome };
    if (errorType !== undefined) found["error.type"] = errorType;
    among.set(key, found);
  }
  return found;
}
