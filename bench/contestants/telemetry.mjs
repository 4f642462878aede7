/**
 * Holdfast with nothing listening, and with each kind of telemetry on, over memory or one Redis. `traced`: each loop runs inside a
 * span of the program, as in a server that is traced; what that costs by itself is the contestant "a traced program".
 */
import { built } from "../lib/holdfast.mjs";

const none = {
  export: (_, done) => done({ code: 0 }),
  shutdown: async () => {},
  forceFlush: async () => {},
};

export async function backendOf({ port }) {
  if (port === undefined) return (await built("backends/memory/index.js")).memory();
  const [{ Redis }, { redis }] = await Promise.all([import("ioredis"), built("backends/redis/index.js")]);
  const client = new Redis(port, "127.0.0.1", { password: process.env.HOLDFAST_LAB_PASSWORD });
  await client.ping();
  return redis(client);
}

/** A tracer provider whose spans go nowhere, and its context manager. */
export async function traced(ratio) {
  const [{ context }, sdk, { AsyncLocalStorageContextManager }] = await Promise.all([
    import("@opentelemetry/api"),
    import("@opentelemetry/sdk-trace-base"),
    import("@opentelemetry/context-async-hooks"),
  ]);
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  const sampler = new sdk.ParentBasedSampler({ root: new sdk.TraceIdRatioBasedSampler(ratio) });
  return new sdk.BasicTracerProvider({ sampler, spanProcessors: [new sdk.BatchSpanProcessor(none)] });
}

/** A request of the program for each cycle: sampled or not, as its trace is. */
export function inRequests(provider, cycle) {
  const tracer = provider.getTracer("program");
  return (name) =>
    tracer.startActiveSpan("request", async (span) => {
      try {
        return await cycle(name);
      } finally {
        span.end();
      }
    });
}

export const ON = {
  contention: async (locks) => {
    await locks.contention();
    return { end: () => locks.contention({ end: true }) };
  },
  prometheus: async () => (await built("telemetry/prometheus/index.js")).collectMetrics(),
  log: async () => (await built("telemetry/log/index.js")).logEvents(console),
  metrics: async () => {
    const [{ instrument }, { MeterProvider, PeriodicExportingMetricReader }] = await Promise.all([
      built("telemetry/otel/index.js"),
      import("@opentelemetry/sdk-metrics"),
    ]);
    const meterProvider = new MeterProvider({ readers: [new PeriodicExportingMetricReader({ exporter: none })] });
    return endedWith(meterProvider, instrument({ traces: false, meterProvider }));
  },
  producer: async () => {
    const [{ metricProducer }, { MeterProvider, PeriodicExportingMetricReader }] = await Promise.all([
      built("telemetry/otel/index.js"),
      import("@opentelemetry/sdk-metrics"),
    ]);
    const producer = metricProducer();
    const readers = [new PeriodicExportingMetricReader({ exporter: none, metricProducers: [producer] })];
    return endedWith(new MeterProvider({ readers }), producer);
  },
};

function endedWith(provider, on) {
  return {
    end() {
      on.end();
      return provider.shutdown();
    },
  };
}

async function over(env, kinds, ratio, spans, ended = false) {
  const provider = ratio === undefined ? undefined : await traced(ratio);
  const [{ createLocks }, backend] = await Promise.all([built("index.js"), backendOf(env)]);
  const locks = createLocks(backend);
  for (const kind of kinds) {
    const on = await ON[kind](locks);
    if (ended) await on.end();
  }
  if (spans) (await built("telemetry/otel/index.js")).instrument({ metrics: false, tracerProvider: provider });
  const cycle = async (name) => {
    const lease = await locks.acquire(name);
    await lease.release();
  };
  return {
    cycle: provider === undefined ? cycle : inRequests(provider, cycle),
    acquire: (name) => locks.acquire(name, { wait: Infinity }),
    release: (lease) => lease.release(),
    fence: (lease) => lease.fence,
  };
}

async function spansByHand(env, ratio) {
  const [provider, { createLocks }, backend] = await Promise.all([traced(ratio), built("index.js"), backendOf(env)]);
  return { cycle: inRequests(provider, await byHand(createLocks(backend), backend, provider)) };
}

/**
 * What a program pays that makes two spans itself, with a few attributes, around what it does with a lock: the least that spans cost.
 * `linked`: as ours, a sampled one leaves its traceparent in the claim, so that who waits can be linked to it.
 */
export async function byHand(locks, backend, provider, linked = false) {
  const { context, trace } = await import("@opentelemetry/api");
  const tracer = provider.getTracer("by hand");
  const common = { "holdfast.backend": backend.name, "holdfast.mode": "exclusive" };
  return async (name) => {
    const around = context.active();
    const acquire = tracer.startSpan("acquire", { attributes: { ...common } });
    const { traceId, spanId } = acquire.spanContext();
    const meta = linked && acquire.isRecording() ? { traceparent: `00-${traceId}-${spanId}-01` } : undefined;
    const options = meta === undefined ? undefined : { meta };
    const lease = await context.with(trace.setSpan(around, acquire), () => locks.acquire(name, options));
    acquire.setAttributes({ "holdfast.outcome": "acquired", "holdfast.fence": String(lease.fence) });
    acquire.end();
    const links = acquire.isRecording() ? [{ context: acquire.spanContext() }] : [];
    const hold = tracer.startSpan("hold", { attributes: { ...common, "holdfast.fence": String(lease.fence) }, links });
    await context.with(trace.setSpan(around, hold), () => lease.release());
    hold.setAttribute("holdfast.outcome", "released");
    hold.end();
  };
}

/** As spansByHand(): two durations, with the attributes that ours have. */
async function metricsByHand(env) {
  const [sdk, { createLocks }, backend] = await Promise.all([
    import("@opentelemetry/sdk-metrics"),
    built("index.js"),
    backendOf(env),
  ]);
  const readers = [new sdk.PeriodicExportingMetricReader({ exporter: none })];
  const meter = new sdk.MeterProvider({ readers }).getMeter("by hand");
  const [acquires, holds] = ["acquire", "hold"].map((name) => meter.createHistogram(name));
  const of = (outcome) => ({
    "holdfast.backend": backend.name,
    "holdfast.mode": "exclusive",
    "holdfast.outcome": outcome,
  });
  const [acquired, released] = [of("acquired"), of("released")];
  const locks = createLocks(backend);
  const cycle = async (name) => {
    const start = performance.now();
    const lease = await locks.acquire(name);
    const middle = performance.now();
    acquires.record((middle - start) / 1000, acquired);
    await lease.release();
    holds.record((performance.now() - middle) / 1000, released);
  };
  return { cycle };
}

const contestant = (kinds, ratio, spans = false) => ({
  own: true,
  sends: [],
  open: (env) => over(env, kinds, ratio, spans),
});

export const contestants = {
  off: contestant([]),
  "off again": contestant([]),
  /** Turned on, and ended again. */
  ended: {
    own: true,
    sends: [],
    open: (env) => over(env, Object.keys(ON), undefined, false, true),
  },
  contention: contestant(["contention"]),
  prometheus: contestant(["prometheus"]),
  log: contestant(["log"]),
  "otel producer": contestant(["producer"]),
  "otel metrics": contestant(["metrics"]),
  "otel metrics by hand": { own: true, sends: [], open: metricsByHand },
  "a traced program, 1 of 10": contestant([], 0.1),
  "with spans, 1 of 10": contestant([], 0.1, true),
  "spans by hand, 1 of 10": { own: true, sends: [], open: (env) => spansByHand(env, 0.1) },
  "a traced program, all": contestant([], 1),
  "with spans, all": contestant([], 1, true),
  "spans by hand, all": { own: true, sends: [], open: (env) => spansByHand(env, 1) },
  "all on": contestant(["contention", "prometheus", "log"], 1, true),
};
