/** What each step reads and writes in the store: a short way that is never taken any more gives the same answer, and costs more. */
import type { Redis } from "ioredis";
import { expect, test } from "vitest";
import type { Claim } from "../../../src/contract/backend.ts";
import { startRedis } from "../../../src/lab/servers/redis.ts";
import { calls, claimOf, Clients, granted, refused, rivalOf } from "./lab.ts";

/** What a script asks of a lock's hash. When the hash itself ends is set only now and then. */
const OF_HASHES = /^(?:h|exists|del|publish)/u;

async function serverMs(admin: Redis): Promise<number> {
  const [seconds, micros] = await admin.time();
  return Number(seconds) * 1000 + Math.floor(Number(micros) / 1000);
}

/** Notes in `costs` what each piece of work asks of hashes. */
function costing(admin: Redis, costs: Record<string, string>) {
  return async (what: string, work: () => Promise<unknown>): Promise<void> => {
    // In the millisecond of the last renewal another one has nothing to write.
    const beforeMs = await serverMs(admin);
    while ((await serverMs(admin)) === beforeMs);
    await admin.config("RESETSTAT");
    await work();
    const asked = Object.entries(await calls(admin)).filter(([command]) => OF_HASHES.test(command));
    costs[what] = asked
      .map(([command, count]) => `${command} ${count}`)
      .toSorted()
      .join(", ");
  };
}

test("every usual step takes its short way, and reads no more than it needs", async () => {
  await using server = await startRedis();
  await using testClients = new Clients();
  const admin = testClients.client(server.port);
  // However busy the machine: no ticket and no lease ends meanwhile.
  const backend = testClients.backend(server.port, { ticket: "30m" });
  const costs: Record<string, string> = {};
  const cost = costing(admin, costs);
  const held = async (change: Partial<Claim> = {}): Promise<{ claim: Claim; fence: bigint }> => {
    const claim = claimOf({ ttlMs: 3_600_000, ...change });
    return { claim, fence: (await granted(backend, claim)).fence };
  };
  const again = (claim: Claim): Claim => rivalOf(claim, { limit: claim.limit, mode: claim.mode });

  const { claim: alone, fence } = await held();
  await cost("renewed alone", () => backend.renew([alone]));
  await cost("renewed alone, by its fence", () => backend.renew([alone], [fence]));
  await cost("released alone", () => backend.release(alone));
  await cost("taken", () => granted(backend, again(alone)));

  const { claim: first } = await held({ limit: 4 });
  const second = again(first);
  await cost("a second place of four", () => granted(backend, second));
  await cost("a third place of four", () => granted(backend, again(first)));
  await granted(backend, again(first));
  await refused(backend, again(first));
  await cost("renewed among four", () => backend.renew([first]));
  await cost("one more asks, while four hold", () => refused(backend, again(first)));
  await cost("one of four leaves, and the next is in", () => backend.release(second));

  const { claim: wanted } = await held();
  const next = again(wanted);
  await cost("the first in line", () => refused(backend, next));
  await cost("a sign of life", () => refused(backend, next));
  await cost("renewed while another waits", () => backend.renew([wanted]));
  await cost("handed on", () => backend.release(wanted));
  await cost("the end of what was handed on", () => backend.release(next));
  expect(costs).toEqual({
    "renewed alone": "hget 2, hset 1",
    "renewed alone, by its fence": "hget 2, hset 1",
    "released alone": "hget 1, hset 1",
    taken: "exists 1, hget 1, hset 1",
    "a second place of four": "exists 2, hget 1, hmget 1, hset 2",
    "a third place of four": "exists 2, hget 1, hmget 1, hset 2",
    "renewed among four": "hdel 1, hget 4, hmget 1, hset 2",
    "one more asks, while four hold": "exists 2, hget 4, hmget 1, hset 2",
    "one of four leaves, and the next is in": "exists 1, hdel 2, hget 5, hmget 1, hset 2, publish 1",
    "the first in line": "exists 1, hget 1, hset 1, publish 1",
    "a sign of life": "exists 2, hdel 1, hget 5, hmget 2, hset 2",
    "renewed while another waits": "hdel 1, hget 2, hmget 1, hset 2",
    "handed on": "exists 1, hdel 1, hget 2, hmget 1, hset 1, publish 1",
    "the end of what was handed on": "hdel 1, hget 1, hmget 1, hset 1",
  });
});

test("every usual vote takes its short way, too", async () => {
  await using server = await startRedis();
  await using testClients = new Clients();
  const admin = testClients.client(server.port);
  const member = testClients.backend(server.port);
  await member.join({ quarantineMs: 0, allowEviction: false });
  const costs: Record<string, string> = {};
  const cost = costing(admin, costs);
  const [claim, rival] = [claimOf({ ttlMs: 3_600_000 }), claimOf({ ttlMs: 3_600_000 })];
  const voted = { ...rival, name: claim.name };
  await cost("a vote", () => member.vote(claim, 5n));
  await cost("a vote that is refused", () => member.vote(voted, 6n));
  await cost("a vote that is wanted", () => member.want(claim.name));
  await cost("a vote that is released", () => member.release(claim));
  await cost("a vote, again", () => member.vote(voted, 7n));
  await cost("a vote that is withdrawn", () => member.withdraw(voted));
  expect(costs).toEqual({
    "a vote": "exists 1, hget 1, hmget 1, hset 1",
    "a vote that is refused": "hget 1, hmget 1",
    "a vote that is wanted": "hget 1, publish 1",
    "a vote that is released": "hget 1, hset 1, publish 1",
    "a vote, again": "hget 1, hmget 1, hset 1",
    "a vote that is withdrawn": "hdel 1, hmget 1, hset 1, publish 1",
  });
});
