/**
 * A process of the scale suite, over one store: it holds many locks, waits for many, or takes some at a steady pace. Each step is an
 * order of the suite; what it costs is asked with `usage`.
 */
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { built } from "../lib/holdfast.mjs";
import { waiting } from "./redis-held.mjs";

const BATCH = 500;

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc");

function cpuUs() {
  const { user, system } = process.cpuUsage();
  return user + system;
}

async function inBatches(count, step) {
  for (let from = 0; from < count; from += BATCH)
    await Promise.all(Array.from({ length: Math.min(BATCH, count - from) }, (_, i) => step(from + i)));
}

/** All steps, of the one createLocks() of this process. */
async function steps(own, more = {}) {
  let leases = [];
  let waiters = [];
  await (await own.acquire(`warm-${process.pid}`)).release();
  return {
    ...more,
    acquire: (name) => own.acquire(name, { wait: Infinity }),
    release: (lease) => lease.release(),

    usage: () => ({ cpuUs: cpuUs() }),

    /** What is in use after everything that can be collected was. */
    heap: () => {
      collect();
      collect();
      return { heapBytes: process.memoryUsage().heapUsed };
    },

    hold: async ({ count, ttlMs, name }) => {
      const names = Array.from({ length: count }, (_, i) => `${name}-${i}`);
      leases = Array.from({ length: count });
      await inBatches(count, async (i) => (leases[i] = await own.acquire(names[i], { ttl: ttlMs, wait: Infinity })));
      return {};
    },

    drop: async () => {
      let lost = 0;
      const reasons = {};
      await inBatches(leases.length, async (i) => {
        if ((await leases[i].release()) === "released") return;
        lost++;
        const why = String(leases[i].signal.reason?.message).replaceAll(/\d+/g, "#").slice(0, 200);
        reasons[why] = (reasons[why] ?? 0) + 1;
      });
      leases = [];
      return { lost, reasons };
    },

    /** Cycles on locks of its own, as many at once as there are loops. */
    cycles: async ({ name, loops, seconds, spread = 1 }) => {
      const untilMs = performance.now() + seconds * 1000;
      const before = cpuUs();
      let cycles = 0;
      const loop = async (_, index) => {
        for (let i = 0; performance.now() < untilMs; i++) {
          const lease = await own.acquire(`${name}-${process.pid}-${index}-${i % spread}`);
          await lease.release();
          cycles++;
        }
      };
      await Promise.all(Array.from({ length: loops }, loop));
      return { cycles, cpuUs: cpuUs() - before };
    },

    /** All take their lock at once, and then all release it: every call to a server is of the same size, however busy the machine is. */
    rounds: async ({ name, loops, seconds, spread }) => {
      const untilMs = performance.now() + seconds * 1000;
      const before = cpuUs();
      let rounds = 0;
      for (; performance.now() < untilMs; rounds++) {
        const all = Array.from({ length: loops }, (_, index) => own.acquire(`${name}-${index}-${rounds % spread}`));
        const held = await Promise.all(all);
        await Promise.all(held.map((lease) => lease.release()));
      }
      return { cycles: rounds * loops, cpuUs: cpuUs() - before };
    },

    /** Cycles at a steady pace, beginning at a moment by chance. One that is late is not made up for. */
    pace: async ({ name, perSecond, seconds }) => {
      const everyMs = 1000 / perSecond;
      const startMs = performance.now();
      const before = cpuUs();
      let cycles = 0;
      for (let atMs = startMs + Math.random() * everyMs; atMs < startMs + seconds * 1000;) {
        await new Promise((resolve) => setTimeout(resolve, Math.max(0, atMs - performance.now())));
        const lease = await own.acquire(name, { wait: Infinity });
        await lease.release();
        cycles++;
        atMs = Math.max(atMs + everyMs, performance.now());
      }
      return { cycles, cpuUs: cpuUs() - before };
    },

    /** Nothing but what goes on by itself: renewals, and signs of life. */
    watch: async ({ seconds }) => {
      let renewed = 0;
      const count = ({ asked }) => (renewed += asked);
      const delay = monitorEventLoopDelay({ resolution: 20 });
      subscribe("holdfast:renew", count);
      delay.enable();
      const before = cpuUs();
      await new Promise((resolve) => setTimeout(resolve, seconds * 1000));
      const used = cpuUs() - before;
      delay.disable();
      unsubscribe("holdfast:renew", count);
      return { cpuUs: used, renewed, blockedMs: delay.max / 1e6 };
    },

    /** One waiter for each of many locks, which another process holds. */
    line: ({ count, name }) => {
      waiters = Array.from({ length: count }, (_, i) => own.acquire(`${name}-${i}`, { wait: Infinity }));
      return {};
    },

    /** Until all of them have got theirs, which they keep. */
    entered: async () => {
      leases = await Promise.all(waiters);
      waiters = [];
      return {};
    },

    leases: () => ({ held: leases.filter(({ signal }) => !signal.aborted).length, of: leases.length }),
  };
}

async function ioredis() {
  return await import("ioredis");
}

const password = process.env.HOLDFAST_LAB_PASSWORD;

async function overRedis({ port }) {
  const [{ Redis }, { createLocks }, { redis }] = await Promise.all([
    ioredis(),
    built("index.js"),
    built("backends/redis/index.js"),
  ]);
  // As docs/backends/redis.md asks for: the library's own client gives up nothing by itself.
  const client = new Redis(port, "127.0.0.1", { password, maxRetriesPerRequest: null });
  client.on("error", () => {});
  const backend = redis(client);
  return await steps(createLocks(backend), waiting.holdfast(createLocks, backend));
}

/**
 * Several in one process, each with a createLocks() and a connection of its own: to the store that many processes. A step is done by all
 * at once, and what they count is added up; the CPU is that of the process.
 */
function together(open) {
  const members = [];
  const all = (step) => async (order) => {
    const before = cpuUs();
    const answers = await Promise.all(
      members.map((member, at) =>
        member[step](
          order.name === undefined ? order : { ...order, name: `${order.name}${order.own ? `-${at}` : ""}` },
        ),
      ),
    );
    const sum = (figure) => answers.reduce((total, answer) => total + (answer[figure] ?? 0), 0);
    return { cpuUs: cpuUs() - before, cycles: sum("cycles"), held: sum("held"), lost: sum("lost") };
  };
  return {
    grow: async ({ members: count }) => {
      while (members.length < count) members.push(await open());
      return {};
    },
    ...Object.fromEntries(["pace", "hold", "drop", "leases"].map((step) => [step, all(step)])),
  };
}

export const contestants = {
  redis: { open: overRedis },

  crowd: { open: (env) => together(() => overRedis(env)) },

  cluster: {
    open: async ({ ports }) => {
      const [{ Cluster }, { createLocks }, { redis }] = await Promise.all([
        ioredis(),
        built("index.js"),
        built("backends/redis/index.js"),
      ]);
      const nodes = ports.map((port) => ({ host: "127.0.0.1", port }));
      const client = new Cluster(nodes, { redisOptions: { password } });
      return await steps(createLocks(redis(client)));
    },
  },

  zookeeper: {
    open: async ({ port }) => {
      const [{ createLocks }, { zookeeper }] = await Promise.all([
        built("index.js"),
        built("backends/zookeeper/index.js"),
      ]);
      const backend = zookeeper({ servers: `127.0.0.1:${port}` });
      return await steps(createLocks(backend));
    },
  },

  etcd: {
    open: async ({ endpoints }) => {
      const [{ createLocks }, { etcd }] = await Promise.all([built("index.js"), built("backends/etcd/index.js")]);
      const backend = etcd({ endpoints });
      return await steps(createLocks(backend));
    },
  },

  postgres: {
    open: async ({ port }) => {
      const [{ default: pg }, { createLocks }, { postgres }] = await Promise.all([
        import("pg"),
        built("index.js"),
        built("backends/postgres/index.js"),
      ]);
      const pool = new pg.Pool({
        connectionString: `postgres://postgres:${password}@127.0.0.1:${port}/postgres`,
        max: 4,
      });
      const backend = postgres(pool);
      return await steps(createLocks(backend));
    },
  },
};
