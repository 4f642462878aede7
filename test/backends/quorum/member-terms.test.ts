/** S125: processes that use the same members with different `maxTtl`. The longest quarantine holds, and the difference is said. */
import { Redis } from "ioredis";
import { afterEach, beforeEach, expect, type MockInstance, test, vi } from "vitest";
import type { Backend, Member, MemberFacts } from "../../../src/contract/backend.ts";
import { FakeClock } from "../../../src/testing/fake-clock.ts";
import { type RedisServer, startRedis } from "../../../src/lab/servers/redis.ts";
import { initMembers, quorum, type QuorumOptions } from "../../../src/backends/quorum/index.ts";
import { redis } from "../../../src/backends/redis/index.ts";
import { PASSWORD } from "../../login.ts";
import { granted } from "./proxied-servers.ts";
import { newClaim } from "./servers.ts";
import { failure } from "./fake-members.ts";

const opened: (() => unknown)[] = [];
let warned: MockInstance<typeof process.emitWarning>;
beforeEach(() => {
  warned = vi.spyOn(process, "emitWarning").mockReturnValue(undefined);
});
afterEach(async () => {
  warned.mockRestore();
  for (const close of opened.splice(0).toReversed()) await close();
});

const SHORT: QuorumOptions = { maxTtl: "5s" };
/** About 67 s, and not 2. */
const LONG_TIME: unknown = expect.stringMatching(/^(1 m|[56]\d)/);
const LONG: QuorumOptions = { maxTtl: "60s" };

async function servers(): Promise<readonly RedisServer[]> {
  const all = await Promise.all([startRedis(), startRedis(), startRedis()]);
  for (const server of all) opened.push(() => server.stop());
  return all;
}

function membersOf(all: readonly RedisServer[]): readonly Member[] {
  return all.map(({ port }) => {
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
  });
}

async function open(all: readonly RedisServer[], options: QuorumOptions): Promise<Backend> {
  const backend = quorum(membersOf(all), { memberWait: "2s", ...options });
  opened.push(() => backend.close());
  const claim = newClaim({ ttlMs: 5000 });
  await granted(backend, claim);
  await backend.release(claim);
  return backend;
}

/** How long the first two members abstain, from the error. */
async function abstentions(backend: Backend): Promise<readonly (string | undefined)[]> {
  const error = await vi.waitFor(async () => {
    const failed = await failure(backend.attempt(newClaim({ ttlMs: 5000 })));
    expect(failed.votes.slice(0, 2).map(({ vote }) => vote)).toEqual(["recovering", "recovering"]);
    return failed;
  }, 180_000);
  return error.votes.slice(0, 2).map(({ detail }) => /abstains for (.*)/.exec(detail)?.[1]);
}

test("S125: a member that lost its data abstains as long as the longest maxTtl requires, whichever process asks first", async () => {
  const all = await servers();
  await initMembers(membersOf(all), SHORT);
  const [short, long] = [await open(all, SHORT), await open(all, LONG)];
  for (const server of all.slice(0, 2)) await server.restart();
  // The longer one has written its quarantine of 67 s; the shorter one comes after it.
  expect(await abstentions(long)).toEqual([LONG_TIME, LONG_TIME]);
  expect(await abstentions(short)).toEqual([LONG_TIME, LONG_TIME]);
});

test("S125: a process with the shorter maxTtl learns the longer one from members that have not lost it", async () => {
  const all = await servers();
  await initMembers(membersOf(all), LONG);
  const short = await open(all, SHORT);
  // All that these two know is gone, and no process with the longer maxTtl is there to say it again.
  for (const server of all.slice(0, 2)) await server.cli("FLUSHALL");
  expect(await abstentions(short)).toEqual([LONG_TIME, LONG_TIME]);
});

test("S125: a process that calls the members durable respects the quarantine of one that does not", async () => {
  const all = await servers();
  await initMembers(membersOf(all), LONG);
  const durable = await open(all, { durable: true, maxTtl: "60s" });
  for (const server of all.slice(0, 2)) await server.cli("FLUSHALL");
  expect(await abstentions(durable)).toEqual([expect.any(String), expect.any(String)]);
});

test("S125: different ones cause one process warning; equal ones none", async () => {
  const all = await servers();
  await initMembers(membersOf(all), LONG);
  await open(all, LONG);
  expect(warned).not.toHaveBeenCalled();
  await open(all, SHORT);
  expect(warned).toHaveBeenCalledOnce();
  expect(warned).toHaveBeenCalledWith(
    expect.stringMatching(
      /member redis#\d is also used with a quarantine of 1 m 7 s, .* with a quarantine of 6\.5 s.*maxTtl/s,
    ),
    expect.objectContaining({ code: "HOLDFAST_MAX_TTL" }),
  );
});

test("S125: an operator who ends the quarantine sets the maxTtl that holds from then on", async () => {
  const all = await servers();
  await initMembers(membersOf(all), LONG);
  await initMembers(membersOf(all), SHORT);
  const short = await open(all, SHORT);
  for (const server of all.slice(0, 2)) await server.restart();
  expect(await abstentions(short)).toEqual([
    expect.stringMatching(/ms$|^[0-6](\.\d)? s$/),
    expect.stringMatching(/ms$|^[0-6](\.\d)? s$/),
  ]);
});

test("initMembers() ends though a member is down, and does nothing there when it comes back", async () => {
  const clock = new FakeClock();
  let joined!: (facts: MemberFacts) => void;
  const endQuarantine = vi.fn(async () => {});
  const facts: MemberFacts = { id: "a", quarantineMs: undefined };
  const down = { name: "down", join: () => new Promise((resolve) => (joined = resolve)), endQuarantine };
  const up = { name: "up", join: async () => facts, endQuarantine: async () => {} };
  const done = initMembers([down, up] as unknown as Member[], { clock });
  await clock.advance(5000);
  expect(await done).toMatchObject([
    { member: "down#1", result: "failed", cause: { message: expect.stringContaining("5 s") as string } },
    { member: "up#2", result: "admitted" },
  ]);
  // What was true when it was asked for may be false by now.
  joined(facts);
  await clock.advance(0);
  expect(endQuarantine).not.toHaveBeenCalled();
});
