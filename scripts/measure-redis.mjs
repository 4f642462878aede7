/**
 * Measures the Redis backend against a raw ioredis loop and, where installed, against other lock libraries.
 *
 *   npm run build && node scripts/measure-redis.mjs [url] [seconds per slice]
 *
 * Without a url it starts a redis-server of its own. CPU per cycle is what to compare: wall-clock figures move with
 * whatever else the machine does. Contestants run in turn, several rounds, and the quietest slice of each counts.
 */
import { fork } from "node:child_process";
import { Redis } from "ioredis";

const SECONDS = Number(process.argv[3] ?? 1);
const ROUNDS = 3;
const PART = 'if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0';

const [{ createLocks }, { redis }] = await Promise.all([
  import("../dist/index.js"),
  import("../dist/backends/redis/index.js"),
]);

const contestants = {
  raw: async (client) => {
    client.defineCommand("rawRelease", { numberOfKeys: 1, lua: PART });
    let n = 0;
    return {
      cycle: async (name) => {
        const id = `raw-${++n}`;
        if ((await client.set(name, id, "PX", 30_000, "NX")) !== "OK") throw new Error("taken");
        await client.rawRelease(name, id);
      },
    };
  },
  "holdfast backend alone": async (client) => {
    const backend = redis(client);
    const rest = { mode: "exclusive", limit: 1, ttlMs: 30_000, lockDelayMs: 0, minHoldMs: 0, holder: "m:1", meta: {} };
    let n = 0;
    return {
      cycle: async (name) => {
        const claim = { ...rest, id: `claim-${++n}`, name, queues: true };
        if (!(await backend.attempt(claim)).granted) throw new Error("taken");
        await backend.release(claim);
      },
      close: () => backend.close(),
    };
  },
  holdfast: async (client) => {
    const locks = createLocks(redis(client));
    return {
      cycle: (name) => locks.run(name, () => undefined),
      close: () => locks.close(),
    };
  },
  ...(await peers()),
};

async function peers() {
  const found = {};
  const load = async (name, make) => {
    try {
      found[name] = make(await import(name));
    } catch {
      // Not installed: not measured.
    }
  };
  await load("redlock", ({ default: Redlock }) => async (client) => {
    const lock = new Redlock([client], { retryCount: -1, retryDelay: 5, retryJitter: 5 });
    return {
      cycle: async (name) => {
        const held = await lock.acquire([name], 30_000);
        await held.release();
      },
    };
  });
  await load("redis-semaphore", ({ Mutex }) => async (client) => ({
    cycle: async (name) => {
      const mutex = new Mutex(client, name, { lockTimeout: 30_000, acquireTimeout: 60_000, retryInterval: 5 });
      await mutex.acquire();
      await mutex.release();
    },
  }));
  await load("@verrou/core", ({ Verrou }) => async (client) => {
    const { redisStore } = await import("@verrou/core/drivers/redis");
    const verrou = new Verrou({ default: "redis", stores: { redis: { driver: redisStore({ connection: client }) } } });
    return {
      cycle: async (name) => {
        const lock = verrou.createLock(name, 30_000, { retry: { delay: 5, timeout: 60_000 } });
        await lock.acquire();
        await lock.release();
      },
    };
  });
  return found;
}

/** Runs `loops` loops for a while; tells cycles per second and client CPU per cycle. */
async function slice(make, port, loops, hot) {
  const client = new Redis(port, { password: process.env.HOLDFAST_LAB_PASSWORD });
  const one = await make(client);
  await one.cycle("warm");
  let n = 0;
  const untilMs = performance.now() + SECONDS * 1000;
  const startMs = performance.now();
  const cpu = process.cpuUsage();
  const most = Array.from({ length: loops }, () => 0);
  await Promise.all(
    most.map(async (_, loop) => {
      const name = hot ? "hot" : `lock-${loop}`;
      while (performance.now() < untilMs) {
        await one.cycle(name);
        most[loop]++;
        n++;
      }
    }),
  );
  const used = process.cpuUsage(cpu);
  const tookMs = performance.now() - startMs;
  await one.close?.();
  client.disconnect();
  return {
    perSecond: (n / tookMs) * 1000,
    cpuUs: (used.user + used.system) / n,
    starved: most.filter((x) => x === 0).length,
  };
}

async function table(title, port, loops, hot, skip = []) {
  console.log(`\n${title}`);
  const best = new Map();
  for (let round = 0; round < ROUNDS; round++) {
    for (const [name, make] of Object.entries(contestants)) {
      if (skip.includes(name)) continue;
      const result = await slice(make, port, loops, hot);
      const known = best.get(name);
      if (known === undefined || (hot ? result.perSecond > known.perSecond : result.cpuUs < known.cpuUs))
        best.set(name, result);
    }
  }
  const raw = best.get("raw");
  for (const [name, { perSecond, cpuUs, starved }] of best) {
    const ratio = raw === undefined ? "" : ` ${(cpuUs / raw.cpuUs).toFixed(2)}× raw`;
    console.log(
      `${name.padEnd(24)} ${String(Math.round(perSecond)).padStart(8)}/s ${cpuUs.toFixed(1).padStart(8)} µs CPU${ratio}${hot ? `  starved ${starved}` : ""}`,
    );
  }
  return best;
}

/** One hot lock, four processes with eight loops each. */
async function processes(name, port) {
  const children = Array.from({ length: 4 }, () =>
    fork(process.argv[1], ["child", name, String(port), String(SECONDS * 2)]),
  );
  await Promise.all(children.map((child) => new Promise((resolve) => child.once("message", resolve))));
  children.forEach((child) => child.send("go"));
  const results = await Promise.all(children.map((child) => new Promise((resolve) => child.once("message", resolve))));
  return {
    perSecond: results.reduce((sum, { perSecond }) => sum + perSecond, 0),
    starved: results.reduce((sum, { starved }) => sum + starved, 0),
  };
}

if (process.argv[2] === "child") {
  const [, , , name, port, seconds] = process.argv;
  const client = new Redis(Number(port), { password: process.env.HOLDFAST_LAB_PASSWORD });
  const one = await contestants[name](client);
  await one.cycle(`warm-${process.pid}`);
  process.send("ready");
  await new Promise((resolve) => process.once("message", resolve));
  const counts = Array.from({ length: 8 }, () => 0);
  const startMs = performance.now();
  const untilMs = startMs + Number(seconds) * 1000;
  await Promise.all(
    counts.map(async (_, loop) => {
      while (performance.now() < untilMs) {
        await one.cycle("hot");
        counts[loop]++;
      }
    }),
  );
  const n = counts.reduce((a, b) => a + b, 0);
  process.send({
    perSecond: (n / (performance.now() - startMs)) * 1000,
    starved: counts.filter((x) => x === 0).length,
  });
  setTimeout(() => process.exit(), 300);
} else {
  const { startRedis } = await import("../build/lab/servers/redis.js");
  const given = process.argv[2]?.startsWith("redis://") ? new URL(process.argv[2]) : undefined;
  const server = given === undefined ? await startRedis() : undefined;
  const port = Number(given?.port || server?.port || 6379);
  const client = new Redis(port, { password: process.env.HOLDFAST_LAB_PASSWORD });
  await client.config("RESETSTAT");
  const count = async () => {
    const stats = await client.info("commandstats");
    const calls = (name) => Number(new RegExp(`cmdstat_${name}:calls=(\\d+)`).exec(stats)?.[1] ?? 0);
    const usec = (name) => Number(new RegExp(`cmdstat_${name}:.*usec_per_call=([\\d.]+)`).exec(stats)?.[1] ?? 0);
    return { evalsha: calls("evalsha"), usec: usec("evalsha"), stats };
  };
  {
    const own = new Redis(port, { password: process.env.HOLDFAST_LAB_PASSWORD });
    const one = await contestants.holdfast(own);
    for (let i = 0; i < 10; i++) await one.cycle("count");
    await client.config("RESETSTAT");
    for (let i = 0; i < 1000; i++) await one.cycle("count");
    const { evalsha, usec } = await count();
    console.log(`1000 uncontended cycles: ${evalsha} scripts, ${usec} µs of the server each`);
    await one.close();
    own.disconnect();
  }
  await table("Uncontended, 1 loop", port, 1, false);
  await table("Uncontended, 64 loops on 64 locks", port, 64, false);
  await table("One hot lock, 1 process × 32 loops", port, 32, true, ["raw", "holdfast backend alone"]);
  console.log("\nOne hot lock, 4 processes × 8 loops");
  for (const name of Object.keys(contestants)) {
    if (name === "raw" || name === "holdfast backend alone") continue;
    await client.config("RESETSTAT");
    const { perSecond, starved } = await processes(name, port);
    console.log(`${name.padEnd(24)} ${String(Math.round(perSecond)).padStart(8)}/s  starved ${starved} of 32`);
  }
  client.disconnect();
  await server?.stop();
}
