// Copied beside an installed framework, and run there: `locked()` and `idempotent()` with a real request each, by import and by require().
import assert from "node:assert/strict";
import { once } from "node:events";
import { createRequire } from "node:module";
import { createLocks } from "holdfast";
import { memory } from "holdfast/memory";

const [framework, expected] = process.argv.slice(2);
const require = createRequire(import.meta.url);

if (expected === "refused") {
  const message = new RegExp(`^${framework} \\S+ is installed, but Holdfast supports .*npm install ${framework}@\\d+$`);
  const adapter = framework === "@nestjs/core" ? "nestjs" : framework;
  await assert.rejects(import(`holdfast/${adapter}`), { code: "ERR_LOCK_ARGUMENT", message });
  console.log("the core loads, the adapter says what to install");
  process.exit();
}

const locks = createLocks(memory());
const { locked, idempotent } = await import(`holdfast/${framework}`);
assert.equal(require(`holdfast/${framework}`).locked, locked);
let runs = 0;

const start = {
  express: async () => {
    const express = require("express");
    const app = express().use(express.json());
    const scope = (request) => request.get("x-user");
    app.post("/pay", idempotent(locks, { scope }), (request, response) =>
      response.status(201).json({ runs: ++runs, fence: String(request.lease.fence) }),
    );
    app.post(
      "/lock",
      locked(locks, () => "a"),
      (request, response) => response.send(request.lease.name),
    );
    const server = app.listen(0, "127.0.0.1");
    await once(server, "listening");
    const url = `http://127.0.0.1:${server.address().port}`;
    return { send: (path, init) => fetch(`${url}${path}`, init), close: () => server.close() };
  },
  fastify: async () => {
    const app = require("fastify")();
    await app.register(async (inner) => {
      await inner.register(idempotent(locks, { scope: ({ headers }) => headers["x-user"] }));
      inner.post("/pay", async (request, reply) => {
        reply.code(201);
        return { runs: ++runs, fence: String(request.lease.fence) };
      });
    });
    await app.register(async (inner) => {
      await inner.register(locked(locks, () => "a"));
      inner.post("/lock", (request, reply) => {
        reply.send(request.lease.name);
      });
    });
    const url = await app.listen({ port: 0, host: "127.0.0.1" });
    return { send: (path, init) => fetch(`${url}${path}`, init), close: () => app.close() };
  },
  hono: async () => {
    const { Hono } = require("hono");
    const app = new Hono();
    app.post("/pay", idempotent(locks, { scope: (c) => c.req.header("x-user") }), async (c) => {
      await c.req.json();
      return c.json({ runs: ++runs, fence: String(c.get("lease").fence) }, 201);
    });
    app.post("/form", idempotent(locks, { scope: () => "ada" }), async (c) => c.json(await c.req.parseBody()));
    app.post(
      "/lock",
      locked(locks, () => "a"),
      (c) => c.text(c.get("lease").name),
    );
    return { send: (path, init) => app.request(path, init), close: () => undefined };
  },
};

const { send, close } = await start[framework]();
const headers = { "content-type": "application/json", "x-user": "ada", "idempotency-key": "k" };
const pay = (body) => send("/pay", { method: "POST", headers, body });
const [first, again, other] = [await pay("{}"), await pay("{}"), await pay('{"n":1}')];
assert.deepEqual([first.status, again.status, other.status, runs], [201, 201, 422, 1]);
assert.equal(await first.text(), await again.text());
assert.equal(again.headers.get("idempotency-replayed"), "true");
if (framework === "hono") {
  // The body was read before the handler reads it as a form.
  const form = { "content-type": "application/x-www-form-urlencoded", "idempotency-key": "form" };
  const sent = await send("/form", { method: "POST", headers: form, body: "a=1" });
  assert.deepEqual([sent.status, await sent.json()], [200, { a: "1" }]);
}
const lock = await send("/lock", { method: "POST", headers, body: "{}" });
assert.equal(await lock.text(), "a");
assert.equal(await locks.isHeld("a"), false);
const lease = await locks.acquire("a");
const busy = await send("/lock", { method: "POST", headers, body: "{}" });
assert.deepEqual([busy.status, busy.headers.get("retry-after")], [409, "1"]);
await lease.release();
close();
await locks.close();
console.log("ok");
process.exit();
