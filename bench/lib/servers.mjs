/** Real servers for one suite, started and stopped around it. */
import { BEFORE, OTHER_DATABASES, QUEUE_SQL } from "../contestants/postgres.mjs";
import { built } from "./holdfast.mjs";
import { cpuUsOf } from "./machine.mjs";
import { Store } from "./store.mjs";

/** A Redis of its own for `use`, and a reader of what it spends. */
export async function withRedis(use, options = {}) {
  const { startRedis } = await built("lab/servers/redis.js");
  const server = await startRedis(options);
  const store = new Store(server.port);
  try {
    return await use({ server, port: server.port, store });
  } finally {
    store.close();
    await server.stop();
  }
}

/** Five independent members; a fresh server counts as one that may have forgotten its leases, so the quarantine of each is ended. */
export async function withMembers(use) {
  const { startRedis } = await built("lab/servers/redis.js");
  const servers = await Promise.all(Array.from({ length: 5 }, () => startRedis()));
  try {
    await Promise.all(servers.map(endQuarantine));
    return await use(servers);
  } finally {
    await Promise.all(servers.map((server) => server.stop()));
  }
}

/** What `holdfast doctor --init` does: says that this member has lost no lease that is alive. */
export async function endQuarantine(server) {
  const { openMember } = await built("backends/redis/open.js");
  const member = await openMember(server.url);
  try {
    await member.endQuarantine();
  } finally {
    await member.close();
  }
}

/** A server's CPU time, from the kernel: for one that does not tell by itself. */
export function processStore(server) {
  return {
    read: () => ({ cpuUs: cpuUsOf(server.pid) }),
    since: (before) => ({ cpuUs: cpuUsOf(server.pid) - before.cpuUs, commands: Number.NaN, calls: Number.NaN }),
  };
}

export async function withEtcd(use) {
  const { startEtcd } = await built("lab/servers/etcd.js");
  const lab = await startEtcd();
  try {
    return await use(lab);
  } finally {
    await lab.stop();
  }
}

export async function withZooKeeper(use) {
  const { startZooKeeper } = await built("lab/servers/zookeeper.js");
  const lab = await startZooKeeper();
  try {
    return await use(lab);
  } finally {
    await lab.stop();
  }
}

/** A Postgres of its own that flushes its commits to disk, as in production, with the tables of all contestants. */
export async function withPostgres(use) {
  const { startPostgres } = await built("lab/servers/postgres.js");
  const { LOCKS_MIGRATION } = await built("backends/postgres/index.js");
  const settings = { fsync: "on", full_page_writes: "on", shared_buffers: "64MB", max_connections: "200" };
  const server = await startPostgres({ settings });
  try {
    await server.sql(LOCKS_MIGRATION);
    await server.sql(
      "create table bench_lock (name text primary key, claim text, until timestamptz) with (fillfactor = 50)",
    );
    await server.sql(QUEUE_SQL);
    for (const name of OTHER_DATABASES) await server.sql(`create database "${name}" template postgres`);
    const dist = process.env.HOLDFAST_BEFORE;
    if (dist !== undefined) {
      const before = await built("backends/postgres/index.js", dist);
      await server.sql(`create database ${BEFORE}`);
      const { default: pg } = await import("pg");
      const client = new pg.Client({ connectionString: server.url.replace(/\w+$/, BEFORE) });
      await client.connect();
      await client.query(before.LOCKS_MIGRATION);
      await client.end();
    }
    return await use({ server, port: server.port });
  } finally {
    await server.stop();
  }
}
