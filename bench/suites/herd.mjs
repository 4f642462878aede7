/**
 * Many waiters on one lock, in two processes: does a hand-over cost more when more wait? For Holdfast every waiter has a claim
 * of its own in the store's queue; peers poll, so that theirs are loops, and only up to 1,000.
 */
import { contestants } from "../contestants/redis.mjs";
import { atMost, find, ratio } from "../lib/bars.mjs";
import { contest, entrants, freshName, medians, sectionsSlice } from "../lib/contest.mjs";
import { withRedis } from "../lib/servers.mjs";

const COLUMNS = ["handOverMs", "perSecond", "storeCommands", "storeCalls", "storeCpuUs", "clientCpuUs", "violations"];
const PROCESSES = 2;
const SIZES = [10, 100, 1000, 10_000];
const PEERS = ["redlock 5 beta", "redis-semaphore", "@verrou/core"];

export const herd = {
  name: "herd",
  title: "Herd: 10 to 10,000 waiters on one lock",
  async run(context) {
    const parts = [];
    await withRedis(async ({ port, store }) => {
      for (const size of SIZES) {
        const all = entrants(
          "redis",
          contestants,
          ({ own }, name) => own === true || (size <= 1000 && PEERS.includes(name)),
        );
        const each = size / PROCESSES;
        // The claim that is queued first is in the store before the clock starts; ten thousand take a few seconds.
        const order = { seconds: context.seconds * 2, loops: each, anyone: true };
        const rows = await contest({
          context,
          part: `herd of ${size}`,
          entrants: all.filter(context.wanted),
          processes: PROCESSES,
          env: { port },
          slice: (team, { own, sends }) =>
            own === true ? herdSlice(team, order, store) : sectionsSlice(team, order, store, { sends }),
          sum: medians,
        });
        parts.push({
          id: String(size),
          size,
          title: `${size.toLocaleString("en")} waiters in ${PROCESSES} processes`,
          columns: COLUMNS,
          rows,
        });
      }
    });
    return { parts, bars: barsOf(parts) };
  },
};

/** The waiters are in the store's queue before the clock starts: ten thousand need a few seconds for that. */
async function herdSlice(team, order, store) {
  const name = freshName("herd");
  // One claim holds the lock until all have queued: so no claim is granted while others still come.
  await team.orderOne(0, { do: "take", name });
  await team.order({ do: "gather", name, waiters: order.loops });
  try {
    await queued(store, team.size * order.loops);
    await team.orderOne(0, { do: "letGo" });
    await new Promise((resolve) => setTimeout(resolve, 100));
    return await sectionsSlice(team, { ...order, name }, store, { verb: "herd" });
  } finally {
    await team.order({ do: "scatter" });
  }
}

/** Until the store has little to do any more: a claim that is queued only sends signs of life, in few calls. */
async function queued(store, count) {
  for (let waitedMs = 0; waitedMs < 60_000; waitedMs += 300) {
    const before = await store.read();
    await new Promise((resolve) => setTimeout(resolve, 300));
    const { commands } = await store.since(before);
    if (commands <= 20) return;
  }
  throw new Error(`${count} waiters did not come together within a minute`);
}

function barsOf(parts) {
  const [few, , , many] = parts.map(({ rows }) => find(rows, "holdfast"));
  const violations = parts.reduce((sum, { rows }) => sum + (find(rows, "holdfast")?.violations ?? Number.NaN), 0);
  return [
    // A tenth more: signs of life of the waiters are counted in, and they go by time and not by hand-over.
    atMost(
      "herd-commands",
      "store commands per hand-over, 10,000 waiters against 10",
      ratio(many?.storeCommands, few?.storeCommands),
      1.1,
    ),
    atMost("herd-p50", "hand-over p50, 10,000 waiters against 10", ratio(many?.handOverMs.p50, few?.handOverMs.p50), 3),
    atMost("herd-violations", "sections that overlapped", violations, 0),
  ];
}
