// A process of redlock (npm) that takes turns on one lock: see ../take-turns.mjs.
import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";
import Redlock from "redlock";
import { work } from "../worker.mjs";

const { servers, name, ttlMs } = JSON.parse(process.argv[2]);
const clients = servers.map((server) => new Redis(server));
for (const client of clients) client.on("error", () => {});
const redlock = new (Redlock.default ?? Redlock)(clients, { retryCount: 0 });
redlock.on("error", () => {});

/** One attempt each time: redlock's own retries keep what a lost vote got, and count the lock's time from the first of them. */
async function acquire() {
  for (;;) {
    const lock = await redlock.acquire([name], ttlMs).catch(() => undefined);
    if (lock !== undefined) return lock;
    await sleep(20 + 40 * Math.random());
  }
}

await work(async (section) => {
  const lock = await acquire();
  await section();
  // Also false where its time was over: then the section is not judged.
  const held = lock.expiration > Date.now();
  await lock.release().catch(() => {});
  return held;
});
for (const client of clients) client.disconnect();
