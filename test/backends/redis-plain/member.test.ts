/** Servers as members of a quorum beside redlock: which vote, and which abstain. */
import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { initMembers, quorum } from "../../../src/backends/quorum/index.ts";
import { redisPlain, type RedisPlainBackend } from "../../../src/backends/redis-plain/index.ts";
import { type RedisServer, startRedis } from "../../../src/lab/servers/redis.ts";
import { newClaim } from "../../../src/testing/claim.ts";
import { eventually } from "../../../src/testing/eventually.ts";
import { granted } from "../../../src/testing/attempts.ts";
import { PASSWORD } from "../../login.ts";

/** What is used of redlock: its package has no types that can be found. */
interface RedlockLike {
  acquire(names: string[], ttlMs: number): Promise<{ release(): Promise<unknown> }>;
  on(event: "error", listener: () => void): unknown;
}
const REDLOCK: string = "redlock";
const { default: Redlock } = (await import(REDLOCK)) as {
  default: new (clients: readonly Redis[], settings: object) => RedlockLike;
};

let servers: readonly RedisServer[];
let clients: readonly Redis[];
const members = (): RedisPlainBackend[] => clients.map((client) => redisPlain(client));
const claimOf = (name: string): ReturnType<typeof newClaim> => newClaim({ name, ttlMs: 20_000, queues: false });

beforeAll(async () => {
  servers = await Promise.all([1, 2, 3].map(() => startRedis()));
  clients = servers.map(({ port }) => new Redis({ port, password: PASSWORD, maxRetriesPerRequest: null }));
  for (const client of clients) client.on("error", () => undefined);
});
afterAll(async () => {
  for (const client of clients) client.disconnect();
  await Promise.all(servers.map((server) => server.stop()));
});

describe("a quorum of plain members", () => {
  test("excludes redlock, and is excluded by it", async () => {
    const ours = quorum(members(), { durable: true, memberWait: "5s" });
    const theirs = new Redlock(clients, { retryCount: 0 });
    theirs.on("error", () => undefined);
    const claim = claimOf("a");
    await granted(ours, claim);
    await expect(theirs.acquire(["a"], 20_000)).rejects.toThrow();
    expect(await ours.release(claim)).toBe("held");
    const lock = await theirs.acquire(["a"], 20_000);
    const refused = await ours.attempt(claimOf("a"));
    expect(refused).toMatchObject({ granted: false, heldBy: [{ fence: 0n }] });
    await lock.release();
    await eventually("the lock is free", async () => ((await ours.attempt(claimOf("a"))).granted ? true : undefined));
    await ours.close();
  });

  test("abstains where a member may have lost leases, in every process, until an operator says otherwise", async () => {
    const young = quorum(members(), { maxTtl: "1h", memberWait: "5s" });
    await expect(young.attempt(claimOf("b"))).rejects.toThrow(/abstains/u);
    const results = await initMembers(members(), { maxTtl: "1h" });
    expect(results.map(({ result }) => result)).toEqual(["admitted", "admitted", "admitted"]);
    const other = quorum(members(), { maxTtl: "1h", memberWait: "5s" });
    await granted(other, claimOf("b"));
    // One that starts again is another one.
    const [first] = servers;
    await first!.restart();
    const [member] = members();
    await eventually("it abstains again", async () => {
      await member!.join({ quarantineMs: 3_600_000, allowEviction: false });
      const vote = await member!.vote(claimOf("c"), BigInt(Date.now()) * 1000n);
      return vote.vote === "recovering" ? true : undefined;
    });
    await Promise.all([young.close(), other.close(), member!.close()]);
  });
});
