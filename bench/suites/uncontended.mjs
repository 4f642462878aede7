/** No waiting: what a lock costs when it is free. 1 loop, then 64 loops on 64 locks, over one connection, also with auto-pipelining. */
import { contestants } from "../contestants/redis.mjs";
import { redisson } from "../redisson/driver.mjs";
import { atLeast, atMost, best, find, peersOf, ratio } from "../lib/bars.mjs";
import { contest, cyclesSlice, entrants, medians } from "../lib/contest.mjs";
import { CLIENT_CORE, pin, STORE_CORE } from "../lib/cores.mjs";
import { withRedis } from "../lib/servers.mjs";

const COLUMNS = ["perSecond", "clientCpuUs", "storeCpuUs", "storeCommands", "storeCalls"];
/** ioredis sends each command in a write of its own unless `enableAutoPipelining` is set, so both are what users have. */
const PARTS = [
  { id: "1-loops", loops: 1, autoPipelining: false, title: "1 loop, one connection" },
  { id: "64-loops", loops: 64, autoPipelining: false, title: "64 loops, one connection" },
  {
    id: "64-loops-piped",
    loops: 64,
    autoPipelining: true,
    title: "64 loops, one connection with `enableAutoPipelining`",
  },
];

export const uncontended = {
  name: "uncontended",
  title: "Uncontended: acquire and release a free lock",
  async run(context) {
    const parts = [];
    await withRedis(async ({ server, port, store }) => {
      pin(server.pid, STORE_CORE);
      const all = [
        ...entrants("redis", contestants, ({ handOverOnly }) => !handOverOnly),
        ...(await redisson(context)),
      ].filter(context.wanted);
      for (const { id, loops, autoPipelining, title } of PARTS) {
        // Compiled code is warm after some ten thousand cycles, and on a busy machine a slice may have far fewer.
        const order = (round) => ({ loops, seconds: context.seconds * (round < 0 ? 4 : 1) });
        const rows = await contest({
          context,
          part: `uncontended, ${title}`,
          entrants: all.filter((one) => !autoPipelining || (one.command === undefined && !one.autoPipelines)),
          env: { port, autoPipelining },
          core: CLIENT_CORE,
          slice: (team, { sends }, round) => cyclesSlice(team, order(round), store, sends),
          sum: medians,
        });
        parts.push({ id, title, columns: COLUMNS, rows });
      }
    });
    const [one, many, piped] = parts.map(({ rows }) => rows);
    return { parts, bars: [...barsOfOne(one), ...barsOfMany(many, piped)] };
  },
};

function barsOfOne(rows) {
  const own = find(rows, "holdfast");
  const peer = best(peersOf(rows), (row) => row.clientCpuUs, -1);
  return [
    atMost(
      "uncontended-1-raw",
      "1 loop: client CPU per cycle against the raw client",
      ratio(own?.clientCpuUs, find(rows, "raw ioredis")?.clientCpuUs),
      1.15,
    ),
    atMost(
      "uncontended-1-peers",
      "1 loop: client CPU per cycle against the cheapest peer",
      ratio(own?.clientCpuUs, peer?.clientCpuUs),
      1.05,
      peer?.name,
    ),
  ];
}

/** Ours without auto-pipelining, as it is for most users, against all others with and without. */
function barsOfMany(plain, piped) {
  const own = find(plain, "holdfast");
  const others = [...plain, ...piped.map((row) => ({ ...row, name: `${row.name}, auto-pipelining` }))].filter(
    (row) => row.ran && !row.own,
  );
  const fastest = best(others, (row) => row.perSecond);
  const raw = best(
    others.filter(({ limit }) => limit),
    (row) => row.clientCpuUs,
    -1,
  );
  const peer = best(peersOf(others), (row) => row.clientCpuUs, -1);
  return [
    atLeast(
      "uncontended-64-speed",
      "64 loops: cycles per second against the fastest of all",
      ratio(own?.perSecond, fastest?.perSecond),
      1.4,
      fastest?.name,
    ),
    atMost(
      "uncontended-64-raw",
      "64 loops: client CPU per cycle against the raw client",
      ratio(own?.clientCpuUs, raw?.clientCpuUs),
      0.8,
      raw?.name,
    ),
    atMost(
      "uncontended-64-peers",
      "64 loops: client CPU per cycle against the cheapest peer",
      ratio(own?.clientCpuUs, peer?.clientCpuUs),
      1,
      peer?.name,
    ),
  ];
}
