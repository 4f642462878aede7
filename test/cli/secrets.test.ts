/** S178: a store's password and the claims' ids, which are as good as one, stand nowhere that they are not needed. */
import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { withoutSecrets } from "../../src/contract/mask-secrets.ts";
import { type RedisServer, startRedis } from "../../src/lab/servers/redis.ts";
import { Bench, MAIN, until } from "./harness.ts";

const bench = new Bench();
const secret = "hunter2-of-the-store";
let redis: RedisServer;
let url: string;
beforeAll(async () => {
  redis = await startRedis({ args: ["--requirepass", secret] });
  url = `redis://:${secret}@127.0.0.1:${redis.port}`;
  bench.write("url", `${url}\n`);
});
afterAll(async () => {
  bench.close();
  await redis.stop();
});
/** As if none had been set. */
const BARE = { env: { HOLDFAST_URL: undefined }, input: "" };
const ENVIRONMENT = [process.execPath, "-p", "JSON.stringify(process.env)"];
const nested = (...args: readonly string[]): readonly string[] => [process.execPath, MAIN, ...args];

describe("S178: the password of --url", () => {
  test("is not in the command's environment, and holdfast warns once", async () => {
    const { code, stdout, stderr } = await bench.run(["run", "a", "--url", url, "--", ...ENVIRONMENT], BARE);
    expect(code).toBe(0);
    expect(stdout).not.toContain(secret);
    expect(JSON.parse(stdout)).toMatchObject({ HOLDFAST_URL: `redis://127.0.0.1:${redis.port}`, HOLDFAST_NAME: "a" });
    expect(stderr.match(/can read the password in --url/g)).toHaveLength(1);
    expect(stderr).not.toContain(secret);
    expect((await bench.run(["run", "a", "-q", "--url", url, "--", "true"], BARE)).stderr).toBe("");
  });

  test("with a comma in it is one, too", async () => {
    const comma = "hunter2,of,the-store";
    const other = await startRedis({ args: ["--requirepass", comma] });
    try {
      const args = ["run", "a", "--url", `redis://:${comma}@127.0.0.1:${other.port}`, "--", ...ENVIRONMENT];
      const { code, stdout, stderr } = await bench.run(args, BARE);
      expect(code).toBe(0);
      expect(stdout).not.toContain("hunter2");
      expect(stderr).toContain("can read the password in --url");
      expect(stderr).not.toContain("hunter2");
    } finally {
      await other.stop();
    }
  });

  test("is there when asked for, with --pass-url", async () => {
    const { stdout } = await bench.run(["run", "a", "--pass-url", "--url", url, "--", ...ENVIRONMENT], BARE);
    expect(JSON.parse(stdout)).toMatchObject({ HOLDFAST_URL: url });
  });

  test("does not show in ps while the command runs, neither of holdfast nor of its warden", async () => {
    const script = `echo $$ > ${bench.path("runs")}; read x`;
    const started = bench.start(["run", "ps", "--url", url, "--", "sh", "-c", script], { env: BARE.env });
    const command = Number(await until(() => bench.lines("runs")[0], "it runs"));
    const pids = [started.pid, command, ...bench.childrenOf(started.pid)];
    for (const pid of pids) expect(readFileSync(`/proc/${pid}/cmdline`, "latin1")).not.toContain(secret);
    const warden = bench.childrenOf(started.pid).filter((pid) => pid !== command);
    for (const pid of [command, ...warden]) {
      expect(readFileSync(`/proc/${pid}/environ`, "latin1")).not.toContain(secret);
    }
    started.process.stdin?.end("\n");
    expect((await started.done).code).toBe(0);
  });

  test.each([
    ["--url-file", (): string[] => ["--url-file", bench.path("url")]],
    ["--url @file:", (): string[] => ["--url", `@file:${bench.path("url")}`]],
    ["--url @env:", (): string[] => ["--url", "@env:THE_STORE"]],
  ])("can stay in its file or variable: %s, also for a holdfast inside", async (_, flags) => {
    const options = { env: { HOLDFAST_URL: undefined, THE_STORE: url }, input: "" };
    const inner = nested("show", "outer", "--json");
    const { code, stdout, stderr } = await bench.run(["run", "outer", ...flags(), "--", ...inner], options);
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(JSON.parse(stdout)).toMatchObject({ held: [{ name: "outer" }] });
    const environment = await bench.run(["run", "outer", ...flags(), "--", ...ENVIRONMENT], options);
    expect(JSON.parse(environment.stdout).HOLDFAST_URL).toMatch(/^@(env|file):/);
    const self = await bench.run(["run", "outer", ...flags(), "--", ...nested("run", "outer", "--", "true")], options);
    expect(self).toMatchObject({ code: 75 });
  });

  test("a program that connects by default follows HOLDFAST_URL there, too", async () => {
    const script = `import { connect } from "holdfast"; const locks = await connect(); console.log((await locks.query("by")).held.length); await locks.close();`;
    const inner = [process.execPath, "--input-type=module", "-e", script];
    const cwd = process.cwd();
    const args = ["run", "by-default", "--url-file", bench.path("url"), "--", ...inner];
    expect(await bench.run(args, { ...BARE, cwd })).toMatchObject({ code: 0, stdout: "1\n" });
  });

  test.each([
    [["--url-file", "/nonexistent/url"], "/nonexistent/url"],
    [["--url-file", "/etc/passwd"], "one URL and nothing else"],
    [["--url-file", ""], "names no file"],
    [["--url", "@env:NO_SUCH_VARIABLE"], "NO_SUCH_VARIABLE"],
    [["--url", "@x"], "@env:NAME or @file:PATH"],
    [["--url", "file:", "--url-file", "x"], "exclude each other"],
  ])("%j exits with 64", async (flags, message) => {
    const { code, stderr } = await bench.run(["ls", ...flags], BARE);
    expect({ code, stderr }).toMatchObject({ code: 64, stderr: expect.stringContaining(message) });
  });
});

describe("what is left of a URL without its secrets", () => {
  test.each([
    ["redis://:p@h:1/0?prefix=x", "redis://h:1/0?prefix=x"],
    ["redis://ann:p@h", "redis://h"],
    ["redlock://u:p@a:1,v:q@b:2,c:3/0?maxTtl=30s", "redlock://a:1,b:2,c:3/0?maxTtl=30s"],
    ["redis://:pa,ss@h:1/0", "redis://h:1/0"],
    ["redis://ann:p,a,ss@h:1/0?prefix=a,b@c", "redis://h:1/0?prefix=a,b@c"],
    ["redis+sentinel://ann:pa,ss@a:1,b:2/main", "redis+sentinel://a:1,b:2/main"],
    ["redis+cluster://:pa,s@s@a:1,[::1]:2", "redis+cluster://a:1,[::1]:2"],
    ["zk://ann:pa,ss@h:2181,i/x", "zk://h:2181,i/x"],
    ["redlock://u:p@a:1,b:2,v:q@c:3", "redlock://a:1,b:2,c:3"],
    ["redlock://:p,q@a:1,b:2,v:q,r,s@c:3,[::1]:4", "redlock://a:1,b:2,c:3,[::1]:4"],
    ["redis://:pa/ss@h:1/0", "redis://h:1/0"],
    ["redis+sentinel://a:1/main?sentinelPassword=p&db=1", "redis+sentinel://a:1/main?db=1"],
    ["zk://h:2181/x?auth=me:p", "zk://h:2181/x"],
    ["redis://h:6379/0?prefix=me@home", "redis://h:6379/0?prefix=me@home"],
    ["file:///var/lib/locks", "file:///var/lib/locks"],
    ["memory:", "memory:"],
  ])("%s", (text, bare) => {
    expect(withoutSecrets(text)).toBe(bare);
  });
});

describe("S178: a claim's id", () => {
  test("is printed by acquire when asked for, and by nothing else", async () => {
    const plain = await bench.run(["acquire", "id", "--json", "-v"]);
    expect(JSON.parse(plain.stdout)).not.toHaveProperty("claim");
    const { fence } = JSON.parse(plain.stdout) as { fence: string };
    expect(JSON.parse((await bench.run(["renew", "id", "--fence", fence, "--json"])).stdout)).not.toHaveProperty(
      "claim",
    );
    expect(JSON.parse((await bench.run(["release", "id", "--fence", fence, "--json"])).stdout)).toEqual({
      name: "id",
      fence,
      released: true,
      result: "released",
    });
    const asked = await bench.run(["acquire", "id", "--json", "--show-claim"]);
    expect(JSON.parse(asked.stdout)).toMatchObject({ claim: expect.stringMatching(/^[\w-]{22}$/) });
    const again = (JSON.parse(asked.stdout) as { fence: string }).fence;
    expect((await bench.run(["release", "id", "--fence", again])).code).toBe(0);
  });
});

test("S144: of several who release one lease at once, none says that it was lost", async () => {
  for (let round = 0; round < 5; round++) {
    const fence = (await bench.run(["acquire", "both"])).stdout.trim();
    const releases = [1, 2, 3, 4].map(() => bench.run(["release", "both", "--fence", fence]));
    expect((await Promise.all(releases)).map(({ code }) => code)).toEqual([0, 0, 0, 0]);
  }
});
