// A value in Redis that only the latest holder can write.
//
//   REDIS_URL=redis://localhost node examples/fence-redis.mjs
import { connect } from "holdfast";
import { writeFenced } from "holdfast/fence/redis";
import { Redis } from "ioredis";

const locks = await connect();
const redis = new Redis(process.env.REDIS_URL ?? "redis://localhost");

// The tag in braces is the lock's name: so both are in one slot of a Redis Cluster.
const key = "{invoice:42}:status";
const write = (lease, status) =>
  writeFenced(redis, lease, [
    ["SET", key, status],
    ["EXPIRE", key, 3600],
  ]);

// This holder does not renew and is about to be paused: its lease runs out.
const paused = await locks.acquire("invoice:42", { ttl: "200ms", renew: false });

// So the next one gets the lock and writes.
await locks.run("invoice:42", (lease) => write(lease, "paid"));

// Now the first one goes on as if nothing had happened.
await write(paused, "open").catch((error) => console.log(`refused: ${error.code}`));

console.log(`the invoice is ${await redis.get(key)}`);
redis.disconnect();
await locks.close();
