/** Outcomes in the files: through epochs, cleanups, reboots and power cuts; and what is not needed any more is removed. */
import { existsSync, readdirSync, readFileSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Backend, Claim, KeptOutcome } from "../../../src/contract/backend.ts";
import { type Disk, disk } from "../../../src/backends/file/disk.ts";
import { FakeClock } from "../../../src/testing/fake-clock.ts";
import { claim, granted, rewrite, Scratch } from "./peers.ts";

const real: Disk = { ...disk };
const HOUR = 3_600_000;

let scratch: Scratch;
let clock: FakeClock;
beforeEach(() => {
  scratch = new Scratch();
  clock = new FakeClock();
});
afterEach(async () => {
  Object.assign(disk, real);
  await scratch.end();
});

const lockDirectory = (): string => join(scratch.dir, "l/_a%20lock");
const incarnation = (): string => join(lockDirectory(), readdirSync(lockDirectory())[0]!);
const beside = (kind: "v" | "i" | "e"): string[] => readdirSync(incarnation()).filter((name) => name.startsWith(kind));

/** The entries of the newest epoch, in order. */
function entries(): string[] {
  const [epoch] = beside("e").toSorted((a, b) => Number.parseInt(b.slice(1), 10) - Number.parseInt(a.slice(1), 10));
  const directory = join(incarnation(), epoch!);
  return readdirSync(directory)
    .filter((name) => name !== "f")
    .toSorted((a, b) => Number(a) - Number(b))
    .map((name) => join(directory, name));
}

async function conclude(backend: Backend, value: string, keepMs = HOUR, change: Partial<Claim> = {}): Promise<bigint> {
  const worker = claim(change);
  const { fence } = await granted(backend, worker);
  expect(await backend.release(worker, { value, keepMs, fence })).toBe("held");
  return fence;
}

async function outcome(backend: Backend): Promise<KeptOutcome | undefined> {
  return (await backend.inspect("a lock")).outcome;
}

/** What a process of another boot would have written: its instants cannot be compared with ours. */
function asOfAnotherBoot(): void {
  type Record = { readonly boot?: string; readonly state?: object; readonly outcome?: { readonly life: object } };
  const state = (of: Record): object =>
    of.outcome === undefined ? of : { ...of, outcome: { ...of.outcome, life: { ...of.outcome.life, boot: "before" } } };
  for (const path of entries()) {
    if (readFileSync(path, "utf8").includes('"kind":"owner"') || readFileSync(path, "utf8") === "") continue;
    rewrite<Record>(path, (record) =>
      record.boot === undefined ? state(record) : { ...record, boot: "before", state: state(record.state as Record) },
    );
  }
}

describe("an outcome", () => {
  test("stays through epochs, other leases and cleanups, and so does the lock's last fence", async () => {
    const [backend, other] = [scratch.open({ entriesMax: 2 }), scratch.open({ entriesMax: 2 })];
    let last = await conclude(backend, "kept");
    for (let times = 0; times < 5; times++) {
      for (const change of [{}, { mode: "shared" }, { renewed: false }] as const) {
        const wish = claim(change);
        const { fence } = await granted(times % 2 === 0 ? backend : other, wish);
        expect(fence).toBeGreaterThan(last);
        last = fence;
        expect(await (times % 2 === 0 ? backend : other).release(wish)).toBe("held");
      }
      await other.clean();
      expect((await outcome(other))?.value).toBe("kept");
    }
    expect(beside("v")).toHaveLength(1);
  });

  test("is removed with its lock when its time is over, and the fences still rise", async () => {
    const [backend, other] = [scratch.open({ clock }), scratch.open({ clock })];
    const fence = await conclude(backend, "kept", 1000);
    await clock.advance(999);
    await other.clean();
    expect(await outcome(other)).toMatchObject({ value: "kept", fence, ageMs: 999, remainingMs: 1 });
    await clock.advance(1);
    expect(await outcome(other)).toBeUndefined();
    await other.clean();
    expect(existsSync(lockDirectory())).toBe(false);
    expect((await granted(backend, claim({ wantsOutcome: true }))).fence).toBeGreaterThan(fence);
  });

  test("leaves no value behind where it is replaced, removed, or over when the lock is taken again", async () => {
    const backend = scratch.open({ clock });
    await conclude(backend, "first");
    const fence = await conclude(backend, "second", 1000);
    expect(beside("v")).toHaveLength(1);
    await clock.advance(1000);
    const next = claim();
    const { fence: later } = await granted(backend, next);
    expect(beside("v")).toEqual([]);
    await backend.release(next, { value: "third", keepMs: HOUR, fence: later });
    expect(await backend.forget("a lock", fence)).toBe(false);
    expect(await backend.forget("a lock", (await outcome(backend))!.fence)).toBe(true);
    expect(beside("v")).toEqual([]);
  });

  test("comes to a waiter whose lease file served one before that wanted the lock", async () => {
    const [backend, other] = [scratch.open(), scratch.open()];
    const [worker, before, waiter] = [
      claim(),
      claim({ name: "before", renewed: false }),
      claim({ wantsOutcome: true }),
    ];
    const { fence } = await granted(backend, worker);
    await granted(other, before);
    await other.release(before);
    await other.attempt(waiter);
    await backend.release(worker, { value: "kept", keepMs: HOUR, fence });
    expect(await backend.inspect("a lock")).toMatchObject({ held: [], pending: [] });
    expect(await other.attempt(waiter)).toMatchObject({ granted: false, outcome: { value: "kept" } });
  });

  test("of a lease that is over does not count, though no other claim has taken the lock", async () => {
    const backend = scratch.open({ clock });
    const worker = claim({ ttlMs: 1000 });
    const { fence } = await granted(backend, worker);
    await clock.advance(1100);
    expect(await backend.release(worker, { value: "too late", keepMs: HOUR, fence })).toBe("absent");
    expect(await outcome(backend)).toBeUndefined();
    expect(beside("v")).toEqual([]);
  });

  test("is kept by another process than the one that took the lease, once, whichever asks", async () => {
    const [one, two] = [scratch.open({ detached: true }), scratch.open({ detached: true })];
    const worker = claim({ resumes: true });
    const { fence } = await granted(one, worker);
    expect(await two.release(worker, { value: "by another", keepMs: HOUR, fence })).toBe("held");
    expect(await one.release(worker, { value: "once more", keepMs: HOUR, fence })).toBe("held");
    expect(await outcome(one)).toMatchObject({ value: "by another", fence });
    expect(beside("v")).toHaveLength(1);
  });

  test("that a process could not finish is removed, and that of a lease that still holds is not", async () => {
    const [backend, other] = [scratch.open(), scratch.open()];
    const [first, second] = [claim(), claim()];
    const { fence } = await granted(backend, first);
    // As if it had been killed before its entry.
    disk.link = (from, to) => {
      if (/\/l\/.*\/\d+$/.test(to)) throw Object.assign(new Error("stopped"), { code: "EIO" });
      real.link(from, to);
    };
    await expect(backend.release(first, { value: "lost", keepMs: HOUR, fence })).rejects.toThrow("stopped");
    Object.assign(disk, real);
    expect(beside("v")).toHaveLength(1);
    await other.clean();
    expect(beside("v"), "its lease holds, and may still keep it").toHaveLength(1);
    expect(await outcome(other)).toBeUndefined();
    expect(await backend.release(first)).toBe("held");
    await granted(backend, second);
    await other.clean();
    expect(beside("v")).toEqual([]);
  });

  const full = (): never => {
    throw Object.assign(new Error("ENOSPC"), { code: "ENOSPC" });
  };
  test.each(["syncDirectory", "unlink"] as const)(
    "stays whole where the disk is full after its entry: %s",
    async (call) => {
      const [backend, other] = [scratch.open(), scratch.open()];
      const [worker, later] = [claim(), claim()];
      for (const [wish, value] of [
        [worker, "first"],
        [later, "second"],
      ] as const) {
        const { fence } = await granted(backend, wish);
        disk[call] = full;
        const released = backend.release(wish, { value, keepMs: HOUR, fence });
        await (call === "unlink" ? expect(released).resolves.toBe("held") : expect(released).rejects.toThrow("full"));
        Object.assign(disk, real);
        expect(await other.attempt(claim({ wantsOutcome: true }))).toMatchObject({ outcome: { value, fence } });
        expect(await backend.release(wish, { value, keepMs: HOUR, fence })).toBe("held");
      }
    },
  );

  test("whose value is gone is an error for those who want it, and can be removed", async () => {
    const backend = scratch.open();
    const fence = await conclude(backend, "kept");
    const path = join(incarnation(), beside("v")[0]!);
    writeFileSync(path, "cut off");
    await expect(backend.attempt(claim({ wantsOutcome: true }))).rejects.toThrow(path);
    real.unlink(path);
    await expect(backend.attempt(claim({ wantsOutcome: true }))).rejects.toThrow("it is missing");
    expect(await backend.forget("a lock", fence)).toBe(true);
    await granted(backend, claim({ wantsOutcome: true }));
  });

  test("cannot be kept on a full disk: the lease stays, and the release is done when there is space", async () => {
    const peer = await scratch.confined();
    const worker = claim();
    const { fence } = await granted(peer, worker);
    const filler = join(scratch.dir, "../full");
    await peer.call("fill", filler, "space");
    const kept = { value: "x".repeat(60_000), keepMs: HOUR, fence };
    await expect(peer.call("release", worker, kept)).rejects.toMatchObject({ message: expect.stringMatching(/full/) });
    expect(await peer.call("renew", [worker])).toMatchObject([{ held: true }]);
    await peer.call("unfill", filler);
    expect(await peer.call("release", worker, kept)).toBe("held");
    expect(await peer.call("inspect", "a lock")).toMatchObject({ held: [], outcome: { value: kept.value } });
  });
});

describe("after a reboot an outcome", () => {
  test("is kept by the wall clock, never for longer than was asked, and by the machine's again from the first change on", async () => {
    const fence = await conclude(scratch.open({ clock }), "kept", HOUR);
    asOfAnotherBoot();
    const backend = scratch.open({ clock });
    expect(await outcome(backend)).toMatchObject({ value: "kept", fence, remainingMs: HOUR });
    clock.suspend(-10 * HOUR);
    expect(await outcome(backend)).toMatchObject({ remainingMs: HOUR });
    clock.suspend(10 * HOUR + HOUR / 2);
    expect(await outcome(backend)).toMatchObject({ remainingMs: HOUR / 2 });
    const next = claim();
    await granted(backend, next);
    clock.suspend(100 * HOUR);
    expect(await outcome(backend)).toMatchObject({ value: "kept", fence, remainingMs: HOUR / 2 });
    await clock.advance(HOUR / 2);
    expect(await outcome(backend)).toBeUndefined();
  });

  test.each([
    ["the entry after it", 1],
    ["two entries after it, of which one was a lease", 2],
  ])("survives a power cut that took %s", async (_what, count) => {
    const before = scratch.open();
    await conclude(before, "kept");
    const wish = claim();
    await granted(before, wish);
    if (count === 2) await before.release(wish);
    asOfAnotherBoot();
    for (const path of entries().slice(-count)) truncateSync(path, 0);
    const backend = scratch.open();
    expect((await outcome(backend))?.value).toBe("kept");
    await granted(backend, claim());
    expect((await outcome(backend))?.value).toBe("kept");
  });

  test("that was removed before a power cut does not come back", async () => {
    const before = scratch.open();
    const fence = await conclude(before, "kept");
    await before.forget("a lock", fence);
    await granted(before, claim());
    asOfAnotherBoot();
    truncateSync(entries().at(-1)!, 0);
    expect(await outcome(scratch.open())).toBeUndefined();
  });
});

test("an outcome is synced before it is answered: its value and its entry before the link, the names after it", async () => {
  const backend = scratch.open();
  const worker = claim();
  const { fence } = await granted(backend, worker);
  const calls: string[] = [];
  disk.sync = (fd) => {
    calls.push("sync");
    real.sync(fd);
  };
  disk.syncDirectory = (path) => {
    calls.push(
      `sync ${path.slice(scratch.dir.length).replaceAll(/\/(?:[-_A-Za-z0-9]{16}|e1-[-_A-Za-z0-9]{24})(?=\/|$)/g, "/…")}`,
    );
    real.syncDirectory(path);
  };
  disk.link = (from, to) => {
    if (to.includes("/l/")) calls.push("link");
    real.link(from, to);
  };
  await backend.release(worker, { value: "kept", keepMs: HOUR, fence });
  const names = ["/l/_a%20lock/…/…", "/l/_a%20lock/…", "/l/_a%20lock", "/l"];
  expect(calls).toEqual(["sync", "sync", "link", ...names.map((path) => `sync ${path}`)]);
  calls.length = 0;
  await backend.release(worker, { value: "kept", keepMs: HOUR, fence });
  const next = claim({ name: "without" });
  await granted(backend, next);
  await backend.release(next);
  expect(calls.filter((call) => call === "sync")).toEqual([]);
});
