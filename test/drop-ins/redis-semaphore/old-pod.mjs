// A process of redis-semaphore (npm) that takes a mutex, says so, and stays until it is killed.
import { Redis } from "ioredis";
import { Mutex } from "redis-semaphore";

const { client, key, lockTimeout } = JSON.parse(process.argv[2]);
await new Mutex(new Redis(client), key, { lockTimeout }).acquire();
console.log("held");
setInterval(() => {}, 60_000);
