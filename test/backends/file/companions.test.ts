/** Leases that do not end with the process that took them: companions, detached leases, worker threads. */
import { execFile, spawn } from "node:child_process";
import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { openBackend, openRenewer } from "../../../src/backends/file/open.ts";
import { parseChecked } from "../../../src/backends/file/checked-text.ts";
import { DIST } from "../../dist.ts";
import { claim, granted, grantedAtLast, rewrite, Scratch, sleep } from "./peers.ts";

let scratch: Scratch;
beforeEach(() => {
  scratch = new Scratch();
});
afterEach(() => scratch.end());

function sleeper(): { readonly pid: number; kill(): Promise<void> } {
  const child = spawn("sleep", ["60"], { stdio: "ignore" });
  return {
    pid: child.pid!,
    kill: async () => {
      const gone = new Promise((resolve) => child.once("exit", resolve));
      child.kill("SIGKILL");
      await gone;
    },
  };
}

describe("a companion", () => {
  test("keeps the lock when the holder is killed and its ttl has passed, and frees it by its own death", async () => {
    const peer = await scratch.peer();
    const child = sleeper();
    await peer.call("alsoAlive", child.pid);
    const before = await granted(peer, claim({ ttlMs: 300 }));
    await peer.kill();
    const [backend, waiter] = [scratch.open(), claim()];
    expect(await backend.attempt(waiter)).toMatchObject({ granted: false, heldBy: [{ fence: before.fence }] });
    await sleep(600);
    expect(await backend.attempt(waiter)).toMatchObject({ granted: false });
    expect((await backend.query("")).held).toHaveLength(1);
    await child.kill();
    const after = await grantedAtLast(backend, waiter);
    expect(after.fence).toBeGreaterThan(before.fence);
  });

  test.each([
    [
      "as 0.1 wrote it, without a checksum",
      (text: string) => JSON.stringify(parseChecked(text), (key, it: unknown) => (key === "sum" ? undefined : it)),
      true,
    ],
    ["damaged: the ttl decides", (text: string) => text.slice(0, 40), false],
    ["changed by hand: the ttl decides", (text: string) => text.replace('"start"', '"Start"'), false],
  ])("whose record is %s", async (_what, change, readable) => {
    const [peer, child] = [await scratch.peer(), sleeper()];
    await peer.call("alsoAlive", child.pid);
    await granted(peer, claim({ ttlMs: 1500 }));
    const [name] = readdirSync(join(scratch.dir, "a"));
    const path = join(scratch.dir, "a", name!);
    const text = readFileSync(path, "utf8");
    writeFileSync(path, change(text));
    await peer.kill();
    const [backend, waiter] = [scratch.open(), claim()];
    // The process alone is dead: what it worked with may not be.
    expect(await backend.attempt(waiter)).toMatchObject({ granted: false });
    if (readable) {
      await sleep(1700);
      expect(await backend.attempt(waiter)).toMatchObject({ granted: false });
      await child.kill();
    }
    await grantedAtLast(backend, waiter);
    if (!readable) await child.kill();
  });

  test("keeps the lock while the holder is stopped beyond its ttl", async () => {
    const peer = await scratch.peer();
    const child = sleeper();
    await granted(peer, claim({ ttlMs: 300 }));
    await peer.call("alsoAlive", child.pid);
    peer.process.kill("SIGSTOP");
    await sleep(600);
    const [backend, waiter] = [scratch.open(), claim()];
    expect(await backend.attempt(waiter)).toMatchObject({ granted: false });
    await child.kill();
    await grantedAtLast(backend, waiter);
  });

  test("is forgotten on request, and does not keep a lock that was released", async () => {
    const peer = await scratch.peer();
    const child = sleeper();
    const [first, second] = [claim(), claim({ name: "another" })];
    await peer.call("alsoAlive", child.pid);
    await granted(peer, first);
    await peer.call("release", first);
    const backend = scratch.open();
    await granted(backend, claim());
    await granted(peer, second);
    await peer.call("notAlive");
    await peer.kill();
    await granted(backend, claim({ name: "another" }));
    await child.kill();
  });

  test("does not keep a lease that is ended by force", async () => {
    const peer = await scratch.peer();
    const child = sleeper();
    await peer.call("alsoAlive", child.pid);
    const { fence } = await granted(peer, claim());
    await peer.kill();
    const backend = scratch.open();
    expect(await backend.forceRelease("a lock", fence, "ops", "stuck")).toBe(true);
    await granted(backend, claim());
    await child.kill();
  });

  test("must be a pid", () => {
    for (const wrong of [0, -1, 1.5, Number.NaN]) expect(() => scratch.open().alsoAlive(wrong)).toThrow(TypeError);
  });
});

describe("a detached lease", () => {
  test("outlives its process until its ttl, and another process renews and releases it by its claim", async () => {
    const wish = claim({ ttlMs: 60_000 });
    const peer = await scratch.peer({ detached: true });
    const { fence } = await granted(peer, wish);
    await peer.kill();
    const other = scratch.open({ detached: true });
    expect(await other.attempt(claim({ queues: false }))).toMatchObject({ granted: false, heldBy: [{ fence }] });
    expect(await other.renew([wish])).toMatchObject([{ held: true }]);
    expect(await other.release(wish)).toBe("held");
    expect(await other.release(wish)).toBe("absent");
    await granted(other, claim());
  });

  test("ends with its ttl", async () => {
    const peer = await scratch.peer({ detached: true });
    await granted(peer, claim({ ttlMs: 300 }));
    await peer.kill();
    await grantedAtLast(scratch.open(), claim());
  });
});

describe("a detached lease that is renewed with another ttl", () => {
  test("has that ttl from then on, with its fence, and never ends sooner than it would have", async () => {
    const wish = claim({ ttlMs: 60_000 });
    const taker = scratch.open({ detached: true });
    const { fence } = await granted(taker, wish);
    await taker.close();
    for (const [ttlMs, lastsMs] of [
      [90_000, 90_000],
      [3_600_000, 3_600_000],
      [3_600_000, 3_600_000],
      [30_000, 3_600_000],
    ] as const) {
      const other = scratch.open({ detached: true });
      expect(await other.renew([{ ...wish, ttlMs }])).toMatchObject([{ held: true }]);
      const [held] = (await other.query("")).held;
      expect(held).toMatchObject({ fence, holder: wish.holder });
      expect(held!.remainingMs).toBeGreaterThan(lastsMs - 60_000);
      expect(held!.remainingMs).toBeLessThanOrEqual(lastsMs + 10);
      await other.close();
    }
    expect(await scratch.open({ detached: true }).release(wish)).toBe("held");
    await granted(scratch.open(), claim());
  });

  test("also lasts that long for processes that must count it from the last renewal: after a reboot", async () => {
    const wish = claim({ ttlMs: 300 });
    const taker = scratch.open({ detached: true });
    await granted(taker, wish);
    expect(await taker.renew([{ ...wish, ttlMs: 60_000 }])).toMatchObject([{ held: true }]);
    // What is written in the lock and in the lease file, as a process of another boot would have written it.
    for (const entry of readdirSync(scratch.dir, { recursive: true, withFileTypes: true })) {
      const path = join(entry.parentPath, entry.name);
      if (!entry.isFile() || !/\/[ol]\//.test(path)) continue;
      rewrite(path, (record) => {
        return JSON.parse(JSON.stringify(record).replaceAll(/"boot":"[^"]*"/g, '"boot":"another"')) as object;
      });
    }
    await sleep(1600);
    expect(await scratch.open().attempt(claim({ queues: false }))).toMatchObject({ granted: false });
  });
});

describe("a worker thread", () => {
  test("renews a lease by its claim, and says no for one that is gone", async () => {
    const backend = scratch.open();
    expect(backend.renewer.data).toEqual({ dir: scratch.dir });
    const [held, gone] = [claim({ renewed: false }), claim({ name: "gone", renewed: false })];
    await granted(backend, held);
    await granted(backend, gone);
    await backend.release(gone);
    const renewer = await openRenewer(backend.renewer.data);
    // The end itself, which does not depend on how much time the test takes.
    const endMs = (): number => statSync(join(scratch.dir, "o", held.id)).mtimeMs;
    const before = endMs();
    expect(await renewer.renew([held, gone])).toMatchObject([{ held: true }, { held: false }]);
    expect(endMs()).toBeGreaterThan(before);
    expect(await backend.release(held)).toBe("held");
    expect(await renewer.renew([held])).toMatchObject([{ held: false }]);
    await renewer.close();
  });

  test("keeps a lease of a process whose event loop is blocked for longer than the ttl", async () => {
    const program = `
      import { createLocks } from "${DIST}/index.js";
      import { file } from "${DIST}/backends/file/index.js";
      const locks = createLocks(file({ dir: ${JSON.stringify(scratch.dir)} }));
      const lease = await locks.acquire("a lock", { ttl: 2000, renew: "thread" });
      await new Promise((resolve) => setTimeout(resolve, 500));
      const endMs = performance.now() + 3500;
      while (performance.now() < endMs);
      lease.assertHeld();
      console.log(await lease.release());
      await locks.close();`;
    const { stdout } = await promisify(execFile)(process.execPath, ["--input-type=module", "-e", program]);
    expect(stdout.trim()).toBe("released");
  });
});

describe("URLs", () => {
  test("file:///path names a directory, file: the user's own", async () => {
    const backend = await openBackend(`file://${scratch.dir}/with%20space`);
    expect(backend.directory).toBe(`${scratch.dir}/with space`);
    await granted(backend, claim());
    await backend.close();
    expect(readdirSync(join(scratch.dir, "with space"))).toContain("l");
    expect((await openBackend("file:")).directory).toMatch(/\/\.local\/state\/holdfast\/locks$/);
  });

  test("relative paths and other schemes are refused: they would mean another directory for each process", async () => {
    for (const url of ["file:locks", "file:./locks", "file://host/locks", "redis://localhost"]) {
      await expect(openBackend(url), url).rejects.toThrow(TypeError);
    }
  });

  test("a password in a URL that is refused is not repeated", async () => {
    for (const url of [
      "file://u:SECRET@host/x",
      "file://u:a@SECRET@host/x",
      "file://SECRET@host/x",
      "file:u:SECRET@host",
    ]) {
      const error: unknown = await openBackend(url).catch((cause: unknown) => cause);
      expect(error).toBeInstanceOf(TypeError);
      expect((error as Error).message).toContain("host");
      expect((error as Error).message).not.toContain("SECRET");
    }
  });
});
