/** What `release` says of a lease that is gone, after a release of which nobody knows whether it arrived. */
import { mkdirSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { afterAll, describe, expect, test } from "vitest";

import { startRedis } from "../../src/lab/servers/redis.ts";
import { Bench, type Result, until } from "./harness.ts";

const bench = new Bench();
afterAll(() => bench.close());

async function acquired(name: string, url: string, ...more: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await bench.run(["acquire", name, "--url", url, ...more]);
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  return stdout.trim();
}

const release = (name: string, url: string, fence: string): Promise<Result> =>
  bench.run(["release", name, "--url", url, "--fence", fence, "--json"]);

describe("a release that never reached the store", () => {
  test("file: does not explain why the lease is gone later", async () => {
    const root = bench.path("root");
    const url = `file://${root}`;
    const fence = await acquired("d", url, "--ttl", "1s");
    renameSync(root, `${root}.away`);
    writeFileSync(root, "");
    expect((await release("d", url, fence)).code).not.toBe(0);
    rmSync(root);
    renameSync(`${root}.away`, root);
    await acquired("d", url, "--wait", "60s", "-q");
    const { code, stdout } = await release("d", url, fence);
    expect({ code, ...(JSON.parse(stdout) as object) }).toMatchObject({ code: 76, released: false, result: "lost" });
  });

  test("redis: does not explain why the lease is gone later", async () => {
    const redis = await startRedis();
    try {
      bench.write("url", redis.url);
      const url = `@file:${bench.path("url")}`;
      const fence = await acquired("d", url, "--ttl", "2s");
      const endMs = Date.now() + 2000;
      await redis.kill();
      expect((await release("d", url, fence)).code).toBe(69);
      await redis.restart();
      await until(() => Date.now() > endMs, "the ttl is over");
      const { code, stdout } = await release("d", url, fence);
      expect({ code, ...(JSON.parse(stdout) as object) }).toMatchObject({ code: 76, result: "lost" });
    } finally {
      await redis.stop();
    }
  });
});

describe("a release that is refused before it is sent", () => {
  test("leaves the lease as it was, to be renewed and released", async () => {
    const env = { HOLDFAST_STATE_DIR: bench.path("state") };
    const on = (...args: readonly string[]): Promise<Result> => bench.run(args, { env });
    const fence = (await on("acquire", "refused")).stdout.trim();
    const mark = bench.path(`state/${readdirSync(bench.path("state"))[0]!}.releasing`);
    mkdirSync(mark);
    expect((await on("release", "refused", "--fence", fence)).code).toBe(64);
    rmSync(mark, { recursive: true });
    expect((await on("renew", "refused", "--fence", fence)).code).toBe(0);
    expect((await on("release", "refused", "--fence", fence)).code).toBe(0);
  });
});
