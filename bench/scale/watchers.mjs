/** One waiter for each of many locks, in ZooKeeper and in etcd: what is waited with there, and what it costs while nothing happens. */
import { atMost } from "../lib/bars.mjs";
import { freshName, total } from "../lib/contest.mjs";
import { processStore, withEtcd, withZooKeeper } from "../lib/servers.mjs";
import { Team } from "../lib/team.mjs";
import { connectionsTo } from "./connections.mjs";
import { constant, curvePart, greatest, rowsOf, sleep, until } from "./curve.mjs";

const SIZES = [10, 100, 1000, 10_000];
const WATCH_S = 10;
const LIMIT_MS = 300_000;

export function zookeeperWatchers(context) {
  return watchers(context, "zookeeper", "ZooKeeper", (size) =>
    withZooKeeper(({ servers: [server] }) =>
      one({
        size,
        family: "zookeeper",
        env: { port: server.port },
        server,
        watches: async () => Number(/Total watches:(\d+)/.exec(await server.ask("wchs"))?.[1]),
        stored: async () => Number(/zk_approximate_data_size\s+(\d+)/.exec(await server.ask("mntr"))?.[1]),
      }),
    ),
  );
}

export function etcdWatchers(context) {
  return watchers(context, "etcd", "etcd", (size) =>
    withEtcd(({ endpoints, servers: [server] }) => {
      const metric = async (name) => {
        const text = await (await fetch(`http://127.0.0.1:${server.port}/metrics`)).text();
        return Number(new RegExp(`^${name} (\\S+)`, "m").exec(text)?.[1]);
      };
      return one({
        size,
        family: "etcd",
        env: { endpoints },
        server,
        watches: () => metric("etcd_debugging_mvcc_watcher_total"),
        stored: () => metric("etcd_mvcc_db_total_size_in_use_in_bytes"),
      });
    }),
  );
}

async function watchers(context, id, title, measure) {
  const rows = await rowsOf(context, `locks waited for in ${title}`, SIZES, measure);
  // The kernel counts in steps of 10 ms, which is more than fewer of them take.
  const many = rows.filter(({ size }) => size >= 1000);
  return {
    parts: [
      curvePart({
        id,
        title: `${title}: a waiter for each of so many locks, in one process; another holds them`,
        columns: [
          "joinClientUs",
          "joinStoreUs",
          "waitClientUs",
          "waitStoreUs",
          "handOverStoreUs",
          "connectionsInAll",
          "watches",
          "waiterClientBytes",
          "serverBytes",
        ],
        costs: ["joinClientUs", "joinStoreUs", "handOverStoreUs", "waiterClientBytes", "serverBytes"],
        rows,
      }),
    ],
    bars: [
      constant(`scale-${id}-join`, `${title}: store CPU to join, from 1,000 on`, many, "joinStoreUs"),
      constant(`scale-${id}-hand-over`, `${title}: store CPU per hand-over, from 1,000 on`, many, "handOverStoreUs"),
      constant(
        `scale-${id}-client-bytes`,
        `${title}: client bytes per waiter, from 1,000 on`,
        many,
        "waiterClientBytes",
      ),
      atMost(
        `scale-${id}-connections`,
        `${title}: connections of two processes`,
        greatest(rows, "connectionsInAll"),
        4,
      ),
    ],
  };
}

async function one({ size, family, env, server, watches, stored }) {
  const team = await Team.start({ family: "scale", name: family }, 2, env);
  const store = processStore(server);
  const [holder, waiter] = [0, 1].map(
    (index) => (step, order) => team.orderOne(index, { do: "step", step, ...order }, LIMIT_MS),
  );
  const used = async () => ({
    client: total(await team.order({ do: "step", step: "usage" }), "cpuUs"),
    store: store.read().cpuUs,
  });
  const watched = async () => {
    const before = await used();
    await sleep(WATCH_S * 1000);
    const after = await used();
    return { client: after.client - before.client, store: after.store - before.store };
  };
  try {
    // A JIT compiler, a heap and caches: what is measured is the store as it is after a while.
    for (const ask of [holder, waiter])
      await ask("cycles", { name: freshName("warm"), loops: 64, seconds: 4, spread: 4 });
    await sleep(2000);
    const rest = await watched();
    const [restWatches, restStored] = [await watches(), await stored()];
    const name = freshName("awaited");
    await holder("hold", { name, count: size, ttlMs: 30_000 });
    await sleep(1000);
    const { heapBytes: restHeap } = await waiter("heap");
    const before = await used();
    await waiter("line", { name, count: size });
    // Each waiter watches something of its own.
    await until("every waiter watches", async () => (await watches()) - restWatches >= size, { limitMs: 60_000 });
    await sleep(500);
    const joined = await used();
    const inUse = {
      connectionsInAll: connectionsTo(server.port),
      watches: (await watches()) - restWatches,
      serverBytes: ((await stored()) - restStored) / size,
      waiterClientBytes: ((await waiter("heap")).heapBytes - restHeap) / size,
    };
    const stayed = await watched();
    const beforeDrop = await used();
    await Promise.all([holder("drop"), waiter("entered")]);
    const handed = await used();
    await waiter("drop");
    const each = (figure) => Math.max(0, stayed[figure] - rest[figure]) / size / WATCH_S;
    return {
      joinClientUs: (joined.client - before.client) / size,
      joinStoreUs: (joined.store - before.store) / size,
      waitClientUs: each("client"),
      waitStoreUs: each("store"),
      handOverClientUs: (handed.client - beforeDrop.client) / size,
      handOverStoreUs: (handed.store - beforeDrop.store) / size,
      ...inUse,
    };
  } finally {
    await team.stop();
  }
}
