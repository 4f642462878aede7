/** Log lines about locks: what they say and when, in the real pino and winston and in the console; their limits; and no secrets in them. */
import { Console } from "node:console";
import { Writable } from "node:stream";
import { pino } from "pino";
import { expect, onTestFinished, test } from "vitest";
import winston from "winston";
import {
  deadlockChannel,
  type DeadlockEvent,
  forceReleaseChannel,
  holdChannel,
  renewChannel,
} from "../../src/contract/events.ts";
import { eventually } from "../../src/testing/eventually.ts";
import { logEvents, type Logger, type LogOptions } from "../../src/telemetry/log/index.ts";
import { type Stage, stage } from "../core/scripted.ts";

interface Line {
  readonly level: string;
  readonly message: string;
  readonly [field: string]: unknown;
}

/** What a logger such as pino is called with. */
function lines(): { readonly written: Line[]; readonly logger: Logger } {
  const written: Line[] = [];
  const write =
    (level: string) =>
    (fields: object, message: string): void =>
      void written.push({ ...fields, level, message });
  return { written, logger: { info: write("info"), warn: write("warn"), error: write("error") } as Logger };
}

interface Logged extends Stage {
  readonly written: Line[];
}

function logged(options: LogOptions = {}): Logged {
  const staged = stage();
  const { written, logger } = lines();
  const telemetry = logEvents(logger, { clock: staged.clock, ...options });
  onTestFinished(() => telemetry.end());
  return { ...staged, written };
}

test("a deadlock is an error: who holds what and waits for what, with secrets masked", () => {
  const { written } = logged();
  const holds = [{ name: "a", fence: 7n }];
  const meta = { password: "hunter2", job: "nightly" };
  const members = [{ holder: "web:1", waitsFor: "redis://u:hunter2@host", mode: "exclusive" as const, holds, meta }];
  const event: DeadlockEvent = { backend: "redis", members, description: 'web:1 holds "a"\u001b[2J', rejects: true };
  deadlockChannel.publish(event);
  expect(written).toEqual([
    {
      event: "holdfast:deadlock",
      level: "error",
      backend: "redis",
      rejects: true,
      members: [
        {
          holder: "web:1",
          waitsFor: "redis://u:***@host",
          holds: [{ lock: "a", fence: "7" }],
          meta: { password: "***", job: "nightly" },
        },
      ],
      message: 'a deadlock: web:1 holds "a"\\x1b[2J, and one of this process is rejected to end it',
    },
  ]);
});

test("a lease that was lost is an error, with the reason", async () => {
  const { backend, locks, written } = logged();
  const { fence } = await locks.acquire("order:4711");
  backend.listener!.lost(backend.steps[0]!.claims[0]!.id, { kind: "removed" });
  expect(written).toEqual([
    {
      level: "error",
      event: "holdfast:lost",
      lock: "order:4711",
      backend: "scripted",
      fence: String(fence),
      loss: "removed",
      reason: "another program removed it from the store",
      message: "lock order:4711 was lost: another program removed it from the store",
    },
  ]);
});

test("a wait is reported when it has become long, with who is in the way, and again when it is over", async () => {
  const { clock, locks, other, written } = logged();
  const lease = await other().acquire("a", { meta: { reason: "nightly" } });
  const waiting = locks.acquire("a");
  await clock.advance(4999);
  expect(written).toEqual([]);
  await clock.advance(1);
  expect(written).toMatchObject([
    {
      level: "warn",
      event: "holdfast:long-wait",
      lock: "a",
      waitedMs: 5000,
      heldBy: [{ holder: "there:2", fence: String(lease.fence), meta: { reason: "nightly" } }],
      message: "an acquire of lock a has waited for 5 s, and still does, held by there:2",
    },
  ]);
  await clock.advance(1000);
  await lease.release();
  await waiting;
  expect(written[1]).toMatchObject({ level: "info", event: "holdfast:long-wait", outcome: "acquired", waitedMs: 6000 });
});

test("a hold is reported when it has become long, and again when it is over; a short one is not", async () => {
  const { clock, locks, written } = logged();
  await locks.run("b", () => {});
  const lease = await locks.acquire("a");
  await clock.advance(59_999);
  expect(written).toEqual([]);
  await clock.advance(1);
  expect(written).toMatchObject([{ level: "warn", event: "holdfast:long-hold", lock: "a", heldMs: 60_000 }]);
  await clock.advance(30_000);
  await lease.release();
  expect(written[1]).toMatchObject({ level: "info", end: "released", heldMs: 90_000 });
  expect(written).toHaveLength(2);
});

test("a limit of Infinity reports none", async () => {
  const { clock, locks, written } = logged({ longHold: Infinity, longWait: Infinity });
  await locks.acquire("a");
  await clock.advance(3_600_000);
  expect(written).toEqual([]);
});

test("a force release is reported, with who and why, also one that found nothing", async () => {
  const { locks, other, written } = logged();
  const { fence } = await locks.acquire("a");
  await other().forceRelease("a", { fence, reason: "stuck" });
  await other().forceRelease("a", { fence, reason: "again" });
  const forced = written.filter(({ event }) => event === "holdfast:force-release");
  expect(forced).toMatchObject([
    { level: "warn", by: "there:2", reason: "stuck", done: true },
    { level: "warn", reason: "again", done: false },
  ]);
});

test("a renewal is late when another third of the ttl has gone, and not before", async () => {
  const { clock, backend, locks, written } = logged({ longHold: Infinity });
  await locks.acquire("a", { ttl: "30s" });
  backend.interfere.renew = () => Promise.reject(new Error("cut off"));
  await clock.advance(18_000);
  expect(written).toEqual([]);
  await clock.advance(11_000);
  expect(written[0]).toMatchObject({
    level: "warn",
    event: "holdfast:late-renewal",
    asked: 1,
    unknown: 1,
    ttlMs: 30_000,
  });
  expect(written[0]!["delayMs"]).toBeGreaterThanOrEqual(10_000);
});

test("lines of a kind are limited; the rest is counted, and said when it is over, also where nothing follows", async () => {
  const { clock, locks, other, written } = logged({ lines: 3, every: "10s" });
  const force = async (times: number): Promise<void> => {
    for (let i = 0; i < times; i++) await other().forceRelease("a", { fence: 99n, reason: `no ${i}` });
  };
  await force(8);
  expect(written).toHaveLength(3);
  // Another kind has its own limit.
  const { fence } = await locks.acquire("a");
  await other().forceRelease("a", { fence, reason: "stuck" });
  const counts = (): readonly unknown[] => written.flatMap(({ suppressed }) => suppressed ?? []);
  expect(counts()).toEqual([]);
  await clock.advance(9999);
  expect(counts()).toEqual([]);
  await clock.advance(1);
  expect(counts()).toEqual([6]);
  expect(written.at(-1)).toMatchObject({
    level: "warn",
    event: "holdfast:force-release",
    message: "6 more lines of holdfast:force-release were not written",
  });
  await force(2);
  expect(counts()).toEqual([6]);
  await clock.advance(60_000);
  expect(counts()).toEqual([6]);
});

test("unless said otherwise: waits of 5 s, holds of a minute, ten lines of a kind in 10 s", async () => {
  const { clock, locks, other, written } = logged();
  const lease = await locks.acquire("a");
  const waiting = other().acquire("a", { wait: "2m" });
  await clock.advance(4999);
  expect(written).toEqual([]);
  await clock.advance(1);
  expect(written).toMatchObject([{ event: "holdfast:long-wait", waitedMs: 5000 }]);
  await clock.advance(54_999);
  expect(written).toHaveLength(1);
  await clock.advance(1);
  expect(written.slice(1)).toMatchObject([{ event: "holdfast:long-hold", heldMs: 60_000 }]);
  for (let times = 0; times < 12; times++) await locks.forceRelease("b", { fence: 99n, reason: "none" });
  const forced = (): readonly Line[] => written.filter(({ event }) => event === "holdfast:force-release");
  expect(forced()).toHaveLength(10);
  await clock.advance(9999);
  expect(forced()).toHaveLength(10);
  await clock.advance(1);
  expect(forced().slice(10)).toMatchObject([{ suppressed: 2 }]);
  await lease.release();
  await (await waiting).release();
});

test("what is masked: passwords in URLs, wherever they stand, and fields of meta with a name of a secret", async () => {
  const { clock, locks, other, written } = logged();
  const url = "redis://user:hunter2@db:6379/0?token=hunter2";
  const meta = {
    password: "hunter2",
    apiKey: "hunter2",
    privateKey: "hunter2",
    privateKeyPem: "hunter2",
    SIGNING_KEY_BASE64: "hunter2",
    pwd: "hunter2",
    cookie: "hunter2",
    store: url,
    reason: "nightly\u001b[2J",
    keyspace: "orders",
  };
  const lease = await other({ holder: `w ${url}` }).acquire(`lock of ${url}`, { meta });
  const waiting = locks.acquire(`lock of ${url}`);
  await clock.advance(6000);
  await locks.forceRelease(`lock of ${url}`, { fence: lease.fence, reason: `because of ${url}` });
  await (await waiting).release();
  expect(written.length).toBeGreaterThanOrEqual(3);
  expect(JSON.stringify(written)).not.toContain("hunter2");
  expect(JSON.stringify(written)).not.toContain("\\u001b");
  expect(written[0]!["heldBy"]).toMatchObject([{ meta: { password: "***", apiKey: "***", keyspace: "orders" } }]);
  expect((written[0]!["heldBy"] as { meta: Record<string, string> }[])[0]!.meta["store"]).toMatch(
    /^redis:\/\/user:\*\*\*@db/,
  );
});

/** A stream that keeps its text. */
function memoryStream(): { readonly stream: Writable; readonly text: () => string } {
  let text = "";
  const stream = new Writable({
    write(chunk: Buffer, _, done) {
      text += chunk.toString();
      done();
    },
  });
  return { stream, text: () => text };
}

const LOGGERS: Readonly<Record<string, (stream: Writable) => Logger>> = {
  pino: (stream) => pino(stream),
  "a child of pino": (stream) => pino(stream).child({ app: "shop" }),
  winston: (stream) => winston.createLogger({ transports: [new winston.transports.Stream({ stream })] }),
  "a child of winston": (stream) =>
    winston.createLogger({ transports: [new winston.transports.Stream({ stream })] }).child({ app: "shop" }),
};

test.each(Object.keys(LOGGERS))("%s gets the fields and the message, each in its place", async (name) => {
  const { stream, text } = memoryStream();
  const telemetry = logEvents(LOGGERS[name]!(stream));
  onTestFinished(() => telemetry.end());
  const { locks } = stage();
  await locks.forceRelease("a", { fence: 7n, reason: "stuck" });
  const written = await eventually("the line is written", () => (text().endsWith("\n") ? text() : undefined));
  const line = JSON.parse(written) as Record<string, unknown>;
  const said = "lock a was to be ended by force, but has no lease with that fence, by here:1: stuck";
  expect(line).toMatchObject({ event: "holdfast:force-release", lock: "a", fence: "7", done: false });
  expect(line[name.includes("pino") ? "msg" : "message"]).toBe(said);
  expect(line["level"]).toBe(name.includes("pino") ? 40 : "warn");
  if (name.includes("child")) expect(line["app"]).toBe("shop");
});

test("a console gets the message first", async () => {
  const { stream, text } = memoryStream();
  const telemetry = logEvents(new Console(stream));
  onTestFinished(() => telemetry.end());
  const { locks } = stage();
  await locks.forceRelease("a", { fence: 7n, reason: "stuck" });
  expect(text()).toMatch(/^lock a was to be ended by force, .* \{\n\s+event: 'holdfast:force-release'/);
});

test("a logger that throws does not touch a lock", async () => {
  const fail = (): never => {
    throw new Error("disk full");
  };
  const { clock, locks, other } = stage();
  const telemetry = logEvents({ info: fail, warn: fail, error: fail }, { clock, longWait: 100 });
  onTestFinished(() => telemetry.end());
  const lease = await locks.acquire("a");
  const waiting = other().acquire("a");
  await clock.advance(200);
  await lease.release();
  await (await waiting).release();
  await locks.forceRelease("a", { fence: 7n, reason: "stuck" });
});

test("a logger that rejects ends no process: that is a warning", async () => {
  const warnings: string[] = [];
  const warned = ({ message }: Error): void => void warnings.push(message);
  process.on("warning", warned);
  onTestFinished(() => void process.off("warning", warned));
  const reject = (): Promise<never> => Promise.reject(new Error("disk full"));
  const telemetry = logEvents({ info: reject, warn: reject, error: reject });
  onTestFinished(() => telemetry.end());
  const { locks } = stage();
  for (const reason of ["one", "two"]) await locks.forceRelease("a", { fence: 7n, reason });
  await expect
    .poll(() => warnings)
    .toEqual(["holdfast/log: disk full. Locks are not affected; later faults are not reported."]);
});

test("what is beyond the limit is not even worded", () => {
  const { written, logger } = lines();
  const telemetry = logEvents(logger, { lines: 3 });
  onTestFinished(() => telemetry.end());
  let read = 0;
  for (let i = 0; i < 100; i++) {
    const event = { backend: "b", fence: 1n, by: "x", reason: "r", done: true };
    Object.defineProperty(event, "name", { get: () => (read++, "a") });
    forceReleaseChannel.publish(event);
  }
  expect([written.length, read]).toEqual([3, 3]);
});

test("a store that is silent is reported before the lease is lost", async () => {
  const { clock, backend, locks, written } = logged({ longHold: Infinity });
  await locks.acquire("a", { ttl: "30s" });
  backend.interfere.renew = () => new Promise(() => {});
  await clock.advance(40_000);
  // How often it is asked for again, until it is lost, is up to chance.
  const events = written.map(({ event }) => event);
  expect(events.at(-1)).toBe("holdfast:lost");
  expect(new Set(events.slice(0, -1))).toEqual(new Set(["holdfast:late-renewal"]));
});

test("it is off when it is ended: what was left out is said, nothing is heard, and no timer is left", async () => {
  const staged = stage();
  const { written, logger } = lines();
  const telemetry = logEvents(logger, { clock: staged.clock, lines: 1 });
  for (const reason of ["one", "two"]) await staged.locks.forceRelease("a", { fence: 7n, reason });
  const lease = await staged.locks.acquire("a");
  telemetry.end();
  telemetry.end();
  expect(written.map(({ suppressed }) => suppressed)).toEqual([undefined, 1]);
  expect([holdChannel.hasSubscribers, renewChannel.hasSubscribers]).toEqual([false, false]);
  await staged.clock.advance(120_000);
  await lease.release();
  expect(written).toHaveLength(2);
});

test("while nothing is waited for or held, there is no timer; with a thousand, there is one", async () => {
  const timers = new Set<unknown>();
  const staged = stage();
  const { clock } = staged;
  const watched = {
    now: () => clock.now(),
    wall: () => clock.wall(),
    setTimer: (fn: () => void, ms: number, alive = false): unknown => {
      expect(alive).toBe(false);
      const timer: unknown = clock.setTimer(() => {
        timers.delete(timer);
        fn();
      }, ms);
      timers.add(timer);
      return timer;
    },
    clearTimer: (timer: unknown): void => {
      timers.delete(timer);
      clock.clearTimer(timer);
    },
  };
  const { written, logger } = lines();
  const telemetry = logEvents(logger, { clock: watched });
  onTestFinished(() => telemetry.end());
  expect(timers.size).toBe(0);
  const leases = await Promise.all(Array.from({ length: 1000 }, (_, at) => staged.locks.acquire(`a${at}`)));
  expect(timers.size).toBe(1);
  for (const lease of leases) await lease.release();
  await clock.advance(60_000);
  expect(timers.size).toBe(0);
  expect(written).toEqual([]);
});

test.each([
  [{}, {}, /Expected `logger` to be pino, winston, console or their like, got an object without info/],
  [null, {}, /Expected `logger`/],
  [lines().logger, null, /Expected `options` to be an object/],
  [lines().logger, { lines: 0 }, /Expected `lines` to be a whole number of at least 1, got 0/],
  [lines().logger, { longWait: "soon" }, /Expected `longWait` to be a duration/],
  [lines().logger, { every: Infinity }, /Expected `every` to be a duration/],
])("a wrong argument is refused, and nothing is heard: %#", (logger, options, message) => {
  expect(() => logEvents(logger as never, options as never)).toThrow(message);
  expect(holdChannel.hasSubscribers).toBe(false);
});
