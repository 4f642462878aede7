/**
 * A waiter gives up while another process is in the middle of link(2), which hands it the lock: the kernel has found its ticket
 * already, so removing it does not stop the link. What that brings is over from the start: it blocks no claim, and no claim
 * ever believes in it.
 */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Claim } from "../../../src/contract/backend.ts";
import type { FileBackend, FileOptions } from "../../../src/backends/file/index.ts";
import { type Disk, disk } from "../../../src/backends/file/disk.ts";
import { FakeClock } from "../../../src/testing/fake-clock.ts";
import { claim, granted, Scratch } from "./peers.ts";

const real: Disk = { ...disk };

let scratch: Scratch;
beforeEach(() => {
  scratch = new Scratch();
});
afterEach(async () => {
  Object.assign(disk, real);
  await scratch.end();
});

/** Runs `act` in the middle of the first link of a ticket: after the kernel has found the ticket, before the new name is there. */
function amidTheHandOver(act: () => unknown): () => boolean {
  let done = false;
  disk.link = (from, to) => {
    if (done || !/\/q\//.test(from)) return real.link(from, to);
    done = true;
    const found = join(scratch.dir, "found");
    real.link(from, found);
    void act();
    real.link(found, to);
    return real.unlink(found);
  };
  return () => done;
}

/** Runs `act` once, just before a process links the state that it has written. The methods do their work before they return. */
function justBeforeState(act: () => unknown): void {
  let done = false;
  disk.link = (from, to) => {
    if (!done && /\/t\//.test(from) && /\/l\//.test(to)) {
      done = true;
      void act();
    }
    real.link(from, to);
  };
}

/** A lock that was handed to a waiter of `quitter` which gave up amid the link. */
async function handedInVain(quitter: FileBackend, options: FileOptions, change: Partial<Claim> = {}): Promise<void> {
  const a = scratch.open({ hints: "poll", ...options });
  const [holder, wish] = [claim(), claim({ renewed: false, ...change })];
  await granted(a, holder);
  expect(await quitter.attempt(wish)).toMatchObject({ position: 1 });
  const happened = amidTheHandOver(() => quitter.release(wish));
  expect(await a.release(holder)).toBe("held");
  expect(happened()).toBe(true);
  Object.assign(disk, real);
}

describe("S170: a waiter that gives up amid the link of its ticket", () => {
  test("does not leave a lease that its process takes for its own while another process takes over", async () => {
    const clock = new FakeClock();
    const [b, d] = [scratch.open({ clock, hints: "poll" }), scratch.open({ clock, hints: "poll" })];
    await handedInVain(b, { clock });
    const [reader, writer] = [claim({ mode: "shared", ttlMs: 600_000 }), claim({ renewed: false })];
    await d.attempt(reader);
    // If the quitter was given a lease, it is over now. The reader sees that, and is about to write that it holds.
    clock.block(claim().ttlMs + 10);
    const writerHolds: boolean[] = [];
    const ask = async (): Promise<unknown> => writerHolds.push((await b.attempt(writer)).granted);
    justBeforeState(() => [ask(), ask()]);
    expect(await d.attempt(reader)).toMatchObject({ granted: true });
    await ask();
    expect(writerHolds).not.toContain(true);
    expect((await d.query("a lock")).held).toMatchObject([{ mode: "shared" }]);
  });

  describe.each<[string, FileOptions]>([
    ["ends with its process", {}],
    ["outlives its process", { detached: true }],
  ])("of a lease that %s", (_what, options) => {
    test.each(["who waits", "who comes later"])("blocks no claim: %s", async (who) => {
      const [a, b, c] = [scratch.open(), scratch.open(options), scratch.open({ hints: "poll" })];
      const [holder, quitter, next] = [claim(), claim(), claim({ queues: who === "who waits", holder: "next:3" })];
      await granted(a, holder);
      expect(await b.attempt(quitter)).toMatchObject({ position: 1 });
      if (next.queues) expect(await c.attempt(next)).toMatchObject({ position: 2 });
      const happened = amidTheHandOver(() => b.release(quitter));
      expect(await a.release(holder)).toBe("held");
      expect(happened()).toBe(true);
      // Its file is used for nothing else: as another's, what it was given too late would live on.
      await granted(b, claim({ name: "another", renewed: false }));
      if (next.queues) expect((await a.query("a lock")).held).toMatchObject([{ holder: "next:3" }]);
      await granted(c, next);
    });
  });

  test("because its time was over, and waits again: it gets the lock, though a companion keeps its process's leases alive", async () => {
    const clock = new FakeClock();
    const [a, b] = [scratch.open({ clock, hints: "poll" }), scratch.open({ clock, hints: "poll" })];
    const [holder, late] = [claim({ ttlMs: 600_000 }), claim({ ttlMs: 1000 })];
    b.alsoAlive(process.pid);
    await granted(a, holder);
    expect(await b.attempt(late)).toMatchObject({ position: 1 });
    const happened = amidTheHandOver(() => {
      clock.block(2000);
      void b.attempt(late);
    });
    expect(await a.release(holder)).toBe("held");
    expect(happened()).toBe(true);
    await granted(b, late);
  });

  test("blocks no claim though a companion keeps the leases of its process alive", async () => {
    const b = scratch.open();
    await granted(b, claim({ name: "another" }));
    b.alsoAlive(process.pid);
    await handedInVain(b, {});
    await granted(scratch.open(), claim({ queues: false }));
    // What it holds is still kept alive.
    expect((await b.query("")).held).toHaveLength(2);
  });

  test("leaves no file behind", async () => {
    await handedInVain(scratch.open(), {});
    expect(readdirSync(join(scratch.dir, "q", "_a%20lock"))).toEqual([]);
    // The other file is the releaser's, which serves its next claim.
    expect(readdirSync(join(scratch.dir, "o"))).toHaveLength(1);
  });
});

test("a lease that is released on a full disk is over, though a companion keeps the leases of its process alive", async () => {
  const [a, b] = [scratch.open(), scratch.open()];
  const wish = claim({ renewed: false });
  await granted(a, wish);
  a.alsoAlive(process.pid);
  disk.link = () => {
    throw Object.assign(new Error("ENOSPC"), { code: "ENOSPC" });
  };
  expect(await a.release(wish)).toBe("held");
  Object.assign(disk, real);
  await granted(b, claim({ queues: false }));
});
