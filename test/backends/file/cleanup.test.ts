/** Nothing is left behind: by closed backends, by killed processes, by idle locks. */
import { existsSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { systemClock } from "../../../src/contract/clock.ts";
import { MAX_TTL_MS } from "../../../src/contract/duration.ts";
import { claim, granted, rewrite, Scratch } from "./peers.ts";

let scratch: Scratch;
beforeEach(() => {
  scratch = new Scratch();
});
afterEach(() => scratch.end());

function left(): string[] {
  return ["o", "l", "q", "s", "t", "a"].flatMap((part) =>
    readdirSync(join(scratch.dir, part)).map((name) => `${part}/${name}`),
  );
}

test("a backend that is closed leaves nothing but the locks' last states", async () => {
  const backend = scratch.open();
  const wish = claim();
  await granted(backend, wish);
  await backend.release(wish);
  await backend.close();
  expect(left()).toEqual(["l/_a%20lock"]);
});

test("what killed processes left is removed: lease files, sockets, tickets, companions, half-made things", async () => {
  const [holder, waiter] = [await scratch.peer(), await scratch.peer()];
  await holder.call("alsoAlive", holder.pid);
  await granted(holder, claim());
  await waiter.attempt(claim());
  await Promise.all([holder.kill(), waiter.kill()]);
  mkdirSync(join(scratch.dir, "t/half-made-thing1"));
  writeFileSync(join(scratch.dir, "t/half-made-thing1/0"), "");
  expect(left().length).toBeGreaterThan(6);
  const backend = scratch.open();
  await backend.clean();
  await backend.close();
  expect(left()).toEqual([]);
});

test("what living processes use is not touched", async () => {
  const peer = await scratch.peer();
  const [held, waiting] = [claim(), claim()];
  await granted(peer, held);
  await peer.attempt(waiting);
  const before = left();
  const backend = scratch.open();
  await backend.clean(60_000);
  expect(left().filter((name) => !before.includes(name))).toHaveLength(1); // this backend's own socket
  expect(before.filter((name) => !left().includes(name))).toEqual([]);
  expect(await peer.call("renew", [held])).toMatchObject([{ held: true }]);
  expect(await peer.attempt(waiting)).toMatchObject({ granted: false, position: 1 });
});

test("the file of a lease of another boot stays for as long as any ttl: its lock may say a longer one than it does", async () => {
  const backend = scratch.open({ detached: true });
  const wish = claim();
  await granted(backend, wish);
  expect(await backend.renew([{ ...wish, ttlMs: MAX_TTL_MS }])).toMatchObject([{ held: true }]);
  const [path] = readdirSync(join(scratch.dir, "o")).map((name) => join(scratch.dir, "o", name));
  rewrite<{ readonly life: object }>(path!, (record) => ({ ...record, life: { ...record.life, boot: "before" } }));
  const cleanAfter = async (ms: number): Promise<boolean> => {
    await scratch.open({ clock: { ...systemClock, wall: () => systemClock.wall() + ms } }).clean();
    return existsSync(path!);
  };
  expect(await cleanAfter(7_200_000)).toBe(true);
  expect(await cleanAfter(MAX_TTL_MS + 7_200_000)).toBe(false);
});

test("an idle lock is removed, and comes back with greater fences", async () => {
  const [a, b] = [scratch.open(), scratch.open()];
  let last = 0n;
  for (let times = 0; times < 5; times++) {
    for (const backend of [a, b]) {
      const wish = claim();
      const { fence, run } = await granted(backend, wish);
      expect(fence).toBeGreaterThan(last);
      last = fence + BigInt(run) - 1n;
      await backend.release(wish);
      await a.clean(60_000);
      expect(existsSync(join(scratch.dir, "l/_a%20lock"))).toBe(false);
    }
  }
});

test("a removed lock comes back with greater fences even when the wall clock was set back", async () => {
  const [wish, again] = [claim(), claim()];
  const before = scratch.open();
  const { fence, run } = await granted(before, wish);
  await before.release(wish);
  await before.clean(60_000);
  expect(existsSync(join(scratch.dir, "l/_a%20lock"))).toBe(false);
  const clock = { ...systemClock, wall: () => systemClock.wall() - 86_400_000 };
  const after = await granted(scratch.open({ clock }), again);
  expect(after.fence).toBeGreaterThan(fence + BigInt(run) - 1n);
  expect(readdirSync(join(scratch.dir, "n"))).toHaveLength(1);
});

test("files that are not ours stay where they are", async () => {
  const backend = scratch.open();
  await backend.query("");
  writeFileSync(join(scratch.dir, "notes.txt"), "mine");
  writeFileSync(join(scratch.dir, "o/notes.txt"), "mine");
  await backend.clean();
  expect(existsSync(join(scratch.dir, "notes.txt"))).toBe(true);
  expect(existsSync(join(scratch.dir, "o/notes.txt"))).toBe(true);
});
