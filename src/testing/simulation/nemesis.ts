/** What goes wrong in a simulation, and how often: drawn anew for every seed. */
import { FAIR_WEATHER } from "./network.ts";
import type { Node, World } from "./world.ts";

const TROUBLES = ["pause", "suspend", "crash", "cut", "force"] as const;
export type Trouble = (typeof TROUBLES)[number];

/** Makes trouble until `stopped`. Counts what it did. */
export async function makeTrouble(
  world: World,
  ttlMs: number,
  stopped: () => boolean,
  replace: (node: Node) => void,
): Promise<Readonly<Record<Trouble, number>>> {
  const { chance } = world;
  const counts = { pause: 0, suspend: 0, crash: 0, cut: 0, force: 0 };
  // Not every seed has every trouble, so that rare combinations get their share.
  const troubles = TROUBLES.filter(() => chance.happens(0.5));
  const sleep = (ms: number): Promise<void> => new Promise((resolve) => world.clock.setTimer(resolve, ms));
  while (!stopped()) {
    await sleep(chance.between(ttlMs / 4, ttlMs * 2));
    const node = chance.pick(world.nodes);
    if (stopped() || troubles.length === 0 || !node.process.running) continue;
    const trouble = chance.pick(troubles);
    counts[trouble]++;
    if (trouble === "pause") {
      node.process.pause();
      world.clock.setTimer(() => node.process.resume(), chance.between(0, ttlMs * 2.5));
    } else if (trouble === "suspend") {
      world.suspend(node.process);
      // A sleep of seconds is noticed by the wall clock; a shorter one cannot be told from drift.
      world.clock.setTimer(() => node.process.resume(), chance.between(2500, 6000));
    } else if (trouble === "cut") {
      node.network.weather.cut = true;
      world.clock.setTimer(() => (node.network.weather.cut = false), chance.between(0, ttlMs * 2));
    } else if (trouble === "crash") {
      world.crash(node);
      replace(node);
    } else {
      const [victim] = world.store.query("").held;
      if (victim !== undefined) world.store.forceRelease(victim.name, victim.fence, "nemesis", "for sport");
    }
  }
  return counts;
}

/** Draws what the network is like for one process. */
export function drawWeather(world: World, node: Node, ttlMs: number): void {
  const { chance } = world;
  Object.assign(
    node.network.weather,
    chance.pick([
      FAIR_WEATHER,
      { lost: 0.05, slow: 0.1, slowMs: ttlMs / 2, patienceMs: ttlMs / 4 },
      { lost: 0.2, slow: 0.05, slowMs: ttlMs / 4, patienceMs: ttlMs / 8 },
      { lost: 0.02, slow: 0.3, slowMs: ttlMs * 2, patienceMs: ttlMs / 2 },
      { lost: 0, slow: 0.4, slowMs: ttlMs * 1.5, patienceMs: ttlMs * 10 },
    ]),
  );
}

/** The fault is over: everything gets through again. */
export function calmDown(world: World): void {
  for (const { process, network } of world.nodes) {
    Object.assign(network.weather, FAIR_WEATHER);
    // Whoever sleeps wakes by itself, after seconds: see above.
    process.unpause();
  }
}
