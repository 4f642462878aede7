// What a process of redlock does, and one of the drop-in `holdfast/redlock` in its place: takes turns on one lock. See ../take-turns.mjs.
import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";
import { work } from "../worker.mjs";

const { servers, name, ttlMs } = JSON.parse(process.argv[2]);
/** With `locks` the drop-in waits in the store for this many times `retryDelay`. */
const RETRIES = 100;

/** `settingsFor`: what the drop-in is given besides, by its clients. */
export async function takeTurns(Redlock, settingsFor = async () => ({})) {
  const clients = servers.map((server) => new Redis(server));
  for (const client of clients) client.on("error", () => {});
  const own = await settingsFor(clients);
  const redlock = new Redlock(clients, { retryCount: own.locks === undefined ? 0 : RETRIES, ...own });
  redlock.on("error", () => {});
  await work(async (section) => {
    const lock = await acquire(redlock);
    await section();
    // Also false where its time was over: then the section is not judged.
    const held = lock.expiration > Date.now();
    await lock.release().catch(() => {});
    return held;
  });
  await own.locks?.close();
  for (const client of clients) client.disconnect();
}

/** One attempt each time: redlock's own retries keep what a lost vote got, and count the lock's time from the first of them. */
async function acquire(redlock) {
  for (;;) {
    const lock = await redlock.acquire([name], ttlMs).catch(() => undefined);
    if (lock !== undefined) return lock;
    await sleep(20 + 40 * Math.random());
  }
}
