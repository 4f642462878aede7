// A process of redis-semaphore (npm) that takes turns on one mutex: see ../take-turns.mjs.
import { Redis } from "ioredis";
import { Mutex } from "redis-semaphore";
import { work } from "../worker.mjs";

const { servers, name, ttlMs } = JSON.parse(process.argv[2]);
const client = new Redis(servers[0]);
client.on("error", () => {});
await work(async (section) => {
  let isLost = false;
  const mutex = new Mutex(client, name, {
    lockTimeout: ttlMs,
    acquireTimeout: 3_600_000,
    retryInterval: 40,
    onLockLost: () => (isLost = true),
  });
  await mutex.acquire();
  await section();
  const held = !isLost && mutex.isAcquired;
  await mutex.release().catch(() => {});
  return held;
});
client.disconnect();
