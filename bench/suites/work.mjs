/** One lock with real work inside, as in an application: 2 ms under the lock, 10 ms between, four processes with two loops each. */
import { contestants } from "../contestants/redis.mjs";
import { redisson } from "../redisson/driver.mjs";
import { atLeast, atMost, best, find, peersOf, ratio } from "../lib/bars.mjs";
import { contest, entrants, medians, sectionsSlice } from "../lib/contest.mjs";
import { withRedis } from "../lib/servers.mjs";
import { COLUMNS } from "./hot.mjs";

const PROCESSES = 4;
const LOOPS = 2;
const INSIDE_MS = 2;
const BETWEEN_MS = 10;

export const work = {
  name: "work",
  title: "One lock with 2 ms of work inside and 10 ms between",
  async run(context) {
    return await withRedis(async ({ port, store }) => {
      // The Java driver knows only empty sections.
      const java = (await redisson(context)).map((one) => ({ ...one, refusal: "its driver has no work inside" }));
      const all = [...entrants("redis", contestants, ({ limit }) => limit !== true), ...java].filter(context.wanted);
      const order = { loops: LOOPS, seconds: context.seconds * 3, insideMs: INSIDE_MS, betweenMs: BETWEEN_MS };
      const rows = await contest({
        context,
        part: "work",
        entrants: all,
        processes: PROCESSES,
        env: { port },
        slice: (team, { sends }) => sectionsSlice(team, order, store, { sends }),
        sum: medians,
      });
      const title = `${PROCESSES} processes × ${LOOPS} loops, ${INSIDE_MS} ms inside, ${BETWEEN_MS} ms between`;
      return { parts: [{ id: "4x2", title, columns: COLUMNS, rows }], bars: barsOf(rows) };
    });
  },
};

function barsOf(rows) {
  const own = find(rows, "holdfast");
  const fastest = best(peersOf(rows), (row) => row.perSecond);
  return [
    atLeast(
      "work-speed",
      "sections/s against the best peer",
      ratio(own?.perSecond, fastest?.perSecond),
      1.4,
      fastest?.name,
    ),
    atLeast("work-used", "part of the time in which the lock is in use", (own?.perSecond * INSIDE_MS) / 1000, 0.9),
    atMost("work-violations", "sections that overlapped", own?.violations, 0),
  ];
}
