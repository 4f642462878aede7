/**
 * No waiter depends on the poll. Here it never comes: longer timers do not fire, so that a wake-up that is lost
 * keeps its claim waiting for ever, and the test with it.
 */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Claim, Granted } from "../../../src/contract/backend.ts";
import { type Clock, systemClock } from "../../../src/contract/clock.ts";
import { machineMs } from "../../../src/contract/machine-clock.ts";
import type { FileBackend } from "../../../src/backends/file/index.ts";
import { claim, eventually, granted, Scratch } from "./peers.ts";

/** What is checked again soon: a process that is about to end, a place that is kept for a few milliseconds. */
const SOON_MS = 150;

const pollless: Clock = {
  ...systemClock,
  // The machine's own clock, so that other processes' instants can be compared.
  now: () => machineMs(),
  setTimer: (act, ms) => (ms <= SOON_MS ? systemClock.setTimer(act, ms) : undefined),
};

let scratch: Scratch;
beforeEach(() => {
  scratch = new Scratch();
});
afterEach(() => scratch.end());

const open = (): FileBackend => scratch.open({ clock: pollless });

/** Watches and attempts, as the core does, until the claim holds. */
async function wait(backend: FileBackend, wish: Claim): Promise<Granted> {
  const { signal } = new AbortController();
  for (;;) {
    const watching = await backend.watch(wish, signal);
    if (watching !== undefined) return watching;
    const answer = await backend.attempt(wish);
    if (answer.granted) return answer;
  }
}

async function queue(backend: FileBackend, wish: Claim): Promise<void> {
  expect(await backend.attempt(wish)).toMatchObject({ granted: false, position: expect.any(Number) });
}

describe("a waiter is woken", () => {
  test("when the lock is handed to it", async () => {
    const [a, b] = [open(), open()];
    const [held, wish] = [claim(), claim()];
    await granted(a, held);
    await queue(b, wish);
    const watching = wait(b, wish);
    await a.release(held);
    await watching;
  });

  test("when that happened before it began to watch", async () => {
    const [a, b] = [open(), open()];
    const [held, wish] = [claim(), claim()];
    await granted(a, held);
    await queue(b, wish);
    await a.release(held);
    // The wake-up has arrived, and nothing was waiting for it.
    await eventually("the lease is there", async () => ((await a.query("")).held.length === 1 ? true : undefined));
    for (let turns = 0; turns < 20; turns++) await new Promise((resolve) => setImmediate(resolve));
    await wait(b, wish);
  });

  test.each([
    ["readers, all of them", { mode: "shared" }, 1],
    ["those who share a limit", { limit: 2 }, 2],
  ] as const)("%s", async (_what, change, holders) => {
    const [a, b, c] = [open(), open(), open()];
    const held = Array.from({ length: holders }, () => claim(holders === 1 ? {} : change));
    for (const one of held) await granted(a, one);
    const [first, second] = [claim(change), claim(change)];
    await queue(b, first);
    await queue(c, second);
    const watching = [wait(b, first), wait(c, second)];
    for (const one of held) await a.release(one);
    await Promise.all(watching);
  });

  test("a writer, when the last of several readers in other processes goes", async () => {
    const readers = [open(), open(), open()];
    const held = readers.map(() => claim({ mode: "shared" }));
    for (const [at, backend] of readers.entries()) await granted(backend, held[at]!);
    const [b, writer] = [open(), claim()];
    await queue(b, writer);
    const watching = wait(b, writer);
    for (const [at, backend] of readers.entries()) await backend.release(held[at]!);
    await watching;
  });

  test("readers behind a writer, when the writer has released", async () => {
    const [a, b, c] = [open(), open(), open()];
    const [held, writer, reader] = [claim({ mode: "shared" }), claim(), claim({ mode: "shared" })];
    await granted(a, held);
    await queue(b, writer);
    await queue(c, reader);
    const watching = wait(c, reader);
    await a.release(held);
    await wait(b, writer);
    await b.release(writer);
    await watching;
  });

  test("those behind one that gives up: the writer in front of readers leaves, and they hold together with the reader", async () => {
    const [a, b, c] = [open(), open(), open()];
    const [held, writer, reader] = [claim({ mode: "shared" }), claim(), claim({ mode: "shared" })];
    await granted(a, held);
    await queue(b, writer);
    await queue(c, reader);
    const watching = wait(c, reader);
    await b.release(writer);
    await watching;
  });

  test("the one that becomes the first, so it follows the holder from then on", async () => {
    const [b, c] = [open(), open()];
    const holder = await scratch.peer();
    const [held, first, second] = [claim(), claim(), claim()];
    await granted(holder, held);
    await queue(b, first);
    await queue(c, second);
    const woken = c.watch(second, new AbortController().signal);
    await b.release(first);
    expect(await woken).toBeUndefined();
    expect(await c.attempt(second)).toMatchObject({ granted: false, position: 1 });
    const watching = wait(c, second);
    await holder.kill();
    await watching;
  });

  test("when the holder's process dies, and when that of the waiter just ahead does", async () => {
    const [holder, ahead] = [await scratch.peer(), await scratch.peer()];
    await granted(holder, claim());
    await ahead.attempt(claim());
    const [b, wish] = [open(), claim()];
    await queue(b, wish);
    const watching = wait(b, wish);
    await ahead.kill();
    await eventually("one claim waits", async () => ((await b.query("")).pending.length === 1 ? true : undefined));
    await holder.kill();
    await watching;
  });

  test("when the lease before it is ended by force", async () => {
    const [a, b, c] = [open(), open(), open()];
    const wish = claim();
    const { fence } = await granted(a, claim());
    await queue(b, wish);
    const watching = wait(b, wish);
    expect(await c.forceRelease("a lock", fence, "ops", "stuck")).toBe(true);
    await watching;
  });

  test("when a place that was kept for a while is free", async () => {
    const [a, b] = [open(), open()];
    const [held, wish] = [claim({ minHoldMs: 60 }), claim()];
    await granted(a, held);
    await queue(b, wish);
    const watching = wait(b, wish);
    await a.release(held);
    await watching;
  });

  test("when the holder swaps its claim for another, which queues behind", async () => {
    const [a, b] = [open(), open()];
    const [held, next, wish] = [claim(), claim(), claim()];
    await granted(a, held);
    await queue(b, wish);
    const watching = wait(b, wish);
    expect(await a.swap(held, next)).toMatchObject({ granted: false });
    await watching;
    const back = wait(a, next);
    await b.release(wish);
    await back;
  });

  test("each of many in turn, all in one process or each in its own", async () => {
    const backends = [open(), open(), open()];
    const wishes = Array.from({ length: 12 }, () => claim());
    await granted(backends[0]!, wishes[0]!);
    for (const [at, wish] of wishes.entries()) if (at > 0) await queue(backends[at % 3]!, wish);
    const order: number[] = [];
    const turns = wishes.map(async (wish, at) => {
      const backend = backends[at % 3]!;
      if (at > 0) await wait(backend, wish);
      order.push(at);
      await backend.release(wish);
    });
    await Promise.all(turns);
    expect(order).toEqual([...wishes.keys()]);
  });
});
