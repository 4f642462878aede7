/** No store at all: what the library itself costs. Needs no server and no peers; the harness's own test runs it. */
import { contestants } from "../contestants/memory.mjs";
import { atLeast, atMost, find } from "../lib/bars.mjs";
import { contest, cyclesSlice, entrants, medians, sectionsSlice } from "../lib/contest.mjs";
import { COLUMNS as HOT_COLUMNS } from "./hot.mjs";

export const memory = {
  name: "memory",
  title: "Memory: the library without a store",
  async run(context) {
    const shared = { context, entrants: entrants("memory", contestants).filter(context.wanted), env: {} };
    const alone = await contest({
      ...shared,
      part: "memory, uncontended",
      slice: (team) => cyclesSlice(team, { loops: 1, seconds: context.seconds }),
      sum: medians,
    });
    const hot = await contest({
      ...shared,
      part: "memory, hot",
      slice: (team) => sectionsSlice(team, { loops: 32, seconds: context.seconds }),
      sum: medians,
    });
    const parts = [
      { id: "1-loop", title: "uncontended, 1 loop", columns: ["perSecond", "clientCpuUs"], rows: alone },
      { id: "1x32", title: "one hot lock, 32 loops", columns: HOT_COLUMNS.slice(0, 6), rows: hot },
    ];
    const own = find(hot, "holdfast");
    const bars = [
      atMost("memory-violations", "sections that overlapped", own?.violations, 0),
      atLeast("memory-jain", "Jain's index over 32 loops", own?.jain, 0.99),
    ];
    return { parts, bars };
  },
};
