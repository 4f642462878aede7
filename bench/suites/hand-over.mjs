/** Two processes, one loop each, one lock: how long it takes from leaving to the other one's entry. */
import { contestants } from "../contestants/redis.mjs";
import { redisson } from "../redisson/driver.mjs";
import { atMost, best, find, peersOf, ratio } from "../lib/bars.mjs";
import { contest, entrants, medians, sectionsSlice } from "../lib/contest.mjs";
import { withRedis } from "../lib/servers.mjs";

const COLUMNS = [
  "handOverMs",
  "handOvers",
  "perSecond",
  "jain",
  "violations",
  "clientCpuUs",
  "storeCpuUs",
  "storeCommands",
];

export const handOver = {
  name: "hand-over",
  title: "Hand-over between two processes, one loop each",
  async run(context) {
    return await withRedis(async ({ port, store }) => {
      const waits = ({ limit, handOverOnly }) => limit !== true || handOverOnly === true;
      const all = [...entrants("redis", contestants, waits), ...(await redisson(context))].filter(context.wanted);
      const rows = await contest({
        context,
        part: "hand-over",
        entrants: all,
        processes: 2,
        env: { port },
        slice: (team, { sends }) => sectionsSlice(team, { loops: 1, seconds: context.seconds * 2 }, store, { sends }),
        sum: (slices) => medians(slices, (slice) => slice.handOverMs.p50),
      });
      return {
        parts: [
          { id: "2x1", title: "2 processes × 1 loop; from release to the other's entry", columns: COLUMNS, rows },
        ],
        bars: barsOf(rows),
      };
    });
  },
};

function barsOf(rows) {
  const own = find(rows, "holdfast")?.handOverMs.p50;
  const peer = best(peersOf(rows), (row) => row.handOverMs.p50, -1);
  return [
    atMost(
      "hand-over-raw",
      "p50 against a raw release script and push",
      ratio(own, find(rows, "raw script + push")?.handOverMs.p50),
      1.3,
    ),
    atMost("hand-over-peers", "p50 against the best peer", ratio(own, peer?.handOverMs.p50), 1 / 3, peer?.name),
    atMost("hand-over-violations", "sections that overlapped", find(rows, "holdfast")?.violations, 0),
  ];
}
