/** Faults of the catalogue that are no play for two clients and a picture. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { systemChance } from "../../src/contract/random.ts";
import { connect } from "../../src/connect.ts";
import { History } from "../../src/lab/events.ts";
import { startProxy } from "../../src/lab/proxy.ts";
import { startRedis } from "../../src/lab/servers/redis.ts";
import type { RedisServer } from "../../src/lab/servers/redis.ts";
import { BUILD } from "../dist.ts";
import { LOGIN } from "../login.ts";

let server: RedisServer;
beforeAll(async () => {
  server = await startRedis();
});
afterAll(() => server.stop());

test("S02: a million claim ids of 128 bits, and none twice", () => {
  const ids = new Set<string>();
  for (let i = 0; i < 1_000_000; i++) ids.add(systemChance.id());
  expect(ids.size).toBe(1_000_000);
  expect(Buffer.from(systemChance.id(), "base64url").length).toBe(16);
});

test(
  "S19: a thousand short holds and abandoned waits over a jittery network leave nothing, and refresh nothing",
  { timeout: 180_000 },
  async () => {
    await using proxy = await startProxy(server);
    proxy.delay(0, "both", 4);
    const locks = await connect(`redis://${LOGIN}127.0.0.1:${proxy.port}`);
    const turn = async (i: number): Promise<void> => {
      const stop = new AbortController();
      const timer = setTimeout(() => stop.abort(), Math.random() * 12);
      const lease = await locks
        .acquire(`s19:${i % 7}`, { ttl: 2000, wait: 200, signal: stop.signal })
        .catch(() => undefined);
      clearTimeout(timer);
      await lease?.release();
    };
    for (let i = 0; i < 1000; i += 50) await Promise.all(Array.from({ length: 50 }, (_, j) => turn(i + j)));
    await expect.poll(() => locks.query("s19:"), { timeout: 120_000 }).toEqual({ held: [], pending: [], forced: [] });
    await locks.close();
  },
);

test("S24: a primary that became a replica is asked at a bounded rate", async () => {
  await using primary = await startRedis();
  await using demoted = await startRedis();
  const locks = await connect(demoted.url);
  const lease = await locks.acquire("s24", { ttl: 3000 });
  const waiting = locks.acquire("s24", { ttl: 3000, wait: 4000 }).catch(() => undefined);
  await sleep(200);
  await demoted.cli("REPLICAOF", "127.0.0.1", String(primary.port));
  const before = await commands(demoted);
  await sleep(3000);
  const asked = (await commands(demoted)) - before;
  expect(asked).toBeLessThan(300);
  // The holder cannot renew there, and knows.
  await expect.poll(() => lease.signal.aborted, { timeout: 120_000 }).toBe(true);
  await (await waiting)?.release();
  await locks.close({ grace: 1, force: true });
});

test(
  "S60: a dead reader's hold ends with its own lease, while other readers go on renewing theirs",
  { timeout: 180_000 },
  async () => {
    const { startClient } = (await import(
      join(BUILD, "lab/clients/client.js")
    )) as typeof import("../../src/lab/clients/client.ts");
    const history = new History();
    const link = { url: server.url, ports: [server.port] };
    const start = (client: string): ReturnType<typeof startClient> =>
      startClient({ client, lock: "s60", library: "holdfast", link, counterUrl: "" }, history);
    const [dead, reader, writer] = await Promise.all(["dead", "reader", "writer"].map(start));
    if (dead === undefined || reader === undefined || writer === undefined) throw new Error("no clients");
    // The store's password is nothing for `ps` to show (S174).
    expect(readFileSync(`/proc/${dead.pid}/cmdline`, "utf8")).not.toContain(server.password);
    const terms = { ttlMs: 1000, waitMs: 5000, mode: "shared" } as const;
    expect(await dead.tell({ do: "acquire", terms })).toBe(true);
    expect(await reader.tell({ do: "acquire", terms })).toBe(true);
    await dead.kill();
    const writing = writer.tell({ do: "acquire", terms: { ttlMs: 1000, waitMs: 20_000, mode: "exclusive" } });
    // Far beyond the dead one's lease: only the living reader is in the way.
    await sleep(2500);
    expect(await reader.tell({ do: "peek" })).toBe(true);
    await using observer = await connect(server.url);
    const { held } = await observer.query("s60");
    expect(held.map(({ holder }) => holder)).toEqual(["reader"]);
    expect(await reader.tell({ do: "release" })).toBe("released");
    expect(await writing).toBe(true);
    await writer.tell({ do: "release" });
    await Promise.all([reader.stop(), writer.stop()]);
  },
);

async function commands(of: RedisServer): Promise<number> {
  return Number(/total_commands_processed:(\d+)/u.exec(await of.cli("INFO", "stats"))?.[1]);
}
