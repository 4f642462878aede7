/** Spans and metrics of locks, for OpenTelemetry. */
export { instrument, type InstrumentOptions } from "./instrument.ts";
export {
  type CollectedMetric,
  type CollectedMetrics,
  type MetricProducer,
  metricProducer,
  type MetricProducerOptions,
} from "./producer.ts";
export type { Template } from "../groups.ts";
export type { Telemetry } from "../telemetry.ts";
