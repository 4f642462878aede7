/** The metrics of a producer, in readers of the real SDK of OpenTelemetry: the same as those of instruments. */
import { ValueType } from "@opentelemetry/api";
import {
  AggregationTemporality,
  DataPointType,
  InMemoryMetricExporter,
  type MetricData,
  MeterProvider,
  PeriodicExportingMetricReader,
  type ResourceMetrics,
} from "@opentelemetry/sdk-metrics";
import { afterEach, expect, onTestFinished, test, vi } from "vitest";
import {
  acquireChannel,
  type AcquireEvent,
  deadlockChannel,
  fenceRejectedChannel,
  holdChannel,
  type HoldEvent,
  lostChannel,
  renewChannel,
} from "../../src/contract/events.ts";
import { subscribe } from "../../src/core/subscribe.ts";
import { METRICS, type MetricName } from "../../src/telemetry/metrics.ts";
import {
  instrument,
  type MetricProducer,
  metricProducer,
  type MetricProducerOptions,
  type Telemetry,
} from "../../src/telemetry/otel/index.ts";
import { gate, stage } from "../core/scripted.ts";

interface Reading {
  readonly meters: MeterProvider;
  /** What a reader exports now. */
  readonly read: (reader?: number) => Promise<ResourceMetrics | undefined>;
}

afterEach(() => {
  vi.useRealTimers();
});

/** Readers of the SDK that export into memory, each with these producers. */
function reading(
  metricProducers: MetricProducer[],
  temporalities: AggregationTemporality[] = [AggregationTemporality.CUMULATIVE],
): Reading {
  const exporters = temporalities.map((temporality) => new InMemoryMetricExporter(temporality));
  const readers = exporters.map(
    (exporter) => new PeriodicExportingMetricReader({ exporter, metricProducers, exportIntervalMillis: 2 ** 30 }),
  );
  const meters = new MeterProvider({ readers });
  onTestFinished(() => meters.shutdown());
  return {
    meters,
    async read(reader = 0) {
      exporters[reader]!.reset();
      await readers[reader]!.forceFlush();
      return exporters[reader]!.getMetrics().at(-1);
    },
  };
}

function produced(options?: MetricProducerOptions, temporalities?: AggregationTemporality[]) {
  const producer = metricProducer(options);
  onTestFinished(() => producer.end());
  return { producer, ...reading([producer], temporalities) };
}

function metricsOf(read: ResourceMetrics | undefined): readonly MetricData[] {
  const scopes = read?.scopeMetrics ?? [];
  expect(scopes.length).toBeLessThanOrEqual(1);
  return scopes[0]?.metrics ?? [];
}

function pointsOf(read: ResourceMetrics | undefined, metric: MetricName): MetricData["dataPoints"] {
  return metricsOf(read).find(({ descriptor }) => descriptor.name === METRICS[metric].name)?.dataPoints ?? [];
}

/** One of each, with a lock that is still held and one that is still waited for. */
async function everything(name: string): Promise<void> {
  const { clock, backend, locks, other } = stage();
  const lease = await locks.acquire(name);
  const waiting = other().acquire(name, { wait: "20s" });
  await clock.advance(11_000);
  await lease.release();
  await (await waiting).release();
  await locks.acquire(name);
  backend.listener!.lost(backend.steps.at(-1)!.claims[0]!.id, `evicted ${name}`);
  fenceRejectedChannel.publish({ guard: "redis", name, current: 2n, offered: 1n });
  deadlockChannel.publish({ backend: "redis", members: [], description: name, rejects: true });
  // The store has not heard of that loss: another of the kind.
  await locks.acquire(`${name}0`);
  expect(await other().tryAcquire(`${name}0`)).toBeNull();
  void locks.acquire(`${name}0`, { wait: Infinity });
}

/** Durations of every bucket, on its edge, beside it, and beyond all. */
function durations(): void {
  const common = { backend: "redis", name: "order:1", mode: "exclusive" } as const;
  const edges = [METRICS.acquire, METRICS.hold, METRICS.renewal].flatMap(({ buckets }) => buckets);
  const batch = { backend: "redis", asked: 1, renewed: 1, gone: 0, tookMs: 1, ttlMs: 1 };
  for (const seconds of [0, 1e9, ...edges.flatMap((edge) => [edge, edge * 1.000_001, edge * 0.999_999])]) {
    const acquire: AcquireEvent = { ...common };
    acquireChannel.start.publish(acquire);
    acquireChannel.asyncEnd.publish(Object.assign(acquire, { outcome: "acquired", waitedMs: seconds * 1000 }));
    const hold: HoldEvent = { ...common, fence: 1n, ttlMs: 1, localHandOver: false, startedAtMs: 0 };
    holdChannel.start.publish(hold);
    holdChannel.end.publish(Object.assign(hold, { end: "released", heldMs: seconds * 1000 }));
    renewChannel.publish({ ...batch, unknown: seconds > 1 ? 1 : 0, delayMs: seconds * 1000 });
  }
}

/** What a reader exported, without what may differ: the order, and when each began and ended. */
function comparable(read: ResourceMetrics | undefined): unknown {
  return metricsOf(read)
    .map(({ descriptor: { name, description, unit, valueType }, dataPoints, ...rest }) => ({
      ...rest,
      descriptor: { name, description, unit, valueType },
      dataPoints: dataPoints
        // Renewals of the scripted store took real time.
        .filter(({ attributes }) => name !== METRICS.renewal.name || attributes["holdfast.backend"] === "redis")
        .map(({ attributes, value }) => ({ attributes, value }))
        .toSorted((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1)),
    }))
    .toSorted((a, b) => (a.descriptor.name < b.descriptor.name ? -1 : 1));
}

function keyOf({ attributes }: { readonly attributes: object }): string {
  return JSON.stringify(Object.entries(attributes).toSorted());
}

test("a producer tells a reader what instrument() tells it of the same events: names, units, types, buckets, sums", async () => {
  const template = (name: string): string => name.replace(/\d+/, "{id}");
  const run = async (on: Telemetry, { read }: Reading): Promise<ResourceMetrics | undefined> => {
    onTestFinished(() => on.end());
    await everything("order:4711");
    durations();
    const exported = await read();
    on.end();
    return exported;
  };
  const byHand = reading([]);
  const expected = await run(instrument({ traces: false, meterProvider: byHand.meters, template }), byHand);
  const producer = metricProducer({ template });
  const exported = await run(producer, reading([producer]));
  expect(comparable(exported)).toEqual(comparable(expected));
  expect(metricsOf(exported)).toHaveLength(Object.keys(METRICS).length);
  expect(metricsOf(exported).map(({ descriptor }) => descriptor.valueType)).toContain(ValueType.INT);
  expect(exported!.scopeMetrics[0]!.scope.name).toBe(expected!.scopeMetrics[0]!.scope.name);
  // A reader takes the resource of its provider.
  expect(exported!.resource.attributes).toEqual(expected!.resource.attributes);
});

test("its numbers are those of the SDK: cumulative, histograms, and sums that only rise where they count", async () => {
  const { read } = produced();
  await everything("a");
  const kinds = metricsOf(await read()).map(({ descriptor, aggregationTemporality, dataPointType, ...rest }) => {
    expect(aggregationTemporality).toBe(AggregationTemporality.CUMULATIVE);
    return [descriptor.name, dataPointType, "isMonotonic" in rest ? rest.isMonotonic : undefined];
  });
  expect(kinds).toEqual(
    Object.values(METRICS).map(({ name, kind }) =>
      kind === "histogram" ? [name, DataPointType.HISTOGRAM, undefined] : [name, DataPointType.SUM, kind === "counter"],
    ),
  );
});

test("no lock name is in what a producer tells, whatever happens", async () => {
  const { producer, read } = produced();
  await everything("order:4711");
  const all = JSON.stringify([metricsOf(await read()), await producer.collect()]);
  expect(all).toContain("holdfast.fence.rejected");
  expect(all).not.toContain("4711");
});

test("sums begin when it is turned on, and end when they are read; a wall clock that is set back makes no end before its start", async () => {
  vi.useFakeTimers({ toFake: ["Date"], now: 1_700_000_000_250 });
  const { producer } = produced();
  const { locks } = stage();
  const timesAt = async (now: number): Promise<unknown> => {
    vi.setSystemTime(now);
    await locks.run("a", () => {});
    const [scope] = (await producer.collect()).resourceMetrics.scopeMetrics;
    const times = scope!.metrics.flatMap(({ dataPoints }) =>
      dataPoints.map(({ startTime, endTime }) => [startTime, endTime]),
    );
    expect(times).toHaveLength(4);
    expect(new Set(times.map((of) => JSON.stringify(of))).size).toBe(1);
    return times[0];
  };
  const start = [1_700_000_000, 250_000_000];
  expect(await timesAt(1_700_000_060_999)).toEqual([start, [1_700_000_060, 999_000_000]]);
  expect(await timesAt(1_600_000_000_000)).toEqual([start, [1_700_000_060, 999_000_000]]);
  expect(await timesAt(1_700_000_070_001)).toEqual([start, [1_700_000_070, 1_000_000]]);
});

test("several readers get the same, whatever each prefers, and what one got does not change", async () => {
  const { CUMULATIVE, DELTA } = AggregationTemporality;
  const { read } = produced({}, [CUMULATIVE, DELTA, DELTA]);
  const { locks } = stage();
  await locks.run("a", () => {});
  const first = await read(0);
  const before = JSON.stringify(comparable(first));
  await locks.run("a", () => {});
  expect(JSON.stringify(comparable(first))).toBe(before);
  for (const reader of [1, 0, 2, 2]) {
    const exported = await read(reader);
    expect(pointsOf(exported, "hold")).toMatchObject([{ value: { count: 2 } }]);
    for (const { aggregationTemporality } of metricsOf(exported)) expect(aggregationTemporality).toBe(CUMULATIVE);
  }
});

test("before anything happens there is nothing to tell, and what is held and waited for is as it is now", async () => {
  const { read } = produced();
  expect(metricsOf(await read())).toEqual([]);
  const { locks } = stage();
  const { opened, open } = gate();
  const { opened: begun, open: begin } = gate();
  const running = locks.run("a", () => {
    begin();
    return opened;
  });
  await begun;
  const waiting = locks.run("a", () => {});
  const during = await read();
  expect(pointsOf(during, "held")).toMatchObject([{ value: 1 }]);
  expect(pointsOf(during, "waiting")).toMatchObject([{ value: 1 }]);
  expect(pointsOf(during, "hold")).toEqual([]);
  open();
  await Promise.all([running, waiting]);
  const after = await read();
  expect(pointsOf(after, "held")).toMatchObject([{ value: 0 }]);
  expect(pointsOf(after, "waiting")).toMatchObject([{ value: 0 }]);
  expect(pointsOf(after, "hold")).toMatchObject([{ value: { count: 2 } }]);
});

test("there is one that counts: a second producer, or instrument() beside it, throws until the first has ended", () => {
  const { producer, meters } = produced();
  expect(() => metricProducer()).toThrow(/counts already in this process/);
  expect(() => instrument({ meterProvider: meters })).toThrow(/metrics: false/);
  // The one that was refused has left nothing behind, and spans are not counted.
  instrument({ metrics: false }).end();
  producer.end();
  producer.end();
  const counting = instrument({ meterProvider: meters, traces: false });
  onTestFinished(() => counting.end());
  // Ended once more, it is not the other that ends.
  producer.end();
  expect(() => metricProducer()).toThrow(/counts already in this process/);
  counting.end();
  metricProducer()[Symbol.dispose]();
});

test("another copy of this package in the process does not count beside it", async () => {
  produced();
  vi.resetModules();
  const copy = (await import("../../src/telemetry/otel/index.ts")) as {
    readonly metricProducer: typeof metricProducer;
  };
  expect(copy.metricProducer).not.toBe(metricProducer);
  expect(() => copy.metricProducer()).toThrow(/counts already in this process/);
});

test("its end stops it: it hears nothing more; what it counted is reported until another counts", async () => {
  const { producer, read } = produced();
  const { locks } = stage();
  await locks.run("a", () => {});
  producer.end();
  expect(holdChannel.hasSubscribers).toBe(false);
  await locks.run("a", () => {});
  const last = await read();
  expect(pointsOf(last, "hold")).toMatchObject([{ value: { count: 1 } }]);
  // What is held is unknown by now.
  expect(pointsOf(last, "held")).toEqual([]);
  const next = metricProducer();
  onTestFinished(() => next.end());
  expect(metricsOf(await read())).toEqual([]);
});

test("a producer that was replaced stays silent, also when the other one has ended: no reader gets two of a name", async () => {
  const { producer } = produced();
  const { locks } = stage();
  await locks.run("a", () => {});
  producer.end();
  const next = metricProducer();
  const { read } = reading([producer, next]);
  await locks.run("a", () => {});
  next.end();
  expect(pointsOf(await read(), "hold")).toMatchObject([{ value: { count: 1 } }]);
  expect((await producer.collect()).resourceMetrics.scopeMetrics).toEqual([]);
});

test("what could not be turned on has replaced nothing: an ended producer is still reported", async () => {
  const { producer, read } = produced();
  const { locks } = stage();
  await locks.run("a", () => {});
  producer.end();
  const meterProvider = { getMeter: () => ({}) } as never;
  expect(() => instrument({ traces: false, meterProvider })).toThrow(TypeError);
  expect(() => instrument({ tracerProvider: {} as never })).toThrow(TypeError);
  expect(pointsOf(await read(), "hold")).toMatchObject([{ value: { count: 1 } }]);
});

test("stores without number do not let the rare figures grow: what is beyond a thousand series counts as one", async () => {
  const { producer } = produced({ template: (name) => name });
  for (let i = 0; i < 3000; i++)
    lostChannel.publish({ backend: `tenant-${i}`, name: "a", fence: 1n, reason: "", loss: { kind: "gone" } });
  const [metric] = (await producer.collect()).resourceMetrics.scopeMetrics[0]!.metrics;
  expect(metric!.dataPoints).toHaveLength(1001);
  expect(metric!.dataPoints.at(-1)).toMatchObject({
    attributes: { "holdfast.backend": "other", "holdfast.lock.template": "other", "holdfast.loss": "gone" },
    value: 2000,
  });
  // What is no store's stays so.
  fenceRejectedChannel.publish({ guard: "redis", name: "b", current: 2n, offered: 1n });
  const all = (await producer.collect()).resourceMetrics.scopeMetrics[0]!.metrics;
  expect(all.at(-1)!.dataPoints).toMatchObject([
    { attributes: { "holdfast.guard": "redis", "holdfast.lock.template": "other" }, value: 1 },
  ]);
  expect(all.at(-1)!.dataPoints[0]!.attributes).not.toHaveProperty(["holdfast.backend"]);
});

test("an end in the middle of a collection, or of an event, is an end", async () => {
  const { producer, read, meters } = produced();
  const { locks } = stage();
  const endLater = subscribe("hold", () => producer.end());
  onTestFinished(endLater);
  await locks.run("a", () => {});
  const gauge = meters.getMeter("app").createObservableGauge("app.gauge");
  gauge.addCallback(() => producer.end());
  await read();
  expect(holdChannel.start.hasSubscribers).toBe(false);
  expect(() => metricProducer().end()).not.toThrow();
});

test("at the SDK's shutdown what was counted last is exported, also where the producer was ended first", async () => {
  const exported: ResourceMetrics[] = [];
  const producer = metricProducer();
  onTestFinished(() => producer.end());
  const exporter = {
    export: (metrics: ResourceMetrics, done: (result: { code: number }) => void) => {
      exported.push(metrics);
      done({ code: 0 });
    },
    forceFlush: () => Promise.resolve(),
    shutdown: () => Promise.resolve(),
  };
  const meters = new MeterProvider({
    readers: [new PeriodicExportingMetricReader({ exporter, metricProducers: [producer] })],
  });
  const { locks } = stage();
  await locks.run("a", () => {});
  producer.end();
  await meters.shutdown();
  expect(exported).toHaveLength(1);
  expect(pointsOf(exported[0], "hold")).toMatchObject([{ value: { count: 1 } }]);
});

test("a template that throws, or returns every name, touches neither a lock nor the figures", async () => {
  const warnings: string[] = [];
  const warned = ({ message }: Error): void => void warnings.push(message);
  process.on("warning", warned);
  onTestFinished(() => void process.off("warning", warned));
  let isBroken = true;
  const { read } = produced({
    template(name) {
      if (isBroken) throw new Error(`no template for redis://u:hunter2@db`);
      return name;
    },
  });
  const { locks } = stage();
  expect(await locks.run("a", () => 7)).toBe(7);
  isBroken = false;
  for (let i = 0; i < 10_000; i++) await locks.run(`order:${i}`, () => {});
  const exported = await read();
  // The one without a template, a hundred with one, and the rest.
  expect(pointsOf(exported, "hold")).toHaveLength(102);
  expect(pointsOf(exported, "hold").at(-1)).toMatchObject({
    attributes: { "holdfast.lock.template": "other" },
    value: { count: 9900 },
  });
  await expect.poll(() => warnings).toEqual([expect.stringContaining("redis://u:***@db")]);
});

test.each([
  [null, /Expected `options` to be an object/],
  [{ template: "order:{id}" }, /Expected `template` to be a function/],
])("a wrong option is refused, and nothing is on: %j", (options, message) => {
  expect(() => metricProducer(options as never)).toThrow(message);
  metricProducer().end();
});
