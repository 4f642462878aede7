/**
 * A process that waits for one lock with many claims at once, as a crowd would.
 *
 *   node waiter-process.mjs <dist> <port> <name> <claims> <ttl ms> <ticket ms>
 *
 * Says "queued" when all claims wait, then one line per grant: its fence, and when it came and went by this machine's clock.
 */
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { Redis } from "ioredis";

const [dist, port, name, count, ttl, ticket] = process.argv.slice(2);
const { redis } = await import(pathToFileURL(join(dist, "backends/redis/index.js")).href);
const client = new Redis(Number(port), "127.0.0.1", {
  password: process.env.HOLDFAST_LAB_PASSWORD,
  maxRetriesPerRequest: null,
});
const backend = redis(client, { ticket: Number(ticket) });

const claims = Array.from({ length: Number(count) }, () => ({
  id: randomBytes(16).toString("base64url"),
  name,
  mode: "exclusive",
  limit: 1,
  ttlMs: Number(ttl),
  lockDelayMs: 0,
  minHoldMs: 0,
  holder: `waiter:${process.pid}`,
  meta: {},
  queues: true,
}));

/** Waits as the core does. */
async function wait(claim, answer) {
  let granted = answer.granted ? answer : undefined;
  while (granted === undefined) {
    granted = await backend.watch(claim, AbortSignal.timeout(answer.retryMs ?? 1000));
    if (granted !== undefined) break;
    const again = await backend.attempt(claim);
    if (again.granted) granted = again;
  }
  const cameUs = process.hrtime.bigint() / 1000n;
  const wentUs = process.hrtime.bigint() / 1000n;
  const released = await backend.release(claim);
  process.send({ fence: String(granted.fence), cameUs: String(cameUs), wentUs: String(wentUs), released });
}

const answers = [];
for (const claim of claims) answers.push(await backend.attempt(claim));
process.send("queued");
await Promise.all(claims.map((claim, index) => wait(claim, answers[index])));
process.send("done");
await backend.close();
client.disconnect();
process.disconnect();
