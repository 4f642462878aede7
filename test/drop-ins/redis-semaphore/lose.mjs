// Loses a mutex that has no onLockLost, and says what became of the error. The library is named by the order.
import { Redis } from "ioredis";

const { name, client } = JSON.parse(process.argv[2]);
const { Mutex, LostLockError } = await import(name);
const redis = new Redis(client);
process.on("unhandledRejection", (error) => {
  console.log(`unhandled: ${error instanceof LostLockError} ${error.message}`);
  redis.disconnect();
});
await new Mutex(redis, "lost", { refreshInterval: 50, acquireTimeout: 60_000 }).acquire();
await redis.del("mutex:lost");
