/** One question a second for all pages, none without; what changed is sent, and what is slow is bounded. */
import { expect, test } from "vitest";
import { FakeClock } from "../../src/testing/fake-clock.ts";
import { eventually } from "../../src/testing/eventually.ts";
import { Stage, Watcher } from "./stage.ts";

/** Moves the console's clock by seconds, and lets each look be answered. */
async function seconds(clock: FakeClock, stage: Stage, n: number): Promise<void> {
  for (let i = 0; i < n; i++) {
    const before = stage.counts.queries;
    await clock.advance(1000);
    await eventually("the store was asked", () => (stage.counts.queries > before ? true : undefined));
    for (let turn = 0; turn < 20; turn++) await clock.settle();
  }
}

test("one query a second serves all who watch, and none is sent when no one does", async () => {
  const clock = new FakeClock();
  const stage = await new Stage(clock).start();
  await clock.advance(10_000);
  expect(stage.counts.queries).toBe(0);
  const watchers = await Promise.all(Array.from({ length: 5 }, () => Watcher.open(stage.origin)));
  for (const watcher of watchers) await watcher.hears("rows", ({ reset }) => reset);
  const before = stage.counts.queries;
  await seconds(clock, stage, 10);
  expect(stage.counts.queries - before).toBe(10);
  expect(stage.counts.inspects).toEqual([]);
  for (const watcher of watchers.slice(1)) watcher.close();
  await seconds(clock, stage, 2);
  watchers[0]!.close();
  await eventually("the last stream is over", () => (clock.timers === 0 ? true : undefined));
  const after = stage.counts.queries;
  await clock.advance(60_000);
  expect(stage.counts.queries).toBe(after);
  // And on again.
  const again = await Watcher.open(stage.origin);
  await again.hears("rows", ({ reset }) => reset);
  expect(stage.counts.queries).toBe(after + 1);
});

test("a store that takes long is not asked twice at a time, and pages hear that it is slow", async () => {
  const clock = new FakeClock();
  const stage = new Stage(clock);
  const query = stage.counts.backend.query.bind(stage.counts.backend);
  let answer = (): void => {};
  let isSlow = false;
  stage.counts.backend.query = async (prefix) => {
    if (isSlow) await new Promise<void>((resolve) => (answer = resolve));
    return await query(prefix);
  };
  await stage.start();
  const watcher = await Watcher.open(stage.origin);
  await watcher.hears("rows");
  isSlow = true;
  const before = stage.counts.queries;
  const heard = watcher.of("overview").length;
  await clock.advance(5000);
  await eventually("the pages hear of it", () => (watcher.of("overview").length >= heard + 4 ? true : undefined));
  expect(stage.counts.queries).toBe(before);
  answer();
  await eventually("it is asked once", () => (stage.counts.queries === before + 1 ? true : undefined));
});

test("a lock's open page adds one inspect a second, however many look at it", async () => {
  const clock = new FakeClock();
  const stage = await new Stage(clock).start();
  await stage.other("web:1").acquire("a");
  const watchers = [await Watcher.open(stage.origin), await Watcher.open(stage.origin)];
  const { csrf } = await stage.hello();
  for (const watcher of watchers) {
    const { id } = await watcher.hears("stream");
    const body = JSON.stringify({ stream: id, lock: "a" });
    expect((await stage.ask("/watch", { method: "POST", body, headers: { "x-holdfast-csrf": csrf } })).status).toBe(
      200,
    );
    expect((await watcher.hears("lock")).page).toMatchObject({
      name: "a",
      row: { holders: [{ holder: "web:1", host: "web", pid: 1 }] },
    });
  }
  const before = stage.counts.inspects.length;
  await seconds(clock, stage, 5);
  expect(stage.counts.inspects.slice(before)).toEqual(["a", "a", "a", "a", "a"]);
});

test("only what changed is sent, and time alone changes nothing", async () => {
  const clock = new FakeClock();
  const stage = await new Stage(clock).start();
  const other = stage.other("web:1");
  // Of locks that are not renewed, only time passes.
  for (const name of ["a", "b", "c"])
    await other.acquire(name, { renew: false, ttl: "1h", meta: { app: "shop", version: "2" } });
  const watcher = await Watcher.open(stage.origin);
  const first = await watcher.hears("rows", ({ rows }) => rows.length === 3);
  expect(first.rows[0]).toMatchObject({
    name: "a",
    mode: "exclusive",
    limit: 1,
    waiting: 0,
    holders: [{ app: "shop", version: "2", fence: expect.stringMatching(/^\d+$/) as string }],
  });
  const before = watcher.of("rows").length;
  const lease = await other.tryAcquire("d");
  await seconds(clock, stage, 1);
  const changed = await eventually("rows are sent", () => watcher.of("rows")[before]);
  expect(changed).toMatchObject({ reset: false, gone: [], rows: [{ name: "d" }] });
  await lease?.release();
  await seconds(clock, stage, 1);
  const gone = await eventually("rows are sent", () => watcher.of("rows")[before + 1]);
  expect(gone).toMatchObject({ rows: [], gone: ["d"] });
  await seconds(clock, stage, 3);
  expect(watcher.of("rows")).toHaveLength(before + 2);
});

test("a store that is down is shown with its last rows, and masked", async () => {
  const clock = new FakeClock();
  const stage = await new Stage(clock).start();
  const watcher = await Watcher.open(stage.origin);
  await watcher.hears("rows");
  stage.counts.failure = new Error("cannot reach redis://user:hunter22@cache:6379");
  await seconds(clock, stage, 1);
  const { store } = await watcher.hears("overview", ({ store: { state } }) => state === "down");
  expect(store.error).toContain("cannot reach redis://user:***@cache:6379");
  expect(store.answeredMs).toBeDefined();
  stage.counts.failure = undefined;
  await seconds(clock, stage, 1);
  await eventually("it is up", () => (watcher.of("overview").at(-1)?.store.state === "up" ? true : undefined));
});

test("who reads too slowly is sent all rows anew, and one that never reads is let go", async () => {
  const clock = new FakeClock();
  const stage = await new Stage(clock).start();
  const other = stage.other("web:1");
  const meta = { text: "x".repeat(3900) };
  const leases = await Promise.all(
    Array.from({ length: 1500 }, (_, i) => other.acquire(`lock:${i}`, { renew: false, ttl: "1h", meta })),
  );
  const slow = await Watcher.open(stage.origin, { isReading: false });
  await Watcher.open(stage.origin, { isReading: false });
  // More than sockets keep: six megabytes wait for each.
  await seconds(clock, stage, 3);
  await leases[7]!.release();
  await seconds(clock, stage, 2);
  slow.read();
  await slow.hears("rows", ({ rows }) => rows.some(({ name }) => name === "lock:1499"));
  const events = slow.of("rows").length;
  await seconds(clock, stage, 1);
  const anew = await eventually("all rows come anew", () =>
    slow
      .of("rows")
      .slice(events)
      .find(({ reset }) => reset),
  );
  expect(anew.rows.map(({ name }) => name)).not.toContain("lock:7");
  await seconds(clock, stage, 31);
  await eventually("the other is let go", () => (slow.of("overview").at(-1)?.viewers === 1 ? true : undefined));
});

test("no more pages than are allowed, and a stream does not last for ever", async () => {
  const clock = new FakeClock();
  const stage = await new Stage(clock).start({ maxViewers: 2 });
  const watchers = [await Watcher.open(stage.origin), await Watcher.open(stage.origin)];
  const refused = await stage.ask("/events");
  expect(refused.status).toBe(503);
  expect(refused.headers["retry-after"]).toBe("10");
  expect(refused.json()).toMatchObject({ code: "busy" });
  await watchers[1]!.hears("rows");
  await clock.advance(602_000);
  await eventually("the streams end", () => (watchers.every(({ response }) => response.complete) ? true : undefined));
});

test("a deadlock is shown by its locks, and who is in it", async () => {
  const clock = new FakeClock();
  const stage = await new Stage(clock).start();
  const [one, two] = [stage.other("web:1"), stage.other("web:2")];
  const both = async (
    locks: typeof one,
    first: string,
    second: string,
    ready: () => Promise<unknown>,
  ): Promise<void> => {
    await locks
      .run(first, async () => {
        await ready();
        await locks.run(second, () => {});
      })
      .catch(() => {});
  };
  const isHeld = (name: string) => (): Promise<unknown> =>
    eventually(`${name} is held`, async () => ((await stage.locks.isHeld(name)) ? true : undefined));
  void both(one, "a", "b", isHeld("b"));
  void both(two, "b", "a", isHeld("a"));
  const watcher = await Watcher.open(stage.origin);
  const found = await eventually("it is seen", async () => {
    await seconds(clock, stage, 1);
    return watcher.of("overview").find(({ deadlocks }) => deadlocks.length > 0);
  });
  expect(found.deadlocks).toHaveLength(1);
  expect(found.deadlocks[0]!.members.map(({ holder, waitsFor }) => `${holder} ${waitsFor}`).toSorted()).toEqual([
    "web:1 b",
    "web:2 a",
  ]);
  await watcher.hears("rows", ({ rows }) => rows.some(({ name, deadlocked }) => name === "a" && deadlocked === true));
});

test("a quarantine of a lock that is waited for is shown", async () => {
  const clock = new FakeClock();
  const stage = new Stage(clock);
  const { backend } = stage.counts;
  const [query, inspect] = [backend.query.bind(backend), backend.inspect.bind(backend)];
  backend.query = async (prefix) => {
    const found = await query(prefix);
    return { ...found, held: [] };
  };
  backend.inspect = async (name) => ({ ...(await inspect(name)), quarantineMs: 7000 });
  await stage.start();
  await stage.other("web:1").acquire("a");
  void stage
    .other("web:2")
    .acquire("a")
    .catch(() => {});
  const watcher = await Watcher.open(stage.origin);
  const seen = await eventually("it is seen", async () => {
    await clock.advance(1000);
    for (let turn = 0; turn < 20; turn++) await clock.settle();
    return watcher
      .of("rows")
      .flatMap(({ rows }) => rows)
      .find(({ quarantineEndsMs }) => quarantineEndsMs !== undefined);
  });
  expect(seen).toMatchObject({ name: "a", holders: [], waiting: 1 });
});
