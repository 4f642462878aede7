/** What only Hono has: bodies that are streams of the platform, answers to HEAD that leave them unread, and middleware that answers for another. */
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { serve } from "@hono/node-server";
import { Hono } from "hono";
import { HTTPException } from "hono/http-exception";
import { timeout } from "hono/timeout";
import { expect, onTestFinished, test } from "vitest";
import { idempotent, locked } from "../../src/adapters/hono/index.ts";
import { outcomeName } from "../../src/adapters/http/names.ts";
import { memory } from "../../src/backends/memory/index.ts";
import { createLocks } from "../../src/core/locks.ts";
import { gate } from "../core/scripted.ts";

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

test("a handler whose request someone else has answered is not run again where it succeeded", async () => {
  const held = gate();
  let runs = 0;
  const app = new Hono();
  const impatient = timeout(5);
  app.use((c, next) => (c.req.header("x-patience") === "none" ? impatient(c, next) : next()));
  app.use(idempotent(locks, { scope: () => "ada", key: (c) => c.req.path }));
  // A second one inside is no one else.
  app.use(idempotent(locks, { scope: () => "ada", key: (c) => `inside ${c.req.path}` }));
  app.post("/:end", async (c) => {
    runs += 1;
    await held.opened;
    if (c.req.param("end") === "fails") throw new Error("it fails");
    return c.text("done");
  });
  app.onError((error, c) => c.text(error.message, error instanceof HTTPException ? error.status : 500));
  const send = async (path: string, patience: string): Promise<number> =>
    (await app.request(path, { method: "POST", headers: { "x-patience": patience } })).status;
  expect([await send("/works", "none"), await send("/works", ""), await send("/fails", "none")]).toEqual([
    504, 409, 504,
  ]);
  held.open();
  const stateOf = async (path: string): Promise<string> => (await locks.outcome(outcomeName("ada", path))).state;
  await expect.poll(() => stateOf("/works"), { timeout: 60_000 }).toBe("done");
  await expect.poll(() => stateOf("/fails"), { timeout: 60_000 }).toBe("none");
  const again = await app.request("/works", { method: "POST" });
  expect([again.status, again.headers.get("retry-after"), runs]).toEqual([409, null, 2]);
  expect([await send("/fails", ""), runs]).toEqual([500, 3]);
});

test("a form that was read before is the same one again, and another one is a 422; the handler has it", async () => {
  const app = new Hono();
  app.use(async (c, next) => {
    if (c.req.path === "/before") await c.req.formData();
    await next();
  });
  app.use(idempotent(locks, { scope: () => "ada", key: (c) => c.req.path }));
  app.post("/:when", async (c) => {
    const { text, file } = await c.req.parseBody();
    return c.text(`${text as string} ${await (file as File).text()}`);
  });
  const send = async (path: string, text: string, file: string): Promise<Response> => {
    const body = [`name="text"\r\n\r\n${text}`, `name="file"; filename="a.txt"\r\n\r\n${file}`]
      .map((part) => `--b\r\ncontent-disposition: form-data; ${part}\r\n`)
      .join("");
    const headers = { "content-type": "multipart/form-data; boundary=b" };
    return await app.request(path, { method: "POST", headers, body: `${body}--b--\r\n` });
  };
  for (const path of ["/before", "/here"]) {
    for (const replayed of [null, "true"]) {
      const sent = await send(path, "one", "two");
      expect([await sent.text(), sent.headers.get("idempotency-replayed")]).toEqual(["one two", replayed]);
    }
    expect([(await send(path, "two", "two")).status, (await send(path, "one", "one")).status]).toEqual([422, 422]);
  }
});

test("a replay of no body has no type", async () => {
  const app = new Hono().post("/", idempotent(locks, { scope: () => "ada" }), (c) => c.redirect("/there", 303));
  const server = serve({ fetch: app.fetch, port: 0, hostname: "127.0.0.1" });
  onTestFinished(() => void server.close());
  if (!server.listening) await once(server, "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  for (const replayed of [null, "true"]) {
    const headers = { "idempotency-key": "redirect", connection: "close" };
    const sent = await fetch(url, { method: "POST", redirect: "manual", headers });
    expect([sent.status, sent.headers.get("content-type")]).toEqual([303, null]);
    expect(sent.headers.get("idempotency-replayed")).toBe(replayed);
  }
});
