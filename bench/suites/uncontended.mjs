/** No waiting: what a lock costs when it is free. 1 loop, then 64 loops on 64 locks, over one connection. */
import { contestants } from "../contestants/redis.mjs";
import { redisson } from "../redisson/driver.mjs";
import { atMost, best, find, peersOf, ratio } from "../lib/bars.mjs";
import { byCpu, contest, cyclesSlice, entrants, medians } from "../lib/contest.mjs";
import { CLIENT_CORE, pin, STORE_CORE } from "../lib/cores.mjs";
import { withRedis } from "../lib/servers.mjs";

export const uncontended = {
  name: "uncontended",
  title: "Uncontended: acquire and release a free lock",
  async run(context) {
    const parts = [];
    const bars = [];
    await withRedis(async ({ server, port, store }) => {
      pin(server.pid, STORE_CORE);
      const all = [
        ...entrants("redis", contestants, ({ handOverOnly }) => !handOverOnly),
        ...(await redisson(context)),
      ].filter(context.wanted);
      for (const loops of [1, 64]) {
        // Compiled code is warm after some ten thousand cycles, and on a busy machine a slice may have far fewer.
        const order = (round) => ({ loops, seconds: context.seconds * (round < 0 ? 4 : 1) });
        const rows = await contest({
          context,
          part: `uncontended, ${loops} loop${loops === 1 ? "" : "s"}`,
          entrants: all,
          env: { port },
          core: CLIENT_CORE,
          slice: (team, { sends }, round) => cyclesSlice(team, order(round), store, sends),
          sum: (slices) => medians(slices, byCpu),
        });
        parts.push({
          id: `${loops}-loops`,
          title: `${loops} loop${loops === 1 ? "" : "s"}, one connection`,
          columns: COLUMNS,
          rows,
        });
        bars.push(...barsOf(rows, loops));
      }
    });
    return { parts, bars };
  },
};

const COLUMNS = ["perSecond", "clientCpuUs", "storeCpuUs", "storeCommands", "storeCalls"];

function barsOf(rows, loops) {
  const own = find(rows, "holdfast");
  const peer = best(peersOf(rows), (row) => row.clientCpuUs, -1);
  return [
    atMost(
      `uncontended-${loops}-raw`,
      `${loops} loop(s): client CPU per cycle against the raw client`,
      ratio(own?.clientCpuUs, find(rows, "raw ioredis")?.clientCpuUs),
      1.15,
    ),
    atMost(
      `uncontended-${loops}-peers`,
      `${loops} loop(s): client CPU per cycle against the cheapest Node peer`,
      ratio(own?.clientCpuUs, peer?.clientCpuUs),
      1,
      peer?.name,
    ),
  ];
}
