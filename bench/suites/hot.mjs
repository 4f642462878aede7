/** One lock that all want all the time: 32 loops in one process, and 8 loops in each of 4 processes. */
import { contestants } from "../contestants/redis.mjs";
import { redisson } from "../redisson/driver.mjs";
import { atLeast, atMost, best, find, peersOf, ratio } from "../lib/bars.mjs";
import { contest, entrants, medians, sectionsSlice } from "../lib/contest.mjs";
import { withRedis } from "../lib/servers.mjs";

export const COLUMNS = [
  "perSecond",
  "waitMs",
  "jain",
  "starved",
  "violations",
  "clientCpuUs",
  "storeCpuUs",
  "storeCommands",
];

export const hotOneProcess = {
  name: "hot-one-process",
  title: "One hot lock, one process with 32 loops",
  run: (context) => hot(context, 1, 32, barsOfOne),
};

export const hotProcesses = {
  name: "hot-processes",
  title: "One hot lock, four processes with 8 loops each",
  run: (context) => hot(context, 4, 8, barsOfFour),
};

async function hot(context, processes, loops, barsOf) {
  return await withRedis(async ({ port, store }) => {
    const all = [...entrants("redis", contestants, ({ limit }) => limit !== true), ...(await redisson(context))].filter(
      context.wanted,
    );
    const rows = await contest({
      context,
      part: processes === 1 ? "hot-one-process" : "hot-processes",
      entrants: all,
      processes,
      env: { port },
      slice: (team, { sends }) => sectionsSlice(team, { loops, seconds: context.seconds * 2 }, store, { sends }),
      sum: medians,
    });
    const title = `${processes} process${processes === 1 ? "" : "es"} × ${loops} loops, section: one turn of the event loop`;
    return { parts: [{ id: `${processes}x${loops}`, title, columns: COLUMNS, rows }], bars: barsOf(rows) };
  });
}

function barsOfOne(rows) {
  const own = find(rows, "holdfast");
  const fastest = best(peersOf(rows), (row) => row.perSecond);
  const patient = best(peersOf(rows), (row) => row.waitMs.max, -1);
  return [
    atLeast(
      "hot-1-speed",
      "sections/s against the best peer",
      ratio(own?.perSecond, fastest?.perSecond),
      10,
      fastest?.name,
    ),
    atLeast("hot-1-jain", "Jain's index over 32 loops", own?.jain, 0.99),
    atMost("hot-1-starved", "loops that got nothing", own?.starved, 0),
    atMost(
      "hot-1-wait",
      "longest wait against the best peer's",
      ratio(own?.waitMs.max, patient?.waitMs.max),
      1 / 20,
      patient?.name,
    ),
    atMost("hot-1-violations", "sections that overlapped", own?.violations, 0),
  ];
}

function barsOfFour(rows) {
  const own = find(rows, "holdfast");
  const fastest = best(peersOf(rows), (row) => row.perSecond);
  const fair = best(
    peersOf(rows).filter((row) => row.starved === 0),
    (row) => row.perSecond,
  );
  const cheapest = best(peersOf(rows), (row) => row.clientCpuUs, -1);
  return [
    atLeast(
      "hot-4-speed",
      "sections/s against the best peer",
      ratio(own?.perSecond, fastest?.perSecond),
      5,
      fastest?.name,
    ),
    atLeast(
      "hot-4-fair",
      "sections/s against the best peer that starves none",
      ratio(own?.perSecond, fair?.perSecond),
      8,
      fair?.name,
    ),
    atMost("hot-4-commands", "store commands per section", own?.storeCommands, 0.5),
    atMost(
      "hot-4-cpu",
      "client CPU per section against the cheapest peer",
      ratio(own?.clientCpuUs, cheapest?.clientCpuUs),
      1 / 8,
      cheapest?.name,
    ),
    atLeast("hot-4-jain", "Jain's index over 32 loops", own?.jain, 0.95),
    atMost("hot-4-violations", "sections that overlapped", own?.violations, 0),
  ];
}
