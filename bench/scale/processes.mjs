/** Clients of one Redis, from one to two hundred, each as a process has it: what each adds. */
import { atMost } from "../lib/bars.mjs";
import { freshName, total } from "../lib/contest.mjs";
import { withRedis } from "../lib/servers.mjs";
import { constant, curvePart, greatest, rowsOf } from "./curve.mjs";
import { Crowd } from "./crowd.mjs";

const SIZES = [1, 10, 50, 200];
/** Of all processes together, so that the store has as much to do at each size. */
const OWN_PER_SECOND = 1000;
const HOT_PER_SECOND = 200;
const SECONDS = 8;

export async function processes(context) {
  return await withRedis(async ({ port, store }) => {
    const empty = await store.read();
    const crowd = await Crowd.start({ port });
    try {
      const measured = await rowsOf(context, "processes", SIZES, (size) => one(crowd, store, size, empty));
      return reportOf(measured);
    } finally {
      await crowd.stop();
    }
  });
}

async function one(crowd, store, size, empty) {
  await crowd.grow(size);
  const own = await paced(crowd, store, { name: freshName("own"), own: true, perSecond: OWN_PER_SECOND / size });
  const hot = await paced(crowd, store, { name: freshName("hot"), perSecond: HOT_PER_SECOND / size });
  const { allBytes, clients } = await store.read();
  return {
    ownClientUs: own.clientUs,
    ownStoreUs: own.storeUs,
    hotClientUs: hot.clientUs,
    hotStoreUs: hot.storeUs,
    hotCommands: hot.commands,
    hotPerSecond: hot.cycles / SECONDS,
    processBytes: (allBytes - empty.allBytes) / size,
    connections: (clients - empty.clients) / size,
  };
}

async function paced(crowd, store, order) {
  const own = (index) => ({ name: order.own ? `${order.name}-${index}` : order.name });
  // The first cycles of a process compile what the others run.
  await crowd.step("pace", { ...order, seconds: 3 }, own);
  const rest = await store.read();
  await new Promise((resolve) => setTimeout(resolve, 3000));
  const idle = await store.since(rest);
  const before = await store.read();
  const answers = await crowd.step("pace", { ...order, seconds: SECONDS }, own);
  const spent = await store.since(before);
  const cycles = total(answers, "cycles");
  return {
    cycles,
    clientUs: total(answers, "cpuUs") / cycles,
    // Without what the server does by itself.
    storeUs: (spent.cpuUs - (idle.cpuUs * SECONDS) / 3) / cycles,
    commands: spent.commands / cycles,
  };
}

function reportOf(rows) {
  return {
    parts: [
      curvePart({
        id: "processes",
        title: `processes on one Redis: ${OWN_PER_SECOND} cycles a second on locks of their own, then ${HOT_PER_SECOND} on one lock, of all together`,
        columns: [
          "ownClientUs",
          "ownStoreUs",
          "hotClientUs",
          "hotStoreUs",
          "hotCommands",
          "processBytes",
          "connections",
        ],
        costs: ["ownClientUs", "ownStoreUs", "hotClientUs", "hotStoreUs", "hotCommands", "processBytes"],
        rows,
      }),
    ],
    bars: [
      constant("scale-processes-own", "processes: store CPU per cycle on own locks", rows, "ownStoreUs"),
      constant("scale-processes-hot", "processes: store CPU per cycle on a hot lock", rows, "hotStoreUs"),
      constant("scale-processes-bytes", "processes: bytes of each in the store", rows, "processBytes"),
      atMost("scale-processes-connections", "processes: connections of each", greatest(rows, "connections"), 2),
    ],
  };
}
