/** S173: notes of leases in a directory that others prepared, or that holds something else than notes. */
import { execFileSync, spawn } from "node:child_process";
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";

import { Bench } from "./harness.ts";

const bench = new Bench();
afterAll(() => bench.close());

const STRANGER = 12_345;
const asRoot = process.getuid?.() === 0;

function made(name: string, mode = 0o700): string {
  const dir = bench.path(name);
  mkdirSync(dir);
  chmodSync(dir, mode);
  return dir;
}

const within = (dir: string) => ({ env: { HOLDFAST_STATE_DIR: dir } });

async function acquired(name: string, dir: string, ...more: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await bench.run(["acquire", name, ...more], within(dir));
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  return stdout.trim();
}

describe.concurrent("S173: a state directory that is not ours alone is refused by every step, before anything is done", () => {
  async function expectRefused(dir: string, why: RegExp): Promise<void> {
    for (const step of [
      ["acquire", "refused", "-n"],
      ["renew", "refused", "--fence", "1"],
      ["release", "refused", "--fence", "1"],
    ]) {
      const { code, stdout, stderr } = await bench.run(step, within(dir));
      expect({ code, stdout }).toEqual({ code: 64, stdout: "" });
      expect(stderr).toMatch(why);
      expect(stderr).toContain("HOLDFAST_STATE_DIR");
    }
    expect((await bench.run(["run", "refused", "--", "true"])).code).toBe(0);
  }

  test("others may write to it", () => expectRefused(made("writable", 0o777), /others may write to it \(mode 777\)/));

  test("its group may write to it", () => expectRefused(made("shared", 0o770), /others may write to it \(mode 770\)/));

  test("it lies where others may write", async () => {
    const outer = made("outer");
    mkdirSync(join(outer, "inner"), { mode: 0o700 });
    chmodSync(outer, 0o777);
    await expectRefused(join(outer, "inner"), /others may write to .*outer/);
  });

  test("it is a symbolic link", async () => {
    made("target");
    symlinkSync(bench.path("target"), bench.path("link"));
    await expectRefused(bench.path("link"), /it is a symbolic link to .*target/);
  });

  test("it is a link that leads nowhere", async () => {
    symlinkSync(bench.path("nothing"), bench.path("dangling"));
    await expectRefused(bench.path("dangling"), /it is a symbolic link/);
    expect(existsSync(bench.path("nothing"))).toBe(false);
  });

  test("its name is empty", () => expectRefused("", /HOLDFAST_STATE_DIR is empty/));

  test.runIf(asRoot)("it belongs to another user", async () => {
    const dir = made("stranger");
    chownSync(dir, STRANGER, STRANGER);
    await expectRefused(dir, new RegExp(`belongs to uid ${STRANGER}`));
  });
});

describe.concurrent("S173: what has the name of a note and is none is neither followed, waited for, nor read", () => {
  const prepared: readonly (readonly [what: string, prepare: (path: string) => void, why: RegExp])[] = [
    ["a pipe", (path) => execFileSync("mkfifo", [path]), /it is no file/],
    ["a link to a file", (path) => symlinkSync(`${path}.elsewhere`, path), /it is a symbolic link/],
    ["a huge file", (path) => (writeFileSync(path, ""), truncateSync(path, 2 ** 40)), /it has 1099511627776 bytes/],
    ["a directory", (path) => mkdirSync(path), /it is no file/],
  ];

  test.each(prepared)("%s in the place of a note", async (what, prepare, why) => {
    const dir = made(`note ${what}`);
    const fence = await acquired(what, dir);
    const [note] = readdirSync(dir);
    renameSync(join(dir, note!), join(dir, `${note!}.elsewhere`));
    prepare(join(dir, note!));
    for (const step of ["renew", "release"]) {
      const { code, stderr } = await bench.run([step, what, "--fence", fence], within(dir));
      expect({ code, stderr }).toEqual({ code: 64, stderr: expect.stringMatching(why) as string });
    }
    rmSync(join(dir, note!), { recursive: true });
    renameSync(join(dir, `${note!}.elsewhere`), join(dir, note!));
    expect((await bench.run(["release", what, "--fence", fence], within(dir))).code).toBe(0);
  });

  test.each(prepared)("%s in the place of a release's mark", async (what, prepare, why) => {
    const dir = made(`mark ${what}`);
    const fence = await acquired(`mark ${what}`, dir);
    const mark = join(dir, `${readdirSync(dir)[0]!}.releasing`);
    writeFileSync(`${mark}.elsewhere`, "precious");
    prepare(mark);
    const { code, stderr } = await bench.run(["release", `mark ${what}`, "--fence", fence], within(dir));
    expect({ code, stderr }).toEqual({ code: 64, stderr: expect.stringMatching(why) as string });
    expect(readFileSync(`${mark}.elsewhere`, "utf8")).toBe("precious");
    rmSync(mark, { recursive: true });
    expect((await bench.run(["release", `mark ${what}`, "--fence", fence], within(dir))).code).toBe(0);
  });
});

test("S173: the note of a lease that a process keeps is kept as long as that process lives", async () => {
  const dir = made("kept");
  const keeper = spawn("sleep", ["1000"], { stdio: "ignore" });
  let count = 0;
  bench.leaves(/ on another \d$/u, "they were taken to make the command tidy up, and end with their ttl");
  const forget = async (): Promise<void> => void (await acquired(`another ${count++}`, dir));
  const age = (): void => {
    const old = new Date(Date.now() - 30 * 24 * 3_600_000);
    for (const name of readdirSync(dir)) {
      const path = join(dir, name);
      writeFileSync(path, readFileSync(path, "utf8").replace(/"endsAtMs":[\d.]+/, `"endsAtMs":${old.getTime()}`));
      utimesSync(path, old, old);
    }
  };
  try {
    const fence = await acquired("tied", dir, "--pid", String(keeper.pid));
    const [note] = readdirSync(dir);
    age();
    await forget();
    expect(readdirSync(dir)).toContain(note);
    // A renewal does not forget who keeps it.
    expect((await bench.run(["renew", "tied", "--fence", fence], within(dir))).code).toBe(0);
    age();
    await forget();
    expect((await bench.run(["release", "tied", "--fence", fence], within(dir))).code).toBe(0);
    age();
    await forget();
    expect(readdirSync(dir)).not.toContain(note);
  } finally {
    keeper.kill("SIGKILL");
  }
});

describe("after a release that failed", () => {
  test("file: the lease goes on, is renewed, and is released", async () => {
    const root = bench.path("full");
    const url = `file://${root}`;
    const dir = made("failed");
    const fence = await acquired("f", dir, "--url", url, "--ttl", "10m");
    // Nothing can be written any more, though the store can be opened: not even root makes a file in the place of another.
    rmSync(join(root, "q"), { recursive: true, force: true });
    writeFileSync(join(root, "q"), "");
    const failed = await bench.run(["release", "f", "--url", url, "--fence", fence], within(dir));
    expect(failed.code).toBe(69);
    rmSync(join(root, "q"));
    expect((await bench.run(["renew", "f", "--url", url, "--fence", fence], within(dir))).code).toBe(0);
    expect((await bench.run(["release", "f", "--url", url, "--fence", fence], within(dir))).code).toBe(0);
    expect((await bench.run(["renew", "f", "--url", url, "--fence", fence], within(dir))).code).toBe(76);
  });
});
