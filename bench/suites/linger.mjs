/** `linger`: what a cycle costs when its lock stays in the process, and what a waiter in another process pays for that. */
import { setTimeout as sleep } from "node:timers/promises";
import { contestants } from "../contestants/linger.mjs";
import { atLeast, atMost, find, ratio } from "../lib/bars.mjs";
import { contest, cyclesSlice, entrants, freshName, medians } from "../lib/contest.mjs";
import { CLIENT_CORE, pin, STORE_CORE } from "../lib/cores.mjs";
import { withRedis } from "../lib/servers.mjs";
import { spread } from "../lib/stats.mjs";

const COLUMNS = ["perSecond", "clientCpuUs", "storeCpuUs", "storeCommands"];
const LINGERS = "holdfast, linger";
/** By then a claim queues. Where none is to queue, the same pause, so that all start from rest. */
const QUEUED_MS = 5;

export const linger = {
  name: "linger",
  title: "Linger: a free lock that stays in the process",
  async run(context) {
    const all = entrants("linger", contestants).filter(context.wanted);
    const alone = await withRedis(async ({ server, port, store }) => {
      pin(server.pid, STORE_CORE);
      return await contest({
        context,
        part: "linger, 1 loop",
        entrants: all,
        env: { port, linger: "50ms" },
        core: CLIENT_CORE,
        slice: (team, { sends }, round) =>
          cyclesSlice(team, { loops: 1, seconds: context.seconds * (round < 0 ? 4 : 1) }, store, sends),
        sum: medians,
      });
    });
    const served = await withRedis(({ port }) =>
      contest({
        context,
        part: "linger, a remote waiter",
        entrants: all.filter(({ limit }) => limit !== true),
        processes: 2,
        // Longer than it takes to give the next order, so that no lock is free before it is asked for.
        env: { port, linger: "2s" },
        slice: (team, { name }) => servedSlice(team, name === LINGERS, context.seconds),
        sum: medians,
      }),
    );
    return {
      parts: [
        { id: "1-loop", title: "1 loop, one connection", columns: COLUMNS, rows: alone },
        {
          id: "waiter",
          title: "a waiter in another process: from the release, or with `linger` from its own call, to its entry",
          columns: ["handOverMs", "handOvers"],
          rows: served,
        },
      ],
      bars: barsOf(alone, served),
    };
  },
};

/** A waiter can be served when the lock is released; where it lingers, when the waiter asks for it. */
async function servedSlice(team, lingers, seconds) {
  const tookMs = [];
  const untilMs = performance.now() + seconds * 1000;
  while (performance.now() < untilMs) {
    const name = freshName("served");
    await team.orderOne(0, { do: "take", name, release: lingers });
    const ask = () => team.orderOne(1, { do: "take", name, release: true });
    if (lingers) {
      await sleep(QUEUED_MS);
      tookMs.push((await ask()).tookMs);
    } else {
      const served = ask();
      await sleep(QUEUED_MS);
      const { leftMs } = await team.orderOne(0, { do: "letGo" });
      tookMs.push((await served).enteredMs - leftMs);
    }
  }
  return { handOverMs: spread(tookMs), handOvers: tookMs.length };
}

function barsOf(alone, served) {
  const [own, raw] = [find(alone, LINGERS), find(alone, "raw ioredis")];
  return [
    atLeast(
      "linger-speed",
      "1 loop: cycles per second against the raw client",
      ratio(own?.perSecond, raw?.perSecond),
      15,
    ),
    atMost(
      "linger-commands",
      "1 loop: commands per cycle against the raw client",
      ratio(own?.storeCommands, raw?.storeCommands),
      0.01,
    ),
    atMost(
      "linger-waiter",
      "p50 of a remote waiter against a hand-over without `linger`",
      ratio(find(served, LINGERS)?.handOverMs.p50, find(served, "holdfast")?.handOverMs.p50),
      2,
    ),
  ];
}
