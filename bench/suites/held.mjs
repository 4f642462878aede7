/** Many leases kept alive and nothing else: 5,000 at a ttl of 3 s, and 50,000 at 30 s. */
import { contestants } from "../contestants/redis.mjs";
import { atMost, best, find, peersOf, ratio } from "../lib/bars.mjs";
import { contest, entrants, freshName, medians } from "../lib/contest.mjs";
import { CLIENT_CORE, pin, STORE_CORE } from "../lib/cores.mjs";
import { withRedis } from "../lib/servers.mjs";

const COLUMNS = ["cpuPercent", "commandsPerSecond", "storePercent", "lost"];
const SETTLE_MS = 3000;
const HOLDERS = [
  "raw ioredis",
  "holdfast",
  "holdfast before",
  "redlock 5 beta",
  "redis-semaphore",
  "redlock-universal",
  "node-redisson",
];

export const held = {
  name: "held",
  title: "Held: leases kept alive by renewal",
  async run(context) {
    const parts = [];
    await withRedis(async ({ server, port, store }) => {
      pin(server.pid, STORE_CORE);
      const all = entrants("redis", contestants, (_, name) => HOLDERS.includes(name)).filter(context.wanted);
      const part = async (id, entrantsOfPart, count, ttlMs, seconds, rounds) => {
        const rows = await contest({
          context,
          part: `held ${id}`,
          entrants: entrantsOfPart,
          env: { port },
          core: CLIENT_CORE,
          rounds,
          // Many leases for half a minute are warm enough by themselves.
          warm: count < 50_000,
          slice: (team, { sends }) => heldSlice(team, store, { count, ttlMs, seconds, sends }),
          sum: (slices) => ({
            ...medians(slices),
            lost: slices.reduce((sum, { lost }) => sum + lost, 0),
          }),
        });
        parts.push({
          id,
          title: `${count.toLocaleString("en")} leases, ttl ${ttlMs / 1000} s`,
          columns: COLUMNS,
          rows,
        });
      };
      // Whole thirds of the ttl, so all renew equally often in each slice.
      await part("5000", all, 5000, 3000, Math.max(2, Math.round(6 * context.seconds)), context.rounds);
      await part(
        "50000",
        all.filter(({ own }) => own === true),
        50_000,
        30_000,
        Math.max(10, Math.round(30 * context.seconds)),
        1,
      );
    });
    return { parts, bars: barsOf(parts) };
  },
};

async function heldSlice(team, store, { count, ttlMs, seconds, sends }) {
  const name = freshName("held");
  await team.order({ do: "hold", count, ttlMs, name });
  // What acquiring left behind is cleared away in the first seconds, and is not what is measured here.
  await new Promise((resolve) => setTimeout(resolve, SETTLE_MS));
  const before = await store.read();
  const [watched] = await team.order({ do: "watch", seconds });
  const spent = await store.since(before, sends);
  const [dropped] = await team.order({ do: "drop" });
  return {
    cpuPercent: watched.cpuUs / watched.seconds / 1e4,
    commandsPerSecond: spent.commands / watched.seconds,
    storePercent: spent.cpuUs / watched.seconds / 1e4,
    lost: dropped.lost,
  };
}

function barsOf([few, many]) {
  const own = find(few.rows, "holdfast");
  const raw = find(few.rows, "raw ioredis");
  const cheapest = best(peersOf(few.rows), (row) => row.cpuPercent, -1);
  const quietest = best(peersOf(few.rows), (row) => row.commandsPerSecond, -1);
  const all = find(many.rows, "holdfast");
  return [
    atMost(
      "held-raw",
      "5,000 held: client CPU against one timer and 500 keys per script",
      ratio(own?.cpuPercent, raw?.cpuPercent),
      1.3,
    ),
    atMost(
      "held-peers",
      "5,000 held: client CPU against the best peer",
      ratio(own?.cpuPercent, cheapest?.cpuPercent),
      0.5,
      cheapest?.name,
    ),
    atMost(
      "held-commands",
      "5,000 held: commands/s against the best peer",
      ratio(own?.commandsPerSecond, quietest?.commandsPerSecond),
      1 / 20,
      quietest?.name,
    ),
    atMost("held-5000-lost", "5,000 held: leases lost", own?.lost, 0),
    atMost("held-50000-cpu", "50,000 held: percent of a core", all?.cpuPercent, 10),
    atMost("held-50000-lost", "50,000 held: leases lost", all?.lost, 0),
  ];
}
