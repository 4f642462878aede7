/** Closing: everything of this backend except leases is removed, in bounded time, and the error says what could not be removed. */
import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { systemClock } from "../../../src/contract/clock.ts";
import { LockBackendError } from "../../../src/contract/errors.ts";
import { type Disk, disk } from "../../../src/backends/file/disk.ts";
import { file } from "../../../src/backends/file/index.ts";
import { claim, eventually, granted, Scratch, sleep } from "./peers.ts";

const real: Disk = { ...disk };

let scratch: Scratch;
beforeEach(() => {
  scratch = new Scratch();
});
afterEach(async () => {
  Object.assign(disk, real);
  await scratch.end();
});

/** What is there besides locks: lease files, tickets, sockets, companions, half-made things. */
function left(): string[] {
  return ["o", "q", "s", "t", "a"]
    .flatMap((part) => readdirSync(join(scratch.dir, part), { recursive: true, withFileTypes: true }))
    .filter((entry) => !entry.isDirectory())
    .map((entry) => join(entry.parentPath, entry.name).slice(scratch.dir.length + 1));
}

test.each([true, false])(
  "S132: leaves nothing behind, however its claims ended (sharing lease files: %s)",
  async (renewed) => {
    // From close() on its clock stands still: the last cleanup has all the time that it needs, on a busy machine too.
    const closed: { atMs?: number } = {};
    const clock = { ...systemClock, now: () => closed.atMs ?? systemClock.now() };
    // The other one has that clock too: the end of a lease by another clock says nothing.
    const [backend, other] = [scratch.open({ clock }), scratch.open({ clock, hints: "poll" })];
    const heard: unknown[] = [];
    backend.listen({ lost: (id) => void heard.push(id), doubt: (id) => void heard.push(id) });
    const wish = (name: string, change = {}): ReturnType<typeof claim> => claim({ name, renewed, ...change });
    const kept = wish("kept");
    await granted(other, kept);
    const before = left();
    const [released, broken, expired, lost] = [wish("a"), wish("b"), wish("c", { ttlMs: 150 }), wish("d")];
    for (const one of [released, broken, expired, lost]) await granted(backend, one);
    const waiting = wish("kept");
    expect(await backend.attempt(waiting)).toMatchObject({ position: 1 });
    expect(await backend.attempt(wish("kept", { queues: false }))).toMatchObject({ granted: false });
    backend.alsoAlive(process.pid);
    expect(await backend.release(released)).toBe("held");
    for (const { name } of [broken, lost]) {
      const { fence } = (await other.query(name)).held[0]!;
      expect(await other.forceRelease(name, fence, "ops", "stuck")).toBe(true);
    }
    expect(await backend.renew([broken])).toMatchObject([{ held: false }]);
    expect(await backend.release(broken)).toBe("absent");
    // What it has not heard of it takes for held, and leaves to its time.
    await eventually("it hears of the end of its lease", () => (heard.includes(lost.id) ? true : undefined));
    await sleep(200);
    closed.atMs = systemClock.now();
    await backend.close();
    expect(left().filter((path) => !before.includes(path))).toEqual([]);
    expect((await other.query("")).pending).toEqual([]);
  },
);

test("leaves a lease that is held until its time is over, and nothing else", async () => {
  const backend = scratch.open();
  await granted(backend, claim());
  await backend.close();
  expect(left()).toEqual([expect.stringMatching(/^o\//)]);
  expect((await scratch.open({ hints: "poll" }).query("")).held).toHaveLength(1);
});

test("does not wait for a stopped process", async () => {
  const peer = await scratch.peer();
  const [backend, held] = [scratch.open(), claim()];
  await granted(peer, claim({ name: "its own" }));
  await granted(backend, held);
  expect(await peer.attempt(claim())).toMatchObject({ position: 1 });
  expect(await backend.attempt(claim({ name: "its own" }))).toMatchObject({ position: 1 });
  peer.process.kill("SIGSTOP");
  await backend.release(held);
  await backend.close();
  expect(left().filter((path) => path.startsWith("q/"))).toHaveLength(1);
});

test("says what could not be removed, removes all the rest, and says it again when asked again", async () => {
  const [holder, backend] = [scratch.open(), file({ dir: scratch.dir })];
  const names = ["one", "two", "three"];
  for (const name of names) await granted(holder, claim({ name }));
  for (const name of names) expect(await backend.attempt(claim({ name }))).toMatchObject({ position: 1 });
  disk.unlink = (path) => {
    if (path.includes("/q/_two/")) throw Object.assign(new Error("EROFS"), { code: "EROFS", path });
    real.unlink(path);
  };
  const error: unknown = await backend.close().catch((cause: unknown) => cause);
  expect(error).toBeInstanceOf(LockBackendError);
  expect((error as Error).message).toMatch(/left in .*Lock "two".*read-only.*q\/_two\//);
  await expect(backend.close()).rejects.toBe(error);
  expect(left().filter((path) => path.startsWith("q/"))).toEqual([expect.stringMatching(/^q\/_two\//)]);
  Object.assign(disk, real);
});

test("ends a running cleanup: afterwards this backend does nothing more", async () => {
  const backend = scratch.open();
  await backend.query("");
  for (let at = 0; at < 300; at++) writeFileSync(join(scratch.dir, "o", `notes-${at}.txt`), "mine");
  const cleaning = backend.clean();
  let calls = 0;
  for (const [name, call] of Object.entries(real)) {
    Object.assign(disk, {
      [name]: (...args: never[]) => {
        calls++;
        return (call as (...all: never[]) => unknown)(...args);
      },
    });
  }
  await backend.close();
  calls = 0;
  await cleaning;
  for (let turns = 0; turns < 50; turns++) await new Promise((resolve) => setImmediate(resolve));
  expect(calls).toBe(0);
});

test("ends watches", async () => {
  const [holder, backend] = [scratch.open(), scratch.open()];
  const wish = claim();
  await granted(holder, claim());
  expect(await backend.attempt(wish)).toMatchObject({ position: 1 });
  const watching = backend.watch(wish, new AbortController().signal);
  await backend.close();
  expect(await watching).toBeUndefined();
  await eventually("no claim waits", async () => ((await holder.query("")).pending.length === 0 ? true : undefined));
});
