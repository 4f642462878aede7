// What a process of redis-semaphore does, and one of the drop-in in its place: takes turns on one mutex. See take-turns.mjs.
import { Redis } from "ioredis";
import { work } from "../worker.mjs";

const { servers, name, ttlMs } = JSON.parse(process.argv[2]);

export async function takeTurns({ Mutex, RedlockMutex }) {
  const clients = servers.map((server) => new Redis(server));
  for (const client of clients) client.on("error", () => {});
  await work(async (section) => {
    let isLost = false;
    const options = {
      lockTimeout: ttlMs,
      acquireTimeout: 3_600_000,
      retryInterval: 40,
      onLockLost: () => (isLost = true),
    };
    const mutex =
      clients.length === 1 ? new Mutex(clients[0], name, options) : new RedlockMutex(clients, name, options);
    await mutex.acquire();
    await section();
    const held = !isLost && mutex.isAcquired;
    await mutex.release().catch(() => {});
    return held;
  });
  for (const client of clients) client.disconnect();
}
