/** Rows in Postgres: held leases and idle locks, what a cycle beside them costs, and what renewals leave for the vacuum. */
import { atMost } from "../lib/bars.mjs";
import { freshName } from "../lib/contest.mjs";
import { built } from "../lib/holdfast.mjs";
import { Team } from "../lib/team.mjs";
import { treeCpuUs } from "./connections.mjs";
import { constant, curvePart, greatest, rowsOf, sleep } from "./curve.mjs";

const SIZES = [1000, 10_000, 100_000];
const TTL_MS = 30_000;
const WATCH_S = 60;
const LIMIT_MS = 600_000;

export async function rows(context) {
  const all = await rowsOf(context, "rows in Postgres", SIZES, one);
  const parts = [
    curvePart({
      id: "rows",
      title: "leases held in Postgres, ttl 30 s, renewed for a minute",
      columns: ["cycleClientUs", "cycleStoreUs", "renewClientUs", "renewStoreUs", "rowBytes", "deadRows", "lost"],
      costs: ["cycleStoreUs", "renewStoreUs", "rowBytes"],
      rows: all,
    }),
    curvePart({
      id: "idle-rows",
      title: "the same locks after their release",
      columns: ["idleCycleStoreUs", "idleRowBytes"],
      costs: ["idleCycleStoreUs", "idleRowBytes"],
      rows: all,
    }),
  ];
  const bars = [
    constant("scale-rows-cycle", "Postgres: store CPU per cycle beside held leases", all, "cycleStoreUs"),
    constant("scale-rows-renew", "Postgres: store CPU per renewal", all, "renewStoreUs"),
    constant("scale-rows-bytes", "Postgres: bytes per row after a minute", all, "rowBytes"),
    atMost(
      "scale-rows-dead",
      "Postgres: dead rows after a minute of renewals, for each row",
      greatest(all, "deadRows"),
      2,
    ),
    atMost("scale-rows-lost", "Postgres: leases lost", greatest(all, "lost"), 0),
  ];
  return { parts, bars };
}

async function one(size) {
  const { startPostgres } = await built("lab/servers/postgres.js");
  const { LOCKS_MIGRATION } = await built("backends/postgres/index.js");
  const server = await startPostgres({
    settings: { fsync: "on", full_page_writes: "on", shared_buffers: "128MB", max_connections: "50" },
  });
  try {
    await server.sql(LOCKS_MIGRATION);
    const team = await Team.start({ family: "scale", name: "postgres" }, 1, { port: server.port });
    try {
      return await measure(server, team, size);
    } finally {
      await team.stop();
    }
  } finally {
    await server.stop();
  }
}

async function measure(server, team, size) {
  const ask = async (step, order) => (await team.order({ do: "step", step, ...order }, undefined, LIMIT_MS))[0];
  const bytes = async () =>
    Number(
      await server.sql("select pg_total_relation_size('holdfast.lease') + pg_total_relation_size('holdfast.waiter')"),
    );
  const cycles = async () => {
    const before = treeCpuUs(server.pid);
    const { cycles: count, cpuUs } = await ask("cycles", {
      name: freshName("beside"),
      loops: 8,
      seconds: 4,
      spread: 10,
    });
    return { client: cpuUs / count, store: (treeCpuUs(server.pid) - before) / count };
  };
  const watched = async (seconds) => {
    const before = treeCpuUs(server.pid);
    const { cpuUs, renewed } = await ask("watch", { seconds });
    return { client: cpuUs, store: treeCpuUs(server.pid) - before, renewed };
  };
  await cycles();
  await ask("hold", { name: freshName("rows"), count: size, ttlMs: TTL_MS });
  await sleep(2000);
  const spent = await watched(WATCH_S);
  // Postgres reports what an idle connection did after a while; a new look needs no old snapshot.
  await sleep(1500);
  const dead = Number(
    await server
      .sql("select pg_stat_clear_snapshot(), n_dead_tup from pg_stat_user_tables where relname = 'lease'")
      .then((line) => line.split("|").at(-1)),
  );
  const rowBytes = (await bytes()) / size;
  const beside = await cycles();
  const { lost } = await ask("drop");
  const idleBytes = (await bytes()) / size;
  const idle = await cycles();
  // With what the server does besides, the vacuum above all: that is the price of renewals, too.
  const renewal = (figure) => spent[figure] / spent.renewed;
  return {
    cycleClientUs: beside.client,
    cycleStoreUs: beside.store,
    renewClientUs: renewal("client"),
    renewStoreUs: renewal("store"),
    rowBytes,
    deadRows: dead / size,
    lost,
    idleCycleStoreUs: idle.store,
    idleRowBytes: idleBytes,
  };
}
