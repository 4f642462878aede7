/** Foreign and unreadable files among the locks: each harms only its own lock, and the error names it. */
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type Clock, systemClock } from "../../../src/contract/clock.ts";
import type { LockBackendError } from "../../../src/contract/errors.ts";
import { type Disk, disk } from "../../../src/backends/file/disk.ts";
import { claim, granted, grantedAtLast, Scratch } from "./peers.ts";

const real: Disk = { ...disk };

let scratch: Scratch;
beforeEach(async () => {
  scratch = new Scratch();
  await scratch.open().query("");
});
afterEach(async () => {
  Object.assign(disk, real);
  await scratch.end();
});

const at = (path: string): string => join(scratch.dir, path);

/** What can be where a file of ours should be. */
const THINGS: Readonly<Record<string, (path: string) => void>> = {
  text: (path) => writeFileSync(path, "hello"),
  "a directory": (path) => mkdirSync(path),
  "a full directory": (path) => {
    mkdirSync(path);
    writeFileSync(join(path, "notes.txt"), "mine");
  },
  // Opening it for reading waits until another process writes.
  "a pipe": (path) => execFileSync("mkfifo", [path]),
  "a link that leads nowhere": (path) => symlinkSync("/nowhere/at/all", path),
  "a link to itself": (path) => symlinkSync(path, path),
  "a link to a device": (path) => symlinkSync("/dev/zero", path),
};

async function failure(name: string): Promise<LockBackendError> {
  const error: unknown = await scratch
    .open()
    .attempt(claim({ name }))
    .catch((cause: unknown) => cause);
  expect(error).toMatchObject({ name: "LockBackendError", fatal: true });
  return error as LockBackendError;
}

/** Locks go on, are listed, and are cleaned up, whatever lies among them. */
async function othersGoOn(): Promise<void> {
  const [backend, held, idle] = [scratch.open(), claim({ name: "healthy" }), claim({ name: "idle" })];
  await granted(backend, idle);
  await backend.release(idle);
  await granted(backend, held);
  const rival = scratch.open();
  expect((await rival.query("")).held.map(({ name }) => name)).toContain("healthy");
  expect(await rival.attempt(claim({ name: "healthy", queues: false }))).toMatchObject({ granted: false });
  writeFileSync(at("t/left-by-the-dead"), "");
  await backend.clean();
  expect(existsSync(at("t/left-by-the-dead"))).toBe(false);
  expect(existsSync(at("l/_idle"))).toBe(false);
  expect(await backend.release(held)).toBe("held");
}

describe.each(Object.entries(THINGS))("S143: %s", (what, put) => {
  test("instead of a lock makes only that lock unusable, with its path in the message", async () => {
    put(at("l/_bad"));
    // An empty directory is what a removed lock may leave.
    if (what === "a directory") await granted(scratch.open(), claim({ name: "bad" }));
    else expect((await failure("bad")).message).toContain(at("l/_bad"));
    await othersGoOn();
  });

  test("instead of a lock's incarnation or newest entry does the same", async () => {
    mkdirSync(at("l/_empty"));
    put(at("l/_empty/exactly16letters"));
    expect((await failure("empty")).message).toContain(at("l/_empty"));
    const [backend, held] = [scratch.open(), claim({ name: "bad" })];
    await granted(backend, held);
    const [home] = readdirSync(at("l/_bad"));
    const [epoch] = readdirSync(at(`l/_bad/${home}`));
    put(at(`l/_bad/${home}/${epoch}/2`));
    // A link that leads nowhere is not there, until a process wants to make the entry.
    if (what === "a link that leads nowhere" || what === "a link to itself")
      await expect(backend.release(held)).rejects.toThrow(/is not what this backend writes: it is a symbolic link/);
    else expect((await failure("bad")).message).toContain(at(`l/_bad/${home}/${epoch}/2 is not what`));
    await othersGoOn();
  });

  test("instead of a queue makes waiting fail clearly, and instead of a ticket is ignored", async () => {
    const [backend, held, waiter] = [scratch.open(), claim({ name: "bad" }), claim({ name: "bad" })];
    await granted(backend, held);
    if (!what.includes("directory")) {
      put(at("q/_bad"));
      expect((await failure("bad")).message).toContain(at("q/_bad"));
      rmSync(at("q/_bad"));
    }
    mkdirSync(at("q/_bad"), { recursive: true });
    put(at("q/_bad/0000000000000001-exactly16letters"));
    const other = scratch.open();
    expect(await other.attempt(waiter)).toMatchObject({ granted: false, position: 1 });
    expect((await other.query("bad")).pending).toHaveLength(1);
    await backend.release(held);
    await grantedAtLast(other, waiter);
    await othersGoOn();
  });

  test("among lease files, companions, forced releases, sockets, fences and half-made things is ignored", async () => {
    const paths = ["o/exactly16letters", "a/exactly16letters", "s/exactly16letters", "t/exactly16letters"];
    paths.push("f/1-0123456789abcdef", "n/9007199254740993", "l/notes", `l/~${"0".repeat(64)}`, "q/notes");
    for (const path of paths) put(at(path));
    mkdirSync(at(`l/~${"1".repeat(64)}/exactly16letters/e1-x`), { recursive: true });
    put(at(`l/~${"1".repeat(64)}/exactly16letters/e1-x/0`));
    await othersGoOn();
    expect((await scratch.open().query("")).forced).toEqual([]);
  });
});

test("S143: a lock with foreign files beside it stays, because they would prevent making it again", async () => {
  const [backend, wish] = [scratch.open(), claim({ name: "shared room" })];
  await granted(backend, wish);
  await backend.release(wish);
  writeFileSync(at("l/_shared%20room/notes.txt"), "mine");
  await backend.clean();
  await granted(scratch.open(), claim({ name: "shared room" }));
  expect(existsSync(at("l/_shared%20room/notes.txt"))).toBe(true);
});

test("S143: query warns once of a lock that cannot be read, lists the others, and fails for its own name", async () => {
  const warnings: (Error & { code?: string })[] = [];
  const hear = (warning: Error): unknown => warnings.push(warning);
  process.on("warning", hear);
  try {
    const backend = scratch.open();
    await granted(backend, claim({ name: "good" }));
    mkdirSync(at("l/_bad/exactly16letters/e1-x/0"), { recursive: true });
    for (let times = 0; times < 3; times++) expect((await backend.query("")).held).toMatchObject([{ name: "good" }]);
    await expect(backend.query("bad")).rejects.toThrow(/Lock "bad" cannot be used: .*a directory/);
    await new Promise((resolve) => setImmediate(resolve));
  } finally {
    process.off("warning", hear);
  }
  expect(warnings).toMatchObject([{ code: "HOLDFAST_UNREADABLE_LOCK", message: expect.stringContaining("l/_bad") }]);
});

test("S143: a file that the system refuses to read does not stop the cleanup", async () => {
  for (const path of ["o/exactly16letters", "t/exactly16letters"]) writeFileSync(at(path), "");
  const check = (path: string): void => {
    if (path.includes("exactly16letters")) throw Object.assign(new Error("EACCES"), { code: "EACCES", path });
  };
  disk.read = (path) => (check(path), real.read(path));
  disk.times = (path) => (check(path), real.times(path));
  disk.info = (path) => (check(path), real.info(path));
  await othersGoOn();
});

describe("S138: a ttl that is shorter than it takes to take a lock", () => {
  /** Time runs: every look at the clock finds it 3 ms later. */
  function running(): Clock {
    let nowMs = 1000;
    return { ...systemClock, now: () => (nowMs += 3), wall: () => systemClock.wall() };
  }

  test.each([
    ["free", false],
    ["held", true],
  ])("ends with a clear error, or a place in the queue, after a few tries: the lock is %s", async (_what, held) => {
    const clock = running();
    const backend = scratch.open({ clock, hints: "poll" });
    if (held) await granted(backend, claim({ ttlMs: 3_600_000 }));
    let made = 0;
    disk.open = (path) => {
      made++;
      return real.open(path);
    };
    const answer: unknown = await backend.attempt(claim({ ttlMs: 1 })).catch((cause: unknown) => cause);
    if (held) expect(answer).toMatchObject({ granted: false, retryMs: expect.any(Number) });
    else expect(answer).toMatchObject({ fatal: false, message: expect.stringMatching(/ttl of 1 ms was over before/) });
    expect(made).toBeLessThan(50);
    if (held) expect((answer as { retryMs: number }).retryMs).toBeGreaterThanOrEqual(20);
  });
});
