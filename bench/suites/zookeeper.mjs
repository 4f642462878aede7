/** One ZooKeeper server: uncontended with 1 and 64 loops, and one hot lock. Throughput is bound by the server. */
import { contestants } from "../contestants/zookeeper.mjs";
import { curator } from "../curator/driver.mjs";
import { atMost, best, find, nodePeersOf, ratio } from "../lib/bars.mjs";
import { contest, cyclesSlice, entrants, medians, sectionsSlice } from "../lib/contest.mjs";
import { processStore, withZooKeeper } from "../lib/servers.mjs";
import { COLUMNS as HOT_COLUMNS } from "./hot.mjs";

const COLUMNS = ["perSecond", "clientCpuUs", "storeCpuUs"];

export const zookeeper = {
  name: "zookeeper",
  title: "ZooKeeper: one server",
  async run(context) {
    const parts = [];
    const bars = [];
    await withZooKeeper(async ({ servers: [server] }) => {
      const store = processStore(server);
      const all = [...entrants("zookeeper", contestants), ...(await curator(context))].filter(context.wanted);
      for (const loops of [1, 64]) {
        const rows = await contest({
          context,
          part: `zookeeper, ${loops} loop${loops === 1 ? "" : "s"}`,
          entrants: all,
          env: { port: server.port },
          slice: (team, _, round) =>
            cyclesSlice(team, { loops, seconds: context.seconds * (round < 0 ? 4 : 1) }, store),
          sum: medians,
        });
        parts.push({
          id: `${loops}-loops`,
          title: `uncontended, ${loops} loop${loops === 1 ? "" : "s"}, one connection`,
          columns: COLUMNS,
          rows,
        });
        bars.push(...barsOf(rows, loops));
      }
      const rows = await contest({
        context,
        part: "zookeeper, hot",
        // The Node clients bring no lock that could wait.
        entrants: all.filter(({ own, command }) => own === true || command !== undefined),
        processes: 2,
        env: { port: server.port },
        slice: (team) => sectionsSlice(team, { loops: 8, seconds: context.seconds * 2 }, store),
        sum: medians,
      });
      parts.push({ id: "2x8", title: "one hot lock, 2 processes × 8 loops", columns: HOT_COLUMNS.slice(0, 7), rows });
      bars.push(atMost("zookeeper-violations", "sections that overlapped", find(rows, "holdfast")?.violations, 0));
    });
    return { parts, bars };
  },
};

function barsOf(rows, loops) {
  const peer = best(nodePeersOf(rows), (row) => row.clientCpuUs, -1);
  const own = find(rows, "holdfast");
  return [
    atMost(
      `zookeeper-${loops}`,
      `${loops} loop(s): client CPU per cycle against the cheapest Node client`,
      ratio(own?.clientCpuUs, peer?.clientCpuUs),
      1,
      peer?.name,
    ),
  ];
}
