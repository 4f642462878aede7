/** What a process says of itself beside its leases: written when there is something to say, seldom, and gone with the claim. */
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { LocalFacts } from "../../../src/contract/backend.ts";
import { FakeClock } from "../../../src/testing/fake-clock.ts";
import { claim, granted, Scratch } from "./peers.ts";

let scratch: Scratch;
beforeEach(() => {
  scratch = new Scratch();
});
afterEach(() => scratch.end());

function notes(): string[] {
  return readdirSync(join(scratch.dir, "l"), { recursive: true, encoding: "utf8" }).filter((path) =>
    /^[^/]+\/[^/]+\/i[^/]+$/.test(path),
  );
}

function facts(waiters: number): LocalFacts {
  return { waiters, users: 1, holds: [{ name: "another", fence: 7n }], holdsMore: false };
}

test("a claim that says no more than its lease file has no note, and one that does has one until it ends", async () => {
  const [backend, other] = [scratch.open(), scratch.open()];
  const quiet = claim({ local: { waiters: 0, users: 1, holds: [], holdsMore: false } });
  await granted(backend, quiet);
  expect(notes()).toEqual([]);
  await backend.release(quiet);
  const [holder, waiter] = [claim({ local: facts(2) }), claim({ local: facts(3) })];
  await granted(backend, holder);
  await other.attempt(waiter);
  expect(notes()).toHaveLength(2);
  expect(await other.inspect("a lock")).toMatchObject({
    held: [{ id: holder.id, local: facts(2) }],
    pending: [{ id: waiter.id, local: facts(3) }],
  });
  await other.release(waiter);
  expect(notes()).toHaveLength(1);
  await backend.release(holder);
  expect(notes()).toEqual([]);
});

test("counts are written when the claim still waits, or is renewed: one that has ended before has cost nothing", async () => {
  const clock = new FakeClock();
  const [backend, other] = [scratch.open({ clock }), scratch.open({ clock })];
  const counts = { waiters: 2, users: 1, holds: [], holdsMore: false };
  const [holder, waiter] = [claim({ local: counts }), claim({ local: counts })];
  await granted(backend, holder);
  await other.attempt(waiter);
  expect(notes()).toEqual([]);
  await backend.renew([holder]);
  await other.attempt(waiter);
  expect(await other.inspect("a lock")).toMatchObject({
    held: [{ id: holder.id, local: counts }],
    pending: [{ id: waiter.id, local: counts }],
  });
});

test("which claim holds a lock is shown from its first renewal on, and is never the one before it with the same lease file", async () => {
  const clock = new FakeClock();
  const [backend, other] = [scratch.open({ clock }), scratch.open({ clock })];
  const shown = async (): Promise<string | undefined> => (await other.inspect("a lock")).held[0]?.id;
  for (let times = 0; times < 3; times++) {
    const wish = claim({ renewed: false });
    await granted(backend, wish);
    expect(await shown()).toBeUndefined();
    await backend.renew([wish]);
    expect(await shown()).toBe(wish.id);
    // As if the note had outlived its claim.
    const paths = notes().map((path) => join(scratch.dir, "l", path));
    const texts = paths.map((path) => readFileSync(path));
    await backend.release(wish);
    expect(notes()).toEqual([]);
    for (const [at, path] of paths.entries()) writeFileSync(path, texts[at]!);
  }
  expect(readdirSync(join(scratch.dir, "o")), "one lease file served all of them").toHaveLength(1);
  const [held, waiter] = [claim({ minHoldMs: 1 }), claim()];
  await granted(backend, held);
  expect(await shown(), "a file that serves no other claim says it at once").toBe(held.id);
  await other.attempt(waiter);
  expect((await backend.inspect("a lock")).pending).toMatchObject([{ id: waiter.id }]);
  const lasting = claim({ name: "lasting" });
  await granted(scratch.open({ clock, detached: true }), lasting);
  expect((await other.inspect("lasting")).held, "and so does one that other processes find").toMatchObject([
    { id: lasting.id },
  ]);
});

test("what is said of a claim while it waits is said anew of its lease", async () => {
  const clock = new FakeClock();
  const [backend, other] = [scratch.open({ clock }), scratch.open({ clock })];
  const [holder, waiter] = [claim(), claim({ local: facts(3) })];
  await granted(backend, holder);
  await other.attempt(waiter);
  await other.attempt({ ...waiter, local: facts(4) });
  await backend.release(holder);
  await granted(other, { ...waiter, local: facts(5) });
  expect((await backend.inspect("a lock")).held).toMatchObject([{ id: waiter.id, local: facts(5) }]);
});

test("a lease file that serves the next claim brings no note of the one before", async () => {
  const [backend, other] = [scratch.open(), scratch.open()];
  const [first, second] = [claim({ local: facts(2) }), claim()];
  await granted(backend, first);
  await backend.swap(first, second);
  expect((await other.inspect("a lock")).held).toMatchObject([{ holder: second.holder }]);
  expect((await other.inspect("a lock")).held[0]).not.toHaveProperty("local");
  expect(notes()).toEqual([]);
});

test("what changes often is written at once, then once in a third of a ttl, and the last words are written in the end", async () => {
  const clock = new FakeClock();
  const [backend, other] = [scratch.open({ clock }), scratch.open({ clock })];
  const wish = claim({ local: facts(1) });
  await granted(backend, wish);
  const shown = async (waiters: number): Promise<number | undefined> => {
    await backend.renew([{ ...wish, local: facts(waiters), meta: { at: String(waiters) }, changed: true }]);
    return (await other.inspect("a lock")).held[0]?.local?.waiters;
  };
  expect(await shown(2)).toBe(2);
  expect(await shown(3)).toBe(2);
  await clock.advance(19_000);
  expect(await shown(4)).toBe(2);
  await clock.advance(1001);
  // Nothing has changed since, but what did has not been written yet.
  await backend.renew([wish]);
  expect((await other.inspect("a lock")).held).toMatchObject([{ local: facts(4), meta: { at: "4" } }]);
});

test("the notes of a dead process are removed", async () => {
  const [peer, backend] = [await scratch.peer(), scratch.open()];
  await peer.attempt(claim({ local: facts(1) }));
  await peer.attempt(claim({ local: facts(2) }));
  expect(notes()).toHaveLength(2);
  await peer.kill();
  const next = claim();
  await granted(backend, next);
  await backend.clean();
  expect(notes()).toEqual([]);
  expect(await backend.renew([next])).toMatchObject([{ held: true }]);
});
