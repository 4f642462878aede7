// Payments that are made once, and one change of an order at a time: with Hono.
//
//   node examples/hono.mjs
import { serve } from "@hono/node-server";
import { Hono } from "hono";
import { connect } from "holdfast";
import { idempotent, locked } from "holdfast/hono";
import { once } from "node:events";

const locks = await connect();
const app = new Hono();

// Of all requests of a user with the same Idempotency-Key one is handled. The others get its response.
const payOnce = idempotent(locks, { scope: (c) => c.req.header("x-user"), keep: "24h" });
app.post("/payments", payOnce, async (c) => {
  const { amount } = await c.req.json();
  console.log(`charging ${amount}`);
  return c.json({ paid: amount }, 201);
});

// Under the lock of the order: a second request gets 409 and Retry-After.
const oneAtATime = locked(locks, (c) => `order:${c.req.param("id")}`);
app.put("/orders/:id", oneAtATime, async (c) => {
  const second = await fetch(`${url}/orders/42`, { method: "PUT" });
  c.var.lease.assertHeld();
  return c.text(`this request has the order, another one gets ${second.status}`);
});

const server = serve({ fetch: app.fetch, port: 0, hostname: "127.0.0.1" });
await once(server, "listening");
const url = `http://127.0.0.1:${server.address().port}`;

// The client: it pays, has no answer, say, and pays again with the same key.
const key = crypto.randomUUID();
const pay = () =>
  fetch(`${url}/payments`, {
    method: "POST",
    headers: { "content-type": "application/json", "x-user": "ada", "idempotency-key": key },
    body: JSON.stringify({ amount: 100 }),
  });
for (const response of [await pay(), await pay()]) {
  console.log(response.status, await response.text(), "replayed:", response.headers.get("idempotency-replayed"));
}
console.log(await (await fetch(`${url}/orders/42`, { method: "PUT" })).text());

server.close();
server.closeAllConnections();
await locks.close();
