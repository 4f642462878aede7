import { existsSync } from "node:fs";
import { expect, test } from "vitest";
import { startRedis } from "../../src/lab/servers/redis.ts";

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

test("a paused redis answers nobody until it is resumed", async () => {
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
