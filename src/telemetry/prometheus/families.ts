/** The figures as Prometheus has them: families of samples, in an order that does not change. */
import { METRICS, type Metric, type MetricName, prometheusName } from "../metrics.ts";
import { type Counter, type Figures, type Histogram, type Labels, labelsOf } from "./figures.ts";

export interface Sample {
  /** That of the family, or with `_bucket`, `_sum` or `_count`. */
  readonly name: string;
  readonly labels: Readonly<Record<string, string | number>>;
  readonly value: number;
}

export interface Family {
  readonly name: string;
  readonly help: string;
  readonly type: Metric["kind"];
  readonly samples: readonly Sample[];
}

export const METRIC_NAMES: readonly MetricName[] = Object.keys(METRICS) as MetricName[];

/** One family, as it is now. */
export function familyOf(figures: Figures, metric: MetricName): Family {
  const { help, kind } = METRICS[metric];
  const name = prometheusName(METRICS[metric]);
  return { name, help, type: kind, samples: samplesOf(figures, metric, name) };
}

function samplesOf(figures: Figures, metric: MetricName, name: string): readonly Sample[] {
  const groups = [...figures.groups];
  if (metric === "acquire")
    return histograms(
      name,
      groups.flatMap(({ acquires }) => [...acquires.values()]),
    );
  if (metric === "hold")
    return histograms(
      name,
      groups.flatMap(({ holds }) => [...holds.values()]),
    );
  if (metric === "renewal") return histograms(name, [...figures.renewals]);
  if (metric === "lost") return counters(name, figures.lost);
  if (metric === "fenceRejected") return counters(name, figures.rejected);
  if (metric === "deadlocks") return counters(name, figures.deadlocks);
  return groups.map((group) => ({ name, labels: plain(labelsOf(group)), value: group[metric] }));
}

function counters(name: string, all: Iterable<Counter>): readonly Sample[] {
  return Array.from(all, ({ labels, value }) => ({ name, labels: plain(labels), value }));
}

/** Buckets count all that is smaller: each has those before it in it. */
function histograms(name: string, all: readonly Histogram[]): readonly Sample[] {
  return all.flatMap(({ labels: given, buckets, counts, sum }) => {
    const labels = plain(given);
    let count = 0;
    const samples: Sample[] = counts.map((own, at) => {
      count += own;
      return { name: `${name}_bucket`, labels: { ...labels, le: buckets[at] ?? "+Inf" }, value: count };
    });
    return [...samples, { name: `${name}_sum`, labels, value: sum }, { name: `${name}_count`, labels, value: count }];
  });
}

function plain(labels: Labels): Readonly<Record<string, string>> {
  return labels as Readonly<Record<string, string>>;
}
