// What a process of redis-semaphore does, and one of the drop-in in its place: takes turns on one semaphore. See ../take-turns.mjs.
import { Redis } from "ioredis";
import { work } from "../worker.mjs";

const { servers, name, ttlMs, limit } = JSON.parse(process.argv[2]);

/** `longOneIn`: one in so many sections is longer than a ttl, and lives by refreshes. */
export async function takeTurns({ Semaphore }, { longOneIn } = {}) {
  const client = new Redis(servers[0]);
  client.on("error", () => {});
  await work(
    async (section) => {
      let isLost = false;
      const semaphore = new Semaphore(client, name, limit, {
        lockTimeout: ttlMs,
        acquireTimeout: 3_600_000,
        retryInterval: 20,
        onLockLost: () => (isLost = true),
      });
      await semaphore.acquire();
      // Others may be inside: how many there are is judged by crowd.mjs.
      await section("shared");
      const held = !isLost && semaphore.isAcquired;
      await semaphore.release().catch(() => {});
      return held;
    },
    { longOneIn },
  );
  client.disconnect();
}
