// Payments that are made once, and one change of an order at a time: with Fastify.
//
//   node examples/fastify.mjs
import Fastify from "fastify";
import { connect } from "holdfast";
import { idempotent, locked } from "holdfast/fastify";

const locks = await connect();
const app = Fastify({ forceCloseConnections: true });

// A plugin counts in the context in which it is registered.
await app.register(async (payments) => {
  // Of all requests of a user with the same Idempotency-Key one is handled. The others get its response.
  await payments.register(idempotent(locks, { scope: (request) => request.headers["x-user"], keep: "24h" }));
  payments.post("/payments", async (request, reply) => {
    console.log(`charging ${request.body.amount}`);
    reply.code(201);
    return { paid: request.body.amount };
  });
});

await app.register(async (orders) => {
  // Under the lock of the order: a second request gets 409 and Retry-After.
  await orders.register(locked(locks, (request) => `order:${request.params.id}`));
  orders.put("/orders/:id", async (request) => {
    const second = await fetch(`${url}/orders/42`, { method: "PUT" });
    request.lease.assertHeld();
    return `this request has the order, another one gets ${second.status}`;
  });
});

const url = await app.listen({ port: 0, host: "127.0.0.1" });

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

await app.close();
await locks.close();
