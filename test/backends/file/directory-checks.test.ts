/** The lock directory: only one that is ours alone is used, and only what we made is removed. */
import { execFileSync } from "node:child_process";
import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:net";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { LockBackendError } from "../../../src/contract/errors.ts";
import { disk } from "../../../src/backends/file/disk.ts";
import { claim, granted, Peer, Scratch } from "./peers.ts";

const ROOT = process.getuid?.() === 0;
const CHILDREN = ["o", "l", "q", "f", "a", "s", "n", "t"];

let scratch: Scratch;
beforeEach(() => {
  scratch = new Scratch();
});
afterEach(() => scratch.end());

async function refusal(dir = scratch.dir): Promise<string> {
  const error: unknown = await scratch
    .open({ dir })
    .attempt(claim())
    .catch((cause: unknown) => cause);
  expect(error).toBeInstanceOf(LockBackendError);
  expect((error as LockBackendError).fatal).toBe(true);
  return (error as LockBackendError).message;
}

/** All that is in a directory, by name and kind. */
function tree(path: string): string[] {
  return readdirSync(path, { recursive: true }).map(String).toSorted();
}

describe("S172: a directory that is not empty", () => {
  test.each([
    ["a file", () => writeFileSync(join(scratch.dir, "notes.txt"), "mine")],
    ["directories with names like ours", () => ["t", "s", "o"].forEach((name) => mkdirSync(join(scratch.dir, name)))],
    [
      "all our directories and one thing more",
      () => [...CHILDREN, "thesis"].forEach((name) => mkdirSync(join(scratch.dir, name))),
    ],
  ])("is refused, and nothing in it is touched: %s", async (_what, fill) => {
    mkdirSync(scratch.dir, { mode: 0o700 });
    fill();
    const before = tree(scratch.dir);
    expect(await refusal()).toMatch(/there is something in it .*no file "holdfast".*Name an empty directory/);
    expect(tree(scratch.dir)).toEqual(before);
  });

  test("is used if it is empty, and marked before anything else is made in it", async () => {
    mkdirSync(scratch.dir, { mode: 0o700 });
    await granted(scratch.open(), claim());
    expect(readFileSync(join(scratch.dir, "holdfast"), "utf8")).toMatch(/^holdfast 1\n/);
  });

  test("is used if 0.1 made it: all its directories and nothing else; its locks and their fences go on", async () => {
    await scratch.open().query("");
    // As 0.1 left a lock: entries without checksums, an empty file for "free", and no marker.
    rmSync(join(scratch.dir, "holdfast"));
    const epoch = join(scratch.dir, "l/_a%20lock/incarnation-1234/e1-epoch");
    mkdirSync(epoch, { recursive: true });
    const base = Date.now() * 1000 + 60_000_000;
    const state = { kind: "state", holders: [], kept: [], forced: [] };
    const boot = readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
    const first = { kind: "epoch", format: 1, id: "1-epoch", name: "a lock", base, stride: 64, boot, state };
    writeFileSync(join(epoch, "0"), JSON.stringify(first));
    for (const file of ["f", "1"]) writeFileSync(join(epoch, file), "");
    const backend = scratch.open({ entriesMax: 3 });
    let last = BigInt(base + 64);
    for (let round = 0; round < 6; round++) {
      const wish = claim();
      const { fence } = await granted(backend, wish);
      expect(fence).toBeGreaterThan(last);
      last = fence;
      await backend.release(wish);
    }
    expect(existsSync(join(scratch.dir, "holdfast"))).toBe(true);
  });

  test("is refused if another version has marked it, and so is one whose marker is no file", async () => {
    await scratch.open().query("");
    writeFileSync(join(scratch.dir, "holdfast"), "holdfast 2\n");
    expect(await refusal()).toMatch(/another version/);
    rmSync(join(scratch.dir, "holdfast"));
    execFileSync("mkfifo", [join(scratch.dir, "holdfast")]);
    expect(await refusal()).toMatch(/is not what this backend writes/);
  });

  test("is made again by a process that has it open while another process is still removing it", async () => {
    const backend = scratch.open();
    await granted(backend, claim());
    for (const name of ["holdfast", "l", "q", "t"]) rmSync(join(scratch.dir, name), { recursive: true });
    await granted(backend, claim({ name: "another" }));
    expect(existsSync(join(scratch.dir, "holdfast"))).toBe(true);
  });

  test("is made by several processes at once without one refusing what another has just begun", async () => {
    const peers = await Promise.all([1, 2, 3, 4].map(() => scratch.peer()));
    for (let round = 0; round < 25; round++) {
      const answers = peers.map((peer) => peer.attempt(claim({ name: `lock ${round}`, queues: false })));
      const settled = await Promise.all(answers);
      expect(settled.filter(({ granted: yes }) => yes).length).toBeGreaterThan(0);
      // The peers live, and may put something in while it is being emptied: so it goes in one step.
      const away = `${scratch.dir}-${round}`;
      renameSync(scratch.dir, away);
      rmSync(away, { recursive: true });
    }
  });
});

describe("S172: every level is checked, and no link is followed", () => {
  test("a symbolic link instead of the directory is refused, with the name to use instead", async () => {
    const real = join(scratch.dir, "../real");
    mkdirSync(real, { mode: 0o700 });
    symlinkSync(real, scratch.dir);
    expect(await refusal()).toMatch(/symbolic link to .*\/real\. Name the directory itself/);
    expect(await refusal(`${scratch.dir}/`)).toMatch(/symbolic link/);
    expect(readdirSync(real)).toEqual([]);
  });

  test.each(CHILDREN)("a symbolic link instead of %s/ is refused, and nothing is made behind it", async (child) => {
    await scratch.open().query("");
    const elsewhere = join(scratch.dir, "../elsewhere");
    renameSync(join(scratch.dir, child), elsewhere);
    symlinkSync(elsewhere, join(scratch.dir, child));
    expect(await refusal()).toMatch(new RegExp(`/${child} is a symbolic link`));
  });

  test.each(CHILDREN)(
    "a file instead of %s/ is refused, and so is a directory that others may write to",
    async (child) => {
      await scratch.open().query("");
      rmSync(join(scratch.dir, child), { recursive: true });
      writeFileSync(join(scratch.dir, child), "");
      expect(await refusal()).toMatch(new RegExp(`/${child} is not a directory`));
      rmSync(join(scratch.dir, child));
      mkdirSync(join(scratch.dir, child));
      chmodSync(join(scratch.dir, child), 0o770);
      expect(await refusal()).toMatch(new RegExp(`others may write to .*/${child} \\(mode 770\\)`));
    },
  );

  test("a parent that others may write to is refused: they could replace the directory", async () => {
    const open = join(scratch.dir, "../open");
    mkdirSync(join(open, "between"), { recursive: true });
    chmodSync(open, 0o777);
    expect(await refusal(join(open, "between/locks"))).toMatch(/others may write to .*\/open \(mode 777\)/);
    expect(readdirSync(join(open, "between"))).toEqual([]);
    // Where a user can only replace what is his own, as in /tmp, it is safe.
    chmodSync(open, 0o1777);
    await granted(scratch.open({ dir: join(open, "between/locks") }), claim());
  });

  test.runIf(ROOT)("a parent, a link on the path, or the directory of another user is refused", async () => {
    const theirs = join(scratch.dir, "../theirs");
    mkdirSync(theirs);
    chownSync(theirs, 65534, 65534);
    expect(await refusal(join(theirs, "locks"))).toMatch(/\/theirs belongs to uid 65534, who could replace/);
    chownSync(theirs, 0, 0);
    await granted(scratch.open({ dir: join(theirs, "locks") }), claim());
    symlinkSync(theirs, join(scratch.dir, "../way"));
    await granted(scratch.open({ dir: join(scratch.dir, "../way/locks") }), claim({ name: "by a link of root's" }));
    execFileSync("chown", ["-h", "65534", join(scratch.dir, "../way")]);
    expect(await refusal(join(dirname(scratch.dir), "way/locks"))).toMatch(/\/way belongs to uid 65534/);
    chownSync(join(theirs, "locks/q"), 65534, 65534);
    expect(await refusal(join(theirs, "locks"))).toMatch(/\/q belongs to uid 65534/);
  });

  test.runIf(ROOT)("a missing parent that another user makes at that moment is refused", async () => {
    const between = join(scratch.dir, "../between");
    const { ...real } = disk;
    disk.mkdir = (path) => {
      if (path !== between || existsSync(path)) return real.mkdir(path);
      mkdirSync(between, { mode: 0o777 });
      chmodSync(between, 0o777);
      chownSync(between, 65534, 65534);
      return real.mkdir(path);
    };
    try {
      expect(await refusal(join(between, "locks"))).toMatch(/\/between belongs to uid 65534, who could replace/);
    } finally {
      Object.assign(disk, real);
    }
    expect(existsSync(join(between, "locks/holdfast"))).toBe(false);
  });

  test.runIf(ROOT).each([
    ["we are root", ["--map-root-user"], /\/theirs belongs to a user who is unknown in this/],
    ["this user is unknown too", [], /belongs to a user who is unknown in this/],
  ])(
    "in a user namespace where %s, a directory of an unknown user is refused where all users can make things",
    async (_who, flags, refusal) => {
      const open = join(scratch.dir, "../open");
      mkdirSync(join(open, "theirs/locks"), { recursive: true });
      chmodSync(join(open, "theirs/locks"), 0o700);
      chownSync(join(open, "theirs"), 2222, 2222);
      chmodSync(open, 0o1777);
      const execArgv = ["--user", ...flags, process.execPath];
      const peer = await Peer.start(join(open, "theirs/locks"), {}, { execPath: "unshare", execArgv });
      const error = await peer.attempt(claim()).catch((cause: unknown) => cause);
      await peer.kill();
      expect(error).toMatchObject({
        message: expect.stringMatching(refusal),
      });
      expect(readdirSync(join(open, "theirs/locks"))).toEqual([]);
    },
  );

  test("a directory that is replaced while it is used is checked again", async () => {
    const [backend, held] = [scratch.open(), claim()];
    await granted(backend, held);
    rmSync(scratch.dir, { recursive: true });
    mkdirSync(scratch.dir, { mode: 0o700 });
    writeFileSync(join(scratch.dir, "notes.txt"), "mine");
    await expect(backend.attempt(claim())).rejects.toThrow(/there is something in it/);
    expect(readdirSync(scratch.dir)).toEqual(["notes.txt"]);
  });
});

describe("S172: what we did not make is not removed", () => {
  test("neither from t/, s/, o/, a/, q/ and l/, nor what a link there leads to", async () => {
    const backend = scratch.open();
    await backend.query("");
    const outside = join(scratch.dir, "../outside");
    mkdirSync(join(outside, "0123456789abcdef/e1-x"), { recursive: true });
    for (const file of ["0", "1", "f"]) writeFileSync(join(outside, "0123456789abcdef/e1-x", file), "mine");
    const put = (path: string, text?: string): void => {
      mkdirSync(dirname(join(scratch.dir, path)), { recursive: true });
      if (text === undefined) mkdirSync(join(scratch.dir, path));
      else writeFileSync(join(scratch.dir, path), text);
    };
    put("t/photos");
    put("t/photos/0", "mine");
    put("t/letter.txt", "mine");
    put("t/exactly16letters/letter.txt", "mine");
    put("t/exactly16letters/e1-x/letter.txt", "mine");
    put("s/notes", "mine");
    put("s/exactly16letters", "");
    put("o/notes", "");
    put("o/notes.txt", "mine");
    put("o/exactly16letters", "mine");
    put("a/exactly16letters", "mine");
    put("q/notes.txt", "mine");
    put("q/_a/notes.txt", "mine");
    put("l/notes.txt", "mine");
    put("l/thesis/chapter/n1-x/0", "mine");
    put("l/_a/exactly16letters/thesis.txt", "mine");
    put("f/notes.txt", "mine");
    put("n/notes.txt", "mine");
    for (const child of ["t", "l", "q"]) {
      symlinkSync(outside, join(scratch.dir, child, child === "t" ? "a-link-16-letter" : "_link"));
      symlinkSync(
        join(outside, "0123456789abcdef"),
        join(scratch.dir, child, child === "t" ? "b-link-16-letter" : "_b"),
      );
    }
    const server = createServer().listen(join(scratch.dir, "s/socket-of-theirs"));
    await new Promise((resolve) => server.once("listening", resolve));
    const before = tree(join(scratch.dir, ".."));
    await backend.clean();
    await backend.clean();
    expect(tree(join(scratch.dir, "..")).filter((name) => !/\/(?:cleaned|s\/.{16})$/.test(name))).toEqual(
      before.filter((name) => !/\/(?:cleaned|s\/.{16})$/.test(name)),
    );
    expect(lstatSync(join(scratch.dir, "s/exactly16letters")).isFile()).toBe(true);
    await new Promise((resolve) => server.close(resolve));
  });

  test("nor a foreign file in a lock: it is moved aside with what is removed, and stays there", async () => {
    const backend = scratch.open({ entriesMax: 2 });
    const first = claim();
    await granted(backend, first);
    const [home] = readdirSync(join(scratch.dir, "l/_a%20lock"));
    const [epoch] = readdirSync(join(scratch.dir, "l/_a%20lock", home!));
    writeFileSync(join(scratch.dir, "l/_a%20lock", home!, epoch!, "thesis.txt"), "mine");
    cpSync(join(scratch.dir, "holdfast"), join(scratch.dir, "l/_a%20lock", home!, "letter.txt"));
    await backend.release(first);
    for (let round = 0; round < 5; round++) {
      const wish = claim();
      await granted(backend, wish);
      await backend.release(wish);
    }
    await backend.clean();
    const left = tree(scratch.dir).filter((name) => name.endsWith(".txt"));
    expect(left.map((name) => name.replace(/^.*\//, ""))).toEqual(expect.arrayContaining(["letter.txt", "thesis.txt"]));
  });
});
