/** Holdfast with and without `linger`, over each store that knows it, and the raw client of Redis. */
import { built } from "../lib/holdfast.mjs";
import { spread } from "../lib/stats.mjs";
import { holdfastIn } from "./file.mjs";
import { holdfastOver as overPostgres } from "./postgres.mjs";
import { holdfastOver as overQuorum } from "./quorum.mjs";
import { contestants as all, holdfastOver as overRedis } from "./redis.mjs";

const OVER = {
  redis: (env, defaults) => overRedis(env, { defaults }),
  quorum: overQuorum,
  postgres: (env, defaults) => overPostgres(env, { defaults }),
  file: ({ dir }, defaults) => holdfastIn(dir, { defaults }),
  memory: (_, defaults) => inMemory(defaults),
};

export const contestants = {
  "raw ioredis": all["raw ioredis"],
  holdfast: { own: true, open: (env) => OVER[env.store](env, {}) },
  "holdfast, linger": { own: true, open: (env) => OVER[env.store](env, { linger: env.linger }) },
};

/** Its locks are those of one process: two backends over one store are to each other what two processes are. */
async function inMemory(defaults) {
  const files = ["index.js", "backends/memory/index.js"];
  const [{ createLocks }, { memory, memoryStore }] = await Promise.all(files.map((path) => built(path)));
  const store = memoryStore();
  const [holder, waiter] = [0, 1].map(() => createLocks(memory({ store }), defaults));
  return {
    async served({ name, seconds, lingers, queuedMs }) {
      const tookMs = [];
      const untilMs = performance.now() + seconds * 1000;
      while (performance.now() < untilMs) {
        const lease = await holder.acquire(name, { wait: Infinity });
        if (lingers) await lease.release();
        const asked = lingers ? undefined : waiter.acquire(name, { wait: Infinity });
        await new Promise((resolve) => setTimeout(resolve, queuedMs));
        const fromMs = performance.now();
        if (!lingers) void lease.release();
        const other = await (asked ?? waiter.acquire(name, { wait: Infinity }));
        tookMs.push(performance.now() - fromMs);
        await other.release();
      }
      return { handOverMs: spread(tookMs), handOvers: tookMs.length };
    },
  };
}
