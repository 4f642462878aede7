/**
 * Scale: how costs grow, each as a curve with its exponent and a bar. No peers take part: it is about how Holdfast grows, not about how
 * fast it is. `--only held,storm` runs some of the curves.
 */
import { cluster } from "../scale/cluster.mjs";
import { held, packed } from "../scale/held.mjs";
import { processes } from "../scale/processes.mjs";
import { rows } from "../scale/rows.mjs";
import { storm } from "../scale/storm.mjs";
import { waiters } from "../scale/waiters.mjs";
import { etcdWatchers, zookeeperWatchers } from "../scale/watchers.mjs";

const CURVES = {
  held,
  packed,
  waiters,
  processes,
  cluster,
  zookeeper: zookeeperWatchers,
  etcd: etcdWatchers,
  rows,
  storm,
};

export const scale = {
  name: "scale",
  title: "Scale: what it costs to have more",
  async run(context) {
    const parts = [];
    const bars = [];
    for (const [name, curve] of Object.entries(CURVES)) {
      if (!context.wanted({ name, own: true })) continue;
      const result = await curve(context);
      parts.push(...result.parts);
      bars.push(...result.bars);
    }
    return { parts, bars };
  },
};
