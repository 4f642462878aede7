/** What only Hono has: bodies that are streams of the platform, and answers to HEAD that leave them unread. */
import { Hono } from "hono";
import { expect, test } from "vitest";
import { idempotent, locked } from "../../src/adapters/hono/index.ts";
import { memory } from "../../src/backends/memory/index.ts";
import { createLocks } from "../../src/core/locks.ts";

const locks = createLocks(memory());

test("HEAD of a stream does not keep its lock: it is never read", async () => {
  let cancelled = false;
  const app = new Hono().get(
    "/",
    locked(locks, () => "a"),
    (c) => c.body(new ReadableStream({ cancel: () => void (cancelled = true) })),
  );
  expect((await app.request("/", { method: "HEAD" })).status).toBe(200);
  await (await locks.acquire("a", { wait: "1m" })).release();
  expect(cancelled).toBe(true);
});

test.each([
  ["bytes", new Uint8Array(1000)],
  ["nothing", new Uint8Array()],
])("a stream that has ever more %s is sent as it comes: all of it is not there", async (_what, part) => {
  for (const guard of [
    locked(locks, () => "b"),
    idempotent(locks, { scope: () => "ada", key: () => `endless ${part.length}` }),
  ]) {
    let parts = 0;
    const endless = new ReadableStream({
      pull: (controller) => {
        if (parts++ > 200_000) throw new Error("all of it was read");
        controller.enqueue(part);
      },
    });
    const response = await new Hono().post("/", guard, (c) => c.body(endless)).request("/", { method: "POST" });
    expect(response.status).toBe(200);
    await response.body!.cancel();
    expect(parts).toBeLessThan(100_000);
  }
  await (await locks.acquire("b", { wait: "1m" })).release();
});

test("another type of body is another request", async () => {
  const app = new Hono().post("/", idempotent(locks, { scope: () => "ada" }), (c) => c.text("done"));
  const send = async (type: string): Promise<number> => {
    const headers = { "idempotency-key": "typed", "content-type": type };
    return (await app.request("/", { method: "POST", headers, body: "a" })).status;
  };
  expect([await send("text/plain"), await send("text/csv"), await send("text/plain;charset=utf-8")]).toEqual([
    200, 422, 200,
  ]);
});

test("a response that another middleware has sent already is not touched", async () => {
  const app = new Hono();
  app.use(async (c, next) => {
    const inner = next();
    const early = c.text("too late", 504);
    c.res = early;
    early.body!.getReader();
    await inner;
  });
  app.use(locked(locks, () => "c"));
  app.post("/", (c) => c.text("done"));
  expect((await app.request("/", { method: "POST" })).status).toBe(504);
  expect(await locks.isHeld("c")).toBe(false);
});
