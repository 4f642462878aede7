/** One etcd member: uncontended with 1 and 64 loops, one hot lock, and the hand-over between two processes. */
import { contestants } from "../contestants/etcd.mjs";
import { goMutex } from "../etcd-mutex/driver.mjs";
import { atMost, best, find, nodePeersOf, ratio } from "../lib/bars.mjs";
import { contest, cyclesSlice, entrants, medians, sectionsSlice } from "../lib/contest.mjs";
import { processStore, withEtcd } from "../lib/servers.mjs";
import { COLUMNS as HOT_COLUMNS } from "./hot.mjs";

const COLUMNS = ["perSecond", "clientCpuUs", "storeCpuUs"];
const HAND_OVER_COLUMNS = ["handOverMs", "handOvers", "perSecond", "jain", "violations", "clientCpuUs", "storeCpuUs"];
const GO = "concurrency.Mutex (Go)";
const LIMIT = "etcd3, put and delete";

export const etcd = {
  name: "etcd",
  title: "etcd: one member",
  async run(context) {
    const parts = [];
    const bars = [];
    await withEtcd(async ({ endpoints, servers: [server] }) => {
      const store = processStore(server);
      const all = [...entrants("etcd", contestants), ...(await goMutex(context))].filter(context.wanted);
      const run = (part) => contest({ context, env: { endpoints }, ...part });
      for (const loops of [1, 64]) {
        const title = `${loops} loop${loops === 1 ? "" : "s"}`;
        const rows = await run({
          part: `etcd, ${title}`,
          entrants: all,
          slice: (team, _, round) =>
            cyclesSlice(team, { loops, seconds: context.seconds * (round < 0 ? 4 : 1) }, store),
          sum: medians,
        });
        parts.push({ id: `${loops}-loops`, title: `uncontended, ${title}, one connection`, columns: COLUMNS, rows });
        bars.push(cpuBar(rows, loops), limitBar(rows, loops));
      }
      // The locks of the Node client cannot wait.
      const waiting = all.filter(({ own, command }) => own === true || command !== undefined);
      const hot = await run({
        part: "etcd, hot",
        entrants: waiting,
        processes: 2,
        slice: (team) => sectionsSlice(team, { loops: 8, seconds: context.seconds * 2 }, store),
        sum: medians,
      });
      parts.push({
        id: "2x8",
        title: "one hot lock, 2 processes × 8 loops",
        columns: HOT_COLUMNS.slice(0, 7),
        rows: hot,
      });
      const handOver = await run({
        part: "etcd, hand-over",
        entrants: waiting,
        processes: 2,
        slice: (team) => sectionsSlice(team, { loops: 1, seconds: context.seconds * 2 }, store),
        sum: medians,
      });
      parts.push({
        id: "2x1",
        title: "2 processes × 1 loop; from release to the other's entry",
        columns: HAND_OVER_COLUMNS,
        rows: handOver,
      });
      const p50 = (name) => find(handOver, name)?.handOverMs?.p50;
      bars.push(
        atMost("etcd-hand-over", "hand-over: p50 against Go's mutex", ratio(p50("holdfast"), p50(GO)), 1.3, GO),
        atMost("etcd-violations", "sections that overlapped", overlaps(hot) + overlaps(handOver), 0),
      );
    });
    return { parts, bars };
  },
};

function overlaps(rows) {
  return find(rows, "holdfast")?.violations ?? Number.NaN;
}

/** No lock at all, with the same client: what it costs is a limit, and is judged as the peers are. */
function limitBar(rows, loops) {
  return atMost(
    `etcd-${loops}-limit`,
    `${loops} loop(s): client CPU per cycle against the limit`,
    ratio(find(rows, "holdfast")?.clientCpuUs, find(rows, LIMIT)?.clientCpuUs),
    1,
    LIMIT,
  );
}

function cpuBar(rows, loops) {
  const peer = best(nodePeersOf(rows), (row) => row.clientCpuUs, -1);
  const own = find(rows, "holdfast");
  return atMost(
    `etcd-${loops}`,
    `${loops} loop(s): client CPU per cycle against the cheapest Node client`,
    ratio(own?.clientCpuUs, peer?.clientCpuUs),
    1,
    peer?.name,
  );
}
