/** The recipes of SECURITY.md for the layouts of others, where a Cluster or a quorum needs more: the rights suffice, and reach no further. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Backend, Claim } from "../../src/contract/backend.ts";
import { openBackend } from "../../src/index.ts";
import { type ClusterLab, startCluster } from "../../src/lab/servers/cluster.ts";
import { type RedisServer, startRedis } from "../../src/lab/servers/redis.ts";
import { eventually } from "../../src/testing/eventually.ts";
import { claimOf, granted, refused, rivalOf } from "../backends/redis/lab.ts";
import { makeUsers, moreRights, passwordOf, rights, usedAt, type Zone } from "./recipes.ts";

const EVENTS = ["--notify-keyspace-events", "Kgx"];
const login = (zone: Zone): string => `${zone}:${passwordOf(zone)}@`;
const hosts = (servers: readonly RedisServer[]): string => servers.map(({ port }) => `127.0.0.1:${port}`).join(",");

async function usedAtAll(servers: readonly RedisServer[]): Promise<readonly string[]> {
  return (await Promise.all(servers.map((server) => usedAt(server)))).flat();
}

/** What the zone's own user was refused, also where the refusal goes unnoticed. Each node of a Cluster is asked by itself. */
async function refusedTo(servers: readonly RedisServer[], zone: Zone): Promise<readonly string[]> {
  const logs = await Promise.all(servers.map((server) => server.cli("ACL", "LOG", "100")));
  const entries = logs
    .join("\n")
    .split(/^count$/mu)
    .slice(1);
  const found = entries.map((entry) => entry.split("\n"));
  const field = (lines: readonly string[], name: string): string => lines[lines.indexOf(name) + 1] ?? "";
  return found.filter((lines) => field(lines, "username") === zone).map((lines) => field(lines, "object"));
}

/** Without `+config|get` nothing is lost; what client libraries say of themselves, and to replicas, is of no use to us. */
const NOT_NEEDED = ["config|get", "client|setinfo", "readonly"];

const opened: Backend[] = [];
async function open(url: string, zone: Zone, prefix: Zone): Promise<Backend> {
  const backend = await openBackend(`${url.replace("//", `//${login(zone)}`)}&prefix=${prefix}:`);
  opened.push(backend);
  return backend;
}

/**
 * All that a layout does, with a claim that waits; and nothing for a user of another zone. `subscribed`: by what command, at any of the servers, it
 * is seen that the claim waits for messages.
 */
async function suffices(
  url: string,
  servers: readonly RedisServer[],
  subscribed?: string,
  facts: Partial<Claim> = {},
): Promise<void> {
  for (const server of servers) await server.cli("ACL", "LOG", "RESET");
  for (const client of ["ioredis", "redis"]) {
    const own = `${url}&client=${client}`;
    const [a, b] = [await open(own, "billing", "billing"), await open(own, "billing", "billing")];
    const first = claimOf({ ttlMs: 20_000, name: `invoice:${client}`, ...facts });
    const second: Claim = { ...rivalOf(first), mode: "exclusive", queues: true };
    const { fence } = await granted(a, first);
    await refused(b, second);
    const waits = new AbortController();
    const watching = b.watch?.(second, waits.signal);
    if (subscribed !== undefined) {
      await eventually("it waits for messages", async () =>
        (await usedAtAll(servers)).includes(subscribed) ? true : undefined,
      );
    }
    waits.abort();
    await watching;
    expect(await a.renew([first])).toMatchObject([{ held: true }]);
    expect((await b.query(first.name)).held).toMatchObject([{ name: first.name }]);
    const thief = await open(own, "search", "billing");
    await expect(thief.attempt(rivalOf(first))).rejects.toMatchObject({ code: "ERR_LOCK_BACKEND" });
    expect(await thief.release(first).catch(() => "refused")).not.toBe("held");
    expect(await thief.renew([first]).catch(() => [{ held: "unknown" }])).not.toMatchObject([{ held: true }]);
    expect(await a.release(first)).toBe("held");
    const next = await eventually("it is granted", async () => {
      const answer = await b.attempt(second);
      return answer.granted ? answer : undefined;
    });
    expect(next.fence).toBeGreaterThan(fence);
    expect((await b.inspect(first.name)).held).toMatchObject([{ fence: next.fence }]);
    expect(await a.forceRelease(first.name, next.fence, "ops", "stuck")).toBe(true);
  }
  // The thief's may say that something of its own was left: no member let it in.
  for (const backend of opened.splice(0)) await backend.close().catch(() => undefined);
  const refusals = await refusedTo(servers, "billing");
  expect(refusals.filter((object) => !NOT_NEEDED.includes(object))).toEqual([]);
  expect(await refusedTo(servers, "search")).not.toEqual([]);
}

afterAll(async () => {
  for (const backend of opened) await backend.close().catch(() => undefined);
});

describe("in a Cluster", () => {
  let lab: ClusterLab;
  beforeAll(async () => {
    lab = await startCluster({ args: EVENTS });
  });
  afterAll(() => lab.stop());

  test.each([
    ["plain", "subscribe", /as members of a quorum also `[^`]*`; in a Cluster also `([^`]*)`/iu],
    ["redisson", "ssubscribe", /`layout=redisson`\), here with the prefix `billing:`\. In a Cluster also `([^`]*)`/u],
  ] as const)("layout=%s needs no more than stands there", async (layout, subscribed, sentence) => {
    const more = moreRights(sentence);
    for (const node of lab.nodes) {
      await makeUsers(node, layout, more);
      await node.cli("CONFIG", "RESETSTAT");
    }
    await suffices(`redis+cluster://${hosts(lab.nodes)}?layout=${layout}`, lab.nodes, subscribed);
    const used = await usedAtAll(lab.nodes);
    // A slot that is being moved; a subscription that is left, some seconds later; and what a client of yours asks when it connects.
    const seldom = ["+asking", "+sunsubscribe", "+cluster|info"];
    expect(more.filter((right) => !seldom.includes(right) && !used.includes(right.slice(1)))).toEqual([]);
  });
});

test("layout=plain in a quorum needs no more than stands there", async () => {
  const more = moreRights(/As members of a quorum also `([^`]*)`/u);
  const servers = await Promise.all([startRedis(), startRedis(), startRedis()]);
  try {
    for (const server of servers) await makeUsers(server, "plain", more);
    await suffices(`redlock://${hosts(servers)}?layout=plain&durable=true&memberWait=2s`, servers);
  } finally {
    await Promise.all(servers.map((server) => server.stop()));
  }
});

/** Rights that one use of the layout on one server does not need, and why they are there. */
const FOR_OTHERS = {
  // Another database than 0; scripts before a batch; subscriptions that are left, and that are kept alive; a name for the client.
  plain: ["script|load", "select", "unsubscribe", "ping", "client|setname", "pexpire"],
  redisson: ["script|load", "select", "unsubscribe", "ping", "client|setname"],
} as const;

test.each([
  ["plain", ["?layout=plain"]],
  ["redisson", ["lock", "read-write", "fenced"].map((kind) => `?layout=redisson&kind=${kind}`)],
] as const)("the recipe for %s gives no right that nothing needs", async (layout, queries) => {
  const server = await startRedis({ args: EVENTS });
  try {
    for (const query of queries) {
      await server.cli("FLUSHALL");
      await makeUsers(server, layout);
      const mode = query.endsWith("read-write") ? "shared" : "exclusive";
      await suffices(`redis://${hosts([server])}${query}`, [server], "subscribe", { mode });
    }
    const used = await usedAt(server);
    const known: readonly string[] = FOR_OTHERS[layout];
    expect(rights(layout).filter((right) => !used.includes(right) && !known.includes(right))).toEqual([]);
  } finally {
    await server.stop();
  }
});
