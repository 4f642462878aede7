/** What listening costs: nothing where none listens, and how much for each kind of telemetry, without a store and over Redis. */
import { contestants as switched } from "../contestants/switched.mjs";
import { contestants } from "../contestants/telemetry.mjs";
import { atMost, find, ratio } from "../lib/bars.mjs";
import { contest, cyclesSlice, entrants, medians, sectionsSlice, switchedSlice } from "../lib/contest.mjs";
import { CLIENT_CORE, pin, STORE_CORE } from "../lib/cores.mjs";
import { withRedis } from "../lib/servers.mjs";

/**
 * By turns in one process: how much more each may cost than without it, or than the same made by hand. Of the spans of all traces, those
 * that leave a traceparent for who waits are the same. docs/decisions/20-telemetry-cost.md says why.
 */
const BARS = {
  contention: 1.1,
  prometheus: 1.1,
  log: 1.1,
  "otel producer": 1.1,
  "spans, none sampled": 1.1,
  "spans against by hand, 1 of 10": 1.1,
  "spans against by hand with links, all": 1.1,
};
/** The same program twice, and one that has stopped listening: what they differ by is what cannot be measured. */
const SAME = ["off again", "ended"];
const HOT = ["off", "contention", "prometheus", "otel producer", "otel metrics", "all on"];

export const telemetry = {
  name: "telemetry",
  title: "Telemetry: what listening costs",
  async run(context) {
    const all = entrants("telemetry", contestants, (_, name) => name !== "all on").filter(context.wanted);
    const hot = entrants("telemetry", contestants, (_, name) => HOT.includes(name)).filter(context.wanted);
    const part = (title, env, store, { loops, finer } = { loops: 1, finer: 1 }) =>
      contest({
        context,
        part: title,
        entrants: all,
        env,
        core: CLIENT_CORE,
        rounds: context.rounds * finer,
        slice: (team, { sends }, round) =>
          cyclesSlice(team, { loops, seconds: (context.seconds / finer) * (round < 0 ? 4 * finer : 1) }, store, sends),
        sum: medians,
      });
    const parts = [];
    const bars = [];
    if (context.wantedPart("memory")) {
      const rows = await part("telemetry, memory", {}, undefined);
      const columns = ["perSecond", "clientCpuUs"];
      parts.push({ id: "memory", title: "memory: acquire and release a free lock", columns, rows });
    }
    await withRedis(async ({ server, port, store }) => {
      pin(server.pid, STORE_CORE);
      if (context.wantedPart("redis")) {
        // Many short slices: a round trip's cost depends on what else the machine does, much more than a listener costs.
        const rows = await part("telemetry, Redis", { port }, store, { loops: 1, finer: 5 });
        parts.push({ id: "redis", title: "Redis: acquire and release a free lock", columns: COLUMNS, rows });
        bars.push(...SAME.map((name) => offBar(rows, name)));
      }
      if (context.wantedPart("turns")) {
        const rows = await contest({
          context,
          part: "telemetry, by turns",
          entrants: entrants("switched", switched).filter(context.wanted),
          env: { port },
          core: CLIENT_CORE,
          // Long ones: at each change Node gives its channels another prototype, and what was compiled for them is compiled anew.
          slice: (team) => switchedSlice(team, { sliceMs: context.seconds * 250, seconds: context.seconds * 4 }),
          sum: medians,
        });
        const columns = ["offUs", "onUs", "ratio"];
        parts.push({ id: "turns", title: "Redis: off and on by turns, in one process each", columns, rows });
        bars.push(...turnsBars(rows));
      }
      if (context.wantedPart("redis-32")) {
        const rows = await part("telemetry, Redis, 32 loops", { port }, store, { loops: 32, finer: 5 });
        parts.push({ id: "redis-32", title: "Redis: 32 loops, each with a lock of its own", columns: COLUMNS, rows });
      }
      if (!context.wantedPart("hot")) return;
      const rows = await contest({
        context,
        part: "telemetry, hot",
        entrants: hot,
        env: { port },
        slice: (team, { sends }) => sectionsSlice(team, { loops: 32, seconds: context.seconds * 2 }, store, { sends }),
        sum: medians,
      });
      parts.push({ id: "hot", title: "Redis: one hot lock, 32 loops in one process", columns: HOT_COLUMNS, rows });
      bars.push(...hotBars(rows));
    });
    return { parts, bars };
  },
};

const COLUMNS = ["perSecond", "clientCpuUs", "storeCommands"];
const HOT_COLUMNS = ["perSecond", "waitMs", "jain", "starved", "violations", "clientCpuUs", "storeCommands"];

function offBar(rows, name) {
  const [cost, off] = [name, "off"].map((one) => find(rows, one)?.clientCpuUs);
  const id = name.replaceAll(" ", "-");
  return atMost(`telemetry-redis-${id}`, `redis: CPU per cycle, ${name}, against off`, ratio(cost, off), 1.05);
}

function turnsBars(rows) {
  return Object.entries(BARS).map(([name, limit]) =>
    atMost(
      `telemetry-${name.replaceAll(/\W+/g, "-")}`,
      `Redis, by turns: CPU per cycle, ${name}`,
      find(rows, name)?.ratio,
      limit,
    ),
  );
}

function hotBars(rows) {
  const commands = (name) => find(rows, name)?.storeCommands;
  return HOT.slice(1).flatMap((name) => [
    // A section that is handed on in memory asks the store for nothing: about one in a hundred does.
    atMost(
      `telemetry-hot-${name.replaceAll(/\W+/g, "-")}`,
      `hot: store commands per section, ${name}`,
      commands(name),
      0.5,
    ),
    atMost(
      `telemetry-hot-${name.replaceAll(/\W+/g, "-")}-violations`,
      `hot: sections that overlapped, ${name}`,
      find(rows, name)?.violations,
      0,
    ),
  ]);
}
