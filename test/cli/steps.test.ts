/** acquire, renew, release: a lease for scripts of several steps, which outlives every one of them. */
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, statSync } from "node:fs";
import { afterAll, describe, expect, test } from "vitest";

import { Bench, MAIN } from "./harness.ts";

const bench = new Bench();
afterAll(() => bench.close());

interface Shown {
  readonly held: readonly { readonly fence: string; readonly pid: number }[];
  readonly pending: readonly unknown[];
}

async function show(name: string): Promise<Shown> {
  return JSON.parse((await bench.run(["show", name, "--json"])).stdout) as Shown;
}

describe("a lease in several steps", () => {
  test("acquire prints the fence alone; the lease goes on, is renewed, and is given back", async () => {
    const { code, stdout, stderr } = await bench.run(["acquire", "steps"]);
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(stdout).toMatch(/^\d+\n$/);
    const fence = stdout.trim();
    expect((await show("steps")).held).toMatchObject([{ fence, pid: process.pid }]);
    expect(await bench.run(["run", "steps", "-n", "--", "true"])).toMatchObject({ code: 75 });
    expect(await bench.run(["renew", "steps", "--fence", fence])).toMatchObject({ code: 0, stdout: "" });
    expect(await bench.run(["release", "steps", "--fence", fence])).toMatchObject({ code: 0, stdout: "" });
    expect((await bench.run(["run", "steps", "-n", "--", "true"])).code).toBe(0);
  });

  test("is renewed for as long as --ttl says, before a long step and after it", async () => {
    const remaining = async (): Promise<number> =>
      (JSON.parse((await bench.run(["show", "long", "--json"])).stdout) as { held: { remainingMs: number }[] }).held[0]!
        .remainingMs;
    const fence = (await bench.run(["acquire", "long", "--ttl", "1m"])).stdout.trim();
    expect(await bench.run(["renew", "long", "--fence", fence, "--ttl", "1h"])).toMatchObject({ code: 0, stderr: "" });
    expect(await remaining()).toBeGreaterThan(30 * 60_000);
    // Without --ttl, as it was last asked for.
    expect((await bench.run(["renew", "long", "--fence", fence])).code).toBe(0);
    expect(await remaining()).toBeGreaterThan(30 * 60_000);
    expect((await bench.run(["renew", "long", "--fence", fence, "--ttl", "2m"])).code).toBe(0);
    // A renewal never ends a lease sooner than it would have ended.
    expect(await remaining()).toBeGreaterThan(30 * 60_000);
    expect((await show("long")).held).toMatchObject([{ fence }]);
    expect((await bench.run(["release", "long", "--fence", fence])).code).toBe(0);
  });

  test("every step may be repeated: acquire with the same claim, renew, release", async () => {
    const claim = "repeat_after_me_000000";
    const first = await bench.run(["acquire", "again", "--claim", claim]);
    const second = await bench.run(["acquire", "again", "--claim", claim, "-w", "10s"]);
    expect(second).toEqual(first);
    const fence = first.stdout.trim();
    for (const _ of [1, 2]) expect((await bench.run(["renew", "again", "--fence", fence])).code).toBe(0);
    for (const _ of [1, 2]) expect((await bench.run(["release", "again", "--fence", fence])).code).toBe(0);
    expect((await bench.run(["renew", "again", "--fence", fence])).code).toBe(76);
  });

  test("goes on from anywhere with the claim that --show-claim printed", async () => {
    const elsewhere = { env: { HOLDFAST_STATE_DIR: bench.path("elsewhere") } };
    const { stdout } = await bench.run(["acquire", "moved", "--json", "--show-claim"]);
    const { claim, fence } = JSON.parse(stdout) as { claim: string; fence: string };
    expect((await bench.run(["renew", "moved", "--fence", fence], elsewhere)).code).toBe(64);
    expect((await bench.run(["renew", "moved", "--claim", claim, "--ttl", "1m"], elsewhere)).code).toBe(0);
    expect((await bench.run(["release", "moved", "--fence", fence], elsewhere)).code).toBe(64);
    expect((await bench.run(["release", "moved", "--claim", claim], elsewhere)).code).toBe(0);
    expect((await show("moved")).held).toEqual([]);
  });

  test("a lease that has ended is never taken again silently: renew and release exit with 76", async () => {
    const fence = (await bench.run(["acquire", "ended", "--ttl", "100ms"])).stdout.trim();
    expect((await bench.run(["wait", "ended", "-w", "20s"])).code).toBe(0);
    expect((await bench.run(["renew", "ended", "--fence", fence])).code).toBe(76);
    const next = (await bench.run(["acquire", "ended"])).stdout.trim();
    expect(BigInt(next)).toBeGreaterThan(BigInt(fence));
    expect((await bench.run(["release", "ended", "--fence", fence])).code).toBe(76);
    expect((await show("ended")).held).toMatchObject([{ fence: next }]);
    await bench.run(["release", "ended", "--fence", next]);
  });

  test("not free: 75 or -E, nothing on stdout, nothing left in the queue", async () => {
    const fence = (await bench.run(["acquire", "taken"])).stdout.trim();
    expect(await bench.run(["acquire", "taken", "-n"])).toMatchObject({ code: 75, stdout: "" });
    expect(await bench.run(["acquire", "taken", "-w", "200ms", "-E", "9"])).toMatchObject({ code: 9, stdout: "" });
    expect(JSON.parse((await bench.run(["acquire", "taken", "-n", "--json"])).stdout)).toMatchObject({
      error: { code: "ERR_LOCK_TIMEOUT", exit: 75, heldBy: [{ fence }] },
    });
    expect((await show("taken")).pending).toEqual([]);
    await bench.run(["release", "taken", "--fence", fence]);
  });

  test("waits its turn, and gets the lock at once when the lease before it is given back", async () => {
    const fence = (await bench.run(["acquire", "turn", "--ttl", "1h"])).stdout.trim();
    const waiting = bench.start(["acquire", "turn"], { input: "" });
    for (let queued = 0; queued === 0;) queued = (await show("turn")).pending.length;
    await bench.run(["release", "turn", "--fence", fence]);
    const { code, stdout } = await waiting.done;
    expect(code).toBe(0);
    expect(BigInt(stdout.trim())).toBeGreaterThan(BigInt(fence));
    expect((await bench.run(["release", "turn", "--fence", stdout.trim()])).code).toBe(0);
  });

  test.each([[], ["--pid", String(process.pid)]])(
    "a waiter that was killed is not handed the lock (%s %s)",
    async (...pid) => {
      const fence = (await bench.run(["acquire", "dead", "--ttl", "1h"])).stdout.trim();
      const waiting = bench.start(["acquire", "dead", "--ttl", "1h", ...pid], { input: "" });
      for (let queued = 0; queued === 0;) queued = (await show("dead")).pending.length;
      waiting.process.kill("SIGKILL");
      await waiting.done;
      expect((await bench.run(["release", "dead", "--fence", fence])).code).toBe(0);
      expect((await bench.run(["run", "dead", "-n", "--", "true"])).code).toBe(0);
      expect((await show("dead")).pending).toEqual([]);
    },
  );

  test("its notes are for this user only", async () => {
    const fence = (await bench.run(["acquire", "private"])).stdout.trim();
    const folder = bench.path("claims");
    expect(statSync(folder).mode & 0o777).toBe(0o700);
    for (const file of readdirSync(folder)) expect(statSync(`${folder}/${file}`).mode & 0o777).toBe(0o600);
    await bench.run(["release", "private", "--fence", fence]);
  });
});

describe("in a script", () => {
  const env = { ...process.env, HOLDFAST_URL: bench.url, HOLDFAST_STATE_DIR: bench.path("claims") };
  const holdfast = `holdfast() { ${process.execPath} ${MAIN} "$@"; }`;

  test("the documented steps work, and the holder shown is the script", () => {
    const script = `${holdfast}
      fence=$(holdfast acquire deploy --wait 10m --ttl 5m) || exit
      holdfast show deploy --json > shown
      holdfast renew deploy --fence "$fence" || exit
      holdfast release deploy --fence "$fence"
      echo "$$ $fence"`;
    const [pid, fence] = execFileSync("bash", ["-c", script], { env, cwd: bench.dir, encoding: "utf8" })
      .trim()
      .split(" ");
    const shown = JSON.parse(bench.lines("shown").join("\n")) as Shown;
    expect(shown.held).toMatchObject([{ pid: Number(pid), fence }]);
  });

  test("--pid $$ holds the lock until the script ends, however it ends", async () => {
    const script = `${holdfast}; holdfast acquire tied --pid $$ || exit; read x`;
    const shell = spawn("bash", ["-c", script], { env, stdio: ["pipe", "pipe", "inherit"] });
    await once(shell.stdout, "data");
    expect((await show("tied")).held).toMatchObject([{ pid: shell.pid }]);
    const next = bench.start(["run", "tied", "--", "echo", "mine"], { input: "" });
    for (let queued = 0; queued === 0;) queued = (await show("tied")).pending.length;
    shell.kill("SIGKILL");
    expect(await next.done).toMatchObject({ code: 0, stdout: "mine\n" });
  });

  test("--pid needs a living process, and a store that sees processes", async () => {
    expect((await bench.run(["acquire", "x", "--pid", "2147483647"])).code).toBe(64);
    expect((await bench.run(["acquire", "x", "--pid", String(process.pid), "--url", "memory:"])).code).toBe(64);
  });

  test("S168: --pid takes no --claim, whose lease may live by another process", async () => {
    const args = ["acquire", "x", "--pid", String(process.pid), "--claim", "lives_by_another_00000"];
    expect(await bench.run(args)).toMatchObject({ code: 64, stderr: expect.stringMatching(/--pid and --claim/) });
  });
});

describe("a lease that cannot be printed", () => {
  test.each([
    ["a full disk", '"$@" > /dev/full'],
    ["a reader that went away", 'exec 3> >(:); wait "$!"; exec "$@" >&3'],
  ])("%s: is given back, and the exit code is 70", async (what, script) => {
    const env = { ...process.env, HOLDFAST_URL: bench.url, HOLDFAST_STATE_DIR: bench.path("claims") };
    const args = ["-c", script, "bash", process.execPath, MAIN, "acquire", what];
    const child = spawn("bash", args, { env, stdio: ["ignore", "ignore", "pipe"] });
    let stderr = "";
    child.stderr.on("data", (text: Buffer) => (stderr += text.toString()));
    const [code] = (await once(child, "close")) as [number | null];
    expect({ code, stderr }).toEqual({
      code: 70,
      stderr: expect.stringMatching(/output could not be written .* given back/),
    });
    expect((await show(what)).held).toEqual([]);
  });

  test("S168: stays with another command that was given it by the same claim", async () => {
    const env = { ...process.env, HOLDFAST_URL: bench.url, HOLDFAST_STATE_DIR: bench.path("claims") };
    const args = ["acquire", "unprinted", "--claim", "two_were_given_it_0000"];
    const fence = (await bench.run(args)).stdout.trim();
    const again = ["-c", '"$@" > /dev/full', "bash", process.execPath, MAIN, ...args];
    const child = spawn("bash", again, { env, stdio: ["ignore", "ignore", "pipe"] });
    let stderr = "";
    child.stderr.on("data", (text: Buffer) => (stderr += text.toString()));
    const [code] = (await once(child, "close")) as [number | null];
    expect({ code, stderr }).toEqual({ code: 70, stderr: expect.stringMatching(/stays held under this claim/) });
    expect((await show("unprinted")).held).toMatchObject([{ fence }]);
    expect((await bench.run(["release", "unprinted", "--fence", fence])).code).toBe(0);
  });
});
