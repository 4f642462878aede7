import { execFileSync, spawn } from "node:child_process";
import { chownSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Redis } from "ioredis";
import pg from "pg";
import { describe, expect, test, vi } from "vitest";
import { startCluster } from "../../src/lab/servers/cluster.ts";
import { CLASSES_VARIABLE } from "../../src/lab/servers/java-classes.ts";
import { startPostgres } from "../../src/lab/servers/postgres.ts";
import { startRedis } from "../../src/lab/servers/redis.ts";
import { startSentinels } from "../../src/lab/servers/sentinels.ts";
import { makeWallClock } from "../../src/lab/servers/wall-clock.ts";
import { startZooKeeper } from "../../src/lab/servers/zookeeper.ts";
import { eventually } from "../../src/testing/eventually.ts";
import { BUILD } from "../dist.ts";

// On a busy machine a server takes its time to start. These limits only end what has failed anyway.
vi.setConfig({ testTimeout: 240_000 });

test("starts a redis-server that answers, and leaves nothing when stopped", async () => {
  const server = await startRedis({ args: ["--maxmemory-policy", "noeviction"] });
  expect(await server.cli("PING")).toBe("PONG");
  expect(await server.cli("CONFIG", "GET", "maxmemory-policy")).toBe("maxmemory-policy\nnoeviction");
  await server.stop();
  expect(existsSync(server.dir)).toBe(false);
  expect(isAlive(server.pid)).toBe(false);
  await expect(server.cli("PING")).rejects.toThrow();
});

test("rejects with the server's own words when it cannot start", async () => {
  await expect(startRedis({ args: ["--no-such-option", "1"] })).rejects.toThrow(/no-such-option/u);
});

test("a paused redis does not answer until it is resumed", async () => {
  await using server = await startRedis();
  server.pause();
  let answered = false;
  const ping = server.cli("PING").then(() => (answered = true));
  await new Promise((resolve) => setTimeout(resolve, 100));
  expect(answered).toBe(false);
  server.resume();
  expect(await ping).toBe(true);
});

test("a killed redis comes back empty on the same port", async () => {
  await using server = await startRedis();
  await server.cli("SET", "a", "1");
  const before = server.pid;
  await server.restart();
  expect(server.pid).not.toBe(before);
  expect(await server.cli("EXISTS", "a")).toBe("0");
});

test("many servers may start at once", async () => {
  const servers = await Promise.all(Array.from({ length: 6 }, () => startRedis()));
  expect(new Set(servers.map((server) => server.port)).size).toBe(6);
  await Promise.all(servers.map((server) => server.stop()));
});

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

test("a server dies with the process that started it, even a stopped one whose parent is killed", async () => {
  const module = join(BUILD, "lab/servers/redis.js");
  const script = `const { startRedis } = await import(${JSON.stringify(module)}); const one = await startRedis(); one.pause(); console.log(one.pid); setInterval(() => {}, 1000);`;
  const parent = spawn(process.execPath, ["--input-type=module", "-e", script], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const pid = await new Promise<number>((resolve) =>
    parent.stdout.once("data", (data) => resolve(Number(String(data)))),
  );
  expect(isAlive(pid)).toBe(true);
  parent.kill("SIGKILL");
  while (isAlive(pid)) await new Promise((resolve) => setTimeout(resolve, 20));
});

test("sentinels promote a replica when the primary is killed", async () => {
  await using lab = await startSentinels({ args: ["--min-replicas-max-lag", "2"] });
  expect(await lab.currentPrimary()).toBe(lab.primary.port);
  expect(await lab.primary.cli("CONFIG", "GET", "min-replicas-max-lag")).toBe("min-replicas-max-lag\n2");
  await lab.primary.kill();
  const next = await lab.failedOver(lab.primary.port);
  expect(lab.replicas).toContain(next);
  expect(await next.cli("ROLE")).toMatch(/^master/u);
});

test("a cluster of three primaries serves every slot, and moves one with its keys", async () => {
  await using lab = await startCluster();
  const from = await lab.primaryOf("{a}1");
  await from.cli("SET", "{a}1", "kept");
  let halfWay = "";
  const to = await lab.moveSlot("{a}1", {
    whileMigrating: async () => {
      halfWay = await from.cli("GET", "{a}new").catch((error: Error & { stderr?: string }) => error.stderr ?? "");
    },
  });
  expect(halfWay).toContain("ASK");
  expect(to).not.toBe(from);
  expect(await to.cli("GET", "{a}1")).toBe("kept");
  expect(await lab.primaryOf("{a}1")).toBe(to);
});

test("a wall clock jumps for one redis alone", async () => {
  const wallClock = await makeWallClock();
  await using server = await startRedis({ env: wallClock.env });
  await server.cli("SET", "lease", "1", "PX", "30000");
  wallClock.jump(29_000);
  expect(await server.cli("EXISTS", "lease")).toBe("1");
  wallClock.jump(2000);
  expect(await server.cli("EXISTS", "lease")).toBe("0");
  const seconds = Number((await server.cli("TIME")).split("\n")[0]);
  expect(seconds - Date.now() / 1000).toBeGreaterThan(29);
  wallClock.stop();
});

test("one ZooKeeper server serves, and keeps its data over a restart", async () => {
  await using lab = await startZooKeeper();
  const [server] = lab.servers;
  if (server === undefined) throw new Error("no server");
  expect(await server.ask("ruok")).toBe("imok");
  expect(await server.role()).toBe("standalone");
  await server.restart();
  expect(await lab.leader()).toBe(server);
  // This process, or the one that was first, has kept the loaded classes, and what starts from now on begins with them.
  const classes = join(process.env[CLASSES_VARIABLE] ?? "", "zookeeper.jsa");
  await eventually("the classes are kept", () => existsSync(classes) || undefined);
  await server.restart();
  expect(readFileSync(`/proc/${server.pid}/maps`, "latin1")).toContain(classes);
});

test("three ZooKeeper servers elect another leader when theirs is killed", async () => {
  await using lab = await startZooKeeper({ servers: 3 });
  const first = await lab.leader();
  await first.kill();
  const second = await lab.leader();
  expect(second).not.toBe(first);
});

test("Postgres answers, keeps its data over a restart, and leaves no process behind", async () => {
  const server = await startPostgres();
  await server.sql("create table t (n int); insert into t values (7)");
  await server.restart();
  expect(await server.sql("select n from t")).toBe("7");
  const { pid } = server;
  await server.stop();
  expect(isAlive(pid)).toBe(false);
});

/** What `ps` shows every user of the process, and of those that it started. */
function argumentsOf(pid: number): string {
  return readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ");
}

describe("on a machine that others use too (S174)", () => {
  test("Redis asks for a password, which no command line shows and only we can read", async () => {
    await using server = await startRedis();
    const stranger = new Redis({ port: server.port, host: server.host, retryStrategy: null, enableReadyCheck: false });
    stranger.on("error", () => undefined);
    await expect(stranger.config("GET", "dir")).rejects.toThrow(/NOAUTH/);
    stranger.disconnect();
    expect(await server.cli("PING")).toBe("PONG");
    expect(new URL(server.url).password).toBe(server.password);
    expect(server.password.length).toBeGreaterThanOrEqual(32);
    expect(argumentsOf(server.pid)).not.toContain(server.password);
    for (const path of [server.dir, join(server.dir, "password.conf")]) expect(statSync(path).mode & 0o077).toBe(0);
  });

  test("so do sentinels, their primary and its replicas, and the nodes of a cluster", async () => {
    await using lab = await startSentinels();
    await using cluster = await startCluster();
    for (const { port, host, pid, password } of [lab.primary, ...lab.replicas, ...lab.sentinels, ...cluster.nodes]) {
      const stranger = new Redis({ port, host, retryStrategy: null, enableReadyCheck: false });
      stranger.on("error", () => undefined);
      await expect(stranger.call("INFO")).rejects.toThrow(/NOAUTH/);
      stranger.disconnect();
      expect(argumentsOf(pid)).not.toContain(password);
    }
  });

  test("Postgres asks for a password over TCP, and has its socket where no other user gets", async () => {
    await using server = await startPostgres();
    const { password, hostname, port } = new URL(server.url);
    expect(password.length).toBeGreaterThanOrEqual(32);
    for (const wrong of [undefined, "", "postgres"]) {
      const stranger = new pg.Client({
        host: hostname,
        port: Number(port),
        user: "postgres",
        database: "postgres",
        password: wrong,
      });
      await expect(stranger.connect()).rejects.toThrow(/password/i);
    }
    expect(await server.sql("show password_encryption")).toBe("scram-sha-256");
    const [sockets] = (await server.sql("show unix_socket_directories")).split(",");
    expect(statSync(sockets as string).mode & 0o077).toBe(0);
    expect(argumentsOf(server.pid)).not.toContain(password);
  });

  test("what another user left under our names in the shared directory is not removed", async () => {
    const shared = mkdtempSync(join(tmpdir(), "holdfast-shared-"));
    try {
      const kept = join(shared, "kept");
      mkdirSync(join(kept, "inside"), { recursive: true });
      // The pid of no process.
      const [link, foreign, own] = ["link", "theirs", "ours"].map((end) => join(shared, `holdfast-lab-4194400-${end}`));
      symlinkSync(kept, link as string);
      for (const place of [foreign, own]) mkdirSync(join(place as string, "x"), { recursive: true });
      // Only root can give away a directory; elsewhere the link is what is left to show.
      const isRoot = process.getuid?.() === 0;
      if (isRoot) chownSync(foreign as string, 65_534, 65_534);
      const module = join(BUILD, "lab/servers/scratch.js");
      const script = `process.env.TMPDIR = ${JSON.stringify(shared)}; (await import(${JSON.stringify(module)})).makeScratch();`;
      execFileSync(process.execPath, ["--input-type=module", "-e", script]);
      expect(existsSync(own as string)).toBe(false);
      expect(existsSync(join(link as string, "inside"))).toBe(true);
      expect(existsSync(foreign as string)).toBe(isRoot);
    } finally {
      rmSync(shared, { recursive: true });
    }
  });
});
