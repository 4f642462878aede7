/** What goes wrong around it: people who leave too early, pages that never read, apps that fail, and proxies that change requests. */
import { EventEmitter, once } from "node:events";
import type { ServerResponse } from "node:http";
import { connect, type Socket } from "node:net";
import { expect, onTestFinished, test, vi } from "vitest";
import { createConsole } from "../../src/console/create.ts";
import { Feed } from "../../src/console/feed.ts";
import { checkOptions } from "../../src/console/options.ts";
import { Timeline } from "../../src/console/timeline.ts";
import { Viewer } from "../../src/console/viewers.ts";
import { eventually } from "../../src/testing/eventually.ts";
import { FakeClock } from "../../src/testing/fake-clock.ts";
import { ask, Stage, Watcher } from "./stage.ts";

/** A client that sends this, and reads nothing. */
async function sent(origin: string, text: string): Promise<Socket> {
  const socket = connect(Number(new URL(origin).port), "127.0.0.1");
  onTestFinished(() => void socket.destroy());
  socket.on("error", () => {});
  await once(socket, "connect");
  socket.pause().write(text);
  return socket;
}

const EVENTS = "GET /events HTTP/1.1\r\nHost: a\r\n\r\n";

test("who leaves while authorize thinks is not a viewer, and the store is not asked for them", async () => {
  let allow = (): void => {};
  const asked = new Promise<void>((resolve) => (allow = resolve));
  let isAsked = false;
  const stage = await new Stage().start({
    authorize: async () => ((isAsked = true), await asked, "ada"),
  });
  const socket = await sent(stage.origin, EVENTS);
  await eventually("it is asked", () => (isAsked ? true : undefined));
  socket.destroy();
  // A second client is answered: so the server has seen that the first is gone.
  await ask(`${stage.origin}/console.js`);
  allow();
  await stage.hello();
  expect(stage.counts.queries).toBe(0);
  const watcher = await Watcher.open(stage.origin);
  expect((await watcher.hears("overview")).viewers).toBe(1);
});

test("an audit that fails, at once or later, is a warning, and the action is done", async () => {
  const warned = vi.spyOn(process, "emitWarning").mockImplementation(() => {});
  onTestFinished(() => warned.mockRestore());
  const audits = [
    () => {
      throw new Error("no disk");
    },
    () => Promise.reject(new Error("no database")),
  ];
  for (const audit of audits) {
    const stage = await new Stage().start({ allowRelease: true, audit });
    const lease = await stage.other("web:1").acquire("a");
    const answer = await stage.release({ name: "a", fence: String(lease.fence), reason: "x" });
    expect(answer.json()).toMatchObject({ done: true });
  }
  expect(warned.mock.calls.map(([text]) => text)).toEqual([
    "holdfast/console: the audit failed: no disk",
    "holdfast/console: the audit failed: no database",
  ]);
});

test("a request that the app has answered already is left alone", async () => {
  const stage = new Stage();
  const page = createConsole(stage.locks, { authorize: () => "ada" });
  onTestFinished(() => page.close());
  // What it throws would be an unhandled rejection, which fails this test.
  await stage.serve((request, response) => {
    response.end("the app's");
    page(request, response);
  });
  expect((await stage.ask("/hello")).text).toBe("the app's");
});

test("who hangs up in the middle of a body writes nothing into the app's log", async () => {
  const warned = vi.spyOn(process, "emitWarning").mockImplementation(() => {});
  onTestFinished(() => warned.mockRestore());
  const stage = new Stage();
  const page = createConsole(stage.locks, { authorize: () => "ada" });
  onTestFinished(() => page.close());
  const closed: string[] = [];
  await stage.serve((request, response) => {
    response.on("close", () => closed.push(request.url ?? ""));
    page(request, response);
  });
  const head = "POST /release HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 90\r\n\r\n{";
  (await sent(stage.origin, head)).end();
  await eventually("it is over", () => (closed.length > 0 ? true : undefined));
  await stage.hello();
  expect(warned).not.toHaveBeenCalled();
});

test("behind a proxy that asks with another Host, the page's own requests are let in, and those of other sites are not", async () => {
  const stage = await new Stage().start();
  const { csrf } = await stage.hello();
  const tried = async (headers: Record<string, string>): Promise<unknown> =>
    (
      await stage.ask("/watch", {
        method: "POST",
        body: JSON.stringify({ stream: "none", lock: null }),
        headers: { "x-holdfast-csrf": csrf, host: "10.0.0.7:3000", ...headers },
      })
    ).json()["code"];
  // The stream is not there: it was let in.
  expect(await tried({ origin: "https://admin.example", "sec-fetch-site": "same-origin" })).toBe("gone");
  expect(await tried({ origin: "http://10.0.0.7:3000" })).toBe("gone");
  expect(await tried({ origin: "https://admin.example" })).toBe("csrf");
  for (const site of ["same-site", "cross-site", "none", "same-origin, same-origin"])
    expect(await tried({ origin: "http://10.0.0.7:3000", "sec-fetch-site": site })).toBe("csrf");
});

test("what compresses answers on the way leaves the stream alone", async () => {
  const stage = await new Stage().start();
  const watcher = await Watcher.open(stage.origin);
  expect(watcher.response.headers["cache-control"]).toBe("no-store, no-transform");
});

/** The answer of a server to a page that reads as much as is said. */
class Unread extends EventEmitter {
  readonly sent: string[] = [];
  writableLength = 0;
  writableEnded = false;
  destroyed = false;

  get writableNeedDrain(): boolean {
    return this.writableLength > 0;
  }

  writeHead(): this {
    return this;
  }

  write(event: Buffer): boolean {
    this.sent.push(event.toString());
    return true;
  }

  end(): this {
    this.writableEnded = true;
    return this;
  }

  destroy(): this {
    this.destroyed = true;
    return this;
  }

  events(name: string): number {
    return this.sent.filter((event) => event.startsWith(`event: ${name}\n`)).length;
  }
}

function viewer(response: Unread, nowMs: number): Viewer {
  return new Viewer(response as unknown as ServerResponse, "ada", nowMs);
}

test("a page that is behind is not sent the page of a lock, however often it asks; and one lock is inspected once a second", async () => {
  const stage = new Stage(new FakeClock());
  const feed = new Feed(stage.locks, checkOptions(stage.locks, { authorize: () => "ada", clock: stage.clock }));
  onTestFinished(() => feed.end());
  const [reading, behind] = [new Unread(), new Unread()];
  const [one, other] = [viewer(reading, stage.clock.now()), viewer(behind, stage.clock.now())];
  feed.add(one);
  feed.add(other);
  behind.writableLength = 2 ** 21;
  for (let i = 0; i < 5; i++) {
    await feed.show(one, "a");
    await feed.show(other, "a");
  }
  expect([reading.events("lock"), behind.events("lock")]).toEqual([5, 0]);
  expect(stage.counts.inspects).toEqual(["a"]);
});

test("one that never reads does not outlive its stream, nor the console", () => {
  const response = new Unread();
  const one = viewer(response, 0);
  expect(one.isReady(599_000)).toBe(true);
  expect(one.isReady(601_000)).toBe(false);
  expect([response.writableEnded, response.destroyed]).toEqual([true, false]);
  one.isReady(630_000);
  expect(response.destroyed).toBe(false);
  one.isReady(632_000);
  expect(response.destroyed).toBe(true);
  const [idle, behind] = [new Unread(), new Unread()];
  behind.writableLength = 1;
  viewer(idle, 0).end();
  viewer(behind, 0).end();
  expect([idle.destroyed, behind.destroyed]).toEqual([false, true]);
});

test("what waits to be read is the same bytes for all pages", async () => {
  const stage = new Stage(new FakeClock());
  await stage.other("web:1").acquire("a");
  const feed = new Feed(stage.locks, checkOptions(stage.locks, { authorize: () => "ada", clock: stage.clock }));
  onTestFinished(() => feed.end());
  const written: unknown[][] = [[], []];
  for (const events of written) {
    const response = new Unread();
    response.write = (event) => events.push(event) > 0;
    feed.add(viewer(response, stage.clock.now()));
  }
  const rows = (events: readonly unknown[]): unknown =>
    events.find((event) => String(event).startsWith("event: rows\n"));
  await eventually("both have rows", () => (written.every((events) => rows(events) !== undefined) ? true : undefined));
  expect(rows(written[0]!)).toBeInstanceOf(Buffer);
  expect(rows(written[0]!)).toBe(rows(written[1]!));
});

test("the past is bounded, also while the store cannot be looked at", () => {
  const timeline = new Timeline();
  for (let i = 0; i < 10_000; i++) timeline.ownHold(`job:${i}`, String(i), "exclusive", 1, "over", i);
  const kept = Array.from({ length: 10_000 }, (_, i) => timeline.segments(`job:${i}`, 10_000).length);
  expect(kept.filter((count) => count > 0).length).toBeLessThanOrEqual(3000);
  // The last ones.
  expect(kept.slice(-2000).every((count) => count === 1)).toBe(true);
  // And many of a few, too.
  for (let i = 0; i < 400_000; i++)
    timeline.ownHold(`hot:${i % 1000}`, String(i), "exclusive", 1, "over", 10_000 + i / 4000);
  const hot = Array.from({ length: 1000 }, (_, i) => timeline.segments(`hot:${i}`, 20_000).length);
  expect(hot.reduce((sum, count) => sum + count, 0)).toBeLessThanOrEqual(51_000);
  expect(hot.at(-1)).toBeGreaterThan(0);
});

test("what was before the first look is not watched", async () => {
  const stage = await new Stage().start();
  await stage.other("web:1").acquire("a");
  const watcher = await Watcher.open(stage.origin);
  const { id } = await watcher.hears("stream");
  const { csrf } = await stage.hello();
  const body = JSON.stringify({ stream: id, lock: "a" });
  await stage.ask("/watch", { method: "POST", body, headers: { "x-holdfast-csrf": csrf } });
  const { page, nowMs } = await watcher.hears("lock");
  expect(page.unwatched).toHaveLength(1);
  const [[fromMs, toMs]] = page.unwatched as [readonly [number, number]];
  expect(fromMs).toBeLessThan(nowMs - 590_000);
  expect(toMs).toBeLessThanOrEqual(nowMs);
});
