// Orders of one customer one at a time and in order, and those of different customers side by side: with BullMQ.
//
//   REDIS_URL=redis://127.0.0.1:6379 node examples/bullmq.mjs
import { Queue, Worker } from "bullmq";
import { connect } from "holdfast";
import { lockedProcessor } from "holdfast/bullmq";
import { setTimeout as pause } from "node:timers/promises";

const { hostname: host, port, password } = new URL(process.env.REDIS_URL ?? "redis://127.0.0.1:6379");
const connection = { host, port: Number(port || 6379), ...(password && { password }) };
const locks = await connect();
const queue = new Queue(`orders-${process.pid}`, { connection });

const inside = { ada: 0, ben: 0 };
const numbers = { ada: [], ben: [] };
let [most, together, handled] = [0, false, 0];
let finish;
const done = new Promise((resolve) => (finish = resolve));

// A job whose customer is busy goes back to the queue until its turn: the worker's places are free for others.
const processor = lockedProcessor(
  locks,
  { key: ({ data }) => `customer:${data.customer}`, delay: "100ms" },
  async ({ data }, _token, signal, lease) => {
    inside[data.customer]++;
    numbers[data.customer].push(data.number);
    most = Math.max(most, inside[data.customer]);
    together ||= inside.ada > 0 && inside.ben > 0;
    await pause(50, undefined, { signal });
    lease.assertHeld();
    inside[data.customer]--;
    return Number(lease.fence);
  },
);
const worker = new Worker(queue.name, processor, { connection, concurrency: 4 });
worker.on("completed", () => ++handled === 8 && finish());

await queue.addBulk(
  Array.from({ length: 8 }, (_, number) => ({
    name: "order",
    data: { number, customer: number % 2 === 0 ? "ada" : "ben" },
  })),
);
await done;
console.log(`8 orders, never more than ${most} of a customer at a time, different customers together: ${together}`);
console.log(`in order: ada ${numbers.ada.join(", ")}; ben ${numbers.ben.join(", ")}`);

await worker.close();
await queue.obliterate({ force: true });
await queue.close();
await locks.close();
