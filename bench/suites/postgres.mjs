/** One Postgres that flushes its commits: uncontended, one hot lock over four processes, hand-over, and 5,000 leases kept alive. */
import { contestants } from "../contestants/postgres.mjs";
import { atLeast, atMost, best, find, peersOf, ratio } from "../lib/bars.mjs";
import { contest, cyclesSlice, entrants, freshName, medians, sectionsSlice } from "../lib/contest.mjs";
import { withPostgres } from "../lib/servers.mjs";

const LEASES = 5000;
/** Idle connections report what they did after ten seconds at the latest. */
const SETTLE_MS = 12_000;

export const postgres = {
  name: "postgres",
  title: "Postgres: one server, with fsync",
  async run(context) {
    return await withPostgres(async ({ server, port }) => {
      const all = entrants("postgres", contestants).filter(context.wanted);
      const part = (id, chosen, processes, slice, sum) =>
        contest({
          context,
          part: `postgres, ${id}`,
          entrants: all.filter(chosen),
          processes,
          env: { port },
          slice,
          sum,
        });
      const alone = await part(
        "uncontended",
        ({ handOverOnly, turnsOnly }) => handOverOnly !== true && turnsOnly !== true,
        1,
        (team) => cyclesSlice(team, { loops: 1, seconds: context.seconds, times: true }),
        medians,
      );
      const [byTurns] = await part(
        "by turns",
        ({ turnsOnly }) => turnsOnly === true,
        1,
        (team) => turnsSlice(team, context.seconds * 4),
        medians,
      );
      const hot = await part(
        "hot",
        ({ limit, waits, turnsOnly }) => (limit !== true || waits === true) && turnsOnly !== true,
        4,
        (team) => sectionsSlice(team, { loops: 8, seconds: context.seconds * 2 }),
        medians,
      );
      const turns = await part(
        "hand-over",
        ({ own, handOverOnly, waits }) => own === true || handOverOnly === true || waits === true,
        2,
        (team) => sectionsSlice(team, { loops: 1, seconds: context.seconds * 2 }),
        medians,
      );
      const held = await part(
        "held",
        ({ own }) => own === true,
        1,
        (team) => heldSlice(team, server, context.seconds * 10),
        medians,
      );
      return {
        parts: [
          {
            id: "uncontended",
            title: "uncontended, 1 loop",
            columns: ["perSecond", "tookMs", "clientCpuUs"],
            rows: alone,
          },
          {
            id: "by-turns",
            title: "the same by turns, in one process",
            columns: ["tookMs"],
            rows: ["raw statements", "holdfast"].map((name) => ({
              ...byTurns,
              name,
              own: name === "holdfast",
              limit: name !== "holdfast",
              tookMs: byTurns?.[name],
            })),
          },
          {
            id: "4x8",
            title: "one hot lock, 4 processes × 8 loops",
            columns: ["perSecond", "waitMs", "jain", "starved", "violations"],
            rows: hot,
          },
          {
            id: "2x1",
            title: "2 processes × 1 loop; from release to the other's entry",
            columns: ["handOverMs", "handOvers", "violations"],
            rows: turns,
          },
          {
            id: "held",
            title: "5,000 leases, ttl 30 s, kept alive",
            columns: ["commandsPerSecond", "lost"],
            rows: held,
          },
        ],
        bars: barsOf(byTurns, hot, turns, held),
      };
    });
  },
};

async function heldSlice(team, server, seconds) {
  await team.order({ do: "hold", count: LEASES, ttlMs: 30_000, name: freshName("held") });
  await new Promise((resolve) => setTimeout(resolve, SETTLE_MS));
  const before = await commits(server);
  await team.order({ do: "watch", seconds });
  // One is the question itself.
  const commandsPerSecond = Math.max(0, (await commits(server)) - before - 1) / seconds;
  const [{ lost }] = await team.order({ do: "drop" });
  return { commandsPerSecond, lost };
}

async function commits(server) {
  await server.sql("select pg_stat_clear_snapshot()");
  return Number(await server.sql("select xact_commit from pg_stat_database where datname = 'postgres'"));
}

async function turnsSlice(team, seconds) {
  const [{ took }] = await team.order({ do: "turns", seconds, name: freshName("turns") });
  return took;
}

function barsOf(byTurns, hot, turns, held) {
  const peer = best(peersOf(hot), (row) => row.perSecond, 1);
  const handOver = find(turns, "holdfast")?.handOverMs.p50;
  return [
    atMost(
      "postgres-uncontended",
      "time per cycle against the raw statements, by turns",
      ratio(byTurns?.holdfast?.p50, byTurns?.["raw statements"]?.p50),
      1.3,
    ),
    atLeast(
      "postgres-hot",
      "sections per second against the best peer",
      ratio(find(hot, "holdfast")?.perSecond, peer?.perSecond),
      10,
      peer?.name,
    ),
    atMost(
      "postgres-hand-over",
      "p50 against a NOTIFY that is as durable",
      ratio(handOver, find(turns, "raw NOTIFY with a row")?.handOverMs.p50),
      1.5,
    ),
    atMost("postgres-held", "statements per second for 5,000 leases", find(held, "holdfast")?.commandsPerSecond, 2),
    atMost("postgres-violations", "sections that overlapped", find(hot, "holdfast")?.violations, 0),
  ];
}
