// A program for redlock with one line changed: old pods and new ones exclude each other, and locks have fences.
//
//   REDIS_URL=redis://localhost node examples/redlock.mjs
import Redlock, { ExecutionError } from "holdfast/redlock";
import { Redis } from "ioredis";
import OldRedlock from "redlock";

const redis = new Redis(process.env.REDIS_URL ?? "redis://localhost");
const redlock = new Redlock([redis], { retryCount: 0 });
const old = new OldRedlock([redis], { retryCount: 0 });

await redlock.using(["account:1", "account:2"], 5000, async (signal) => {
  const isFree = await old.acquire(["account:1"], 5000).then(
    () => true,
    () => false,
  );
  console.log(`the new pod holds both; the old one gets account:1: ${isFree}`);
  if (signal.aborted) throw signal.error;
});

let lock = await old.acquire(["account:1"], 5000);
const refused = await redlock.acquire(["account:1"], 5000).catch((error) => error);
console.log(`the old pod holds it; the new one gets an ExecutionError: ${refused instanceof ExecutionError}`);
await lock.release();

lock = await redlock.acquire(["account:1"], 5000);
const { fence } = lock;
await lock.release();
lock = await redlock.acquire(["account:1"], 5000);
console.log(`the next fence is greater: ${lock.fence > fence}`);
await lock.release();
await redlock.quit();
