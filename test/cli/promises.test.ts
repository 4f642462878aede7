/** What the documentation says in passing: promises that no other test keeps. */
import { spawnSync } from "node:child_process";
import { copyFileSync, cpSync, openSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";

import { DIST, ROOT } from "../dist.ts";
import { Bench, MAIN, until } from "./harness.ts";

const bench = new Bench();
afterAll(() => bench.close());

test("exit 70: a fault in holdfast itself, such as output that cannot be written", () => {
  const full = openSync("/dev/full", "w");
  const { status } = spawnSync(process.execPath, [MAIN, "version"], { stdio: ["ignore", full, "pipe"] });
  expect(status).toBe(70);
});

test("a reader that stops early is no fault", () => {
  const script = `"${process.execPath}" "${MAIN}" --help | true; echo "\${PIPESTATUS[0]}"`;
  expect(spawnSync("bash", ["-c", script], { encoding: "utf8" }).stdout).toBe("0\n");
});

describe("S147: lab compare, before it starts anything and without a stack trace,", () => {
  const compareIn = (copy: string): { status: number | null; stderr: string } => {
    const args = [join(copy, "dist/cli/main.js"), "lab", "compare", "pause"];
    const { status, stderr } = spawnSync(process.execPath, args, { cwd: copy, encoding: "utf8" });
    expect(stderr).not.toMatch(/^ +at /m);
    return { status, stderr };
  };
  const copy = bench.path("copy");
  cpSync(DIST, join(copy, "dist"), { recursive: true });
  copyFileSync(join(ROOT, "package.json"), join(copy, "package.json"));

  test("says that the published package has nothing to compare with, and what to do", () => {
    const { status, stderr } = compareIn(copy);
    expect({ status, stderr }).toMatchObject({
      status: 69,
      stderr: expect.stringContaining("Clone Holdfast's repository"),
    });
  });

  test("names the libraries that are not installed", () => {
    cpSync(join(ROOT, "bench/lab"), join(copy, "bench/lab"), { recursive: true });
    const { status, stderr } = compareIn(copy);
    expect({ status, stderr }).toMatchObject({ status: 69, stderr: expect.stringContaining("npm install --no-save") });
    expect(stderr).toContain("redlock, redis-semaphore, @verrou/core");
  });
});

describe("wait --fence", () => {
  test("waits for the end of that lease, not of the leases after it", async () => {
    const first = (await bench.run(["acquire", "f"])).stdout.trim();
    const waiter = bench.start(["wait", "f", "--fence", first, "--json"], { input: "" });
    expect((await bench.run(["wait", "f", "--fence", first, "-n"])).code).toBe(75);
    const next = bench.start(["acquire", "f"], { input: "" });
    for (let queued = 0; queued === 0;) {
      const { stdout } = await bench.run(["show", "f", "--json"]);
      queued = (JSON.parse(stdout) as { pending: unknown[] }).pending.length;
    }
    await bench.run(["release", "f", "--fence", first]);
    const second = (await next.done).stdout.trim();
    const { code, stdout } = await waiter.done;
    expect(code).toBe(0);
    // It is held again, or about to be, by another lease. On files a waiter that is to outlive its process gets a second
    // fence when it takes over, so that the one that is seen in between may be neither.
    const seen = JSON.parse(stdout) as { name: string; free: boolean; held: { fence: string }[] };
    expect(seen).toMatchObject({ name: "f", free: true });
    expect(seen.held.map(({ fence }) => fence)).not.toContain(first);
    expect((await bench.run(["wait", "f", "-n"])).code).toBe(75);
    expect((await bench.run(["wait", "f", "--fence", first, "-n"])).code).toBe(0);
    await bench.run(["release", "f", "--fence", second]);
    expect((await bench.run(["wait", "f", "-n"])).code).toBe(0);
  });
});

describe("--lock-delay", () => {
  test("after a lease that ended by itself the lock stays taken for that long", async () => {
    bench.leaves(/ on delayed$/, "it stays taken for an hour: that is what is tested");
    // Both have ended long before the second is over.
    const [delayed, prompt] = [
      await bench.run(["acquire", "delayed", "--ttl", "1s", "--lock-delay", "1h"]),
      await bench.run(["acquire", "prompt", "--ttl", "1s"]),
    ];
    expect([delayed.code, prompt.code]).toEqual([0, 0]);
    expect((await bench.run(["run", "prompt", "-w", "1m", "--", "true"])).code).toBe(0);
    expect((await bench.run(["run", "delayed", "-w", "1s", "--", "true"])).code).toBe(75);
  });

  test("a release ends it at once", async () => {
    const fence = (await bench.run(["acquire", "clean", "--lock-delay", "1h"])).stdout.trim();
    expect((await bench.run(["release", "clean", "--fence", fence])).code).toBe(0);
    expect((await bench.run(["run", "clean", "-n", "--", "true"])).code).toBe(0);
  });
});

describe("the package", () => {
  const run = (flags: readonly string[], script: string, env: Record<string, string | undefined> = {}): string => {
    const { status, stdout, stderr } = spawnSync(process.execPath, [...flags, "-e", script], {
      cwd: ROOT,
      encoding: "utf8",
      env: { ...process.env, HOLDFAST_URL: undefined, HOME: bench.dir, NODE_NO_WARNINGS: "1", ...env },
    });
    if (status !== 0) throw new Error(stderr);
    return stdout.trim();
  };

  test("can be required", () => {
    const script = `const names = ["holdfast", "holdfast/memory", "holdfast/file", "holdfast/redis", "holdfast/quorum", "holdfast/zookeeper", "holdfast/fence", "holdfast/testing"];
      console.log(names.map((name) => Object.keys(require(name)).length > 0).join())`;
    expect(new Set(run(["--input-type=commonjs"], script).split(","))).toEqual(new Set(["true"]));
  });

  test("connect() without a URL opens what HOLDFAST_URL names, and the default holder is host:pid", () => {
    const script = `
      import { connect } from "holdfast";
      const [bare, tuned] = [await connect(), await connect({ holder: "me", wait: 0 })];
      const lease = await bare.acquire("default");
      const { held } = await tuned.query("default");
      console.log(JSON.stringify([held[0].holder, process.pid, await tuned.tryAcquire("default")]));
      await lease.release(); await bare.close(); await tuned.close();`;
    const [holder, pid, refused] = JSON.parse(run(["--input-type=module"], script, { HOLDFAST_URL: bench.url })) as [
      string,
      number,
      null,
    ];
    expect({ holder, refused }).toEqual({ holder: `${hostname()}:${pid}`, refused: null });
  });

  test("connect() without any URL is the embedded store of this machine", () => {
    const script = `import { openBackend } from "holdfast"; const one = await openBackend(); console.log(one.name); await one.close();`;
    expect(run(["--input-type=module"], script)).toBe("file");
  });
});

test("a command may take its time to start: holdfast says nothing unless asked", async () => {
  const started = bench.start(["run", "quiet", "--", "sh", "-c", "echo in; read x"]);
  await until(() => started.stdout() === "in\n", "it runs");
  started.process.stdin?.end("\n");
  expect(await started.done).toMatchObject({ code: 0, stderr: "" });
});
