/** What listening costs: nothing where none listens, and how much for each kind of telemetry, without a store and over Redis. */
import { contestants } from "../contestants/telemetry.mjs";
import { atMost, find, ratio } from "../lib/bars.mjs";
import { contest, cyclesSlice, entrants, medians, sectionsSlice } from "../lib/contest.mjs";
import { CLIENT_CORE, pin, STORE_CORE } from "../lib/cores.mjs";
import { withRedis } from "../lib/servers.mjs";

/** Each, and what it is compared with. */
const AGAINST = {
  "off again": "off",
  ended: "off",
  contention: "off",
  prometheus: "off",
  log: "off",
  "otel producer": "off",
  "otel metrics": "off",
  "with spans, 1 of 10": "a traced program, 1 of 10",
  "with spans, all": "a traced program, all",
};
/** What the same figures and spans cost a program that makes them itself, and ours against that. */
const BY_HAND = {
  "otel metrics": "otel metrics by hand",
  "with spans, 1 of 10": "spans by hand, 1 of 10",
  "with spans, all": "spans by hand, all",
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
    const memory = await part("telemetry, memory", {}, undefined);
    const parts = [
      {
        id: "memory",
        title: "memory: acquire and release a free lock",
        columns: ["perSecond", "clientCpuUs"],
        rows: memory,
      },
    ];
    const bars = barsOf(memory, "memory");
    await withRedis(async ({ server, port, store }) => {
      pin(server.pid, STORE_CORE);
      // Many short slices: a round trip's cost depends on what else the machine does, much more than a listener costs.
      const one = await part("telemetry, Redis", { port }, store, { loops: 1, finer: 5 });
      parts.push({ id: "redis", title: "Redis: acquire and release a free lock", columns: COLUMNS, rows: one });
      bars.push(...barsOf(one, "redis"));
      const many = await part("telemetry, Redis, 32 loops", { port }, store, { loops: 32, finer: 5 });
      parts.push({
        id: "redis-32",
        title: "Redis: 32 loops, each with a lock of its own",
        columns: COLUMNS,
        rows: many,
      });
      bars.push(...barsOf(many, "redis-32"));
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

function barsOf(rows, store) {
  // "Nothing measurable" is what two runs of the same program differ by.
  const bar = (name, other, id) =>
    atMost(
      `telemetry-${store}-${id.replaceAll(/\W+/g, "-")}`,
      `${store}: CPU per cycle, ${name}, against ${other}`,
      ratio(find(rows, name)?.clientCpuUs, find(rows, other)?.clientCpuUs),
      SAME.includes(name) ? 1.05 : 1.1,
    );
  return [
    ...Object.entries(AGAINST).map(([name, other]) => bar(name, other, name)),
    ...Object.entries(BY_HAND).map(([name, other]) => bar(name, other, other)),
  ];
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
