/** The figures as Prometheus has them: families of samples, in an order that does not change. */
import { factsOf } from "../figures.ts";
import { factsAs, type FactNames, METRICS, type Metric, type MetricName, prometheusName } from "../metrics.ts";
import type { Sum, Sums } from "../sums.ts";

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

const LABELS: FactNames = {
  backend: "backend",
  mode: "mode",
  template: "template",
  outcome: "outcome",
  errorType: "error_type",
  loss: "reason",
  guard: "guard",
};

/** One family, as it is now. */
export function familyOf(sums: Sums, metric: MetricName): Family {
  const { help, kind } = METRICS[metric];
  const name = prometheusName(METRICS[metric]);
  return { name, help, type: kind, samples: samplesOf(sums, metric, name) };
}

function samplesOf(sums: Sums, metric: MetricName, name: string): readonly Sample[] {
  if (metric === "held" || metric === "waiting")
    return Array.from(sums.groups, (group) => ({
      name,
      labels: factsAs(LABELS, factsOf(group)),
      value: group[metric],
    }));
  const all = sums.of(metric);
  if (METRICS[metric].kind === "histogram") return all.flatMap((one) => histogram(name, one));
  return all.map(({ facts, sum }) => ({ name, labels: factsAs(LABELS, facts), value: sum }));
}

/** Buckets count all that is smaller: each has those before it in it. */
function histogram(name: string, { facts, buckets, counts, sum }: Sum): readonly Sample[] {
  const labels = factsAs(LABELS, facts);
  let count = 0;
  const samples: Sample[] = counts.map((own, at) => {
    count += own;
    return { name: `${name}_bucket`, labels: { ...labels, le: buckets[at] ?? "+Inf" }, value: count };
  });
  return [...samples, { name: `${name}_sum`, labels, value: sum }, { name: `${name}_count`, labels, value: count }];
}
