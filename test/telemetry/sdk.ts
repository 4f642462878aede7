/** The real SDK of OpenTelemetry, in memory. */
import { context } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import {
  AggregationTemporality,
  type DataPoint,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from "@opentelemetry/sdk-metrics";
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  type ReadableSpan,
  SimpleSpanProcessor,
} from "@opentelemetry/sdk-trace-base";
import { onTestFinished } from "vitest";
import { instrument, type InstrumentOptions } from "../../src/telemetry/otel/index.ts";
import type { Telemetry } from "../../src/telemetry/otel/index.ts";

export interface Point {
  readonly name: string;
  readonly unit: string;
  readonly attributes: Readonly<Record<string, unknown>>;
  readonly value: unknown;
}

export interface Sdk {
  readonly telemetry: Telemetry;
  readonly tracers: BasicTracerProvider;
  /** Spans that have ended, in the order of their end. */
  readonly spans: () => readonly ReadableSpan[];
  /** All metrics, collected now. */
  readonly points: () => Promise<readonly Point[]>;
}

/** Telemetry that is on until the test is over. `flat`: the context manager has no storage that can be found. */
export function sdk(options: InstrumentOptions = {}, flat = false): Sdk {
  const manager = new AsyncLocalStorageContextManager();
  if (flat) hide(manager);
  context.setGlobalContextManager(manager.enable());
  const exporter = new InMemorySpanExporter();
  const tracers = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
  const metrics = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
  const reader = new PeriodicExportingMetricReader({ exporter: metrics, exportIntervalMillis: 2 ** 30 });
  const meters = new MeterProvider({ readers: [reader] });
  const telemetry = instrument({ tracerProvider: tracers, meterProvider: meters, ...options });
  onTestFinished(async () => {
    telemetry.end();
    context.disable();
    await Promise.all([tracers.shutdown(), meters.shutdown()]);
  });
  return {
    telemetry,
    tracers,
    spans: () => exporter.getFinishedSpans(),
    async points() {
      await reader.forceFlush();
      const all =
        metrics
          .getMetrics()
          .at(-1)
          ?.scopeMetrics.flatMap((scope) => scope.metrics) ?? [];
      return all.flatMap(({ descriptor: { name, unit }, dataPoints }) =>
        (dataPoints as DataPoint<unknown>[]).map(({ attributes, value }) => ({ name, unit, attributes, value })),
      );
    },
  };
}

/** As a context manager of another make: it works, and has no such field. */
function hide(manager: AsyncLocalStorageContextManager): void {
  const field = "_asyncLocalStorage";
  const storage = (manager as unknown as Record<string, unknown>)[field];
  Object.defineProperty(manager, field, { get: () => (isInside(new Error("who asks")) ? storage : undefined) });
}

/** Asked by the manager itself. */
function isInside({ stack = "" }: Error): boolean {
  return (stack.split("\n")[2] ?? "").includes("AsyncLocalStorageContextManager");
}
