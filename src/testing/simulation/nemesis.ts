/** What goes wrong in a simulation, and how often: drawn anew for every seed. */
import { FAIR_WEATHER, type Weather } from "./road.ts";
import { type Node, type Trouble, TROUBLES, type World } from "./world.ts";

/** Makes trouble until `stopped`. Counts what it did. */
export async function makeTrouble(
  world: World,
  ttlMs: number,
  stopped: () => boolean,
  replace: (node: Node) => void,
): Promise<Readonly<Record<Trouble, number>>> {
  const { chance } = world;
  const counts = { pause: 0, suspend: 0, crash: 0, cut: 0, force: 0, stall: 0, reset: 0 };
  // Not every seed has every trouble, so that rare combinations get their share.
  const drawn = TROUBLES.filter(() => chance.happens(0.5));
  const troubles = world.mutation.troubles ?? drawn;
  const sleep = (ms: number): Promise<void> => new Promise((resolve) => world.clock.setTimer(resolve, ms));
  while (!stopped()) {
    await sleep(chance.between(ttlMs / 4, ttlMs * 1.4));
    const node = chance.pick(world.nodes);
    if (stopped() || troubles.length === 0 || !node.process.running) continue;
    const trouble = chance.pick(troubles);
    counts[trouble]++;
    if (trouble === "pause") {
      node.process.pause();
      world.clock.setTimer(() => node.process.resume(), chance.between(0, ttlMs * 2.5));
    } else if (trouble === "suspend") {
      world.suspend(node.process);
      // A sleep of seconds is noticed by the wall clock; a shorter one cannot be distinguished from drift.
      world.clock.setTimer(() => node.process.resume(), chance.between(2500, 6000));
    } else if (trouble === "cut") {
      const roads = [node.network.commands, node.network.messages];
      for (const { weather } of roads) weather.cut = true;
      const mend = (): void => {
        for (const { weather } of roads) weather.cut = false;
      };
      world.clock.setTimer(mend, chance.between(0, ttlMs * 2));
    } else if (trouble === "stall") {
      // Often messages stand still a little longer than commands: what they say was true before the last answer.
      const commandsMs = chance.between(0, ttlMs * 2.5);
      node.network.commands.stall(commandsMs);
      node.network.messages.stall(
        chance.happens(0.5) ? commandsMs + chance.between(0, ttlMs) : chance.between(0, ttlMs * 4),
      );
    } else if (trouble === "reset") {
      const which = chance.pick(["commands", "messages", "both"] as const);
      if (which !== "messages") node.network.commands.reset(chance.between(0, ttlMs / 2));
      if (which !== "commands") node.network.messages.reset(chance.between(0, ttlMs / 2));
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

/** Draws what the network is like for one process: each connection has its own weather. */
export function drawWeather(world: World, { network }: Node, ttlMs: number): void {
  const { chance } = world;
  const kinds: readonly Partial<Weather>[] = [
    FAIR_WEATHER,
    { lost: 0.05, slow: 0.1, slowMs: ttlMs / 2, patienceMs: ttlMs / 4 },
    { lost: 0.2, slow: 0.05, slowMs: ttlMs / 4, patienceMs: ttlMs / 8 },
    { lost: 0.02, slow: 0.3, slowMs: ttlMs * 2, patienceMs: ttlMs / 2 },
    { lost: 0, slow: 0.4, slowMs: ttlMs * 1.5, patienceMs: ttlMs * 10 },
  ];
  Object.assign(network.commands.weather, chance.pick(kinds));
  Object.assign(network.messages.weather, chance.pick(kinds));
}

/** The fault is over: everything gets through again. */
export function calmDown(world: World): void {
  for (const { process, network } of world.nodes) {
    network.commands.mend();
    network.messages.mend();
    // A machine that sleeps wakes by itself, after seconds: see above.
    process.unpause();
  }
}
