/** acquire, renew and release on every store: a lease in steps works, or is refused before anything is done. */
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

import type { Backend } from "../../src/contract/backend.ts";
import { openBackend } from "../../src/index.ts";
import { startRedis } from "../../src/lab/servers/redis.ts";
import { startZooKeeper } from "../../src/lab/servers/zookeeper.ts";
import { LOGIN } from "../login.ts";
import { Bench } from "./harness.ts";

const bench = new Bench();
const opened: (() => unknown)[] = [];
const watchers: Record<string, Promise<Backend>> = {};
const urls = new Map<string, string>([
  ["file", bench.url],
  ["memory", "memory:"],
]);

beforeAll(async () => {
  const [one, ...members] = await Promise.all([startRedis(), startRedis(), startRedis(), startRedis()]);
  const zookeeper = await startZooKeeper();
  opened.push(() => zookeeper.stop());
  for (const server of [one, ...members]) opened.push(() => server.stop());
  urls.set("redis", one.url);
  urls.set(
    "redlock",
    `redlock://${members.map(({ port }) => `${LOGIN}127.0.0.1:${port}`).join(",")}?memberWait=5s&maxTtl=15m`,
  );
  urls.set("zk", zookeeper.url);
  expect((await on("redlock", "doctor", "--init", "--quiet")).code).toBe(0);
});
afterAll(async () => {
  for (const backend of Object.values(watchers)) await (await backend).close();
  for (const close of opened) await close();
  bench.close();
});

function on(store: string, command: string, ...args: string[]): ReturnType<Bench["run"]> {
  return bench.run([command, ...args], { env: { HOLDFAST_URL: urls.get(store)! } });
}

/** Seen from a process that has nothing to do with it: starting one for every look would take most of the time. */
async function isHeld(store: string, name: string): Promise<boolean> {
  const backend = (watchers[store] ??= openBackend(urls.get(store)!));
  return (await (await backend).query(name)).held.length > 0;
}

describe.concurrent.each(["file", "redis", "redlock"])("S134: a lease in several steps on %s", (store) => {
  // Each step is a process: on a busy machine all of them together take minutes.
  const ttl = ["--ttl", "10m"];

  test("is held between them, renewed and given back by other processes", async () => {
    const { code, stdout, stderr } = await on(store, "acquire", "steps", ...ttl);
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    const fence = stdout.trim();
    expect(fence).toMatch(/^\d+$/);
    expect((await on(store, "run", "steps", "-n", "--", "true")).code).toBe(75);
    expect(await on(store, "renew", "steps", "--fence", fence, "--ttl", "12m")).toMatchObject({ code: 0, stderr: "" });
    expect(await isHeld(store, "steps")).toBe(true);
    expect(await on(store, "release", "steps", "--fence", fence)).toMatchObject({ code: 0, stderr: "" });
    expect((await on(store, "run", "steps", "-n", "--", "true")).code).toBe(0);
    expect((await on(store, "renew", "steps", "--fence", fence)).code).toBe(76);
  });

  test.each(["exclusive", "shared"])("may be repeated, and gives the same lease: %s", async (mode) => {
    const claim = `once_more_${store}_${mode}`.padEnd(22, "0").slice(0, 22);
    const args: readonly string[] = [
      `again-${mode}`,
      "--claim",
      claim,
      ...ttl,
      ...(mode === "shared" ? ["--shared"] : []),
    ];
    const first = await on(store, "acquire", ...args);
    expect(first.code).toBe(0);
    expect(await on(store, "acquire", ...args)).toEqual(first);
    const shown = JSON.parse((await on(store, "show", `again-${mode}`, "--json")).stdout) as { held: unknown[] };
    expect(shown.held).toHaveLength(1);
    expect((await on(store, "release", `again-${mode}`, "--fence", first.stdout.trim())).code).toBe(0);
    expect(await isHeld(store, `again-${mode}`)).toBe(false);
  });

  test("goes on from anywhere by its claim", async () => {
    const { stdout } = await on(store, "acquire", "moved", "--json", "--show-claim", ...ttl);
    const { claim } = JSON.parse(stdout) as { claim: string };
    expect((await on(store, "renew", "moved", "--claim", claim, "--ttl", "10m")).code).toBe(0);
    expect((await on(store, "release", "moved", "--claim", claim)).code).toBe(0);
    // It is noted here that it was given back.
    expect((await on(store, "release", "moved", "--claim", claim)).code).toBe(0);
    expect(await isHeld(store, "moved")).toBe(false);
  });

  test("that was ended by force is neither renewed nor given back", async () => {
    const fence = (await on(store, "acquire", "forced", ...ttl)).stdout.trim();
    expect((await on(store, "release", "forced", "--fence", fence, "--reason", "test")).code).toBe(0);
    expect((await on(store, "renew", "forced", "--fence", fence)).code).toBe(76);
    const next = (await on(store, "acquire", "forced", ...ttl)).stdout.trim();
    expect((await on(store, "release", "forced", "--fence", fence)).code).toBe(76);
    expect(await isHeld(store, "forced")).toBe(true);
    expect((await on(store, "release", "forced", "--fence", next)).code).toBe(0);
  });
});

test.concurrent("S134: on redlock, no step makes a lease longer than members that forgot would wait", async () => {
  const fence = (await on("redlock", "acquire", "long", "--ttl", "10m")).stdout.trim();
  const { code, stderr } = await on("redlock", "renew", "long", "--fence", fence, "--ttl", "1h");
  expect(code).toBe(69);
  expect(stderr).toContain("maxTtl is 15 m");
  expect((await on("redlock", "release", "long", "--fence", fence)).code).toBe(0);
});

test.concurrent("S159: under a quarantine, no step makes a lease longer than a fail-over would wait", async () => {
  const env = {
    HOLDFAST_URL: `${urls.get("redis")!}?prefix=guarded&failover=quarantine&maxTtl=15m&checkReplicas=false`,
  };
  const step = (...args: string[]): ReturnType<Bench["run"]> => bench.run(args, { env });
  expect((await step("doctor", "--init", "--quiet")).code).toBe(0);
  const fence = (await step("acquire", "long", "--ttl", "10m")).stdout.trim();
  const { code, stderr } = await step("renew", "long", "--fence", fence, "--ttl", "1h");
  expect({ code, stderr }).toEqual({ code: 69, stderr: expect.stringMatching(/1 h.*`maxTtl` is 15 m/u) as string });
  // As it was: held, renewed as before, and given back.
  expect(await step("renew", "long", "--fence", fence)).toMatchObject({ code: 0, stderr: "" });
  expect((await step("release", "long", "--fence", fence)).code).toBe(0);
});

describe.concurrent.each(["zk", "memory"])("S123: on %s, where a lease ends with its process", (store) => {
  test("acquire is refused, says what to use instead, and leaves nothing", async () => {
    const { code, stdout, stderr } = await on(store, "acquire", "steps", "-n");
    expect({ code, stdout }).toEqual({ code: 64, stdout: "" });
    expect(stderr).toMatch(/ends with the process that took it.*holdfast run/);
    expect(await isHeld(store, "steps")).toBe(false);
  });

  test("renew and release find nothing to work on", async () => {
    expect((await on(store, "renew", "steps", "--fence", "1")).code).toBe(64);
    expect((await on(store, "renew", "steps", "--claim", "a".repeat(22), "--ttl", "5s")).code).toBe(64);
    expect((await on(store, "release", "steps", "--fence", "1")).code).toBe(64);
    expect((await on(store, "release", "steps", "--claim", "a".repeat(22))).code).toBe(64);
  });
});

describe.concurrent("S173: the state directory", () => {
  const OLD = new Date(Date.now() - 30 * 24 * 3_600_000);

  function stateDir(name: string): { dir: string; env: Record<string, string> } {
    const dir = bench.path(name);
    mkdirSync(dir, { mode: 0o700 });
    return { dir, env: { HOLDFAST_STATE_DIR: dir } };
  }

  test("loses nothing that is not ours, however old, and loses our own old notes", async () => {
    bench.leaves(/ on (kept|another)$/, "the note of one was removed, and the other's lies in a directory of its own");
    const { dir, env } = stateDir("mixed");
    const first = await bench.run(["acquire", "kept"], { env });
    const [note] = readdirSync(dir);
    const foreign = ["thesis.txt", "data.json", ".bashrc", `${note!}.bak`, "a-1.json"];
    for (const name of foreign) writeFileSync(join(dir, name), "precious");
    mkdirSync(join(dir, `${"d".repeat(22)}-1.json`));
    symlinkSync(join(dir, "thesis.txt"), join(dir, `${"l".repeat(22)}-1.json`));
    const text = readFileSync(join(dir, note!), "utf8");
    writeFileSync(join(dir, note!), text.replace(/"endsAtMs":[\d.]+/, `"endsAtMs":${OLD.getTime()}`));
    for (const name of readdirSync(dir)) utimesSync(join(dir, name), OLD, OLD);
    expect((await bench.run(["acquire", "another"], { env })).code).toBe(0);
    for (const name of foreign) expect(readFileSync(join(dir, name), "utf8"), name).toBe("precious");
    expect(existsSync(join(dir, `${"d".repeat(22)}-1.json`))).toBe(true);
    expect(existsSync(join(dir, note!))).toBe(false);
    expect((await bench.run(["release", "kept", "--fence", first.stdout.trim()], { env })).code).toBe(64);
  });

  test("that cannot be made fails at once, before anything is acquired", async () => {
    const { code, stdout, stderr } = await bench.run(["acquire", "nowhere"], {
      env: { HOLDFAST_STATE_DIR: "/proc/nope" },
    });
    expect({ code, stdout }).toEqual({ code: 64, stdout: "" });
    expect(stderr).toMatch(/\/proc\/nope.*HOLDFAST_STATE_DIR/);
    expect((await bench.run(["run", "nowhere", "-n", "--", "true"])).code).toBe(0);
  });

  test("that is a file fails at once", async () => {
    const path = bench.path("file");
    writeFileSync(path, "");
    expect((await bench.run(["acquire", "no-folder"], { env: { HOLDFAST_STATE_DIR: path } })).code).toBe(64);
    expect((await bench.run(["run", "no-folder", "-n", "--", "true"])).code).toBe(0);
  });

  test("that takes no note any more once the lock is there: the lock is given back, and the error says so", async () => {
    const { dir, env } = stateDir("vanishing");
    const held = (await bench.run(["acquire", "late"])).stdout.trim();
    const waiting = bench.start(["acquire", "late"], { env, input: "" });
    for (let queued = 0; queued === 0;) {
      queued = (JSON.parse((await bench.run(["show", "late", "--json"])).stdout) as { pending: unknown[] }).pending
        .length;
    }
    // Root may write where no other user may: so there is a file in the directory's place.
    rmSync(dir, { recursive: true });
    writeFileSync(dir, "");
    expect((await bench.run(["release", "late", "--fence", held])).code).toBe(0);
    const { code, stdout, stderr } = await waiting.done;
    expect({ code, stdout }).toEqual({ code: 64, stdout: "" });
    expect(stderr).toMatch(/could not be noted down.*given back/);
    expect((await bench.run(["run", "late", "-n", "--", "true"])).code).toBe(0);
  });
});
