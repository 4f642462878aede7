/**
 * The quorum under simulated trouble. `QUORUM_SEEDS=10` makes every campaign ten times as long; `QUORUM_FIRST_SEED=5000`
 * starts elsewhere. A failure names its seed, which replays exactly.
 */
import { expect, test } from "vitest";
import { quorum, type QuorumOptions } from "../../../src/backends/quorum/index.ts";
import { type Believed, Client, overlaps, wrongFences } from "./simulated-client.ts";
import { type Weather, World } from "./simulated-world.ts";

const TTL_MS = 400;
const END_MS = 2000;
const MEMBERS = 5;
const CLIENTS = 3;
const TIMES = Number(process.env["QUORUM_SEEDS"] ?? 1);
const FIRST_SEED = Number(process.env["QUORUM_FIRST_SEED"] ?? 1);

interface Campaign {
  readonly weather?: Weather;
  readonly options?: QuorumOptions;
  /** Called every few hundred ms: makes one thing go wrong. */
  readonly trouble?: (world: World) => void;
}

interface Tally {
  leases: number;
  /** Seeds in which two clients believed at once. */
  overlapped: number;
  readonly problems: string[];
}

async function simulate(seed: number, { weather = {}, options = {}, trouble }: Campaign): Promise<readonly Believed[]> {
  const world = new World(seed, MEMBERS, weather);
  const history: Believed[] = [];
  for (let at = 0; at < CLIENTS; at++) {
    const clock = world.clock(at, world.dice.between(-20, 20));
    const members = world.members.map((server) => server.seenBy(at));
    const backend = quorum(members, {
      maxTtl: TTL_MS,
      memberWait: 60,
      maxClockOffset: 50,
      clock,
      chance: world.dice,
      ...options,
    });
    const client = new Client(world, at, backend, clock, { ttlMs: TTL_MS, holdMs: 2 * TTL_MS }, history);
    world.at(world.dice.between(0, 50), () => void client.run(END_MS), at);
  }
  const again = (): void => {
    trouble?.(world);
    world.at(world.dice.between(60, 400), again);
  };
  world.at(200, again);
  await world.run(END_MS);
  return history;
}

async function campaign(seeds: number, plan: Campaign): Promise<Tally> {
  const tally: Tally = { leases: 0, overlapped: 0, problems: [] };
  for (let seed = FIRST_SEED; seed < FIRST_SEED + seeds * TIMES; seed++) {
    const history = await simulate(seed, plan);
    tally.leases += history.length;
    const [overlap] = overlaps(history);
    if (overlap !== undefined) {
      tally.overlapped++;
      tally.problems.push(
        `seed=${seed} fences ${overlap[0].fence} and ${overlap[1].fence} both believed at ${overlap[1].fromMs} ms`,
      );
    }
    for (const wrong of wrongFences(history)) tally.problems.push(`seed=${seed} ${wrong}`);
  }
  return tally;
}

const ROUGH: Weather = { slow: 0.15, slowMs: TTL_MS, lost: 0.05 };

function pauses(world: World): void {
  world.pause(Math.floor(world.dice.between(0, CLIENTS)), world.dice.between(10, 3 * TTL_MS));
}

/** Seldom enough that a majority is mostly out of quarantine. */
function restarts(world: World): void {
  if (world.dice.happens(0.3)) world.dice.pick(world.members).restart();
}

function partitions(world: World): void {
  const client = Math.floor(world.dice.between(0, CLIENTS));
  for (const { at } of world.members)
    if (world.dice.happens(0.6)) world.cut(client, at, world.dice.between(50, 3 * TTL_MS));
}

/** Two of five clocks go wrong once, by more than the quorum tolerates, and stay so. */
function clockJumps(world: World): void {
  const server = world.members[world.dice.happens(0.5) ? 0 : 1]!;
  if (server.offsetMs === 0) server.jump(jumpMs(world));
}

/** The same, but the clocks are set right again: what ended meanwhile stays ended, and nothing shows it. */
function clockJumpsSetRight(world: World): void {
  const server = world.members[world.dice.happens(0.5) ? 0 : 1]!;
  if (server.offsetMs === 0) server.jump(jumpMs(world));
  else server.jump(-server.offsetMs);
}

function jumpMs({ dice }: World): number {
  return dice.between(150, 4 * TTL_MS) * (dice.happens(0.7) ? 1 : -1);
}

function anything(world: World): void {
  world.dice.pick([pauses, restarts, partitions])(world);
}

test.each<[string, number, Campaign]>([
  ["in calm", 60, {}],
  ["with slow and lost messages", 200, { weather: ROUGH }],
  ["with paused clients", 180, { weather: ROUGH, trouble: pauses }],
  ["with partitions", 180, { weather: ROUGH, trouble: partitions }],
  ["with members that restart empty, and their quarantine", 240, { weather: ROUGH, trouble: restarts }],
  ["with two of five clocks that jump and stay wrong", 180, { weather: { slow: 0.1 }, trouble: clockJumps }],
  ["with all of these but jumps", 240, { weather: ROUGH, trouble: anything }],
])(
  "never two believe at once, and fences rise: %s (%i seeds)",
  async (_, seeds, plan) => {
    const { leases, problems } = await campaign(seeds, plan);
    expect(problems).toEqual([]);
    expect(leases).toBeGreaterThan(seeds);
  },
  180_000,
);

test("the simulation can fail: without quarantine, two believe at once", async () => {
  const { overlapped } = await campaign(50, { weather: { slow: 0.1 }, options: { durable: true }, trouble: restarts });
  expect(overlapped).toBeGreaterThan(0);
}, 180_000);

test.each<[string, Campaign]>([
  ["is not checked", { options: { maxClockOffset: "24h" }, trouble: clockJumps }],
  ["was set right before any check", { trouble: clockJumpsSetRight }],
])(
  "fences rise even where two believe at once because a jump %s",
  async (_, plan) => {
    const { overlapped, problems } = await campaign(250, { weather: { slow: 0.1 }, ...plan });
    expect(overlapped).toBeGreaterThan(0);
    expect(problems.filter((problem) => !problem.includes("both believed"))).toEqual([]);
  },
  240_000,
);

test("replays a seed exactly", async () => {
  const plan = { weather: ROUGH, trouble: anything };
  expect(await simulate(7, plan)).toEqual(await simulate(7, plan));
});
