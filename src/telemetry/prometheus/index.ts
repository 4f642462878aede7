/** Figures of locks for Prometheus: as text without a dependency, or in a registry of prom-client. */
export {
  collectMetrics,
  type Metrics,
  metricsHandler,
  type MetricsOptions,
  type PromRegistry,
  registerMetrics,
} from "./metrics.ts";
export type { Template } from "../groups.ts";
export type { Telemetry } from "../telemetry.ts";
