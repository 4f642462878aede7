/** One, two and three shards of a Redis Cluster: does each take its part of the work, and does the whole cost no more? */
import { atLeast } from "../lib/bars.mjs";
import { freshName } from "../lib/contest.mjs";
import { linearity } from "../lib/fit.mjs";
import { built } from "../lib/holdfast.mjs";
import { median } from "../lib/stats.mjs";
import { Store } from "../lib/store.mjs";
import { Team } from "../lib/team.mjs";

const SIZES = [1, 2, 3];
const ROUNDS = 4;
/**
 * For each shard, and as many as go in one write: so a server reads as many commands at once, and pays as much for it, whether it is one
 * of three or alone. With more of them one that is alone falls behind the client and finds more in its socket, which is cheaper: that says
 * how busy it is, and not what a second one would do.
 */
const LOOPS = 64;
const SECONDS = 2;
/** Names of each loop: enough to be spread evenly over the buckets. */
const NAMES = 100;

export async function cluster(context) {
  const labs = [];
  try {
    for (const size of SIZES) {
      context.say(`  Cluster: starting ${size} shard${size === 1 ? "" : "s"}`);
      labs.push(await labOf(size));
    }
    // By turns, so that what disturbs one size disturbs the others.
    for (let round = -1; round < ROUNDS; round++) {
      for (const lab of labs) {
        const slice = await sliceOf(lab);
        if (round >= 0) lab.slices.push(slice);
      }
    }
    return reportOf(labs);
  } finally {
    await Promise.all(labs.map(stop));
  }
}

async function labOf(size) {
  const { startCluster } = await built("lab/servers/cluster.js");
  const lab = await startCluster({ primaries: size });
  try {
    const ports = lab.nodes.map(({ port }) => port);
    const team = await Team.start({ family: "scale", name: "cluster" }, 1, { ports });
    return { size, lab, team, stores: ports.slice(0, size).map((port) => new Store(port)), slices: [] };
  } catch (error) {
    await lab.stop();
    throw error;
  }
}

async function stop({ lab, team, stores }) {
  for (const store of stores) store.close();
  await team.stop();
  await lab.stop();
}

async function sliceOf({ size, team, stores }) {
  const before = await Promise.all(stores.map((store) => store.read()));
  const [{ cycles, cpuUs }] = await team.order({
    do: "step",
    step: "rounds",
    name: freshName("shards"),
    loops: LOOPS * size,
    seconds: SECONDS,
    spread: NAMES,
  });
  const spent = await Promise.all(stores.map((store, at) => store.since(before[at])));
  const reads = await Promise.all(stores.map((store) => store.read()));
  const read = reads.reduce((sum, { reads: now }, at) => sum + now - before[at].reads, 0);
  return {
    each: spent.map((one) => one.cpuUs / cycles),
    clientUs: cpuUs / cycles,
    perRead: spent.reduce((sum, { commands }) => sum + commands, 0) / read,
  };
}

function reportOf(labs) {
  const middle = labs.map(({ size, slices }) => ({
    size,
    each: Array.from({ length: size }, (_, shard) => median(slices.map(({ each }) => each[shard]))),
    clientUs: median(slices.map(({ clientUs }) => clientUs)),
    perRead: median(slices.map(({ perRead }) => perRead)),
  }));
  const [alone] = middle[0].each;
  const rows = middle.map(({ size, each, clientUs, perRead }) => ({
    name: `${size} shard${size === 1 ? "" : "s"}`,
    size,
    own: true,
    limit: false,
    node: true,
    ran: true,
    busiestUs: Math.max(...each),
    allUs: each.reduce((sum, us) => sum + us, 0),
    shares: Math.min(...each) / Math.max(...each),
    linear: linearity(alone, each),
    clientCpuUs: clientUs,
    perRead,
    each,
  }));
  return {
    parts: [
      {
        id: "shards",
        title: `a Cluster's primaries, ${LOOPS} loops for each, in CPU per cycle`,
        columns: ["busiestUs", "allUs", "shares", "linear", "perRead", "clientCpuUs"],
        rows,
      },
    ],
    bars: rows
      .filter(({ size }) => size > 1)
      .map(({ size, linear }) =>
        atLeast(`scale-shards-${size}`, `Cluster: what ${size} shards do, against ${size} times one`, linear, 0.9),
      ),
  };
}
