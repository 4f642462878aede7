/** Spans and metrics of locks, in the real SDK of OpenTelemetry. */
import { AsyncLocalStorage } from "node:async_hooks";
import {
  context,
  type Context,
  metrics as metricsApi,
  type SpanContext,
  SpanStatusCode,
  trace,
  TraceFlags,
  type Tracer,
} from "@opentelemetry/api";
import {
  AlwaysOffSampler,
  BasicTracerProvider,
  type ReadableSpan,
  type Sampler,
  SamplingDecision,
} from "@opentelemetry/sdk-trace-base";
import { expect, onTestFinished, test, vi } from "vitest";
import { memory } from "../../src/backends/memory/index.ts";
import { LockBackendError } from "../../src/contract/errors.ts";
import {
  acquireChannel,
  deadlockChannel,
  fenceRejectedChannel,
  holdChannel,
  type HoldEvent,
} from "../../src/contract/events.ts";
import { createLocks } from "../../src/core/locks.ts";
import { subscribe } from "../../src/core/subscribe.ts";
import { METRICS } from "../../src/telemetry/metrics.ts";
import { logEvents } from "../../src/telemetry/log/index.ts";
import { instrument, type InstrumentOptions } from "../../src/telemetry/otel/index.ts";
import { fromTraceparent, toTraceparent } from "../../src/telemetry/otel/traceparent.ts";
import { collectMetrics } from "../../src/telemetry/prometheus/index.ts";
import { failure, gate, stage } from "../core/scripted.ts";
import { type Point, sdk } from "./sdk.ts";

const SECRET_NAME = "order:4711";

function named(spans: readonly ReadableSpan[], name: string): readonly ReadableSpan[] {
  return spans.filter((span) => span.name === name);
}

function one(spans: readonly ReadableSpan[], name: string): ReadableSpan {
  const found = named(spans, name);
  expect(found).toHaveLength(1);
  return found[0]!;
}

function pointsOf(points: readonly Point[], metric: keyof typeof METRICS): readonly Point[] {
  return points.filter(({ name }) => name === METRICS[metric].name);
}

test("spans of the work are children of the hold; the hold is a child of the caller, and linked to its acquire", async () => {
  const { spans, tracers } = sdk();
  const { locks } = stage();
  const tracer = tracers.getTracer("app");
  await tracer.startActiveSpan("request", async (request) => {
    await locks.run("a", async () => {
      await Promise.resolve();
      tracer.startSpan("work").end();
    });
    request.end();
  });
  const [request, acquire, hold, work] = ["request", "acquire", "hold", "work"].map((name) => one(spans(), name));
  expect(hold!.parentSpanContext?.spanId).toBe(request!.spanContext().spanId);
  expect(acquire!.parentSpanContext?.spanId).toBe(request!.spanContext().spanId);
  expect(work!.parentSpanContext?.spanId).toBe(hold!.spanContext().spanId);
  expect(hold!.links.map((link) => link.context.spanId)).toEqual([acquire!.spanContext().spanId]);
  expect(acquire!.attributes).toEqual({
    "holdfast.backend": "scripted",
    "holdfast.mode": "exclusive",
    "holdfast.outcome": "acquired",
    "holdfast.contended": false,
    "holdfast.attempts": 1,
    "holdfast.fence": "1",
  });
  expect(hold!.attributes).toMatchObject({ "holdfast.outcome": "released", "holdfast.ttl": 30, "holdfast.fence": "1" });
});

test("what the store's client traces during an acquire is a child of the acquire", async () => {
  const { spans, tracers } = sdk();
  const { backend, locks } = stage();
  backend.interfere.attempt = (pass) => {
    tracers.getTracer("client").startSpan("EVALSHA").end();
    return pass();
  };
  await (await locks.acquire("a")).release();
  const client = one(spans(), "EVALSHA");
  expect(client.parentSpanContext?.spanId).toBe(one(spans(), "acquire").spanContext().spanId);
});

test("without the private field of the context manager, all spans are there, side by side", async () => {
  const { spans, tracers } = sdk({}, true);
  const { locks } = stage();
  const tracer = tracers.getTracer("app");
  await tracer.startActiveSpan("request", async (request) => {
    await locks.run("a", async () => {
      await Promise.resolve();
      tracer.startSpan("work").end();
    });
    request.end();
  });
  const request = one(spans(), "request").spanContext().spanId;
  for (const name of ["acquire", "hold", "work"]) expect(one(spans(), name).parentSpanContext?.spanId).toBe(request);
  expect(one(spans(), "hold").links[0]?.context.spanId).toBe(one(spans(), "acquire").spanContext().spanId);
});

test("an acquire that waits is linked to the acquire of the holder, in another process, by what that one wrote", async () => {
  const { spans } = sdk();
  const { clock, locks, other } = stage();
  const lease = await other().acquire("a", { meta: { reason: "nightly" } });
  const holder = one(spans(), "acquire").spanContext();
  expect((await locks.inspect("a")).held[0]?.meta).toEqual({ reason: "nightly", traceparent: toTraceparent(holder) });
  const waiting = locks.acquire("a");
  await clock.advance(2000);
  await lease.release();
  await (await waiting).release();
  const [, waited] = named(spans(), "acquire");
  expect(waited!.attributes).toMatchObject({
    "holdfast.contended": true,
    "holdfast.held_by": "there:2",
    "holdfast.position": 1,
  });
  expect(waited!.links).toMatchObject([
    { context: { traceId: holder.traceId, spanId: holder.spanId, isRemote: true } },
  ]);
});

test("an acquire that waits for its own process is linked to the one before it, and the lease is handed on in memory", async () => {
  const { spans } = sdk();
  const { backend, locks } = stage();
  const first = await locks.acquire("a");
  const second = locks.acquire("a");
  await first.release();
  await (await second).release();
  const [before, after] = named(spans(), "acquire");
  expect(after!.links[0]?.context.spanId).toBe(before!.spanContext().spanId);
  expect(named(spans(), "hold").map(({ attributes }) => attributes["holdfast.local_hand_over"])).toEqual([false, true]);
  expect(backend.count("attempt")).toBe(1);
});

test("a traceparent of the caller's own is left as it is", async () => {
  sdk();
  const { locks } = stage();
  const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  await locks.acquire("a", { meta: { traceparent } });
  expect((await locks.inspect("a")).held[0]?.meta).toEqual({ traceparent });
});

test.each([
  undefined,
  7,
  "",
  "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
  `00-${"0".repeat(32)}-b7ad6b7169203331-01`,
  `00-0af7651916cd43dd8448eb211c80319c-${"0".repeat(16)}-01`,
  "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01\n",
  "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
])("a traceparent that is none is no link: %j", (text) => {
  expect(fromTraceparent(text)).toBeUndefined();
});

test("no lock name is in a span or a metric, whatever happens: errors have it in their messages", async () => {
  const { spans, points } = sdk();
  const { clock, backend, locks, other } = stage();
  const lease = await locks.acquire(SECRET_NAME);
  expect(await other().tryAcquire(SECRET_NAME)).toBeNull();
  const late = failure(other().acquire(SECRET_NAME, { wait: "1s" }));
  const aborted = failure(other().acquire(SECRET_NAME, { signal: AbortSignal.abort(new Error(SECRET_NAME)) }));
  await clock.advance(1000);
  expect((await late).message).toContain(SECRET_NAME);
  await aborted;
  backend.listener!.lost(backend.steps.at(-1)!.claims[0]!.id, `evicted ${SECRET_NAME}`);
  await lease.release();
  backend.interfere.attempt = () => {
    const error = new LockBackendError("scripted", SECRET_NAME, SECRET_NAME, { fatal: true });
    return Promise.reject(Object.assign(error, { name: SECRET_NAME }));
  };
  await failure(locks.acquire(SECRET_NAME));
  fenceRejectedChannel.publish({ guard: "redis", name: SECRET_NAME, current: 2n, offered: 1n });
  deadlockChannel.publish({ backend: "redis", members: [], description: SECRET_NAME, rejects: false });
  const seen = spans().map(({ name, attributes, events, status, links }) => ({
    name,
    attributes,
    events,
    status,
    links,
  }));
  expect(seen).toHaveLength(6);
  expect(JSON.stringify(seen)).not.toContain("4711");
  const measured = await points();
  expect(new Set(measured.map(({ name }) => name)).size).toBeGreaterThanOrEqual(6);
  expect(JSON.stringify(measured)).not.toContain("4711");
});

test("outcomes and error types: what failed has a status, what was busy or given up has none", async () => {
  const { spans, points } = sdk();
  const { clock, backend, locks, other } = stage();
  const lease = await locks.acquire("a");
  await other().tryAcquire("a");
  const late = failure(other().acquire("a", { wait: "1s" }));
  await failure(other().acquire("a", { signal: AbortSignal.abort() }));
  await clock.advance(1000);
  await late;
  backend.listener!.lost(backend.steps[0]!.claims[0]!.id, "evicted");
  const acquires = named(spans(), "acquire").map(({ attributes, status }) => [
    attributes["holdfast.outcome"],
    attributes["error.type"],
    status.code,
  ]);
  expect(acquires).toEqual([
    ["acquired", undefined, SpanStatusCode.UNSET],
    ["busy", undefined, SpanStatusCode.UNSET],
    ["aborted", undefined, SpanStatusCode.UNSET],
    ["timeout", "ERR_LOCK_TIMEOUT", SpanStatusCode.ERROR],
  ]);
  // Lost, and not released: its span is over all the same.
  expect(one(spans(), "hold")).toMatchObject({
    attributes: { "holdfast.outcome": "lost", "holdfast.loss": "other", "error.type": "ERR_LOCK_LOST" },
    status: { code: SpanStatusCode.ERROR },
  });
  const counted = pointsOf(await points(), "acquire").map(({ attributes }) => attributes);
  const common = { "holdfast.backend": "scripted", "holdfast.mode": "exclusive" };
  const there = { ...common, "holdfast.backend": "memory" };
  expect(counted).toEqual([
    { ...common, "holdfast.outcome": "acquired" },
    { ...there, "holdfast.outcome": "busy" },
    { ...there, "holdfast.outcome": "aborted" },
    { ...there, "holdfast.outcome": "timeout", "error.type": "ERR_LOCK_TIMEOUT" },
  ]);
  expect(pointsOf(await points(), "lost")).toMatchObject([
    { unit: "{lease}", value: 1, attributes: { "holdfast.backend": "scripted", "holdfast.loss": "other" } },
  ]);
  await lease.release();
});

test("all seven metrics: in seconds, with their buckets; what is held and waited for is as it is now", async () => {
  const { points } = sdk({ traces: false });
  const { clock, locks, other } = stage();
  const lease = await locks.acquire("a");
  const waiting = other().acquire("a", { wait: "20s" });
  await clock.advance(2000);
  fenceRejectedChannel.publish({ guard: "postgres", name: "a", current: 2n, offered: 1n });
  deadlockChannel.publish({ backend: "redis", members: [], description: "", rejects: false });
  const group = { "holdfast.backend": "scripted", "holdfast.mode": "exclusive" };
  const during = await points();
  expect(pointsOf(during, "held")).toMatchObject([{ value: 1, attributes: group }, { value: 0 }]);
  expect(pointsOf(during, "waiting")).toMatchObject([{ value: 0, attributes: group }, { value: 1 }]);
  await clock.advance(9000);
  await lease.release();
  await (await waiting).release();
  const after = await points();
  expect(pointsOf(after, "held").map(({ value }) => value)).toEqual([0, 0]);
  expect(pointsOf(after, "waiting").map(({ value }) => value)).toEqual([0, 0]);
  expect(pointsOf(after, "hold")[0]).toMatchObject({
    unit: "s",
    attributes: { ...group, "holdfast.outcome": "released" },
    value: { count: 1, sum: 11, buckets: { boundaries: METRICS.hold.buckets } },
  });
  expect(pointsOf(after, "acquire")[1]).toMatchObject({ value: { count: 1, sum: 11 } });
  expect(pointsOf(after, "renewal")).toMatchObject([
    { unit: "s", attributes: { "holdfast.backend": "scripted", "holdfast.outcome": "renewed" }, value: { count: 1 } },
  ]);
  expect(pointsOf(after, "deadlocks")).toMatchObject([
    { value: 1, attributes: { "holdfast.backend": "redis", "holdfast.outcome": "reported" } },
  ]);
  expect(pointsOf(after, "fenceRejected")).toMatchObject([{ value: 1, attributes: { "holdfast.guard": "postgres" } }]);
});

test("a template names the kind of a lock, in spans and in metrics; there are at most a hundred of them", async () => {
  const { spans, points } = sdk({ template: (name) => name.replace(/\d+/, "{id}") });
  const { locks } = stage();
  for (const name of ["order:1", "order:2"]) await locks.run(name, () => {});
  expect(named(spans(), "hold order:{id}")).toHaveLength(2);
  expect(one(spans().slice(0, 1), "acquire order:{id}").attributes["holdfast.lock.template"]).toBe("order:{id}");
  expect(pointsOf(await points(), "acquire")).toMatchObject([
    { attributes: { "holdfast.lock.template": "order:{id}" }, value: { count: 2 } },
  ]);
});

test("a template that returns the name itself cannot let metrics grow without end", async () => {
  const warnings: Error[] = [];
  const warned = (warning: Error): void => void warnings.push(warning);
  process.on("warning", warned);
  onTestFinished(() => void process.off("warning", warned));
  const { points } = sdk({ traces: false, template: (name) => name });
  const { locks } = stage();
  for (let i = 0; i < 150; i++) await locks.run(`order:${i}`, () => {});
  const acquires = pointsOf(await points(), "acquire");
  expect(acquires).toHaveLength(101);
  expect(acquires.at(-1)).toMatchObject({ attributes: { "holdfast.lock.template": "other" }, value: { count: 50 } });
  expect(warnings.map(({ message }) => message)).toEqual([expect.stringMatching(/more than 100 texts/)]);
});

test.each([
  [
    "a template that throws",
    {
      template: () => {
        throw new Error("no");
      },
    },
  ],
  ["a template that returns something else", { template: (() => ({ toString: 1 })) as never }],
  [
    "a tracer that throws",
    {
      metrics: false,
      tracerProvider: {
        getTracer: () =>
          ({
            startSpan() {
              throw new Error("no");
            },
          }) as never,
      },
    },
  ],
])("%s does not touch a lock", async (_, options) => {
  const { tracers } = sdk(options);
  const { locks } = stage();
  const span = tracers.getTracer("app").startSpan("request");
  const inside = trace.setSpan(context.active(), span);
  // The context of the caller is kept, too.
  const seen = await context.with(inside, () => locks.run("a", (): Context => context.active()));
  expect(trace.getSpan(seen)).toBeDefined();
  expect(await locks.tryAcquire("a")).not.toBeNull();
});

test("a hot lock with everything on is handed on in memory, whatever each of its callers writes", async () => {
  const holds: HoldEvent[] = [];
  const hear = (event: unknown): void => void holds.push(event as HoldEvent);
  holdChannel.start.subscribe(hear);
  onTestFinished(() => {
    holdChannel.start.unsubscribe(hear);
  });
  const { spans } = sdk();
  const { backend, clock, locks } = stage();
  const others = [collectMetrics(), logEvents(console, { clock })];
  onTestFinished(() => {
    for (const other of others) other.end();
  });
  let inside = 0;
  const sections = Array.from({ length: 32 }, async () => {
    for (let i = 0; i < 10; i++) {
      await locks.run("hot", async () => {
        expect(++inside).toBe(1);
        await Promise.resolve();
        inside--;
      });
    }
  });
  await Promise.all(sections);
  expect(holds).toHaveLength(320);
  const asked = backend.count("attempt") + backend.count("swap");
  expect(holds.filter(({ localHandOver }) => !localHandOver)).toHaveLength(asked);
  expect(asked).toBeLessThanOrEqual(10);
  expect(
    named(spans(), "hold").filter(({ attributes }) => attributes["holdfast.local_hand_over"] === true),
  ).toHaveLength(320 - asked);
});

test("it is on once, and off when it is ended: nothing is heard or bound any more, and open spans are over", async () => {
  const { telemetry, spans, points } = sdk();
  const { locks } = stage();
  expect(() => instrument()).toThrow(/on already in this process/);
  const { opened, open } = gate();
  const running = locks.run("a", () => opened);
  await locks.run("b", () => {});
  telemetry.end();
  telemetry.end();
  expect(named(spans(), "hold")).toHaveLength(2);
  expect(holdChannel.hasSubscribers).toBe(false);
  open();
  await running;
  await locks.run("c", () => {});
  expect(spans()).toHaveLength(4);
  expect(pointsOf(await points(), "held")).toEqual([]);
  // And it can be turned on again.
  const again = instrument({ traces: false, metrics: false });
  expect(() => instrument()).toThrow(/on already/);
  again[Symbol.dispose]();
  instrument({ traces: false }).end();
});

test.each([false, true])(
  "ended in the middle of an event, it opens no span that never ends; flat: %j",
  async (flat) => {
    const started: string[] = [];
    const ended: string[] = [];
    const processor = {
      onStart: ({ name }: { readonly name: string }) => void started.push(name),
      onEnd: ({ name }: { readonly name: string }) => void ended.push(name),
      forceFlush: () => Promise.resolve(),
      shutdown: () => Promise.resolve(),
    };
    const { locks } = stage();
    // Both ways into the middle: before its subscriber is called, and before its storage is entered.
    const endAll = (): void => telemetry.end();
    const over = subscribe("acquire:start", endAll);
    const { telemetry } = sdk({ tracerProvider: new BasicTracerProvider({ spanProcessors: [processor] }) }, flat);
    const storage = new AsyncLocalStorage<object>();
    if (!flat)
      acquireChannel.start.bindStore(storage, () => {
        endAll();
        return {};
      });
    onTestFinished(() => {
      over();
      acquireChannel.start.unbindStore(storage);
    });
    await (await locks.acquire("a")).release();
    expect(ended).toEqual(started);
  },
);

test("a span that cannot say its context ends all the same", async () => {
  const ended: string[] = [];
  const broken: Tracer = {
    startSpan(name: string) {
      const span = trace.wrapSpanContext({ traceId: "1".repeat(32), spanId: "2".repeat(16), traceFlags: 1 });
      return Object.assign(span, {
        isRecording: () => true,
        end: () => void ended.push(name),
        spanContext() {
          throw new Error("no");
        },
      });
    },
    startActiveSpan() {
      throw new Error("no");
    },
  };
  sdk({ metrics: false, tracerProvider: { getTracer: () => broken } });
  const { locks } = stage();
  await locks.run("a", () => {});
  expect(ended).toEqual(["acquire", "hold"]);
});

test("several locks, of several stores, count together by their store", async () => {
  const { points } = sdk({ traces: false });
  const all = [createLocks(memory()), createLocks(memory()), stage().locks];
  for (const locks of all) await locks.run("a", { mode: "shared" }, () => {});
  expect(pointsOf(await points(), "hold")).toMatchObject([
    { attributes: { "holdfast.backend": "memory", "holdfast.mode": "shared" }, value: { count: 2 } },
    { attributes: { "holdfast.backend": "scripted" }, value: { count: 1 } },
  ]);
});

test("what began before it was turned on is not counted when it ends", async () => {
  const starts: HoldEvent[] = [];
  const hear = (event: unknown): void => void starts.push(event as HoldEvent);
  holdChannel.start.subscribe(hear);
  onTestFinished(() => {
    holdChannel.start.unsubscribe(hear);
  });
  const { locks } = stage();
  const lease = await locks.acquire("a");
  const { spans, points } = sdk();
  await lease.release();
  expect(starts).toHaveLength(1);
  expect(spans()).toEqual([]);
  expect(await points()).toEqual([]);
});

test("a trace that is not sampled stays so: nothing is recorded, nothing is written into the claim, and the work is in its trace", async () => {
  const { spans } = sdk({}, false);
  const off = new BasicTracerProvider({ sampler: new AlwaysOffSampler() });
  const { locks } = stage();
  const root = off.getTracer("app").startSpan("request");
  const inside = await context.with(trace.setSpan(context.active(), root), () =>
    locks.run("a", async () => [trace.getActiveSpan(), (await locks.inspect("a")).held[0]?.meta]),
  );
  expect(inside).toEqual([root, {}]);
  expect(spans()).toEqual([]);
});

/** Counts the spans that it is asked for, whatever a sampler would say of them. */
function asked(): { readonly names: string[]; readonly tracerProvider: InstrumentOptions["tracerProvider"] } {
  const names: string[] = [];
  const tracer = new BasicTracerProvider().getTracer("asked");
  const startSpan: Tracer["startSpan"] = (name, ...rest) => {
    names.push(name);
    return tracer.startSpan(name, ...rest);
  };
  return { names, tracerProvider: { getTracer: () => ({ startSpan }) as Tracer } };
}

test("inside of a trace that is not sampled, no span is made: what is not seen costs no ids and no attributes", async () => {
  const { names, tracerProvider } = asked();
  sdk({ metrics: false, tracerProvider });
  const { locks } = stage();
  const around = trace.setSpan(
    context.active(),
    new BasicTracerProvider({ sampler: new AlwaysOffSampler() }).getTracer("app").startSpan("request"),
  );
  const seen = await context.with(around, () => locks.run("a", () => context.active()));
  expect(seen).toBe(around);
  expect(names).toEqual([]);
});

test.each([
  ["no span", undefined, 0],
  ["a span that is sampled and has ended", { traceFlags: TraceFlags.SAMPLED }, 0],
  ["a caller in another process, whose trace is not sampled", { isRemote: true }, 0],
  ["a span without a trace, as without an SDK", { traceId: "0".repeat(32) }, 0],
  ["a span of a trace that is not sampled", {}, 2],
])("a sampler is asked, unless the trace is known not to be sampled: %s", async (_, parent, spared) => {
  const { names, tracerProvider } = asked();
  sdk({ metrics: false, tracerProvider });
  const { locks } = stage();
  const common = { traceId: "1".repeat(32), spanId: "2".repeat(16), traceFlags: TraceFlags.NONE };
  const here = context.active();
  const around = parent === undefined ? here : trace.setSpanContext(here, { ...common, ...parent });
  await context.with(around, () => locks.run("a", () => {}));
  expect(names).toHaveLength(2 - spared);
});

test("where a sampler leaves out the spans of locks alone, the work is in its caller's trace", async () => {
  const decide = (name: string): SamplingDecision =>
    name === "request" ? SamplingDecision.RECORD_AND_SAMPLED : SamplingDecision.NOT_RECORD;
  const sampler: Sampler = { shouldSample: (_around, _traceId, name) => ({ decision: decide(name) }) };
  const tracerProvider = new BasicTracerProvider({ sampler });
  sdk({ metrics: false, tracerProvider });
  const { backend, locks } = stage();
  const request = tracerProvider.getTracer("app").startSpan("request");
  const seen: unknown[] = [];
  backend.interfere.attempt = (pass) => {
    seen.push(trace.getActiveSpan());
    return pass();
  };
  await context.with(trace.setSpan(context.active(), request), () =>
    locks.run("a", () => void seen.push(trace.getActiveSpan())),
  );
  expect(seen).toEqual([request, request]);
});

test("what another subscriber adds to a claim is there beside the traceparent, and a hold's link to its own acquire is not remote", async () => {
  const { spans } = sdk();
  const end = subscribe("acquire:start", (event) => void (event.meta = { ...event.meta, job: "nightly" }));
  onTestFinished(end);
  const { locks } = stage();
  await locks.run("a", async () => {
    expect((await locks.inspect("a")).held[0]?.meta).toMatchObject({
      job: "nightly",
      traceparent: expect.stringMatching(/^00-/) as string,
    });
  });
  expect(one(spans(), "hold").links).toMatchObject([{ context: { isRemote: false } }]);
});

test("an acquire that its own sampler leaves out is the caller of what the store's client traces, so that this is left out, too", async () => {
  const seen: (SpanContext | undefined)[] = [];
  const off = new BasicTracerProvider({ sampler: new AlwaysOffSampler() });
  sdk({ metrics: false, tracerProvider: off });
  const { backend, locks } = stage();
  backend.interfere.attempt = (pass) => {
    seen.push(trace.getActiveSpan()?.spanContext());
    return pass();
  };
  await (await locks.acquire("a")).release();
  expect(seen).toMatchObject([{ traceFlags: TraceFlags.NONE }]);
});

test("without an SDK nothing is traced or counted, and locks work", async () => {
  context.disable();
  trace.disable();
  metricsApi.disable();
  const telemetry = instrument();
  onTestFinished(() => telemetry.end());
  const { locks } = stage();
  expect(await locks.run("a", () => 1)).toBe(1);
});

test.each([
  [null, /Expected `options` to be an object/],
  [{ template: "order:{id}" }, /Expected `template` to be a function/],
  [{ traces: 1 }, /Expected `traces` to be true or false, got 1/],
  [{ metrics: null }, /Expected `metrics` to be true or false/],
])("a wrong option is refused, and nothing is on: %j", (options, message) => {
  expect(() => instrument(options as never)).toThrow(message);
  instrument({ metrics: false }).end();
});

test("a subscriber that freezes an acquire at its start costs its traceparent, and not its span", async () => {
  const end = subscribe("acquire:start", (event) => void Object.freeze(event));
  onTestFinished(end);
  const { spans } = sdk({}, true);
  const { locks } = stage();
  await (await locks.acquire("a")).release();
  expect(spans().map(({ name }) => name)).toEqual(["acquire", "hold"]);
});

test("a span ends, whatever fails at its end", async () => {
  const ended: string[] = [];
  const startSpan = (name: string): unknown => ({
    spanContext: () => ({ traceId: "1".repeat(32), spanId: "2".repeat(16), traceFlags: 1 }),
    isRecording: () => true,
    setAttributes: () => {},
    setAttribute: () => {
      throw new Error("no");
    },
    // No addLink(): that of another make.
    end: () => void ended.push(name),
  });
  const { telemetry } = sdk({ metrics: false, tracerProvider: { getTracer: () => ({ startSpan }) as never } });
  const { locks } = stage();
  const first = await locks.acquire("a");
  const second = locks.acquire("a");
  await first.release();
  await (await second).release();
  // Once: nothing of it is kept.
  telemetry.end();
  expect(ended.toSorted()).toEqual(["acquire", "acquire", "hold", "hold"]);
});

test("a provider that fails is the caller's to hear of, and leaves nothing turned on", () => {
  const getMeter = (): never => {
    throw new Error("no meter");
  };
  expect(() => instrument({ meterProvider: { getMeter } })).toThrow("no meter");
  expect(holdChannel.hasSubscribers).toBe(false);
  instrument({ traces: false }).end();
  // Also where it fails late.
  const made = { record() {}, add() {} };
  const meter = { createHistogram: () => made, createCounter: () => made };
  expect(() => instrument({ traces: false, meterProvider: { getMeter: () => meter } as never })).toThrow(TypeError);
  expect([acquireChannel.hasSubscribers, holdChannel.hasSubscribers]).toEqual([false, false]);
});

test("the holder's text in a span has no password, and cannot drive a terminal", async () => {
  const { spans } = sdk();
  const { clock, locks, other } = stage();
  const lease = await other({ holder: "worker\u001b[2J of redis://u:hunter2@db" }).acquire("a");
  const waiting = locks.acquire("a");
  await clock.advance(100);
  await lease.release();
  await waiting;
  expect(named(spans(), "acquire")[1]!.attributes["holdfast.held_by"]).toBe("worker\\x1b[2J of redis://u:***@db");
});

test("another copy of this package in the process is not turned on beside it", async () => {
  sdk();
  vi.resetModules();
  const copy = (await import("../../src/telemetry/otel/index.ts")) as { readonly instrument: typeof instrument };
  expect(copy.instrument).not.toBe(instrument);
  expect(() => copy.instrument()).toThrow(/on already in this process/);
});

test("a group's locks are held one inside the other, and the work is inside of all", async () => {
  const { spans, tracers } = sdk({ template: (name) => name });
  const { locks } = stage();
  await locks.run(["a", "b"], () => tracers.getTracer("app").startSpan("work").end());
  const [a, b, work] = ["hold a", "hold b", "work"].map((name) => one(spans(), name));
  expect(work!.parentSpanContext?.spanId).toBe(a!.spanContext().spanId);
  expect(a!.parentSpanContext?.spanId).toBe(b!.spanContext().spanId);
  expect(b!.parentSpanContext).toBeUndefined();
});
