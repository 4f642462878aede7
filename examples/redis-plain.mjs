// Old pods with redlock and new ones with Holdfast exclude each other, so that a service can move over without a stop.
//
//   REDIS_URL=redis://localhost node examples/redis-plain.mjs
import { createLocks } from "holdfast";
import { redisPlain } from "holdfast/redis-plain";
import { Redis } from "ioredis";
import Redlock from "redlock";

const redis = new Redis(process.env.REDIS_URL ?? "redis://localhost");
const locks = createLocks(redisPlain(redis));
const redlock = new Redlock([redis], { retryCount: 0 });
redlock.on("error", () => {});

await locks.run("invoice:42", async () => {
  const old = await redlock.acquire(["invoice:42"], 5000).catch(() => undefined);
  console.log(`the new pod holds it; the old one gets it: ${old !== undefined}`);
});

const lock = await redlock.acquire(["invoice:42"], 5000);
const lease = await locks.tryAcquire("invoice:42");
console.log(`the old pod holds it; the new one gets it: ${lease !== null}`);
await lock.release();

await locks.run("invoice:42", () => console.log("the new pod had its turn"));
await locks.close();
redis.disconnect();
