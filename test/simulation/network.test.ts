/** Commands and messages of one process: two connections, two times. */
import { expect, test } from "vitest";
import { World } from "../../src/testing/simulation/world.ts";

const STALL_MS = 1000;

test("neither connection waits for the other, and neither ends with the other", async () => {
  const world = new World(1, {});
  const { commands, messages } = world.spawn().network;
  for (const [stalled, flowing] of [
    [commands, messages],
    [messages, commands],
  ] as const) {
    const fromMs = world.nowMs;
    const arrivedMs = new Map<object, number>();
    stalled.stall(STALL_MS);
    for (const road of [stalled, flowing]) road.send(() => arrivedMs.set(road, world.nowMs - fromMs));
    await world.until(() => arrivedMs.size === 2, fromMs + 5 * STALL_MS);
    expect(arrivedMs.get(flowing)).toBeLessThan(STALL_MS);
    expect(arrivedMs.get(stalled)).toBeGreaterThanOrEqual(STALL_MS);

    const arrived: object[] = [];
    for (const road of [stalled, flowing]) road.send(() => arrived.push(road));
    stalled.reset(0);
    await world.until(() => false, world.nowMs + STALL_MS);
    expect(arrived).toEqual([flowing]);
  }
});

test("what is sent while there is no connection waits for the next one if it is a command, and is gone if it is a message", async () => {
  const world = new World(1, {});
  const { commands, messages } = world.spawn().network;
  const arrived: string[] = [];
  commands.reset(STALL_MS);
  messages.reset(STALL_MS);
  commands.send(() => arrived.push("command"));
  messages.send(() => arrived.push("message"));
  await world.until(() => false, 10 * STALL_MS);
  expect(arrived).toEqual(["command"]);
  messages.send(() => arrived.push("message"));
  await world.until(() => false, 20 * STALL_MS);
  expect(arrived).toEqual(["command", "message"]);
});
