/** What telemetry says is bounded, whatever others write into a store, and whatever errors a program makes: series, links, lines. */
import { expect, onTestFinished, test } from "vitest";
import { acquireChannel, type AcquireEvent, deadlockChannel } from "../../src/contract/events.ts";
import type { Holding, Mode } from "../../src/contract/backend.ts";
import { FakeClock } from "../../src/testing/fake-clock.ts";
import { logEvents } from "../../src/telemetry/log/index.ts";
import { collectMetrics, type Metrics } from "../../src/telemetry/prometheus/index.ts";
import { linksTo, toTraceparent } from "../../src/telemetry/otel/traceparent.ts";

function collecting(): Metrics {
  const metrics = collectMetrics({ template: (name) => name });
  onTestFinished(() => metrics.end());
  return metrics;
}

function acquired(backend: string, name: string, mode: Mode = "exclusive", more: Partial<AcquireEvent> = {}): void {
  const event: AcquireEvent = { backend, name, mode };
  acquireChannel.start.publish(event);
  acquireChannel.asyncEnd.publish(Object.assign(event, { outcome: "acquired", waitedMs: 1 }, more));
}

/** The labels of each series of this figure, as text. */
function seriesOf(metrics: Metrics, figure: string): readonly string[] {
  const lines = metrics.text().split("\n");
  return lines.filter((line) => line.startsWith(`${figure}{`)).map((line) => line.slice(figure.length));
}

const held: Holding = {
  name: "a",
  mode: "exclusive",
  limit: 1,
  holder: "there:1",
  fence: 1n,
  heldMs: 1,
  remainingMs: 1,
  meta: {},
};

test("stores and kinds of locks without number: what is beyond a thousand groups counts as one for each mode", () => {
  const metrics = collecting();
  for (let i = 0; i < 3000; i++) {
    acquired(`tenant-${i}`, `a-${i}`);
    acquired(`tenant-${i}`, `a-${i}`, "shared");
  }
  const [counts, waiting] = [
    seriesOf(metrics, "holdfast_acquire_duration_seconds_count"),
    seriesOf(metrics, "holdfast_waiting"),
  ];
  expect([counts.length, waiting.length]).toEqual([1002, 1002]);
  expect(counts.slice(-2)).toEqual([
    '{backend="other",mode="exclusive",template="other",outcome="acquired"} 2500',
    '{backend="other",mode="shared",template="other",outcome="acquired"} 2500',
  ]);
});

test("locks of one kind that are taken in turn in both modes count in their own", () => {
  const metrics = collecting();
  for (const mode of ["exclusive", "shared", "shared", "exclusive", "shared"] as const) acquired("redis", "a", mode);
  expect(seriesOf(metrics, "holdfast_acquire_duration_seconds_count")).toEqual([
    '{backend="redis",mode="exclusive",template="a",outcome="acquired"} 2',
    '{backend="redis",mode="shared",template="a",outcome="acquired"} 3',
  ]);
});

test("an error that is none of ours is of no type of its own: its code and its name may be anything, also the name of a lock", () => {
  const metrics = collectMetrics();
  onTestFinished(() => metrics.end());
  const coded = Object.assign(new Error("no"), { code: "order:4711", name: "order:4711" });
  const unreadable = Object.defineProperty({}, "code", {
    get() {
      throw new Error("order:4711");
    },
  });
  for (const error of [coded, unreadable, undefined, new TypeError("order:4711")])
    acquired("redis", "order:4711", "exclusive", { outcome: "error", error });
  expect(seriesOf(metrics, "holdfast_acquire_duration_seconds_count")).toEqual([
    '{backend="redis",mode="exclusive",outcome="error",error_type="_OTHER"} 3',
    '{backend="redis",mode="exclusive",outcome="error",error_type="TypeError"} 1',
  ]);
});

test("of many holders the first eight that are traced are linked", () => {
  const traceOf = (n: number): string =>
    toTraceparent({ traceId: "1".repeat(32), spanId: String(n).padStart(16, "0"), traceFlags: 1 });
  const holders = Array.from({ length: 20 }, (_, n): Holding => {
    return n < 5 ? held : { ...held, fence: BigInt(n), meta: { traceparent: traceOf(n) } };
  });
  expect(linksTo(holders).map(({ context }) => Number(context.spanId))).toEqual([5, 6, 7, 8, 9, 10, 11, 12]);
});

test("a line says at most five holders and sixteen of a deadlock", async () => {
  const written: Record<string, unknown>[] = [];
  const write = (fields: object, message: string): void => void written.push({ ...fields, message });
  const clock = new FakeClock();
  const log = logEvents({ info: write, warn: write, error: write }, { longWait: "1s", clock });
  onTestFinished(() => log.end());
  const holds = Array.from({ length: 9 }, (_, n) => ({ name: `l${n}`, fence: BigInt(n) }));
  const member = { holder: "there:1", waitsFor: "a", mode: "exclusive" as const, holds, meta: {} };
  deadlockChannel.publish({
    backend: "redis",
    members: Array.from({ length: 40 }, () => member),
    description: "x".repeat(10_000),
    rejects: false,
  });
  const [line] = written as { readonly members: { readonly holds: unknown[] }[]; readonly message: string }[];
  expect(line!.members.map((one) => one.holds.length)).toEqual(Array.from({ length: 16 }, () => 5));
  expect(line!.message.length).toBeLessThan(1100);
  const heldBy = Array.from({ length: 7 }, () => held);
  acquireChannel.start.publish({ backend: "redis", name: "a", mode: "exclusive", contended: true, heldBy });
  await clock.advance(1000);
  expect(written[1]!["heldBy"]).toHaveLength(5);
});
