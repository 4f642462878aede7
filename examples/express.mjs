// Payments that are made once, and one change of an order at a time: with Express.
//
//   node examples/express.mjs
import express from "express";
import { connect } from "holdfast";
import { idempotent, locked } from "holdfast/express";
import { once } from "node:events";

const locks = await connect();
const app = express();
app.use(express.json());

// Of all requests of a user with the same Idempotency-Key one is handled. The others get its response.
const payOnce = idempotent(locks, { scope: (request) => request.get("x-user"), keep: "24h" });
app.post("/payments", payOnce, (request, response) => {
  console.log(`charging ${request.body.amount}`);
  response.status(201).json({ paid: request.body.amount });
});

// Under the lock of the order: a second request gets 409 and Retry-After.
const oneAtATime = locked(locks, (request) => `order:${request.params.id}`);
app.put("/orders/:id", oneAtATime, async (request, response) => {
  const second = await fetch(`${url}/orders/42`, { method: "PUT" });
  request.lease.assertHeld();
  response.send(`this request has the order, another one gets ${second.status}`);
});

const server = app.listen(0, "127.0.0.1");
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
