/** Waiters on one lock, in two processes: what it costs to join, to stay in the queue, and to be handed the lock. */
import { atMost } from "../lib/bars.mjs";
import { freshName, sectionsSlice, total } from "../lib/contest.mjs";
import { built } from "../lib/holdfast.mjs";
import { withRedis } from "../lib/servers.mjs";
import { Team } from "../lib/team.mjs";
import { constant, curvePart, greatest, rowsOf, sleep, until } from "./curve.mjs";

const SIZES = [10, 100, 1000, 10_000, 100_000];
const PROCESSES = 2;
const WATCH_S = 12;
const LIMIT_MS = 300_000;

export async function waiters(context) {
  const rows = await rowsOf(context, "waiters on one lock", SIZES, (size) =>
    withRedis(({ port, store }) => one(port, store, size, context)),
  );
  // Below that, what two processes do by themselves is more than what their waiters do.
  const joined = rows.filter(({ size }) => size >= 100);
  const many = rows.filter(({ size }) => size >= 1000);
  const parts = [
    curvePart({
      id: "waiters",
      title: `waiters in ${PROCESSES} processes, each with a claim of its own in the store's queue`,
      columns: [
        "joinClientUs",
        "joinStoreUs",
        "beatClientUs",
        "beatStoreUs",
        "waiterClientBytes",
        "waiterStoreBytes",
        "handOverMs",
        "handOverStoreUs",
        "handOverCommands",
        "violations",
      ],
      costs: [
        "joinClientUs",
        "joinStoreUs",
        "beatClientUs",
        "beatStoreUs",
        "waiterStoreBytes",
        "handOverStoreUs",
        "handOverCommands",
      ],
      rows,
    }),
  ];
  const bars = [
    constant("scale-wait-join", "waiters: store CPU to join, from 100 on", joined, "joinStoreUs"),
    constant("scale-wait-beat", "waiters: store CPU per waiter-second, from 1,000 on", many, "beatStoreUs"),
    constant("scale-wait-beat-client", "waiters: client CPU per waiter-second, from 1,000 on", many, "beatClientUs"),
    constant("scale-wait-hand-over", "waiters: store CPU per hand-over", rows, "handOverStoreUs"),
    atMost("scale-wait-commands", "waiters: commands per hand-over", greatest(rows, "handOverCommands"), 3),
    atMost("scale-wait-violations", "waiters: sections that overlapped", greatest(rows, "violations"), 0),
  ];
  return { parts, bars };
}

async function one(port, store, size, context) {
  const team = await Team.start({ family: "scale", name: "redis" }, PROCESSES, { port });
  const { namesOf } = await built("backends/redis/keys.js");
  const order = (what) => team.order(what, undefined, LIMIT_MS);
  try {
    // A small herd first, so that what it runs is compiled.
    await herdOf(team, freshName("warm"), 50, () => sleep(1000));
    const rest = await watched(order, store);
    const heaps = async () => total(await order({ do: "step", step: "heap" }), "heapBytes");
    const empty = { client: await heaps(), store: (await store.read()).memoryBytes };
    const name = freshName("queue");
    const key = namesOf("holdfast", false).lock(name);
    await team.orderOne(0, { do: "take", name });
    const before = await used(order, store);
    await order({ do: "gather", name, waiters: size / PROCESSES });
    // Each waiter has two fields: its record, and its place.
    await until(`${size} waiters in the queue`, async () => Number(await store.command("HLEN", key)) >= 2 * size, {
      everyMs: size > 1000 ? 100 : 5,
    });
    const after = await used(order, store);
    await sleep(1000);
    const full = { client: await heaps(), store: (await store.read()).memoryBytes };
    const stayed = await watched(order, store);
    await team.orderOne(0, { do: "letGo" });
    await sleep(500);
    const seconds = Math.max(2, context.seconds * 2);
    const sections = await sectionsSlice(team, { seconds, loops: size / PROCESSES, anyone: true, name }, store, {
      verb: "herd",
    });
    await order({ do: "scatter" });
    // What the waiters' signs of life took meanwhile: they go by time and not by hand-over.
    const byTime = (spent) => (spent / WATCH_S) * (seconds / sections.cycles);
    const each = (figure) => (stayed[figure] - rest[figure]) / size / WATCH_S;
    return {
      joinClientUs: (after.client - before.client) / size,
      joinStoreUs: (after.store - before.store) / size,
      beatClientUs: each("client"),
      beatStoreUs: each("store"),
      waiterClientBytes: (full.client - empty.client) / size,
      waiterStoreBytes: (full.store - empty.store) / size,
      handOverMs: sections.handOverMs,
      handOverStoreUs: sections.storeCpuUs - byTime(stayed.store),
      handOverCommands: sections.storeCommands - byTime(stayed.commands),
      handOverClientUs: sections.clientCpuUs,
      perSecond: sections.perSecond,
      violations: sections.violations,
    };
  } finally {
    await team.stop();
  }
}

async function herdOf(team, name, waitersEach, during) {
  await team.order({ do: "gather", name, waiters: waitersEach });
  await during();
  await team.order({ do: "scatter" });
}

async function used(order, store) {
  const { cpuUs } = await store.read();
  return { client: total(await order({ do: "step", step: "usage" }), "cpuUs"), store: cpuUs };
}

async function watched(order, store) {
  const before = await store.read();
  const answers = await order({ do: "step", step: "watch", seconds: WATCH_S });
  const { cpuUs, commands } = await store.since(before);
  return { client: total(answers, "cpuUs"), store: cpuUs, commands };
}
