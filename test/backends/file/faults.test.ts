/** What goes wrong around the processes: the directory is removed, the disk is full, permission is denied, hints are lost. */
import { chmodSync, readdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { LockBackendError } from "../../../src/contract/errors.ts";
import { createLocks } from "../../../src/core/locks.ts";
import { claim, eventually, granted, grantedAtLast, type PeerError, Scratch } from "./peers.ts";

const ROOT = process.getuid?.() === 0;

let scratch: Scratch;
beforeEach(() => {
  scratch = new Scratch();
});
afterEach(() => scratch.end());

describe("the directory is removed while a lock is held", () => {
  test("the holder learns it from its next renewal, and the next lease has a greater fence", async () => {
    const [a, b] = [scratch.open(), scratch.open()];
    const [lost, next] = [claim(), claim()];
    const before = await granted(a, lost);
    rmSync(scratch.dir, { recursive: true });
    const after = await granted(b, next);
    expect(after.fence).toBeGreaterThan(before.fence + BigInt(before.run) - 1n);
    expect(await a.renew([lost])).toMatchObject([{ held: false }]);
    expect(await a.release(lost)).toBe("absent");
    expect(await b.renew([next])).toMatchObject([{ held: true }]);
    expect(await a.attempt(claim({ queues: false }))).toMatchObject({ granted: false });
  });

  test("a waiter waits on in the new directory", async () => {
    const [a, b] = [scratch.open(), scratch.open()];
    const [holder, waiter] = [claim(), claim()];
    await granted(a, holder);
    expect(await b.attempt(waiter)).toMatchObject({ granted: false });
    rmSync(scratch.dir, { recursive: true });
    await grantedAtLast(b, waiter);
  });

  test("fences rise over it even at full speed", async () => {
    const backend = scratch.open();
    let last = 0n;
    for (let times = 0; times < 8; times++) {
      for (let round = 0; round < 150; round++) {
        const one = claim();
        const { fence, run } = await granted(backend, one);
        expect(fence).toBeGreaterThan(last);
        last = fence + BigInt(run) - 1n;
        await backend.release(one);
      }
      rmSync(scratch.dir, { recursive: true });
    }
  });
});

describe.each(["space", "inodes"])("the disk is full (no %s left)", (what) => {
  test("says so, keeps every lease that is held, and lets it be renewed and released", async () => {
    const peer = await scratch.confined();
    const filler = join(scratch.dir, "../filler");
    const [held, other] = [claim({ name: "held" }), claim({ name: "other", meta: { text: "x".repeat(5000) } })];
    const before = await granted(peer, held);
    expect(await peer.call("fill", filler, what)).toBe("ENOSPC");

    const error = await peer.attempt(other).catch((cause: unknown) => cause as PeerError);
    expect(error).toMatchObject({ name: "LockBackendError", code: "ERR_LOCK_BACKEND", fatal: false });
    expect((error as PeerError).message).toMatch(/disk is full/);
    expect(await peer.call("renew", [held])).toMatchObject([{ held: true }]);
    expect(await peer.call("query", "")).toMatchObject({ held: [{ name: "held", fence: before.fence }] });
    expect(await peer.call("release", held)).toBe("held");
    expect(await peer.call("query", "")).toMatchObject({ held: [] });

    await peer.call("unfill", filler);
    const after = await granted(peer, { ...held, id: other.id });
    expect(after.fence).toBeGreaterThan(before.fence);
    await granted(peer, other).catch(() => granted(peer, { ...other, id: held.id }));
  });
});

describe("permission is denied", () => {
  test("another user gets a clear and final error, and the holder loses nothing", async () => {
    const backend = scratch.open();
    const held = claim();
    await granted(backend, held);
    const peer = await scratch.peer();
    // Root may do everything, so it must become another user. Any other user can lock itself out.
    if (ROOT) await peer.call("setuid", 65534);
    else chmodSync(scratch.dir, 0);
    const error = (await peer.attempt(claim()).catch((cause: unknown) => cause)) as PeerError;
    if (!ROOT) chmodSync(scratch.dir, 0o700);
    expect(error).toMatchObject({ name: "LockBackendError", code: "ERR_LOCK_BACKEND", fatal: true });
    expect(error.message).toMatch(/permission denied|belongs to uid/);
    expect(error.message).toContain(scratch.dir);
    expect(await backend.renew([held])).toMatchObject([{ held: true }]);
    expect(await backend.release(held)).toBe("held");
  });

  test("a directory that others may write to is refused", async () => {
    await scratch.open().query("");
    chmodSync(scratch.dir, 0o777);
    const error = (await scratch
      .open()
      .attempt(claim())
      .catch((cause: unknown) => cause)) as LockBackendError;
    expect(error).toBeInstanceOf(LockBackendError);
    expect(error.fatal).toBe(true);
    expect(error.message).toMatch(/others may write to it \(mode 777\)/);
  });

  test("what is made is for this user alone", async () => {
    const backend = scratch.open();
    await granted(backend, claim());
    const modes = ["", "o", "l", "q", "s", "t", "a", "f", "n"].map(
      (part) => statSync(join(scratch.dir, part)).mode & 0o777,
    );
    expect(new Set(modes)).toEqual(new Set([0o700]));
    const [id] = readdirSync(join(scratch.dir, "o"));
    expect(statSync(join(scratch.dir, "o", id!)).mode & 0o777).toBe(0o600);
  });
});

describe("every hint is lost", () => {
  test("a waiter still gets the lock that was handed to it", async () => {
    const peer = await scratch.peer();
    const holder = claim();
    await granted(peer, holder);
    const locks = createLocks(scratch.open());
    const waiting = locks.acquire("a lock", { wait: "20s" });
    await eventually("one claim waits", async () => ((await locks.query()).pending.length === 1 ? true : undefined));
    // No process can be reached any more.
    for (const socket of readdirSync(join(scratch.dir, "s"))) rmSync(join(scratch.dir, "s", socket));
    await peer.call("release", holder);
    const lease = await waiting;
    expect(await lease.release()).toBe("released");
    await locks.close();
  });

  test("a holder learns from its next renewal that its lease was ended by force, and why", async () => {
    const peer = await scratch.peer({ hints: "poll" });
    const victim = claim();
    const { fence } = await granted(peer, victim);
    expect(await scratch.open({ hints: "poll" }).forceRelease("a lock", fence, "ops@testClients", "it hangs")).toBe(
      true,
    );
    const [renewal] = await peer.call<readonly [{ held: boolean; reason: unknown }]>("renew", [victim]);
    expect(renewal.held).toBe(false);
    expect(renewal.reason).toEqual({ kind: "forced", by: "ops@testClients", reason: "it hangs" });
  });
});

test("a force release is reported to the holder's process at once, over a socket", async () => {
  const peer = await scratch.peer();
  const victim = claim();
  const { fence } = await granted(peer, victim);
  expect(await scratch.open().forceRelease("a lock", fence, "ops@testClients", "it hangs")).toBe(true);
  const lost = await eventually(
    "the loss is reported",
    async () => (await peer.call<{ id: string; reason: unknown }[]>("reports"))[0],
  );
  expect(lost.id).toBe(victim.id);
  expect(lost.reason).toEqual({ kind: "forced", by: "ops@testClients", reason: "it hangs" });
});
