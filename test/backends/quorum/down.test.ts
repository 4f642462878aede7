/** Members whose connection is down: no claim waits for them, and no requests pile up for them. */
import { Redis } from "ioredis";
import { createClient } from "redis";
import { describe, expect, test, vi } from "vitest";
import { initMembers, quorum } from "../../../src/backends/quorum/index.ts";
import { redis } from "../../../src/backends/redis/index.ts";
import { newClaim, startServers } from "./servers.ts";
import { failure, fakeQuorum, granted } from "./fake-members.ts";
import { PASSWORD } from "../../login.ts";

const name = "lock";

describe("a member whose connection is down", () => {
  test("is not asked while the others suffice, and is asked again once it is back", async () => {
    const { clock, fakes, open } = fakeQuorum(3);
    let isDown = false;
    let joins = 0;
    fakes[0]!.member.isDown = () => isDown;
    fakes[0]!.member.join = () => Promise.resolve({ id: `${++joins}` });
    const backend = open();
    const cycle = async (): Promise<void> => {
      const claim = newClaim({ name });
      await granted(backend, claim);
      expect(await backend.release(claim)).toBe("held");
      await clock.advance(1);
    };
    await cycle();
    expect(fakes[0]!.asked).toMatchObject({ vote: 1, release: 1 });
    isDown = true;
    await cycle();
    expect(fakes[0]!.asked).toMatchObject({ vote: 1, release: 1 });
    isDown = false;
    await cycle();
    await clock.advance(1);
    expect(fakes[0]!.asked.vote).toBe(2);
    expect(joins, "it may be another store: it joins again").toBe(2);
  });

  test("is still asked where the others are too few, because it may be back in time", async () => {
    const { fakes, open } = fakeQuorum(3);
    for (const { member } of fakes.slice(0, 2)) member.isDown = () => true;
    const backend = open();
    await granted(backend, newClaim({ name }));
    expect(fakes.map(({ asked }) => asked.vote)).toEqual([1, 1, 1]);
  });

  test("is named in the error", async () => {
    const { fakes, open } = fakeQuorum(3);
    fakes[0]!.member.isDown = () => true;
    fakes[1]!.member.vote = () => Promise.resolve({ vote: "recovering", forMs: 1000 });
    const error = await failure(open().attempt(newClaim({ name })));
    expect(error.message).toContain(
      "fake#1 unreachable (its connection is down); fake#2 recovering (lost its data; abstains for 1 s)",
    );
  });
});

test("the requests to a server that was killed do not pile up in ioredis, and it votes again when it is back", async () => {
  await using servers = await startServers(3);
  const clients = servers.all.map(
    ({ host, port }) => new Redis({ host, port, password: PASSWORD, retryStrategy: () => 50 }),
  );
  for (const client of clients) client.on("error", () => undefined);
  const members = clients.map((client) => redis(client));
  const backend = quorum(members, { memberWait: "5s" });
  const cycle = async (): Promise<void> => {
    const claim = newClaim();
    await granted(backend, claim);
    await backend.release(claim);
  };
  try {
    await cycle();
    await vi.waitFor(() => expect(clients.map(({ status }) => status)).toEqual(["ready", "ready", "ready"]), 120_000);
    await cycle();
    await servers.all[0]!.kill();
    await vi.waitFor(() => expect(clients[0]!.status).not.toBe("ready"), 120_000);
    const { offlineQueue } = clients[0] as unknown as { offlineQueue: { readonly length: number } };
    const before = offlineQueue.length;
    for (let times = 0; times < 20; times++) await cycle();
    expect(offlineQueue.length).toBe(before);
    await servers.all[0]!.restart();
    await initMembers(members);
    await servers.all[1]!.kill();
    await vi.waitFor(cycle, 120_000);
  } finally {
    await backend.close();
    for (const client of clients) client.disconnect();
  }
});

test("node-redis reports that its connection is down, once it was up", async () => {
  await using servers = await startServers(1);
  const client = createClient({ url: servers.all[0]!.url });
  client.on("error", () => undefined);
  const member = redis(client as never);
  expect(member.isDown?.()).toBe(false);
  await client.connect();
  expect(member.isDown?.()).toBe(false);
  await servers.all[0]!.kill();
  await vi.waitFor(() => expect(member.isDown?.()).toBe(true), 120_000);
  await member.close();
  client.destroy();
});
