/** Who may be a member, and what a member that forgot its leases does, on real servers. */
import { Redis } from "ioredis";
import { afterEach, expect, test, vi } from "vitest";
import type { Backend, Member, Vote } from "../../../src/contract/backend.ts";
import { LockBackendError } from "../../../src/contract/errors.ts";
import { type RedisServer, startRedis } from "../../../src/lab/servers/redis.ts";
import { createLocks } from "../../../src/core/locks.ts";
import { openBackend, openMembers, parseUrl } from "../../../src/backends/quorum/open.ts";
import { initMembers, quorum, type QuorumOptions } from "../../../src/backends/quorum/index.ts";
import { memory } from "../../../src/backends/memory/index.ts";
import { redis } from "../../../src/backends/redis/index.ts";
import { newClaim } from "./servers.ts";
import { LOGIN, PASSWORD } from "../../login.ts";

const opened: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of opened.splice(0).toReversed()) await close();
});

async function server(...args: string[]): Promise<RedisServer> {
  const started = await startRedis({ args });
  opened.push(() => started.stop());
  return started;
}

function memberAt({ port }: RedisServer): Member {
  const client = new Redis({
    port,
    host: "127.0.0.1",
    password: PASSWORD,
    maxRetriesPerRequest: null,
    retryStrategy: () => 20,
  });
  client.on("error", () => undefined);
  opened.push(() => client.disconnect());
  return redis(client);
}

async function refusal(members: readonly Member[], options: QuorumOptions = {}): Promise<LockBackendError> {
  const backend = quorum(members, { memberWait: "5s", ...options });
  const error = await vi.waitFor(async () => {
    // A majority may be found before the misfit is; the next attempt knows.
    const cause = await backend.attempt(newClaim()).then(
      () => undefined,
      (failed: unknown) => failed,
    );
    expect(cause).toMatchObject({ fatal: true });
    return cause;
  }, 180_000);
  expect(error).toBeInstanceOf(LockBackendError);
  return error as LockBackendError;
}

test("S47: one server under two names is refused, and both are named", async () => {
  const [a, b] = [await server(), await server()];
  const error = await refusal([memberAt(a), memberAt(b), memberAt(b)], { labels: ["one", "two", "two-again"] });
  expect(error.message).toMatch(/two(-again)? cannot be a member of this quorum: it is the same store as two/);
});

test("S47: a replica is refused as a member", async () => {
  const [a, b] = [await server(), await server()];
  const replica = await server("--replicaof", "127.0.0.1", String(a.port));
  expect((await refusal([memberAt(a), memberAt(b), memberAt(replica)])).message).toMatch(/redis#3 cannot .* replica/);
});

test("S47: a node of a cluster is refused as a member", async () => {
  const [a, b] = [await server(), await server()];
  const node = await server("--cluster-enabled", "yes");
  expect((await refusal([memberAt(a), memberAt(b), memberAt(node)])).message).toMatch(/redis#3 cannot .* Cluster/);
});

test("a member that may evict leases is refused, unless it is allowed", async () => {
  const servers = await Promise.all([server(), server(), server("--maxmemory-policy", "allkeys-lru")]);
  const error = await refusal(servers.map(memberAt));
  expect(error.message).toMatch(/redis#3 cannot .* maxmemory-policy is allkeys-lru.*noeviction/);
  const options = { allowEviction: true };
  await initMembers(servers.map(memberAt), options);
  const backend = quorum(servers.map(memberAt), { ...options, memberWait: "5s" });
  expect(await backend.attempt(newClaim())).toMatchObject({ granted: true });
});

test("S48: an even number of members causes a warning", async () => {
  const warned = vi.spyOn(process, "emitWarning").mockReturnValue(undefined);
  opened.push(() => warned.mockRestore());
  quorum([memory(), memory(), memory()]);
  expect(warned).not.toHaveBeenCalled();
  quorum([memory(), memory()]);
  expect(warned).toHaveBeenCalledWith(
    expect.stringContaining("odd number"),
    expect.objectContaining({ code: "HOLDFAST_EVEN_QUORUM" }),
  );
});

test('`renew: "thread"` is refused, and nothing is asked for', async () => {
  const members = [memory(), memory(), memory()];
  const locks = createLocks(quorum(members));
  await expect(locks.acquire("a", { renew: "thread" })).rejects.toThrow(/`renew` not to be "thread"/);
  await expect(locks.tryAcquire("a", { renew: "thread" })).rejects.toThrow(TypeError);
  for (const member of members) expect((await member.query("")).held).toEqual([]);
  await locks.close();
});

test("S49: a limit above 1 is refused, with the reason", async () => {
  const backend = quorum([memory(), memory(), memory()]);
  const error = await backend.attempt(newClaim({ limit: 2 })).catch((cause: unknown) => cause);
  expect(error).toMatchObject({ code: "ERR_LOCK_BACKEND", fatal: true });
  expect((error as Error).message).toMatch(/cannot count to 2.*more than 2 could have a majority/);
});

test.each([
  ["a ttl", { ttlMs: 31_000 }],
  ["a ttl with its lock delay", { ttlMs: 20_000, lockDelayMs: 11_000 }],
  ["a minHold", { minHoldMs: 31_000 }],
])("%s beyond the group's maxTtl is refused, because no member would wait that long", async (_, facts) => {
  const backend = quorum([memory(), memory(), memory()]);
  const error = await backend.attempt(newClaim(facts)).catch((cause: unknown) => cause);
  expect(error).toMatchObject({ fatal: true, message: expect.stringMatching(/maxTtl is 30 s/) });
});

test.each([
  ["no members", []],
  ["the same member twice", [memory()].flatMap((member) => [member, member])],
  ["a backend that cannot vote", [{ name: "zookeeper" } as Member]],
])("%s is a TypeError", (_, members) => {
  expect(() => quorum(members)).toThrow(TypeError);
});

const terms = { quarantineMs: 30_000, allowEviction: false };
let ballots = 1000n;

async function vote(member: Member): Promise<Vote["vote"]> {
  await member.join?.(terms);
  ballots += 1n;
  return (await member.vote(newClaim(), ballots)).vote;
}

async function synced(replica: RedisServer): Promise<void> {
  await vi.waitFor(
    async () => expect(await replica.cli("INFO", "replication")).toContain("master_link_status:up"),
    20_000,
  );
}

test("a member abstains when new, after a restart, and after a flush; and votes once its quarantine is ended", async () => {
  const a = await server();
  const member = memberAt(a);
  expect(await vote(member)).toBe("recovering");
  await member.endQuarantine?.();
  expect(await vote(member)).toBe("granted");
  await a.restart();
  expect(await vote(member)).toBe("recovering");
  await member.endQuarantine?.();
  await a.cli("FLUSHALL");
  expect(await vote(member)).toBe("recovering");
});

test(
  "a member abstains after a fail-over behind its address, and after the fail-back",
  { timeout: 180_000 },
  async () => {
    // Else a primary waits five seconds for more replicas to come.
    const prompt = ["--repl-diskless-sync-delay", "0"];
    const [a, b] = [await server(...prompt), await server(...prompt)];
    await memberAt(a).endQuarantine?.();
    expect(await vote(memberAt(a))).toBe("granted");
    await b.cli("REPLICAOF", "127.0.0.1", String(a.port));
    await synced(b);
    // The replica has everything, the marker too; but it is another server, and may lack the last leases.
    await b.cli("REPLICAOF", "NO", "ONE");
    expect(await vote(memberAt(b))).toBe("recovering");
    await memberAt(b).endQuarantine?.();
    await a.cli("REPLICAOF", "127.0.0.1", String(b.port));
    await synced(a);
    await a.cli("REPLICAOF", "NO", "ONE");
    // The same server and process as at first, with the data of another one.
    expect(await vote(memberAt(a))).toBe("recovering");
  },
);

test("initMembers() ends the quarantine of those it reaches, and says which it did not", async () => {
  const [a, b] = [await server(), await server()];
  const results = await initMembers([memberAt(a), memberAt(b), memory()], { labels: ["a", "b", "c"] });
  expect(results.map(({ member, result }) => `${member} ${result}`)).toEqual(["a admitted", "b admitted", "c durable"]);
  const replica = await server("--replicaof", "127.0.0.1", String(a.port));
  const [failed] = await initMembers([memberAt(replica)]);
  expect(failed).toMatchObject({ result: "failed", cause: { fatal: true } });
});

test("a redlock: URL opens a quorum, also while one of its members is down", async () => {
  const servers = [await server(), await server(), await server()];
  const url = `redlock://${LOGIN}${servers.map(({ port }) => `127.0.0.1:${port}`).join(",")}?maxTtl=1m&memberWait=5s`;
  const { members, options } = await openMembers(url);
  const results = await initMembers(members, options);
  expect(results.map(({ result }) => result)).toEqual(["admitted", "admitted", "admitted"]);
  expect(results[0]?.member).toBe(`127.0.0.1:${servers[0]!.port}`);
  await Promise.all(members.map((member) => member.close()));
  await servers[0]!.kill();
  const backend: Backend = await openBackend(url);
  opened.push(() => backend.close());
  const claim = newClaim({ ttlMs: 60_000 });
  expect(await backend.attempt(claim)).toMatchObject({ granted: true });
  expect(await backend.release(claim)).toBe("held");
});

test("a redlock: URL gives every member its login, its database and the options that are not the quorum's", () => {
  const { addresses, options } = parseUrl(
    "redlock://app:s%2Ccret@h1:7001,h2,[::1]:7003,me:own@h4:7004/2?durable=true&maxTtl=30s&prefix=jobs&memberWait=100",
  );
  expect(addresses).toEqual([
    { url: "redis://app:s%2Ccret@h1:7001/2?prefix=jobs", label: "h1:7001" },
    { url: "redis://app:s%2Ccret@h2:6379/2?prefix=jobs", label: "h2:6379" },
    { url: "redis://app:s%2Ccret@[::1]:7003/2?prefix=jobs", label: "[::1]:7003" },
    { url: "redis://me:own@h4:7004/2?prefix=jobs", label: "h4:7004" },
  ]);
  expect(options).toMatchObject({ durable: true, maxTtl: "30s", memberWait: 100 });
  expect(parseUrl("redlock://h1,h2,h3?tls=true").addresses[2]?.url).toBe("rediss://h3:6379");
});

test.each([
  "redlock://",
  "redlock:///?durable=true",
  "redlock://secret@h1:7001,,h3",
  "redlock://h1:secret,h2,h3",
  "redlock://h1:99999,h2,h3",
  "redlock://h1,h2,h3?durable=secret",
])("%s is a TypeError that does not repeat a password", (url) => {
  expect(() => parseUrl(url)).toThrow(TypeError);
  const message = ((): string => {
    try {
      parseUrl(url);
      return "";
    } catch (cause) {
      return (cause as Error).message;
    }
  })();
  if (!url.includes("durable=")) expect(message).not.toContain("secret");
});
