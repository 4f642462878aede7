/** What `release` says of a lease that is gone, after a release that may or may not have arrived. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { afterAll, describe, expect, test } from "vitest";

import { startRedis } from "../../src/lab/servers/redis.ts";
import { startProxy } from "../../src/lab/proxy.ts";
import { Bench, MAIN, type Result, until } from "./harness.ts";

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

describe("a release that its own repetition finds done", () => {
  test.each(["ioredis", "redis"])("%s: is a release", async (client) => {
    const redis = await startRedis();
    const proxy = await startProxy({ port: redis.port });
    try {
      bench.write("url", redis.url.replace(/:\d+$/, `:${proxy.port}?client=${client}`));
      const url = `@file:${bench.path("url")}`;
      // The server knows the script from here on: else the first answer is that it does not.
      await release("first", url, await acquired("first", url));
      const fence = await acquired("again", url);
      let asked = false;
      let lost = 0;
      proxy.onRequest = (chunk) => {
        asked ||= /evalsha/i.test(chunk.toString("latin1"));
        return undefined;
      };
      // The server has done what was asked, and its answer is lost.
      proxy.onReply = () => (asked && lost++ === 0 ? "reset" : undefined);
      const { code, stdout, stderr } = await release("again", url, fence);
      expect({ code, stderr, ...(JSON.parse(stdout) as object) }).toMatchObject({
        code: 0,
        stderr: "",
        result: "released",
      });
      expect(lost).toBeGreaterThan(0);
    } finally {
      await proxy.stop();
      await redis.stop();
    }
  });
});

describe("release --claim of what was given back before", () => {
  const id = "claim_given_back_00001";
  const byClaim = async (dir: string): Promise<{ code: number | null; result: unknown }> => {
    const args = ["release", "by claim", "--claim", id, "--json"];
    const { code, stdout } = await bench.run(args, { env: { HOLDFAST_STATE_DIR: bench.path(dir) } });
    return { code, result: (JSON.parse(stdout) as { result: unknown }).result };
  };

  test("exits with 0 where it was acquired, or given back; elsewhere that is unknown, and it exits with 76", async () => {
    const take = (): Promise<string> => acquired("by claim", bench.url, "--claim", id);
    await take();
    expect(await byClaim("claims")).toEqual({ code: 0, result: "released" });
    expect(await byClaim("claims")).toEqual({ code: 0, result: "already released" });
    // The same claim holds it again: whatever the notes say, that is given back.
    const fence = await take();
    expect(await byClaim("other")).toEqual({ code: 0, result: "released" });
    expect(await byClaim("other")).toEqual({ code: 0, result: "already released" });
    expect(await byClaim("third")).toEqual({ code: 76, result: "lost" });
    expect((await release("by claim", bench.url, fence)).code).toBe(76);
  });
});

describe("a disk that is full where the notes are", () => {
  test("redis: the lease is renewed and released all the same, and it is said which file is missing", async () => {
    const redis = await startRedis();
    try {
      const env = { HOLDFAST_URL: redis.url, HOLDFAST_STATE_DIR: bench.path("full") };
      const fence = (await bench.run(["acquire", "full"], { env })).stdout.trim();
      // No file may have a single byte: every write fails, as on a full disk.
      const onFull = async (...args: readonly string[]): Promise<Result> => {
        const script = 'ulimit -f 0; exec "$@"';
        const child = spawn("sh", ["-c", script, "sh", process.execPath, MAIN, ...args], {
          env: { ...process.env, ...env },
        });
        const said = { stdout: "", stderr: "" };
        child.stdout.on("data", (text: Buffer) => (said.stdout += text.toString()));
        child.stderr.on("data", (text: Buffer) => (said.stderr += text.toString()));
        const [code, signal] = (await once(child, "close")) as [number | null, NodeJS.Signals | null];
        return { code, signal, ...said };
      };
      const renewed = await onFull("renew", "full", "--fence", fence, "--ttl", "10m");
      expect(renewed).toMatchObject({
        code: 0,
        stderr: expect.stringMatching(/full\/.*\.json could not be written.*is renewed/),
      });
      const released = await onFull("release", "full", "--fence", fence);
      expect(released).toMatchObject({
        code: 0,
        stderr: expect.stringMatching(/\.json could not be written.*was released/),
      });
      expect(`${renewed.stderr}${released.stderr}`).not.toMatch(/^ +at /m);
      expect(readdirSync(bench.path("full"))).toEqual([expect.stringMatching(/\.json$/)]);
      const shown = await bench.run(["show", "full", "--json"], { env });
      expect((JSON.parse(shown.stdout) as { held: unknown[] }).held).toEqual([]);
    } finally {
      await redis.stop();
    }
  });
});
