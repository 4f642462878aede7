/** The judge of leftovers can fail: it sees every kind of thing that may be left, one at a time. */
import { EventEmitter, once } from "node:events";
import { createServer, connect } from "node:net";
import { expect, test } from "vitest";
import { type Clock, systemClock } from "../../src/contract/clock.ts";
import { type ConformanceContext, conformance, FakeClock } from "../../src/testing/index.ts";
import { countTimers, LeftoverError, Leftovers } from "../../src/testing/leftovers.ts";
import { brokenContext, type Change, keepsWaiting, onQuery } from "./breaking.ts";

async function verdictOf(promise: string, context: ConformanceContext): Promise<unknown> {
  const found = conformance.find((one) => one.promise === promise);
  if (found === undefined) throw new Error(`no such promise: ${promise}`);
  return found.check(context).catch((error: unknown) => error);
}

/** Keeps the promises that are checked with it, and leaves something. */
const LEAVING: Readonly<Record<string, readonly [promise: string, change: Change, says: RegExp]>> = {
  "a lease": [
    "grants a free lock to one claim and refuses the next",
    () => ({ release: async () => "held" }),
    /a lease of "conformance:.*fence \d+/,
  ],
  "a waiting claim": ["shows who waits, in order", keepsWaiting, /a claim that waits for "conformance:.*at place 1/],
  "a timer": [
    "grants a free lock to one claim and refuses the next",
    (_, { store }) => {
      store.clock.setTimer(() => undefined, 3_600_000);
      return {};
    },
    /a timer/,
  ],
};

test.each(Object.entries(LEAVING))("a conformance check sees %s that is left", async (_, [promise, change, says]) => {
  expect(
    await verdictOf(
      promise,
      brokenContext(() => ({})),
    ),
  ).toBeUndefined();
  const error = await verdictOf(promise, brokenContext(change));
  expect(error).toBeInstanceOf(LeftoverError);
  expect(String(error)).toMatch(says);
});

test("a conformance check sees what the backend does not show, by the look past it", async () => {
  const promise = "releases: says that the claim was held, or that it does not know it, and the lock is free";
  const silent = brokenContext(onQuery((snapshot) => ({ ...snapshot, held: [] })));
  expect(await verdictOf(promise, silent)).toBeUndefined();
  const prefixes: string[] = [];
  const error = await verdictOf(promise, {
    ...silent,
    left: (prefix) => {
      prefixes.push(prefix);
      return ["a key without an end"];
    },
  });
  expect(error).toBeInstanceOf(LeftoverError);
  expect(String(error)).toContain("a key without an end");
  expect(prefixes[0]).toMatch(/^conformance:/);
});

test("the process judge sees a timer, a listener, a server and a socket, and what has gone is forgotten", async () => {
  const emitter = new EventEmitter();
  emitter.on("ready", () => undefined);
  const before = new Leftovers({ emitters: { "client 1": emitter } });
  expect(before.look()).toEqual([]);

  const timer = setTimeout(() => undefined, 3_600_000);
  expect(before.look()).toEqual(["open in the process: Timeout"]);
  clearTimeout(timer);

  const listener = (): void => undefined;
  emitter.on("ready", listener).on("end", listener);
  expect(before.look()).toEqual(['a listener for "ready" on client 1', 'a listener for "end" on client 1']);
  emitter.off("ready", listener).off("end", listener);

  const server = createServer((accepted) => accepted.resume());
  await once(server.listen(0, "127.0.0.1"), "listening");
  expect(before.look()).toContain("open in the process: TCPServerWrap");
  const socket = connect((server.address() as { port: number }).port, "127.0.0.1");
  await once(socket, "connect");
  expect(await before.lookAtLast(50)).toContainEqual(expect.stringContaining("TCPSocketWrap"));
  socket.end();
  await new Promise((resolve) => server.close(resolve));
  expect(await before.lookAtLast(10_000)).toEqual([]);
});

test("timers that keep no process alive are counted too: set, fired and cleared", async () => {
  for (const clock of [{ ...systemClock } as Clock, new FakeClock()]) {
    if (!(clock instanceof FakeClock)) countTimers(clock);
    const before = new Leftovers({ clock, process: false });
    const fired = new Promise<void>((resolve) => clock.setTimer(resolve, 1));
    const timer = clock.setTimer(() => undefined, 3_600_000);
    expect(before.look()).toEqual(["2 × a timer"]);
    if (clock instanceof FakeClock) await clock.advance(1);
    // The timer alone would let this process end.
    const alive = setInterval(() => undefined, 10);
    await fired;
    clearInterval(alive);
    expect(before.look()).toEqual(["a timer"]);
    clock.clearTimer(timer);
    expect(before.look()).toEqual([]);
  }
});
