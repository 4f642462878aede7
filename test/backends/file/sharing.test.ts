/** Leases that share a lease file: one utimes() renews them all, and yet each ends alone. */
import { readdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Claim } from "../../../src/contract/backend.ts";
import type { FileBackend } from "../../../src/backends/file/index.ts";
import { type Disk, disk } from "../../../src/backends/file/disk.ts";
import { createLocks } from "../../../src/core/locks.ts";
import { FakeClock } from "../../../src/testing/fake-clock.ts";
import { claim, eventually, granted, grantedAtLast, type PeerError, Scratch, sleep } from "./peers.ts";

const real: Disk = { ...disk };

let scratch: Scratch;
/** Time passes only where a test says so: leases that end soon end neither too early nor too late on a busy machine. */
let clock: FakeClock;
beforeEach(() => {
  scratch = new Scratch();
  clock = new FakeClock();
});
afterEach(async () => {
  Object.assign(disk, real);
  await scratch.end();
});

/** A backend on that clock. */
function open(): FileBackend {
  return scratch.open({ clock });
}

/** Claims on locks of their own, which the core would renew. */
function several(count: number, change: Partial<Claim> = {}): Claim[] {
  return Array.from({ length: count }, (_, at) => claim({ name: `lock ${at}`, renewed: true, ...change }));
}

async function take(backend: ReturnType<Scratch["open"]>, claims: readonly Claim[]): Promise<void> {
  for (const wish of claims) await granted(backend, wish);
}

function leaseFiles(): string[] {
  return readdirSync(join(scratch.dir, "o"));
}

/** Counts the calls of utimes(), by lease file. */
function countRenewals(): Map<string, number> {
  const counts = new Map<string, number>();
  disk.utimes = (path, mtimeMs) => {
    if (/\/o\/[^/]+$/.test(path)) counts.set(path, (counts.get(path) ?? 0) + 1);
    real.utimes(path, mtimeMs);
  };
  return counts;
}

describe("a renewal", () => {
  test("of 250 leases is one utimes(), and each answer says whether the lease is still held", async () => {
    const backend = scratch.open();
    const claims = several(250);
    await take(backend, claims);
    expect(leaseFiles()).toHaveLength(1);
    const { fence } = (await backend.query("lock 120")).held[0]!;
    expect(await scratch.open({ hints: "poll" }).forceRelease("lock 120", fence, "ops", "stuck")).toBe(true);
    const counts = countRenewals();
    const renewals = await backend.renew(claims.filter(({ name }) => name !== "lock 121"));
    expect([...counts.values()]).toEqual([1]);
    expect(renewals.filter(({ held }) => held === true)).toHaveLength(248);
  });

  test("of the core's own leases is one utimes() too", async () => {
    const locks = createLocks(scratch.open());
    const leases = [];
    for (let at = 0; at < 50; at++) leases.push(await locks.acquire(`lock ${at}`, { ttl: 6000 }));
    const counts = countRenewals();
    await eventually("something was counted", () => (counts.size > 0 ? true : undefined));
    // All were taken together, so they are due together: it is one file in any case.
    await sleep(0);
    expect(counts.size).toBe(1);
    expect([...counts.values()][0]).toBeLessThan(5);
    for (const lease of leases) expect(await lease.release()).toBe("released");
    await locks.close();
    expect(leaseFiles()).toEqual([]);
  });

  test("counts trust from before its utimes(), also for a claim that came later and needed none", async () => {
    const backend = scratch.open();
    const [first, second] = several(2);
    const counts = countRenewals();
    const before = await granted(backend, first!);
    await sleep(5);
    const after = await granted(backend, second!);
    expect([...counts.values()]).toEqual([1]);
    expect(after.fromMs).toBe(before.fromMs);
    const { held } = await backend.query("");
    const endMs = performance.now() + Math.max(...held.map(({ remainingMs }) => remainingMs));
    expect(endMs).toBeGreaterThanOrEqual(after.fromMs! + second!.ttlMs);
  });
});

describe("a lease that is renewed for another ttl", () => {
  test("leaves the others, which keep theirs, and has its own fence and its own end from then on", async () => {
    const [backend, other] = [open(), open()];
    const claims = several(3);
    const { fence } = await granted(backend, claims[0]!);
    await take(backend, claims.slice(1));
    const longer = { ...claims[0]!, ttlMs: 600_000 };
    await clock.advance(20_000);
    expect(await backend.renew([claims[1]!, longer, claims[2]!])).toMatchObject([
      { held: true },
      { held: true },
      { held: true },
    ]);
    expect(leaseFiles()).toHaveLength(2);
    const counts = countRenewals();
    expect(await backend.renew([longer, ...claims.slice(1)])).toMatchObject([
      { held: true },
      { held: true },
      { held: true },
    ]);
    expect([...counts.values()]).toEqual([1, 1]);
    const { held } = await other.query("");
    expect(held.map(({ name, remainingMs }) => [name, Math.round(remainingMs / 1000)])).toEqual([
      ["lock 0", 600],
      ["lock 1", 60],
      ["lock 2", 60],
    ]);
    expect(held[0]).toMatchObject({ fence, id: longer.id });
    await clock.advance(61_000);
    expect((await other.query("")).held.map(({ name }) => name)).toEqual(["lock 0"]);
    await granted(other, claim({ name: "lock 1" }));
    expect(await backend.release(longer)).toBe("held");
    await granted(other, claim({ name: "lock 0" }));
  });

  test("is not ended sooner by a shorter one, and lasts for that when the longer time is over", async () => {
    const [backend, other] = [open(), open()];
    const [wish, beside] = several(2) as [Claim, Claim];
    await take(backend, [wish, beside]);
    const shorter = { ...wish, ttlMs: 1000 };
    const remainingMs = async (): Promise<number> =>
      Math.round((await other.inspect(wish.name)).held[0]?.remainingMs ?? 0);
    expect(await backend.renew([shorter])).toMatchObject([{ held: true }]);
    expect(await remainingMs()).toBe(60_002);
    await clock.advance(59_500);
    expect(await backend.renew([shorter])).toMatchObject([{ held: true }]);
    expect(await remainingMs()).toBe(1002);
    await clock.advance(1002);
    await granted(other, claim({ name: wish.name }));
    expect(await backend.renew([shorter])).toMatchObject([{ held: false }]);
  });

  test("is granted for it too, if it is asked for again", async () => {
    const [backend, other] = [open(), open()];
    const [wish, beside] = several(2) as [Claim, Claim];
    await take(backend, [wish, beside]);
    const { fence } = (await other.inspect(wish.name)).held[0]!;
    expect(await granted(backend, { ...wish, ttlMs: 600_000 })).toMatchObject({ fence });
    await clock.advance(61_000);
    expect((await other.query("")).held.map(({ name }) => name)).toEqual([wish.name]);
  });
});

describe("has a file of its own", () => {
  test.each<[string, Partial<Claim>]>([
    ["what is not renewed by the core for as long as it is held", { renewed: false }],
    ["a claim with a lockDelay", { lockDelayMs: 1000 }],
    ["a claim with a minHold", { minHoldMs: 1 }],
    ["a claim that says something else", { meta: { task: "another" } }],
    ["a claim with another ttl", { ttlMs: 50_000 }],
  ])("%s", async (_what, change) => {
    const backend = scratch.open();
    await take(backend, [...several(2), claim({ renewed: true, ...change })]);
    expect(leaseFiles()).toHaveLength(2);
  });

  test("every lease that outlives its process", async () => {
    const backend = scratch.open({ detached: true });
    await take(backend, several(3));
    expect(leaseFiles()).toHaveLength(3);
  });

  test("a second holder of the same lock: each of them ends alone", async () => {
    const backend = scratch.open();
    const claims = several(3, { name: "a lock", limit: 3 });
    await take(backend, claims);
    expect(leaseFiles()).toHaveLength(3);
    expect(await backend.release(claims[0]!)).toBe("held");
    expect(await backend.renew(claims)).toMatchObject([{ held: false }, { held: true }, { held: true }]);
    expect((await backend.query("")).held).toHaveLength(2);
  });

  test("a lease with a minHold, for ever: the place that is kept for it is not taken for a later lease", async () => {
    const backend = scratch.open();
    const wish = (): Claim => claim({ limit: 2, minHoldMs: 60_000, queues: false });
    const [first, second] = [wish(), wish()];
    const { fence } = await granted(backend, first);
    await backend.release(first);
    await granted(backend, second);
    expect(await backend.attempt(wish())).toMatchObject({ granted: false });
    expect(await backend.release({ ...second, minHoldMs: 0 })).toBe("held");
    expect((await backend.inspect("a lock")).held).toMatchObject([{ fence, remainder: "minHold" }]);
    await granted(backend, wish());
    expect(await backend.attempt(wish())).toMatchObject({ granted: false });
  });

  test("a waiter, also after the lock was handed to it", async () => {
    const [a, b] = [scratch.open(), scratch.open()];
    const [holder, waiter, other] = [claim(), claim(), claim({ name: "other" })];
    await granted(b, other);
    await granted(a, holder);
    expect(await b.attempt(waiter)).toMatchObject({ position: 1 });
    await a.release(holder);
    await grantedAtLast(b, waiter);
    const counts = countRenewals();
    expect(await b.renew([waiter, other])).toMatchObject([{ held: true }, { held: true }]);
    expect(counts.size).toBe(2);
  });
});

describe("ends at its own time beside leases that are renewed", () => {
  test("a lease that is not renewed, and one with a maxHold", async () => {
    const [locks, other] = [createLocks(scratch.open({ clock }), { clock }), open()];
    const kept = await locks.acquire("kept", { ttl: 600 });
    const short = await locks.acquire("not renewed", { ttl: 600, renew: false });
    const bounded = await locks.acquire("bounded", { ttl: 600, maxHold: 500 });
    for (const { name } of [short, bounded]) {
      expect(await other.attempt(claim({ name, queues: false }))).toMatchObject({ granted: false });
    }
    await clock.advance(610);
    await granted(other, claim({ name: "not renewed" }));
    // It may have been renewed just before its maxHold was over, and not after that.
    await clock.advance(500);
    await granted(other, claim({ name: "bounded" }));
    expect(await other.attempt(claim({ name: "kept", queues: false }))).toMatchObject({ granted: false });
    expect([short.signal.aborted, bounded.signal.aborted]).toEqual([true, true]);
    kept.assertHeld();
    expect(await kept.release()).toBe("released");
    await locks.close();
  });

  test("a lease that is not renewed any more, although the renewals of the others lengthen its time", async () => {
    const [backend, other] = [open(), open()];
    const [kept, forgotten] = several(2, { ttlMs: 500 });
    await take(backend, [kept!, forgotten!]);
    for (const heldForMs of [100, 200, 300, 400]) {
      await clock.advance(100);
      expect(await backend.renew([kept!])).toMatchObject([{ held: true }]);
      const answer = await other.attempt(claim({ name: forgotten!.name, queues: false }));
      expect(answer, `after ${heldForMs} ms`).toMatchObject({ granted: false });
    }
    // The renewal that finds it ends it in the next turn.
    await clock.advance(100);
    expect(await backend.renew([kept!])).toMatchObject([{ held: true }]);
    await clock.settle();
    await granted(other, claim({ name: forgotten!.name, queues: false }));
    expect(await backend.renew([forgotten!])).toMatchObject([{ held: false }]);
  });

  test("and so it does when all that happens is that others come and go", async () => {
    const [backend, other] = [open(), open()];
    const [forgotten] = several(1, { ttlMs: 500 });
    await take(backend, [forgotten!]);
    for (let passedMs = 0; passedMs < 500; passedMs += 50) {
      const answer = await other.attempt(claim({ name: forgotten!.name, queues: false }));
      expect(answer, `after ${passedMs} ms`).toMatchObject({ granted: false });
      await clock.advance(50);
      const brief = claim({ name: "brief", ttlMs: 500, renewed: true });
      await granted(backend, brief);
      await backend.release(brief);
    }
    await clock.settle();
    await granted(other, claim({ name: forgotten!.name, queues: false }));
  });
});

describe("a file whose time was over while it held a lease", () => {
  test("is never used again: a new claim does not bring an old lease back", async () => {
    const [backend, other] = [open(), open()];
    const [late, next] = several(2, { ttlMs: 300 });
    await take(backend, [late!]);
    clock.block(350);
    await granted(backend, next!);
    expect(leaseFiles()).toHaveLength(2);
    expect((await other.query("")).held).toMatchObject([{ name: next!.name }]);
    expect(await backend.renew([late!, next!])).toMatchObject([{ held: false }, { held: true }]);
    await granted(other, claim({ name: late!.name, queues: false }));
  });

  test("loses all its leases, and a renewal of one does not bring back another", async () => {
    const [backend, other] = [open(), open()];
    const claims = several(3, { ttlMs: 300 });
    await take(backend, claims);
    clock.block(350);
    await granted(other, claim({ name: claims[1]!.name }));
    expect(await backend.renew(claims)).toMatchObject([{ held: false }, { held: false }, { held: false }]);
    expect((await other.query("")).held).toHaveLength(1);
    for (const wish of claims) await backend.release(wish);
    await take(backend, several(1));
    // Nothing is left of the old one, and the new one is the only file of this backend.
    expect(leaseFiles()).toHaveLength(2);
  });

  test("is one that was renewed too late, too", async () => {
    const [a, b] = [open(), open()];
    const claims = several(2, { ttlMs: 1000 });
    await take(a, claims);
    let taken: Promise<unknown> | undefined;
    disk.utimes = (path, mtimeMs) => {
      if (taken === undefined) {
        taken = Promise.resolve();
        clock.block(1010);
        taken = b.attempt(claim({ name: claims[1]!.name }));
      }
      real.utimes(path, mtimeMs);
    };
    expect(await a.renew(claims)).toMatchObject([{ held: false }, { held: false }]);
    expect(await taken).toMatchObject({ granted: true });
    expect((await b.query("")).held).toMatchObject([{ name: claims[1]!.name }]);
  });
});

describe("another process", () => {
  test("ends one of several by force: only that one ends, and its holder learns it at once", async () => {
    const peer = await scratch.peer();
    const claims = several(3);
    const grants = [];
    for (const wish of claims) grants.push(await granted(peer, wish));
    const backend = scratch.open();
    expect(await backend.forceRelease("lock 1", grants[1]!.fence, "ops@testClients", "it hangs")).toBe(true);
    const lost = await eventually("the loss is reported", async () => {
      const all = await peer.call<{ id: string; reason: unknown }[]>("reports");
      return all.length > 0 ? all : undefined;
    });
    expect(lost).toMatchObject([
      { id: claims[1]!.id, reason: { kind: "forced", by: "ops@testClients", reason: "it hangs" } },
    ]);
    expect(await peer.call("renew", claims)).toMatchObject([{ held: true }, { held: false }, { held: true }]);
    // The file serves that lock again.
    await granted(peer, claim({ name: "lock 1", renewed: true }));
    expect(leaseFiles()).toHaveLength(1);
  });

  test("takes over all of them at once when their process is killed", async () => {
    const peer = await scratch.peer();
    const claims = several(3);
    for (const wish of claims) await granted(peer, wish);
    await peer.kill();
    const backend = scratch.open();
    for (const { name } of claims) await granted(backend, claim({ name }));
  });

  test("takes over after the ttl when their process is stopped, which learns it for each of them", async () => {
    const peer = await scratch.peer();
    const claims = several(3, { ttlMs: 400 });
    for (const wish of claims) await granted(peer, wish);
    peer.process.kill("SIGSTOP");
    const backend = scratch.open();
    await grantedAtLast(backend, claim({ name: "lock 1" }));
    peer.process.kill("SIGCONT");
    expect(await peer.call("renew", claims)).toMatchObject([{ held: false }, { held: false }, { held: false }]);
    const again = several(3);
    expect(await peer.attempt(again[0]!)).toMatchObject({ granted: true });
    expect(await peer.attempt(again[1]!)).toMatchObject({ granted: false });
    expect((await backend.query("")).held).toMatchObject([{ name: "lock 0" }, { name: "lock 1" }]);
  });
});

test("a lease file that has no links left is replaced for new claims, and keeps the leases that it has", async () => {
  const backend = scratch.open();
  disk.link = (from, to) => {
    if ((statSync(from, { throwIfNoEntry: false })?.nlink ?? 0) >= 4)
      throw Object.assign(new Error("EMLINK"), { code: "EMLINK" });
    real.link(from, to);
  };
  const claims = several(8);
  await take(backend, claims);
  expect(leaseFiles()).toHaveLength(3);
  const counts = countRenewals();
  expect((await backend.renew(claims)).every(({ held }) => held === true)).toBe(true);
  expect([...counts.values()]).toEqual([1, 1, 1]);
  for (const wish of claims) expect(await backend.release(wish)).toBe("held");
  expect(leaseFiles()).toHaveLength(1);
});

test("a shared file that was removed is replaced by another", async () => {
  const backend = scratch.open();
  const [first, second] = several(2);
  await take(backend, [first!]);
  rmSync(join(scratch.dir, "o", leaseFiles()[0]!));
  await take(backend, [second!]);
  expect(await backend.renew([first!, second!])).toMatchObject([{ held: false }, { held: true }]);
});

test("files of claims with different share keys are not kept without limit", async () => {
  const backend = scratch.open();
  for (let at = 0; at < 100; at++) {
    const wish = claim({ renewed: true, meta: { request: String(at) } });
    await granted(backend, wish);
    await backend.release(wish);
  }
  expect(leaseFiles().length).toBeLessThanOrEqual(64);
});

describe.each(["space", "inodes"])("on a full disk (no %s left)", (what) => {
  test("a release that cannot be written fails clearly, ends nothing else, and is done as soon as there is space", async () => {
    const peer = await scratch.confined();
    const filler = join(scratch.dir, "../filler");
    const claims = several(3);
    for (const wish of claims) await granted(peer, wish);
    await peer.call("fill", filler, what);
    const outcome = await peer.call("release", claims[1]!).catch((cause: unknown) => cause as PeerError);
    // One more name in a directory of a tmpfs takes an inode, but no space.
    if (what === "space") expect(outcome).toBe("held");
    else {
      expect(outcome).toMatchObject({ name: "LockBackendError", fatal: false, message: expect.stringMatching(/full/) });
      expect(await peer.call("query", "lock 1")).toMatchObject({ held: [{ name: "lock 1" }] });
    }
    expect(await peer.call("renew", [claims[0]!, claims[2]!])).toMatchObject([{ held: true }, { held: true }]);
    await peer.call("unfill", filler);
    // It is not renewed again: the others' next renewal ends it.
    expect(await peer.call("renew", [claims[0]!, claims[2]!])).toMatchObject([{ held: true }, { held: true }]);
    expect(await peer.call("query", "")).toMatchObject({ held: [{ name: "lock 0" }, { name: "lock 2" }] });
    await granted(peer, claim({ name: "lock 1" }));
  });
});
