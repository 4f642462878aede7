/** `acquire` that is killed at the worst moment: between the store's yes and the printed line. */
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, describe, expect, test } from "vitest";

import { file } from "../../src/backends/file/index.ts";
import { createLocks } from "../../src/index.ts";
import { Bench, type StartOptions } from "./harness.ts";

const bench = new Bench();
/** Seen from here: to start a process for every look would take most of the time. */
const locks = createLocks(file({ dir: bench.path("locks") }));
afterAll(async () => {
  await locks.close();
  bench.close();
});

const DEATHS = {
  /** As soon as the note is written. */
  noting: `
    import fs from "node:fs";
    import { syncBuiltinESMExports } from "node:module";
    const { renameSync } = fs;
    fs.renameSync = (from, to) => {
      renameSync(from, to);
      if (to.startsWith(process.env.HOLDFAST_STATE_DIR)) process.kill(process.pid, "SIGKILL");
    };
    syncBuiltinESMExports();`,
  /** Instead of printing. */
  printing: `process.stdout.write = () => process.kill(process.pid, "SIGKILL");`,
} as const;

// Once: a process that starts while the file is written anew would find it empty, and live.
for (const [death, script] of Object.entries(DEATHS)) bench.write(`${death}.mjs`, script);

function dying(death: keyof typeof DEATHS): StartOptions {
  return { env: { NODE_OPTIONS: `--import=${bench.path(`${death}.mjs`)}` }, input: "" };
}

async function killedAtOnce(death: keyof typeof DEATHS, name: string, ...more: readonly string[]): Promise<void> {
  const done = await bench.run(["acquire", name, "--ttl", "1h", ...more], dying(death));
  expect(done).toMatchObject({ signal: "SIGKILL", stdout: "" });
}

async function killedAfterWaiting(death: keyof typeof DEATHS, name: string): Promise<void> {
  const before = await locks.acquire(name);
  const waiting = bench.start(["acquire", name, "--ttl", "1h"], dying(death));
  while ((await locks.query(name)).pending.length === 0) await sleep(10);
  await before.release();
  expect(await waiting.done).toMatchObject({ signal: "SIGKILL", stdout: "" });
}

describe.concurrent("killed with the note written, and the lease not yet on its own: the lock is free at once", () => {
  test.each([
    ["that was free", []],
    ["that was free, without a queue", ["-n"]],
    ["that another process was to keep", ["--pid", String(process.pid)]],
  ])("a lock %s", async (what, more) => {
    await killedAtOnce("noting", what, ...more);
    const next = await locks.tryAcquire(what);
    expect(next).not.toBeNull();
    await next!.release();
  });

  test("a lock that was waited for", async () => {
    await killedAfterWaiting("noting", "waited");
    const next = await locks.tryAcquire("waited");
    expect(next).not.toBeNull();
    await next!.release();
  });
});

describe.concurrent("killed with all done but the line: the lease is there, and is given back from here by the fence that `show` tells", () => {
  test.each([
    ["at once", killedAtOnce],
    ["after waiting", killedAfterWaiting],
  ])("%s", async (what, killed) => {
    await killed("printing", what);
    const [held] = (await locks.query(what)).held;
    const fence = String(held?.fence);
    expect((await bench.run(["renew", what, "--fence", fence])).code).toBe(0);
    expect((await bench.run(["release", what, "--fence", fence])).code).toBe(0);
    expect((await locks.query(what)).held).toEqual([]);
  });
});
