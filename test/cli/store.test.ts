/** With a store on the network: S101, exit codes when it is away, leases in several steps, and what doctor says. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { type Proxy, startProxy } from "../../src/lab/proxy.ts";
import { type RedisServer, startRedis } from "../../src/lab/servers/redis.ts";
import { startZooKeeper } from "../../src/lab/servers/zookeeper.ts";
import { Bench, isRunning, until } from "./harness.ts";
import { LOGIN } from "../login.ts";

const bench = new Bench();
let redis: RedisServer;
beforeAll(async () => {
  redis = await startRedis();
});
afterAll(async () => {
  bench.close();
  await redis.stop();
});
const at = (url: string): { env: Record<string, string>; input: string } => ({ env: { HOLDFAST_URL: url }, input: "" });

describe("S101: the holder's machine is cut off from the store", () => {
  let proxy: Proxy;
  beforeAll(async () => {
    proxy = await startProxy({ port: redis.port });
  });
  afterAll(() => proxy.stop());

  test("its command, which ignores SIGTERM, is dead before the other side's starts", async () => {
    const beat = bench.path("beat");
    const script = `trap "" TERM; echo $$ > ${bench.path("beat.pid")}; while :; do echo first >> ${beat}; sleep 0.01; done`;
    const first = bench.start(
      ["run", "s101", "--ttl", "2s", "--", "sh", "-c", script],
      at(`redis://${LOGIN}127.0.0.1:${proxy.port}`),
    );
    const pid = Number(await until(() => bench.lines("beat.pid")[0], "the first runs"));
    const stat = `case "$(cut -d' ' -f3 /proc/${pid}/stat 2>/dev/null)" in [!ZX]*) echo alive;; *) echo dead;; esac`;
    const second = bench.start(
      ["run", "s101", "--ttl", "2s", "--", "sh", "-c", `${stat}; echo second >> ${beat}`],
      at(redis.url),
    );
    for (let queued = 0; queued === 0;) {
      const shown = await bench.run(["show", "s101", "--json"], at(redis.url));
      queued = (JSON.parse(shown.stdout) as { pending: unknown[] }).pending.length;
    }
    proxy.drop("both");
    expect(await second.done).toMatchObject({ code: 0, stdout: "dead\n" });
    expect((await first.done).code).toBe(76);
    expect(bench.lines("beat").at(-1)).toBe("second");
    expect(isRunning(pid)).toBe(false);
  });
});

describe("S105: a store that is away", () => {
  test("a closed port: 69 at once, with or without an end to the waiting", async () => {
    for (const flags of [[], ["-n"], ["-w", "1m"]]) {
      const { code, stdout, stderr } = await bench.run(
        ["run", "x", ...flags, "--", "echo", "never"],
        at("redis://127.0.0.1:1"),
      );
      expect({ code, stdout }).toEqual({ code: 69, stdout: "" });
      expect(stderr).toContain("127.0.0.1:1");
    }
    expect((await bench.run(["ls"], at("redis://127.0.0.1:1"))).code).toBe(69);
  });
});

describe("S103: with a store, a killed holdfast's command is ended, and its lease lasts its ttl", () => {
  test("so no other process starts before it is dead", async () => {
    const script = `trap "" TERM; echo $$ > ${bench.path("killed")}; while :; do sleep 0.01; done`;
    const first = bench.start(["run", "killed", "--ttl", "2s", "--", "sh", "-c", script], at(redis.url));
    const pid = Number(await until(() => bench.lines("killed")[0], "the first runs"));
    first.process.kill("SIGKILL");
    const stat = `case "$(cut -d' ' -f3 /proc/${pid}/stat 2>/dev/null)" in [!ZX]*) echo alive;; *) echo dead;; esac`;
    expect(await bench.run(["run", "killed", "--", "sh", "-c", stat], at(redis.url))).toMatchObject({
      code: 0,
      stdout: "dead\n",
    });
  });
});

describe("leases in several steps", () => {
  test("acquire, renew with another ttl, show, release", async () => {
    const fence = (await bench.run(["acquire", "steps", "--ttl", "10s"], at(redis.url))).stdout.trim();
    expect((await bench.run(["renew", "steps", "--fence", fence, "--ttl", "1h"], at(redis.url))).code).toBe(0);
    const { stdout } = await bench.run(["show", "steps", "--json"], at(redis.url));
    const { held } = JSON.parse(stdout) as { held: { fence: string; remainingMs: number }[] };
    expect(held).toMatchObject([{ fence }]);
    expect(held[0]?.remainingMs).toBeGreaterThan(3_000_000);
    expect((await bench.run(["release", "steps", "--fence", fence], at(redis.url))).code).toBe(0);
    expect((await bench.run(["show", "steps"], at(redis.url))).code).toBe(1);
  });
});

interface Diagnosis {
  readonly code: number | null;
  readonly verdict: string;
  readonly findings: readonly { readonly check: string; readonly level: string; readonly text: string }[];
}

async function doctor(url: string, ...flags: readonly string[]): Promise<Diagnosis> {
  const { code, stdout, stderr } = await bench.run(["doctor", "--json", ...flags], at(url));
  if (stdout === "") throw new Error(stderr);
  return { code, ...(JSON.parse(stdout) as Omit<Diagnosis, "code">) };
}

function level({ findings }: Diagnosis, check: string): string | undefined {
  return findings.find((finding) => finding.check === check)?.level;
}

describe("doctor", () => {
  test("file: says what is good, and breaks on a directory that others may write to", async () => {
    const good = await doctor(bench.url);
    expect({ code: good.code, verdict: good.verdict }).toEqual({ code: 0, verdict: "good" });
    for (const check of ["usable", "hard-links", "permissions", "file-system"]) expect(level(good, check)).toBe("good");
    const { chmodSync, mkdirSync } = await import("node:fs");
    mkdirSync(bench.path("open"));
    chmodSync(bench.path("open"), 0o777);
    const open = await doctor(`file://${bench.path("open")}`);
    expect({ code: open.code, verdict: open.verdict }).toEqual({ code: 1, verdict: "broken" });
    expect(open.findings[0]?.text).toContain("777");
  });

  test("file: says aloud that it is for one machine", async () => {
    expect((await bench.run(["doctor"])).stdout).toContain("one machine, one directory");
  });

  test("redis: a primary that forgets is weak, one that evicts breaks the promise", async () => {
    const first = await doctor(redis.url);
    expect(first).toMatchObject({ code: 0, verdict: "weak" });
    expect(level(first, "eviction")).toBe("good");
    expect(level(first, "persistence")).toBe("weak");
    expect((await doctor(redis.url, "--strict")).code).toBe(1);
    await redis.cli("CONFIG", "SET", "maxmemory", "100mb");
    await redis.cli("CONFIG", "SET", "maxmemory-policy", "allkeys-lru");
    const evicting = await doctor(redis.url);
    expect({ code: evicting.code, eviction: level(evicting, "eviction") }).toEqual({ code: 1, eviction: "broken" });
    await redis.cli("CONFIG", "SET", "maxmemory-policy", "noeviction");
  });

  test("redis: a replica is recognised, and one that is away exits with 69", async () => {
    const replica = await startRedis({ args: ["--replicaof", "127.0.0.1", String(redis.port)] });
    try {
      expect(level(await doctor(replica.url), "role")).toBe("broken");
    } finally {
      await replica.stop();
    }
    expect((await bench.run(["doctor"], at("redis://127.0.0.1:1"))).code).toBe(69);
  });

  test("redis: a server that cannot hold a quarantine, or whose quarantine could not be ended, breaks the promise", async () => {
    const url = `${redis.url}?failover=quarantine`;
    const bare = await doctor(url);
    expect({ code: bare.code, level: level(bare, "quarantine") }).toEqual({ code: 1, level: "broken" });
    // No replica is there to write with.
    await redis.cli("CONFIG", "SET", "min-replicas-to-write", "1");
    await redis.cli("CONFIG", "SET", "min-replicas-max-lag", "1");
    const failed = await doctor(url, "--init");
    const levels = [level(failed, "quarantine"), level(failed, "init")];
    expect({ code: failed.code, levels }).toEqual({ code: 1, levels: ["good", "broken"] });
    await redis.cli("CONFIG", "SET", "min-replicas-to-write", "0");
    expect((await bench.run(["doctor", "--init"], at(`${redis.url}?prefix=a%26failover=quarantine`))).code).toBe(64);
    expect((await bench.run(["doctor", "--init"], at(`${redis.url}?prefix=failover=quarantine`))).code).toBe(64);
    expect((await bench.run(["doctor", "--init"], at(`${redis.url}#?failover=quarantine`))).code).toBe(64);
  });

  test("redlock: each member is checked, one server twice is noticed, --init ends the quarantine", async () => {
    const others = await Promise.all([startRedis(), startRedis()]);
    try {
      const hosts = [redis, ...others].map(({ port }) => `127.0.0.1:${port}`);
      const good = await doctor(`redlock://${LOGIN}${hosts.join(",")}`, "--init");
      expect(good).toMatchObject({ code: 0 });
      expect(good.findings.filter(({ check, level: found }) => check === "init" && found === "good")).toHaveLength(3);
      const twice = await doctor(`redlock://${LOGIN}${hosts[0]},${hosts[1]},${hosts[0]}`);
      expect({ code: twice.code, level: level(twice, "independent") }).toEqual({ code: 1, level: "broken" });
      const down = await doctor(`redlock://${LOGIN}${hosts[0]},127.0.0.1:1,127.0.0.1:2`);
      expect({ code: down.code, level: level(down, "majority") }).toEqual({ code: 1, level: "broken" });
    } finally {
      await Promise.all(others.map((other) => other.stop()));
    }
  });

  test("zookeeper: the mode of the ensemble, and a session that the servers shorten", async () => {
    const zookeeper = await startZooKeeper();
    try {
      const found = await doctor(`${zookeeper.url}?session=20m`);
      expect(level(found, "ensemble")).toBe("weak");
      expect(level(found, "session")).toBe("weak");
      expect(found.findings.find(({ check }) => check === "session")?.text).toContain("maxSessionTimeout");
    } finally {
      await zookeeper.stop();
    }
  });
});
