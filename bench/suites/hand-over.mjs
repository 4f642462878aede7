/** Two processes, one loop each, one lock: how long it takes from leaving to the other one's entry. */
import { contestants } from "../contestants/redis.mjs";
import { redisson } from "../redisson/driver.mjs";
import { atLeast, atMost, best, find, peersOf, ratio } from "../lib/bars.mjs";
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
        sum: medians,
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

/** Hand-overs of a slice, and not the p50 of a peer's few: who asks at the right moment by luck has a short one. */
function barsOf(rows) {
  const own = find(rows, "holdfast");
  const prompt = best(peersOf(rows), (row) => row.handOverMs.p99, -1);
  const busiest = best(peersOf(rows), (row) => row.handOvers);
  return [
    atMost(
      "hand-over-raw",
      "p50 against a raw release script and push",
      ratio(own?.handOverMs.p50, find(rows, "raw script + push")?.handOverMs.p50),
      1.3,
    ),
    atMost(
      "hand-over-p99",
      "p99 against the best peer",
      ratio(own?.handOverMs.p99, prompt?.handOverMs.p99),
      1,
      prompt?.name,
    ),
    atLeast(
      "hand-over-count",
      "hand-overs per second against the best peer",
      ratio(own?.handOvers, busiest?.handOvers),
      3,
      busiest?.name,
    ),
    atMost("hand-over-violations", "sections that overlapped", own?.violations, 0),
  ];
}
