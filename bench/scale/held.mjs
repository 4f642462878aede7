/** Leases that are held, and locks that were: what they cost in client and store, and what they take of the memory of both. */
import { atMost } from "../lib/bars.mjs";
import { freshName } from "../lib/contest.mjs";
import { CLIENT_CORE, pin, STORE_CORE } from "../lib/cores.mjs";
import { withRedis } from "../lib/servers.mjs";
import { Team, WORKER } from "../lib/team.mjs";
import { constant, curvePart, greatest, rowsOf, sleep } from "./curve.mjs";

const SIZES = [1000, 10_000, 100_000, 1_000_000];
/** So that neither side is overrun, and enough renewals fall into the time that is watched. */
const TTL_MS = { 1000: 10_000, 10_000: 10_000, 100_000: 30_000, 1_000_000: 120_000 };
const WATCH_S = { 1000: 20, 10_000: 20, 100_000: 20, 1_000_000: 42 };
const SETTLE_MS = 3000;
const LIMIT_MS = 600_000;
/** A million leases need more than the heap that Node allows itself. */
const LARGE = [process.execPath, "--max-old-space-size=8192", WORKER, "scale", "redis"];

export async function held(context) {
  const rows = await rowsOf(context, "held leases", SIZES, (size) =>
    withRedis(({ server, port, store }) => one(server, port, store, size)),
  );
  const parts = [
    curvePart({
      id: "held",
      title: "leases held in one process, over Redis",
      columns: [
        "ttlSeconds",
        "renewClientUs",
        "renewStoreUs",
        "renewBytes",
        "blockedMs",
        "clientBytes",
        "storeBytes",
        "lost",
      ],
      costs: ["renewClientUs", "renewStoreUs", "renewBytes", "clientBytes", "storeBytes"],
      rows,
    }),
    curvePart({
      id: "idle",
      title: "the same locks after their release",
      columns: ["idleClientBytes", "idleStoreBytes", "idleMinutes", "cycleClientUs", "cycleStoreUs"],
      costs: ["idleStoreBytes"],
      rows,
    }),
  ];
  const bars = [
    constant("scale-held-client", "held: client CPU per renewal", rows, "renewClientUs"),
    constant("scale-held-store", "held: store CPU per renewal", rows, "renewStoreUs"),
    constant("scale-held-client-bytes", "held: bytes per lease in the client", rows, "clientBytes"),
    atMost("scale-held-bytes", "held: bytes per lock in Redis, at the worst size", greatest(rows, "storeBytes"), 400),
    atMost(
      "scale-idle-bytes",
      "idle: bytes per lock in Redis, at the worst size",
      greatest(rows, "idleStoreBytes"),
      400,
    ),
    atMost(
      "scale-held-lost",
      "held: leases lost",
      rows.reduce((sum, { lost }) => sum + lost, 0),
      0,
    ),
  ];
  return { parts, bars };
}

/** A lock's text is longer than what Redis packs by default. With this setting of the server it is packed, too. */
const PACKED = ["--hash-max-listpack-value", "512"];

export async function packed(context) {
  const size = 10_000;
  context.say(`  packed: ${size.toLocaleString("en")}`);
  const figures = await withRedis(({ server, port, store }) => one(server, port, store, size), { args: PACKED });
  const rows = [{ name: size.toLocaleString("en"), size, own: true, limit: false, node: true, ran: true, ...figures }];
  return {
    parts: [
      {
        id: "packed",
        title: "the same where Redis has hash-max-listpack-value 512",
        columns: ["renewStoreUs", "cycleStoreUs", "storeBytes", "idleStoreBytes", "lost"],
        rows,
      },
    ],
    bars: [atMost("scale-packed-bytes", "packed: bytes per held lock in Redis", figures.storeBytes, 400)],
  };
}

async function one(server, port, store, size) {
  const ttlMs = TTL_MS[size];
  const seconds = WATCH_S[size];
  const team = await Team.start({ command: LARGE }, 1, { port });
  pin(server.pid, STORE_CORE);
  for (const pid of team.pids) pin(pid, CLIENT_CORE);
  const ask = async (step, order = {}) => (await team.order({ do: "step", step, ...order }, undefined, LIMIT_MS))[0];
  try {
    // Compiled and connected before anything is counted.
    await ask("cycles", { name: freshName("warm"), loops: 64, seconds: 2 });
    await store.command("FLUSHALL");
    const rest = await watched(ask, store, 4);
    const empty = { client: (await ask("heap")).heapBytes, store: (await store.read()).memoryBytes };
    const name = freshName("held");
    const before = await used(ask, store);
    await ask("hold", { name, count: size, ttlMs });
    const after = await used(ask, store);
    await sleep(SETTLE_MS);
    const full = { client: (await ask("heap")).heapBytes, store: (await store.read()).memoryBytes };
    const spent = await watched(ask, store, seconds);
    const beforeDrop = await used(ask, store);
    const { lost, reasons } = await ask("drop");
    const afterDrop = await used(ask, store);
    const idle = { client: (await ask("heap")).heapBytes, store: (await store.read()).memoryBytes };
    const renewal = (figure) => (spent[figure] - rest[figure] * (seconds / 4)) / spent.renewed;
    const cycle = (figure) => (after[figure] - before[figure] + afterDrop[figure] - beforeDrop[figure]) / size;
    return {
      ttlSeconds: ttlMs / 1000,
      renewClientUs: renewal("client"),
      renewStoreUs: renewal("store"),
      renewBytes: renewal("netBytes"),
      blockedMs: spent.blockedMs,
      clientBytes: (full.client - empty.client) / size,
      storeBytes: (full.store - empty.store) / size,
      lost,
      reasons,
      idleClientBytes: Math.max(0, idle.client - empty.client) / size,
      idleStoreBytes: (idle.store - empty.store) / size,
      idleMinutes: (await idleMs(store)) / 60_000,
      cycleClientUs: cycle("client"),
      cycleStoreUs: cycle("store"),
    };
  } finally {
    await team.stop();
  }
}

async function used(ask, store) {
  const { cpuUs } = await store.read();
  return { client: (await ask("usage")).cpuUs, store: cpuUs };
}

async function watched(ask, store, seconds) {
  const before = await store.read();
  const { cpuUs, renewed, blockedMs } = await ask("watch", { seconds });
  const after = await store.read();
  return {
    client: cpuUs,
    store: after.cpuUs - before.cpuUs,
    netBytes: after.netBytes - before.netBytes,
    renewed,
    blockedMs,
  };
}

/** When the store forgets a lock that no process uses: of one of them, from now on. */
async function idleMs(store) {
  const key = await store.command("RANDOMKEY");
  return Number(await store.command("PTTL", key));
}
