/** What must hold when members and networks fail, on real servers. The names S31 … are those of docs/safety.md. */
import { describe, expect, test, vi } from "vitest";
import type { Claim } from "../../../src/contract/backend.ts";
import type { RedisServer } from "../../../src/lab/servers/redis.ts";
import type { QuorumOptions } from "../../../src/backends/quorum/index.ts";
import { cutOff, granted, holders, type ProxiedServers, startProxiedServers, warmUp } from "./proxied-servers.ts";
import { newClaim } from "./servers.ts";
import { failure } from "./fake-members.ts";

const name = "invoice:42";

describe("S31: A holds {1,2,3}, B reaches {3,4,5}, and the clock of 3 jumps", () => {
  async function jump(options: QuorumOptions): Promise<{ group: ProxiedServers; a: Claim; b: Claim; fence: bigint }> {
    const group = await startProxiedServers({ shifted: true, ...options });
    cutOff(group, 0, [3, 4]);
    cutOff(group, 1, [0, 1]);
    const [a, b] = [newClaim({ name, holder: "a:1" }), newClaim({ name, holder: "b:1" })];
    const fence = await vi.waitFor(() => granted(group.backends[0]!, a), 120_000);
    group.skews[2]!.jump(20_000);
    return { group, a, b, fence };
  }

  test("a member whose clock is far off does not vote, so B gets nothing", async () => {
    const { group, b } = await jump({ memberWait: "1s" });
    // A busy machine may need a second attempt; none may be granted.
    const error = await vi.waitFor(async () => {
      const failed = await failure(group.backends[1]!.attempt(b));
      const votes = failed.votes.map(({ vote }) => vote);
      expect(votes).toEqual(["slow", "slow", "clock-off", "granted", "granted"]);
      return failed;
    }, 180_000);
    expect(error.message).toMatch(/redis#3 clock off \(.*\); redis#4 granted/);
    await vi.waitFor(async () => expect(await holders(group, name)).toEqual(["a:1", "a:1", "", "", ""]), 120_000);
  });

  test(
    "where clocks are not checked both believe, but B's fence is greater, and A is not renewed",
    { timeout: 180_000 },
    async () => {
      const { group, a, b, fence } = await jump({ memberWait: "1s", maxClockOffset: "24h" });
      expect(await vi.waitFor(() => granted(group.backends[1]!, b), 120_000)).toBeGreaterThan(fence);
      const [renewal] = await group.backends[0]!.renew([a]);
      expect(renewal?.held).toBe("unknown");
    },
  );
});

describe("S32: a member restarts empty while A holds", () => {
  async function restart(options: QuorumOptions): Promise<{ group: ProxiedServers; b: Claim; fence: bigint }> {
    const group = await startProxiedServers({ memberWait: "2s", ...options });
    cutOff(group, 0, [3, 4]);
    cutOff(group, 1, [0, 1]);
    const a = newClaim({ name, holder: "a:1" });
    const fence = await vi.waitFor(() => granted(group.backends[0]!, a), 120_000);
    await group.servers[2]!.restart();
    return { group, b: newClaim({ name, holder: "b:1" }), fence };
  }

  test(
    "it abstains until every lease that it may have lost has ended, and the error says so",
    { timeout: 180_000 },
    async () => {
      const { group, b } = await restart({});
      const error = await vi.waitFor(async () => {
        const failed = await failure(group.backends[1]!.attempt(b));
        expect(failed.votes[2]?.vote).toBe("recovering");
        return failed;
      }, 180_000);
      expect(error.fatal).toBe(false);
      expect(error.message).toMatch(/redis#3 recovering \(lost its data; abstains for 3\d(\.\d)? s\)/);
      expect(error.message).toContain("doctor --init");
    },
  );

  test(
    "with members called durable that are not, B gets in: but its fence is greater",
    { timeout: 180_000 },
    async () => {
      const { group, b, fence } = await restart({ durable: true });
      const later = await vi.waitFor(() => granted(group.backends[1]!, b), 120_000);
      expect(later).toBeGreaterThan(fence);
    },
  );
});

test("S33: a flushed member abstains as a restarted one does", async () => {
  const group = await startProxiedServers({ count: 3, clients: 1 });
  await granted(group.backends[0]!, newClaim({ name }));
  for (const server of group.servers.slice(0, 2)) await server.cli("FLUSHALL");
  // Also to those who only look.
  expect((await group.backends[0]!.inspect(name)).quarantineMs).toBeGreaterThan(0);
  const error = await failure(group.backends[0]!.attempt(newClaim({ name: "another" })));
  expect(error.votes.map(({ vote }) => vote)).toEqual([
    "recovering",
    "recovering",
    expect.stringMatching(/granted|slow/),
  ]);
});

test(
  "S34: after a majority restarted, the lock is out of reach for the quarantine, and then works",
  { timeout: 180_000 },
  async () => {
    const group = await startProxiedServers({ count: 3, clients: 1, maxTtl: "500ms" });
    for (const server of group.servers) await server.restart();
    const claim = newClaim({ name, ttlMs: 400 });
    const votes = await vi.waitFor(async () => {
      const error = await failure(group.backends[0]!.attempt(claim));
      expect(error.votes.map(({ vote }) => vote)).toContain("recovering");
      return error.votes;
    }, 180_000);
    expect(votes).toHaveLength(3);
    await vi.waitFor(() => granted(group.backends[0]!, newClaim({ name, ttlMs: 400 })), {
      timeout: 180_000,
      interval: 100,
    });
  },
);

test("S35: votes that arrive after the ttl make no lease, and are withdrawn", async () => {
  const group = await startProxiedServers({ count: 3, clients: 1, memberWait: "30s" });
  await warmUp(group.backends[0]!);
  for (const proxy of group.proxies[0]!) proxy.hang("replies");
  const attempt = failure(group.backends[0]!.attempt(newClaim({ name, ttlMs: 300 })));
  // The members have granted it; only then time passes.
  await vi
    .waitFor(async () => expect(await holders(group, name)).toEqual(["test:1", "test:1", "test:1"]), {
      timeout: 200,
      interval: 5,
    })
    .catch(() => undefined);
  await new Promise((resolve) => setTimeout(resolve, 400));
  for (const proxy of group.proxies[0]!) await proxy.heal();
  expect((await attempt).message).toMatch(/granted it only after .* too late for a ttl of 300 ms/);
  expect(await holders(group, name)).toEqual(["", "", ""]);
});

test("S38: a vote whose reply was lost is withdrawn too, whatever its minHold", async () => {
  const group = await startProxiedServers({ count: 3 });
  const [a, b] = [group.backends[0]!, group.backends[1]!];
  await warmUp(a);
  // B holds member 2 and 3 only, so A cannot win; and member 1's reply to A is lost.
  cutOff(group, 1, [0]);
  await granted(b, newClaim({ name, holder: "b:1", ttlMs: 30_000 }));
  group.proxies[0]![0]!.drop("replies");
  const refused = await a
    .attempt(newClaim({ name, holder: "a:1", ttlMs: 30_000, minHoldMs: 30_000 }))
    .catch((cause: unknown) => cause);
  expect(refused).not.toMatchObject({ granted: true });
  await group.proxies[0]![0]!.heal();
  await vi.waitFor(async () => expect(await holders(group, name)).toEqual(["", "b:1", "b:1"]), 120_000);
});

test(
  "S41: one member that is black-holed and one that hangs do not keep a won majority waiting",
  { timeout: 180_000 },
  async () => {
    const group = await startProxiedServers({ clients: 1, memberWait: "60s" });
    cutOff(group, 0, [0]);
    group.servers[1]!.pause();
    // With a member's time limit of a minute, this ends in time only if the round does not wait for the two.
    for (let times = 0; times < 20; times++) {
      const claim = newClaim({ name });
      await granted(group.backends[0]!, claim);
      expect(await group.backends[0]!.release(claim)).toBe("held");
    }
  },
);

describe("S43: a renewal that is not a majority's", () => {
  test("ends the lease where a majority lost it, and acquires nothing again", async () => {
    const group = await startProxiedServers({ clients: 1 });
    const claim = newClaim({ name });
    await granted(group.backends[0]!, claim);
    for (const member of group.servers.slice(0, 3)) await member.cli("DEL", ...(await keysOf(member)));
    const [renewal] = await group.backends[0]!.renew([claim]);
    expect(renewal).toMatchObject({ held: false, reason: { kind: "minority", gone: 3, members: 5 } });
    await vi.waitFor(async () => expect(await holders(group, name)).toEqual(["", "", "", "", ""]), 120_000);
    const [again] = await group.backends[0]!.renew([claim]);
    expect(again?.held).toBe(false);
    expect(await holders(group, name)).toEqual(["", "", "", "", ""]);
  });

  test("is unknown where a majority does not answer", async () => {
    const group = await startProxiedServers({ clients: 1, memberWait: "1s" });
    const claim = newClaim({ name });
    await granted(group.backends[0]!, claim);
    for (const server of group.servers.slice(0, 3)) server.pause();
    const [renewal] = await group.backends[0]!.renew([claim]);
    expect(renewal).toMatchObject({ held: "unknown", cause: { votes: expect.any(Array) } });
  });
});

test(
  "S45: missing members are asked again, so losing one of the majority costs nothing",
  { timeout: 180_000 },
  async () => {
    const group = await startProxiedServers();
    cutOff(group, 0, [3, 4]);
    const claim = newClaim({ name, holder: "a:1" });
    await granted(group.backends[0]!, claim);
    expect(await holders(group, name)).toEqual(["a:1", "a:1", "a:1", "", ""]);
    for (const at of [3, 4]) await group.proxies[0]![at]!.heal();
    await vi.waitFor(async () => {
      await group.backends[0]!.renew([claim]);
      expect(await holders(group, name)).toEqual(["a:1", "a:1", "a:1", "a:1", "a:1"]);
    }, 180_000);
    for (const server of group.servers.slice(0, 2)) await server.cli("FLUSHALL");
    expect((await group.backends[0]!.renew([claim]))[0]?.held).toBe(true);
    const refused = await group.backends[1]!.attempt(newClaim({ name, holder: "b:1" })).catch(
      (cause: unknown) => cause,
    );
    expect(refused).not.toMatchObject({ granted: true });
  },
);

async function keysOf(server: RedisServer): Promise<readonly string[]> {
  const keys = (await server.cli("KEYS", "*")).split("\n");
  return keys.filter((key) => key.includes(name));
}
