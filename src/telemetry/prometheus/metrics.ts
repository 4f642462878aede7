/** The figures of this process for Prometheus: as text, by a handler for HTTP, or in a registry of prom-client. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { ArgumentError, got } from "../../contract/argument-error.ts";
import { checkOptions, type TemplateOptions, Templates } from "../groups.ts";
import { METRIC_NAMES } from "../metrics.ts";
import { addUp, type Sums } from "../sums.ts";
import { endedBy, Guard, type Telemetry } from "../telemetry.ts";
import { type Family, familyOf } from "./families.ts";
import { CONTENT_TYPE, toText } from "./text.ts";

export type MetricsOptions = TemplateOptions;

export interface Metrics extends Telemetry {
  readonly contentType: string;
  /** All figures, in Prometheus's text format. */
  text(): string;
}

/** What a registry of prom-client is asked to do. */
export interface PromRegistry {
  registerMetric(metric: never): void;
  getSingleMetric?(name: string): unknown;
  removeSingleMetric?(name: string): void;
}

/** As prom-client's own metrics are seen by their registry. It changes the name of a counter for OpenMetrics. */
interface PromMetric {
  name: string;
  readonly help: string;
  readonly type: string;
  readonly aggregator: "sum";
  get(): Promise<unknown>;
  reset(): void;
}

/** Adds up what all locks of this process do, from now on. */
export function collectMetrics(options: MetricsOptions = {}): Metrics {
  const sums = sumsOf(options);
  return {
    ...endedBy(() => sums.end()),
    contentType: CONTENT_TYPE,
    text: () => toText(METRIC_NAMES.map((metric) => familyOf(sums, metric))),
  };
}

/** Answers GET and HEAD with the figures, whatever the path is: the one who mounts it chooses that. */
export function metricsHandler(
  metrics: Pick<Metrics, "text" | "contentType">,
): (request: IncomingMessage, response: ServerResponse) => void {
  if (typeof metrics?.text !== "function")
    throw new ArgumentError(`Expected \`metrics\` to come from collectMetrics(), got ${got(metrics)}`);
  return ({ method }, response) => {
    if (method !== "GET" && method !== "HEAD") {
      response.writeHead(405, { allow: "GET, HEAD", "content-length": 0 }).end();
      return;
    }
    const body = Buffer.from(metrics.text());
    // The figures are of this instant.
    const headers = { "content-type": metrics.contentType, "content-length": body.length, "cache-control": "no-store" };
    response.writeHead(200, headers).end(method === "HEAD" ? undefined : body);
  };
}

/** Puts the figures into a registry of prom-client (such as its `register`), beside the program's own. Its end takes them out again. */
export function registerMetrics(registry: PromRegistry, options: MetricsOptions = {}): Telemetry {
  if (typeof registry?.registerMetric !== "function")
    throw new ArgumentError(
      `Expected \`registry\` to be a registry of prom-client, such as its \`register\`, got ${got(registry)}`,
    );
  const sums = sumsOf(options);
  // By the names that the registry knows them by, whatever it makes of them later.
  const registered = new Map<string, PromMetric>();
  const end = (): void => {
    sums.end();
    for (const [name, metric] of registered) {
      // After a clear() there may be another of that name.
      if ((registry.getSingleMetric?.(name) ?? metric) === metric) registry.removeSingleMetric?.(name);
    }
    registered.clear();
  };
  try {
    for (const metric of METRIC_NAMES) {
      const one = promMetric(() => familyOf(sums, metric));
      const { name } = one;
      registry.registerMetric(one as never);
      registered.set(name, one);
    }
  } catch (error) {
    // They are there already: two of a name would be counted twice.
    end();
    throw error;
  }
  return endedBy(end);
}

function sumsOf(options: MetricsOptions): Sums {
  const { template } = checkOptions(options);
  const guard = new Guard("holdfast/prometheus");
  return addUp(new Templates(template, guard), guard);
}

function promMetric(read: () => Family): PromMetric {
  const { name, help, type } = read();
  return {
    name,
    help,
    type,
    aggregator: "sum",
    get() {
      const values = read().samples.map(({ name: metricName, labels, value }) => ({
        ...(type === "histogram" ? { metricName } : {}),
        // A copy: the registry adds its default labels to it.
        labels: { ...labels },
        value,
      }));
      return Promise.resolve({ name: this.name, help, type, aggregator: "sum", values });
    },
    // What was counted stays: it is of this process, not of the registry.
    reset: () => {},
  };
}
