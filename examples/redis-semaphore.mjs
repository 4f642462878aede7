// A program for redis-semaphore with one line changed: old pods and new ones exclude each other, and a loss is a signal.
//
//   REDIS_URL=redis://localhost node examples/redis-semaphore.mjs
import { Mutex, Semaphore } from "holdfast/redis-semaphore";
import { Redis } from "ioredis";
import { Mutex as OldMutex, Semaphore as OldSemaphore } from "redis-semaphore";

const redis = new Redis(process.env.REDIS_URL ?? "redis://localhost");
const once = { acquireAttemptsLimit: 1 };

const mutex = new Mutex(redis, "report", { onLockLost: console.error });
await mutex.acquire();
console.log(`the new pod holds it; the old one gets it: ${await new OldMutex(redis, "report", once).tryAcquire()}`);
console.log(`lost: ${mutex.signal.aborted}, with a fence: ${mutex.fence > 0n}`);
await mutex.release();

const [old, young] = [new OldSemaphore(redis, "mailer", 2), new Semaphore(redis, "mailer", 2)];
await old.acquire();
await young.acquire();
console.log(`two of two hold; a third gets it: ${await new Semaphore(redis, "mailer", 2, once).tryAcquire()}`);
await Promise.all([old.release(), young.release()]);
redis.disconnect();
