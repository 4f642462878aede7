/** Clients that start at once on five members: one always wins, each gets its turn, and none spins. */
import { describe, expect, test } from "vitest";
import { quorum } from "../../../src/backends/quorum/index.ts";
import { type Believed, Client, overlaps, wrongFences } from "./simulated-client.ts";
import { World } from "./simulated-world.ts";

const TTL_MS = 10_000;
const HOLD_MS = 10;

async function compete(
  seed: number,
  clients: number,
  hints: boolean,
): Promise<{ world: World; history: Believed[]; left: number }> {
  const world = new World(seed, 5, {});
  const history: Believed[] = [];
  const all = Array.from({ length: clients }, (_, at) => {
    const clock = world.clock(at, world.dice.between(-20, 20));
    const members = world.members.map((server) => {
      const member = server.seenBy(at);
      return hints ? member : { ...member, freed: () => () => undefined };
    });
    const backend = quorum(members, { clock, chance: world.dice });
    return new Client(world, at, backend, clock, { ttlMs: TTL_MS, holdMs: HOLD_MS, leases: 1 }, history);
  });
  for (const client of all) world.at(0, () => void client.run(120_000));
  let untilMs = 0;
  while (all.some(({ finished }) => !finished) && untilMs < 120_000) await world.run((untilMs += 50));
  return { world, history, left: all.filter(({ finished }) => !finished).length };
}

describe("S40: 2, 5 and 50 clients at once", () => {
  test.each([
    [2, true],
    [5, true],
    [50, true],
    [2, false],
    [5, false],
    [50, false],
  ])("%i, hints arriving: %s: all get the lock, one at a time, without a busy loop", async (clients, hints) => {
    for (let seed = 1; seed <= 5; seed++) {
      const { world, history, left } = await compete(seed, clients, hints);
      const where = `seed=${seed}`;
      expect(left, where).toBe(0);
      expect(history, where).toHaveLength(clients);
      expect(overlaps(history), where).toEqual([]);
      expect(wrongFences(history), where).toEqual([]);
      // Ten messages are one vote and one release at each of five members.
      const rounds = world.messages / 10 / clients;
      expect(rounds, where).toBeLessThan(12);
    }
  });
});

test("waiters do not wake each other while a holder has a bare majority", async () => {
  const world = new World(1, 5, {});
  const history: Believed[] = [];
  const join = (at: number, holdMs: number): Client => {
    const clock = world.clock(at, 0);
    const members = world.members.map((server) => server.seenBy(at));
    const plan = { ttlMs: TTL_MS, holdMs, leases: 1, holdsAll: true };
    return new Client(world, at, quorum(members, { clock, chance: world.dice }), clock, plan, history);
  };
  for (const { at } of world.members.slice(3)) world.cut(0, at, 60_000);
  world.at(0, () => void join(0, 8000).run(10_000), 0);
  await world.run(1000);
  expect(history, "client 0 holds three of five members").toHaveLength(1);
  for (let at = 1; at <= 4; at++) world.at(0, () => void join(at, 10).run(10_000), at);
  await world.run(2000);
  const before = world.messages;
  await world.run(7000);
  // Four waiters with slow retries, for five seconds: a round a second each, and the holder's renewals.
  expect((world.messages - before) / 10).toBeLessThan(4 * 5 * 2.5);
});

test("S141: with two of five members hung, no client waits long while others take turns", async () => {
  const world = new World(1, 5, {});
  const history: Believed[] = [];
  const never = (): Promise<never> => new Promise(() => undefined);
  const hung = { vote: never, release: never, withdraw: never, freed: () => () => undefined };
  for (let at = 0; at < 4; at++) {
    const clock = world.clock(at, world.dice.between(-20, 20));
    const members = world.members.map((server) => ({ ...server.seenBy(at), ...(server.at < 2 ? hung : {}) }));
    const plan = { ttlMs: TTL_MS, holdMs: 20 };
    const client = new Client(world, at, quorum(members, { clock, chance: world.dice }), clock, plan, history);
    world.at(at, () => void client.run(6000), at);
  }
  await world.run(6000);
  expect(overlaps(history)).toEqual([]);
  let longestMs = 0;
  for (let at = 0; at < 4; at++) {
    const wins = history.filter(({ client }) => client === at).map(({ fromMs }) => fromMs);
    for (const [index, fromMs] of [...wins, 6000].entries())
      longestMs = Math.max(longestMs, fromMs - (wins[index - 1] ?? 0));
  }
  // A turn takes some twenty milliseconds. Each member that is held looked like a split vote, and the backoff only grew.
  expect(longestMs).toBeLessThan(1000);
}, 180_000);
