// Who waited for whom, how long, and what the logs say: spans, metrics and log lines of the same three jobs.
//
//   node examples/telemetry.mjs
import { connect } from "holdfast";
import { logEvents } from "holdfast/log";
import { instrument, metricProducer } from "holdfast/otel";
import { collectMetrics } from "holdfast/prometheus";
import { context } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from "@opentelemetry/sdk-metrics";
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from "@opentelemetry/sdk-trace-base";
import { setTimeout as sleep } from "node:timers/promises";

// Your program has an SDK already, most likely; this one keeps its spans and metrics in memory.
const exporter = new InMemorySpanExporter();
const tracerProvider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());

// Names of locks stay here: what is shown of them is their kind.
const template = (name) => name.replace(/\d+$/, "{id}");
// The SDK's reader is given the metrics when it collects: they are added up elsewhere, which costs nearly nothing.
const producer = metricProducer({ template });
const metricExporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
const reader = new PeriodicExportingMetricReader({ exporter: metricExporter, metricProducers: [producer] });
const meterProvider = new MeterProvider({ readers: [reader] });
const telemetry = instrument({ tracerProvider, metrics: false, template });
const metrics = collectMetrics({ template });
const write = (fields, message) => console.log(`log: ${message}`);
const log = logEvents({ info: write, warn: write, error: write }, { longWait: "50ms" });

const tracer = tracerProvider.getTracer("shop");
const locks = await connect();

async function job(name, started) {
  await tracer.startActiveSpan(name, async (span) => {
    await locks.run("order:4711", async () => {
      started?.();
      await tracer.startActiveSpan("charge", async (charge) => {
        await sleep(100);
        charge.end();
      });
    });
    span.end();
  });
}
const jobs = [];
await new Promise((started) => {
  jobs.push(job("ada", started));
});
await Promise.all([...jobs, job("ben"), job("cyd")]);
await locks.close();

const spans = exporter.getFinishedSpans();
const byId = new Map(spans.map((span) => [span.spanContext().spanId, span]));
const parentOf = (span) => byId.get(span.parentSpanContext?.spanId);
for (const span of spans.filter(({ name }) => name === "charge")) {
  console.log(`trace: ${span.name} is inside "${parentOf(span).name}", inside "${parentOf(parentOf(span)).name}"`);
}
for (const span of spans.filter(({ name, links }) => name.startsWith("acquire") && links.length > 0)) {
  const holder = byId.get(span.links[0].context.spanId);
  console.log(`trace: ${parentOf(span).name} waited for ${parentOf(holder).name}`);
}
for (const line of metrics.text().split("\n")) if (/_count\{|^holdfast_held\{/.test(line)) console.log(line);

for (const part of [telemetry, producer, metrics, log]) part.end();
await reader.forceFlush();
const [{ metrics: exported }] = metricExporter.getMetrics().at(-1).scopeMetrics;
const [acquires] = exported;
const [{ attributes, value }] = acquires.dataPoints;
console.log(
  `metric: ${acquires.descriptor.name} of ${String(attributes["holdfast.lock.template"])}, ${value.count} times`,
);
await meterProvider.shutdown();
