/** Five independent members: acquire and release with none, one or two of them killed or hung; and one hot lock over all. */
import { contestants } from "../contestants/quorum.mjs";
import { atLeast, atMost, find, peersOf, ratio } from "../lib/bars.mjs";
import { contest, cyclesSlice, entrants, medians, sectionsSlice } from "../lib/contest.mjs";
import { endQuarantine, withMembers } from "../lib/servers.mjs";
import { COLUMNS as HOT_COLUMNS } from "./hot.mjs";

const COLUMNS = ["tookMs", "perSecond", "clientCpuUs"];
/** Each: what is done to how many of the five. Clients are connected before, as they are in real life. */
const TROUBLES = [
  { id: "healthy", title: "all five up", count: 0, hurt: () => {}, heal: () => {} },
  { id: "1-hung", title: "one hung", count: 1, hurt: (server) => server.pause(), heal: (server) => server.resume() },
  { id: "2-hung", title: "two hung", count: 2, hurt: (server) => server.pause(), heal: (server) => server.resume() },
  { id: "1-killed", title: "one killed", count: 1, hurt: (server) => server.kill(), heal: revive },
  { id: "2-killed", title: "two killed", count: 2, hurt: (server) => server.kill(), heal: revive },
];

export const quorum = {
  name: "quorum",
  title: "Quorum: five members, one loop, default client settings",
  async run(context) {
    const parts = [];
    let hot;
    await withMembers(async (servers) => {
      const env = { ports: servers.map(({ port }) => port) };
      const all = entrants("quorum", contestants).filter(context.wanted);
      for (const trouble of TROUBLES) parts.push(await troubled(context, servers, env, all, trouble));
      const rows = await contest({
        context,
        part: "quorum, hot",
        entrants: all,
        processes: 4,
        env,
        slice: (team) => sectionsSlice(team, { loops: 2, seconds: context.seconds * 2 }),
        sum: medians,
      });
      hot = { id: "hot", title: "one hot lock, 4 processes × 2 loops", columns: HOT_COLUMNS.slice(0, 6), rows };
    });
    return { parts: [...parts, hot], bars: [...barsOf(parts), ...barsOfHot(hot.rows)] };
  },
};

async function troubled(context, servers, env, all, { id, title, count, hurt, heal }) {
  const victims = servers.slice(0, count);
  let hurting;
  const rows = await contest({
    context,
    part: `quorum, ${title}`,
    entrants: all,
    env,
    slice: async (team) => {
      // When all have started and before the first slice: the warm-up round has the fault too.
      hurting ??= Promise.all(victims.map((server) => hurt(server)));
      await hurting;
      const figures = await cyclesSlice(team, { loops: 1, seconds: context.seconds, times: true });
      if (figures.cycles === 0) throw new Error(`no cycle in ${context.seconds + 5} s`);
      return figures;
    },
    sum: medians,
  });
  await Promise.all(victims.map((server) => heal(server)));
  return { id, title, columns: COLUMNS, rows };
}

async function revive(server) {
  await server.restart();
  await endQuarantine(server);
}

function barsOf([healthy, ...troubles]) {
  const before = find(healthy.rows, "holdfast");
  return troubles.flatMap(({ id, title, rows }) => {
    const own = find(rows, "holdfast");
    const least = (figure) => Math.min(...peersOf(rows).map((row) => row.tookMs[figure]));
    return ["p50", "p99"].flatMap((figure) => [
      atMost(
        `quorum-${id}-${figure}`,
        `${title}: ${figure} against all healthy`,
        ratio(own?.tookMs[figure], before?.tookMs[figure]),
        1.5,
      ),
      atMost(
        `quorum-${id}-${figure}-peers`,
        `${title}: ${figure} against the best peer`,
        ratio(own?.tookMs[figure], least(figure)),
        1,
      ),
    ]);
  });
}

function barsOfHot(rows) {
  const own = find(rows, "holdfast");
  return [
    atLeast("quorum-hot", "hot lock over five members: sections/s", own?.perSecond, 900),
    atMost("quorum-hot-violations", "sections that overlapped", own?.violations, 0),
  ];
}
