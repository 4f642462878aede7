/** Spans, links and metrics of locks, in the SDK that is installed beside this file: scripts/otel-sdks.mjs copies it there. */
import assert from "node:assert/strict";
import { channel } from "node:diagnostics_channel";
import { readFileSync } from "node:fs";
import { context } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from "@opentelemetry/sdk-metrics";
import { InMemorySpanExporter, SimpleSpanProcessor, TracerProvider } from "@opentelemetry/sdk-trace";
import { createLocks } from "holdfast";
import { memory } from "holdfast/memory";
import { instrument, metricProducer } from "holdfast/otel";

const versionOf = (name) =>
  JSON.parse(readFileSync(new URL(`./node_modules/@opentelemetry/${name}/package.json`, import.meta.url), "utf8"))
    .version;

context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
const exporter = new InMemorySpanExporter();
const tracerProvider = new TracerProvider({ spanProcessors: [new SimpleSpanProcessor({ exporter })] });
const metricExporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
const reader = new PeriodicExportingMetricReader({ exporter: metricExporter, exportIntervalMillis: 2 ** 30 });
const meterProvider = new MeterProvider({ readers: [reader] });
const telemetry = instrument({ tracerProvider, meterProvider });

const tracer = tracerProvider.getTracer("check");
const locks = createLocks(memory());
const work = () =>
  locks.run("order:4711", async () => {
    await Promise.resolve();
    tracer.startSpan("work").end();
  });
const first = await locks.acquire("order:4711");
const waiting = tracer.startActiveSpan("request", async (span) => {
  await work();
  span.end();
});
await first.release();
await waiting;

const spans = exporter.getFinishedSpans();
const idOf = (span) => span.spanContext().spanId;
const named = (name) => spans.filter((span) => span.name === name);
const [request] = named("request");
const [before, after] = named("acquire");
const hold = named("hold").find((span) => span.parentSpanContext !== undefined);
assert.equal(hold.parentSpanContext.spanId, idOf(request), "the hold is a child of the request");
assert.equal(named("work")[0].parentSpanContext.spanId, idOf(hold), "the work is a child of the hold");
assert.deepEqual(
  hold.links.map((link) => link.context.spanId),
  [idOf(after)],
  "the hold is linked to its acquire",
);
assert.deepEqual(
  after.links.map((link) => link.context.spanId),
  [idOf(before)],
  "who waited is linked to the holder",
);
assert.equal(after.attributes["holdfast.contended"], true);

await reader.forceFlush();
const metrics = metricExporter
  .getMetrics()
  .at(-1)
  .scopeMetrics.flatMap((scope) => scope.metrics);
const pointsOf = (name) => metrics.find(({ descriptor }) => descriptor.name === name)?.dataPoints;
assert.equal(pointsOf("holdfast.acquire.duration")[0].value.count, 2);
assert.equal(pointsOf("holdfast.hold.duration")[0].value.count, 2);
assert.equal(pointsOf("holdfast.held")[0].value, 0);
const seen = JSON.stringify([spans.map(({ name, attributes, events }) => [name, attributes, events]), metrics]);
assert.ok(!seen.includes("4711"), "no lock name is in it");

telemetry.end();

/** The same events for each: durations in every bucket, on its edge and beyond all, and one of the rest. */
function publishAll() {
  const common = { backend: "redis", name: "order:4711", mode: "exclusive" };
  for (const seconds of [0, 0.001, 0.0011, 0.3, 1, 60, 61, 3600, 1e6]) {
    const acquire = { ...common };
    channel("tracing:holdfast:acquire:start").publish(acquire);
    Object.assign(acquire, { outcome: "acquired", waitedMs: seconds * 1000 });
    channel("tracing:holdfast:acquire:asyncEnd").publish(acquire);
    const hold = { ...common, fence: 1n };
    channel("tracing:holdfast:hold:start").publish(hold);
    channel("tracing:holdfast:hold:end").publish(Object.assign(hold, { end: "released", heldMs: seconds * 1000 }));
    channel("holdfast:renew").publish({ backend: "redis", unknown: 0, gone: 0, delayMs: seconds * 1000 });
  }
  channel("tracing:holdfast:acquire:start").publish({ ...common });
  channel("tracing:holdfast:hold:start").publish({ ...common });
  channel("holdfast:lost").publish({ ...common, fence: 1n, reason: "evicted", loss: { kind: "other" } });
  channel("holdfast:fence-rejected").publish({ guard: "redis", name: "order:4711", current: 2n, offered: 1n });
  channel("holdfast:deadlock").publish({ backend: "redis", rejects: true });
}

/** What a reader exports of them, without when. */
async function exported(turnOn, metricProducers = []) {
  const memoryExporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
  const own = new PeriodicExportingMetricReader({ exporter: memoryExporter, metricProducers });
  const provider = new MeterProvider({ readers: [own] });
  const on = turnOn(provider);
  publishAll();
  await own.forceFlush();
  on.end();
  const [{ scope, metrics: all }] = memoryExporter.getMetrics().at(-1).scopeMetrics;
  await provider.shutdown();
  return [scope.name, all.map(comparable).toSorted((a, b) => (a.descriptor.name < b.descriptor.name ? -1 : 1))];
}

function comparable({ descriptor: { name, description, unit, valueType }, dataPoints, ...rest }) {
  const points = dataPoints.map(({ attributes, value }) => ({ attributes, value }));
  return { ...rest, descriptor: { name, description, unit, valueType }, points };
}

const byInstruments = await exported((provider) => instrument({ traces: false, meterProvider: provider }));
const producer = metricProducer();
const byProducer = await exported(() => producer, [producer]);
assert.equal(byProducer[1].length, 8, "all metrics are there");
assert.deepEqual(byProducer, byInstruments, "a producer tells what instruments tell");
assert.ok(!JSON.stringify(byProducer).includes("4711"), "no lock name is in it");

await Promise.all([locks.close(), tracerProvider.shutdown(), meterProvider.shutdown()]);
console.log(`ok: Node ${process.version}, API ${versionOf("api")}, SDK ${versionOf("sdk-trace")}`);
