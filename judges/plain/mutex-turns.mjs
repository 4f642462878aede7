// What a process of redis-semaphore does, and one of the drop-in in its place: takes turns on one mutex, or semaphore. See ../take-turns.mjs.
import { Redis } from "ioredis";
import { work } from "../worker.mjs";

const { servers, name, ttlMs, limit = 1 } = JSON.parse(process.argv[2]);

/** `optionsFor`: what the drop-in is given besides, by its clients. `terms`: as of work(). */
export async function takeTurns({ Mutex, RedlockMutex, Semaphore }, optionsFor = async () => ({}), terms = {}) {
  const clients = servers.map((server) => new Redis(server));
  for (const client of clients) client.on("error", () => {});
  const own = await optionsFor(clients);
  const create = (options) => {
    if (clients.length > 1) return new RedlockMutex(clients, name, options);
    return limit > 1 ? new Semaphore(clients[0], name, limit, options) : new Mutex(clients[0], name, options);
  };
  await work(async (section) => {
    let isLost = false;
    const onLockLost = () => (isLost = true);
    const mutex = create({ lockTimeout: ttlMs, acquireTimeout: 3_600_000, retryInterval: 40, onLockLost, ...own });
    await mutex.acquire();
    await section();
    const held = !isLost && mutex.isAcquired;
    await mutex.release().catch(() => {});
    return held;
  }, terms);
  await own.locks?.close();
  for (const client of clients) client.disconnect();
}
