// A process of redlock (npm) that takes a lock, says so, and stays until it is killed.
import { Redis } from "ioredis";
import Redlock from "redlock";

const { client, name, ttlMs } = JSON.parse(process.argv[2]);
const redlock = new (Redlock.default ?? Redlock)([new Redis(client)]);
await redlock.acquire([name], ttlMs);
console.log("held");
setInterval(() => {}, 60_000);
