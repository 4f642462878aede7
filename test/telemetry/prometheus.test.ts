/** The figures for Prometheus: as text, over HTTP, and in the real prom-client. */
import { readFileSync } from "node:fs";
import { createServer, request as httpRequest } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { AggregatorRegistry, Registry, Counter as PromCounter } from "prom-client";
import { expect, onTestFinished, test } from "vitest";
import { deadlockChannel, fenceRejectedChannel } from "../../src/contract/events.ts";
import { subscribe } from "../../src/core/subscribe.ts";
import { METRICS, prometheusName } from "../../src/telemetry/metrics.ts";
import {
  collectMetrics,
  type Metrics,
  metricsHandler,
  type MetricsOptions,
  registerMetrics,
} from "../../src/telemetry/prometheus/index.ts";
import { stage } from "../core/scripted.ts";
import { ROOT } from "../dist.ts";

const NAMES = Object.values(METRICS).map((metric) => prometheusName(metric));

function collect(options?: MetricsOptions): Metrics {
  const metrics = collectMetrics(options);
  onTestFinished(() => metrics.end());
  return metrics;
}

/** One of each: waits, holds, a loss, a renewal, a refusal. */
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
}

/** Every line of the format, or what is wrong with it. */
function parse(text: string): Map<string, { readonly type: string; readonly samples: Map<string, number> }> {
  const families = new Map<string, { type: string; samples: Map<string, number> }>();
  let family: { type: string; samples: Map<string, number> } | undefined;
  let name = "";
  expect(text.endsWith("\n")).toBe(true);
  for (const line of text.split("\n").slice(0, -1)) {
    const help = /^# HELP (\w+) .+$/.exec(line);
    const type = /^# TYPE (\w+) (histogram|gauge|counter)$/.exec(line);
    const sample = /^(\w+)(\{(?:\w+="(?:[^"\\\n]|\\["\\n])*",?)*\})? (\S+)$/.exec(line);
    if (help !== null) name = help[1]!;
    else if (type !== null) {
      expect(type[1]).toBe(name);
      families.set(name, (family = { type: type[2]!, samples: new Map() }));
    } else {
      expect(sample, line).not.toBeNull();
      expect(sample![1]!.replace(/_(?:bucket|sum|count)$/, "")).toBe(name);
      const key = `${sample![1]}${sample![2] ?? ""}`;
      expect(family!.samples.has(key), key).toBe(false);
      expect(Number.isFinite(Number(sample![3])), line).toBe(true);
      family!.samples.set(key, Number(sample![3]));
    }
  }
  return families;
}

test("all seven figures, as text: each with its help and type, and histograms add up", async () => {
  const metrics = collect();
  await everything("a");
  const families = parse(metrics.text());
  expect([...families.keys()]).toEqual(NAMES);
  const group = 'backend="scripted",mode="exclusive"';
  const holds = families.get("holdfast_hold_duration_seconds")!.samples;
  const bucket = (le: string): number | undefined =>
    holds.get(`holdfast_hold_duration_seconds_bucket{${group},outcome="released",le="${le}"}`);
  expect([bucket("10"), bucket("30"), bucket("3600"), bucket("+Inf")]).toEqual([0, 1, 1, 1]);
  expect(holds.get(`holdfast_hold_duration_seconds_sum{${group},outcome="released"}`)).toBe(11);
  expect(holds.get(`holdfast_hold_duration_seconds_count{${group},outcome="released"}`)).toBe(1);
  const lost = `holdfast_hold_duration_seconds_count{${group},outcome="lost",error_type="ERR_LOCK_LOST"}`;
  expect(holds.get(lost)).toBe(1);
  expect(families.get("holdfast_held")!.samples.get(`holdfast_held{${group}}`)).toBe(0);
  expect([...families.get("holdfast_lost_total")!.samples]).toEqual([
    ['holdfast_lost_total{backend="scripted",reason="other"}', 1],
  ]);
  expect([...families.get("holdfast_deadlocks_total")!.samples]).toEqual([
    ['holdfast_deadlocks_total{backend="redis",outcome="rejected"}', 1],
  ]);
  expect([...families.get("holdfast_fence_rejected_total")!.samples]).toEqual([
    ['holdfast_fence_rejected_total{guard="redis"}', 1],
  ]);
  // Buckets only rise.
  for (const { type, samples } of families.values()) {
    if (type !== "histogram") continue;
    const counts = [...samples].filter(([key]) => key.includes("_bucket"));
    for (const [key, count] of counts) if (key.includes('le="+Inf"')) expect(count).toBeGreaterThan(0);
    for (let at = 1; at < counts.length; at++)
      if (!counts[at - 1]![0].includes('le="+Inf"')) expect(counts[at]![1]).toBeGreaterThanOrEqual(counts[at - 1]![1]);
  }
});

test("buckets rise, from a millisecond to a minute for waits, an hour for holds and 30 s for renewals", () => {
  const histograms = Object.values(METRICS).filter(({ kind }) => kind === "histogram");
  for (const { buckets } of histograms) {
    expect(buckets).toEqual(buckets.toSorted((a, b) => a - b));
    expect(new Set(buckets).size).toBe(buckets.length);
    expect(buckets[0]).toBe(0.001);
  }
  expect(histograms.map(({ buckets }) => buckets.at(-1))).toEqual([60, 3600, 30]);
});

test("what is held and waited for is as it is now; a lease that is lost and never released is not held", async () => {
  const metrics = collect();
  const { backend, locks } = stage();
  const first = await locks.acquire("a");
  const waiting = locks.acquire("a");
  const gauges = (): readonly (string | undefined)[] =>
    ["held", "waiting"].map((gauge) => new RegExp(`^holdfast_${gauge}\\{.*\\} (\\d+)$`, "m").exec(metrics.text())?.[1]);
  expect(gauges()).toEqual(["1", "1"]);
  await first.release();
  await waiting;
  expect(gauges()).toEqual(["1", "0"]);
  backend.listener!.lost(backend.steps[0]!.claims[0]!.id, "evicted");
  expect(gauges()).toEqual(["0", "0"]);
});

test("no lock name is in the text, in no label and no help", async () => {
  const metrics = collect();
  await everything("order:4711");
  expect(metrics.text()).not.toContain("4711");
  expect(metrics.text()).not.toContain("order");
});

test("a template is a label, escaped as the format wants it", async () => {
  const metrics = collect({ template: () => 'a "quoted" \\ text\nof two lines' });
  const { locks } = stage();
  await locks.run("a", () => {});
  expect(metrics.text()).toContain('template="a \\"quoted\\" \\\\ text\\\\x0aof two lines"');
  fenceRejectedChannel.publish({ guard: "of\ntwo", name: "a", current: 2n, offered: 1n });
  expect(metrics.text()).toContain('guard="of\\ntwo"');
  parse(metrics.text());
});

test("templates that would be one when they are written are two series all the same: half characters", async () => {
  const metrics = collect({ template: (name) => (name === "a" ? "\ud800" : "\udbff") });
  const { locks } = stage();
  for (const name of ["a", "b"]) await locks.run(name, () => {});
  const written = Buffer.from(metrics.text()).toString();
  expect(parse(written).get("holdfast_held")!.samples.size).toBe(2);
});

test.each([
  ["rejects", () => Promise.reject(new Error("redis://u:hunter2@db is away"))],
  ["is a symbol", () => Symbol("a")],
])("a template whose result %s is none, and touches nothing", async (what, template) => {
  const warnings: string[] = [];
  const warned = ({ message }: Error): void => void warnings.push(message);
  process.on("warning", warned);
  onTestFinished(() => void process.off("warning", warned));
  const metrics = collect({ template: template as never });
  const { locks } = stage();
  expect(await locks.run("a", () => 7)).toBe(7);
  expect(metrics.text()).toContain('holdfast_held{backend="scripted",mode="exclusive"} 0');
  if (what === "rejects")
    await expect.poll(() => warnings).toEqual([expect.stringContaining("redis://u:***@db is away")]);
});

test("what is ended in the middle of an event hears nothing more of it", async () => {
  const { locks } = stage();
  const end = subscribe("acquire", () => metrics.end());
  onTestFinished(end);
  const metrics = collect();
  await locks.acquire("a");
  expect(metrics.text()).not.toContain("holdfast_waiting{");
  expect(metrics.text()).not.toContain("holdfast_acquire_duration_seconds_count{");
});

test("after its end it tells what it counted, and not what is held or waited for, which is unknown by then", async () => {
  const { locks } = stage();
  const metrics = collect();
  await locks.run("a", () => {});
  const lease = await locks.acquire("a");
  expect(metrics.text()).toContain('holdfast_held{backend="scripted",mode="exclusive"} 1');
  metrics.end();
  await lease.release();
  const text = metrics.text();
  expect(text).not.toMatch(/^holdfast_(?:held|waiting)\{/m);
  expect(text).toMatch(/^holdfast_hold_duration_seconds_count\{.*\} 1$/m);
});

test("its end takes out of a registry what it put there, also after OpenMetrics was asked for, and nothing of another", async () => {
  const registry = new Registry<never>();
  registry.setContentType(Registry.OPENMETRICS_CONTENT_TYPE as never);
  const first = registerMetrics(registry);
  await everything("a");
  await registry.metrics();
  first.end();
  expect(registry.getMetricsAsArray()).toEqual([]);
  const second = registerMetrics(registry);
  registry.clear();
  const third = registerMetrics(registry);
  second.end();
  expect(registry.getMetricsAsArray()).toHaveLength(NAMES.length);
  third.end();
  expect(registry.getMetricsAsArray()).toEqual([]);
});

test("what several processes of a cluster counted is added up by prom-client", async () => {
  const registry = new Registry();
  const telemetry = registerMetrics(registry);
  onTestFinished(() => telemetry.end());
  await everything("a");
  const one = JSON.stringify(await registry.getMetricsAsJSON());
  const text = await AggregatorRegistry.aggregate([JSON.parse(one), JSON.parse(one)] as never).metrics();
  const group = 'backend="scripted",mode="exclusive"';
  expect(text).toContain(`holdfast_hold_duration_seconds_bucket{${group},outcome="released",le="30"} 2\n`);
  expect(text).toContain(`holdfast_hold_duration_seconds_sum{${group},outcome="released"} 22\n`);
  expect(text).toContain('holdfast_lost_total{backend="scripted",reason="other"} 2\n');
});

test("a template that returns the name itself: the text stays bounded", async () => {
  const metrics = collect({ template: (name) => name });
  const { locks } = stage();
  for (let i = 0; i < 150; i++) await locks.run(`order:${i}`, () => {});
  const counts = [...metrics.text().matchAll(/^holdfast_hold_duration_seconds_count\{.*template="(.*?)".*\} (\d+)$/gm)];
  expect(counts).toHaveLength(101);
  expect(counts.at(-1)?.slice(1)).toEqual(["other", "50"]);
});

test("counters count on: each series for itself", () => {
  const metrics = collect();
  const event = { guard: "redis", name: "a", current: 2n, offered: 1n };
  for (const guard of ["redis", "http", "redis", "redis"]) fenceRejectedChannel.publish({ ...event, guard });
  const rejected = parse(metrics.text()).get("holdfast_fence_rejected_total")!.samples;
  expect([...rejected]).toEqual([
    ['holdfast_fence_rejected_total{guard="redis"}', 3],
    ['holdfast_fence_rejected_total{guard="http"}', 1],
  ]);
});

test("two of them are kept apart by nothing: each counts for itself, and an ended one stands still", async () => {
  const [one, two] = [collect(), collect()];
  const { locks } = stage();
  await locks.run("a", () => {});
  one.end();
  await locks.run("a", () => {});
  const count = /^holdfast_acquire_duration_seconds_count\{.*\} (\d+)$/m;
  expect([one, two].map((metrics) => count.exec(metrics.text())?.[1])).toEqual(["1", "2"]);
  two[Symbol.dispose]();
});

interface Answer {
  readonly status: number | undefined;
  readonly headers: Readonly<Record<string, unknown>>;
  readonly body: string;
}

test("over HTTP: GET has the text, HEAD its headers, and nothing else is allowed", async () => {
  const metrics = collect();
  await everything("a");
  const server = createServer(metricsHandler(metrics));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  const ask = (method: string): Promise<Answer> =>
    new Promise((resolve, reject) => {
      const asked = httpRequest({ host: "127.0.0.1", port, path: "/metrics", method, agent: false }, (answer) => {
        let body = "";
        answer.setEncoding("utf8").on("data", (text: string) => (body += text));
        answer.on("end", () => resolve({ status: answer.statusCode, headers: answer.headers, body }));
      });
      asked.on("error", reject).end();
    });
  const got = await ask("GET");
  expect(got).toMatchObject({ status: 200, body: metrics.text() });
  expect(got.headers["content-type"]).toBe("text/plain; version=0.0.4; charset=utf-8");
  const head = await ask("HEAD");
  expect(head).toMatchObject({ status: 200, body: "" });
  expect(head.headers["content-length"]).toBe(String(Buffer.byteLength(got.body)));
  const posted = await ask("POST");
  expect(posted).toMatchObject({ status: 405, body: "" });
  expect(posted.headers["allow"]).toBe("GET, HEAD");
});

test("in prom-client: the same figures as in the text, beside the program's own", async () => {
  const registry = new Registry();
  const own = new PromCounter({ name: "own_total", help: "Own.", registers: [registry] });
  own.inc();
  const telemetry = registerMetrics(registry);
  onTestFinished(() => telemetry.end());
  const metrics = collect();
  await everything("order:4711");
  const text = await registry.metrics();
  const lines = (all: string): readonly string[] => all.split("\n").filter((line) => line.startsWith("holdfast_"));
  expect(lines(text)).toEqual(lines(metrics.text()));
  expect(lines(text).length).toBeGreaterThan(20);
  expect(text).toContain("own_total 1");
  expect(text).not.toContain("4711");
  registry.setDefaultLabels({ app: "shop" });
  const json = await registry.getMetricsAsJSON();
  expect(json.map(({ name }) => name)).toEqual(["own_total", ...NAMES]);
  expect(json[1]!.values[0]!.labels).toMatchObject({ app: "shop", backend: "scripted" });
  telemetry.end();
  expect((await registry.getMetricsAsJSON()).map(({ name }) => name)).toEqual(["own_total"]);
});

test("in prom-client, as OpenMetrics: counters have their suffix once, and the end is marked", async () => {
  const registry = new Registry<typeof Registry.OPENMETRICS_CONTENT_TYPE>();
  registry.setContentType(Registry.OPENMETRICS_CONTENT_TYPE);
  const telemetry = registerMetrics(registry);
  onTestFinished(() => telemetry.end());
  await everything("a");
  const text = await registry.metrics();
  expect(text).toContain("# TYPE holdfast_lost counter");
  expect(text).toContain('holdfast_lost_total{backend="scripted",reason="other"} 1');
  expect(text.endsWith("# EOF\n")).toBe(true);
});

test("twice in one registry is refused, and the first stays", async () => {
  const registry = new Registry();
  const telemetry = registerMetrics(registry);
  onTestFinished(() => telemetry.end());
  expect(() => registerMetrics(registry)).toThrow(/already been registered/);
  expect(await registry.getMetricsAsJSON()).toHaveLength(NAMES.length);
});

test.each([
  [() => registerMetrics({} as never), /Expected `registry` to be a registry of prom-client/],
  [() => registerMetrics(undefined as never), /Expected `registry`/],
  [() => registerMetrics(new Registry(), { template: 1 as never }), /Expected `template` to be a function/],
  [() => collectMetrics(null as never), /Expected `options` to be an object/],
  [() => metricsHandler({} as never), /Expected `metrics` to come from collectMetrics/],
])("a wrong argument is refused: %#", (act, message) => {
  expect(act).toThrow(message);
});

interface Panel {
  readonly type: string;
  readonly title: string;
  readonly targets?: readonly { readonly expr: string }[];
}

test("the dashboard asks for every figure, and for none that is not there", () => {
  const text = readFileSync(join(ROOT, "docs/grafana/holdfast.json"), "utf8");
  const { panels, title } = JSON.parse(text) as { readonly title: string; readonly panels: readonly Panel[] };
  expect(title).toBe("Holdfast");
  const queries = panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));
  expect(queries.length).toBeGreaterThanOrEqual(NAMES.length);
  const asked = queries.flatMap((query) => [...query.matchAll(/\bholdfast_\w+/g)].map(([name]) => name));
  const exposed = Object.values(METRICS).flatMap((metric) => {
    const name = prometheusName(metric);
    return metric.kind === "histogram" ? [`${name}_bucket`, `${name}_sum`, `${name}_count`] : [name];
  });
  expect(asked.filter((name) => !exposed.includes(name))).toEqual([]);
  const families = new Set(asked.map((name) => name.replace(/_(?:bucket|sum|count)$/, "")));
  expect([...families].toSorted()).toEqual(NAMES.toSorted());
  // Labels that are asked for are there, too.
  const labels = queries.flatMap((query) =>
    [...query.matchAll(/by \(([^)]*)\)/g)].flatMap(([, list]) => list!.split(", ")),
  );
  const known = ["le", "backend", "mode", "template", "outcome", "error_type", "reason", "guard"];
  expect(labels.filter((label) => !known.includes(label))).toEqual([]);
  for (const panel of panels) expect(panel.title).not.toBe("");
});

test("the first loss of a kind is seen, in the dashboard and by the alert: a series that is new has no increase", () => {
  const { panels } = JSON.parse(readFileSync(join(ROOT, "docs/grafana/holdfast.json"), "utf8")) as {
    readonly panels: readonly Panel[];
  };
  // What is indented goes on with the line before.
  const alerts = readFileSync(join(ROOT, "docs/telemetry.md"), "utf8")
    .replaceAll(/\n {2,}/g, " ")
    .split("\n");
  const counters = Object.values(METRICS).flatMap((metric) =>
    metric.kind === "counter" ? [prometheusName(metric)] : [],
  );
  const queries = [...panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr)), ...alerts];
  const asked = queries.filter((query) => counters.some((name) => query.includes(`increase(${name}`)));
  expect(asked).toHaveLength(6);
  for (const query of asked) {
    const [, name, labels = ""] = /increase\((\w+)(\{[^}]*\})?\[/.exec(query)!;
    const before = [`${name}${labels} offset `, `last_over_time(${name}`].map((text) => query.indexOf(text));
    const isNew = query.indexOf(`${name}${labels} unless `);
    expect([query, isNew >= 0 && before.some((at) => at > isNew)]).toEqual([query, true]);
  }
  // A program that was restarted begins its series anew, with the labels of one that has ended. After a gap in the scrapes none is new.
  const [alert] = asked.filter((query) => !query.includes("$job"));
  const wasThere = "and on (job, instance) holdfast_waiting offset 10m";
  expect(alert).toContain(`or holdfast_lost_total unless holdfast_lost_total offset 10m ${wasThere}`);
});
