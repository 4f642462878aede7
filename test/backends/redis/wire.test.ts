/**
 * The layout of what is in Redis: it is that of 0.1, and it is in wire.ts alone. A wire.ts with its columns in another order makes other
 * texts, which the scripts and the TypeScript that come with it understand; or the build refuses it.
 */
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Claim, Holding, Member, Waiting } from "../../../src/contract/backend.ts";
import { type RedisServer, startRedis } from "../../../src/lab/servers/redis.ts";
import { type Column, type Layout, reader, write } from "../../../src/backends/redis/columns.ts";
import { redis } from "../../../src/backends/redis/index.ts";
import { namesOf } from "../../../src/backends/redis/keys.ts";
import { toHolding, toWaiting } from "../../../src/backends/redis/records.ts";
import * as wire from "../../../src/backends/redis/wire.ts";
import { claimOf, Clients, granted, refused, rivalOf, waitFor } from "./lab.ts";

const root = join(import.meta.dirname, "../../..");
const { moduleOf } = (await import(join(root, "scripts/build-lua.mjs"))) as {
  readonly moduleOf: (folder: string) => Promise<{ text: string }>;
};

let server: RedisServer;
let testClients: Clients;
beforeAll(async () => {
  server = await startRedis();
  testClients = new Clients();
});
afterAll(async () => {
  await testClients[Symbol.asyncDispose]();
  await server.stop();
});

/** As 0.1 writes them, in its own words: nothing here comes from wire.ts. */
const TERMS = String.raw`\.x 000000060500 000063 000003600000 1 60000 500 (?:0|10000) 0 holdfast:inbox:\S+ \["host:1",\{"why":"test"\}\]`;
const RECORD = String.raw`\d{13} \d{13} \d{16} ${TERMS}`;
const HASH_OF_ONE = new RegExp(String.raw`^\d{16} \d{13} =ID ${RECORD}$`, "u");
const HASH_OF_TWO = /^\d{16} \d{13} 1 x 1 \d{13} ID 1 1 1$/u;
const WRITTEN = '.x 000000060500 000063 000003600000 1 60000 500 10000 0 holdfast:inbox:abc ["host:1",{"why":"test"}]';

function withId(pattern: RegExp, id: string): RegExp {
  return new RegExp(pattern.source.replace("ID", id), "u");
}

function someone(change: Partial<Claim> = {}): Claim {
  return claimOf({ holder: "host:1", meta: { why: "test" }, lockDelayMs: 500, ...change });
}

async function hashOf(client: Redis, name: string, prefix = "holdfast"): Promise<Record<string, string>> {
  return client.hgetall(namesOf(prefix, false).lock(name));
}

test("each text that is written is read back, column by column", () => {
  const layouts = Object.values(wire).filter((one): one is Layout => typeof one === "object" && "columns" in one);
  expect(layouts.length).toBeGreaterThan(10);
  for (const layout of layouts) {
    // What fits in every kind of column; in a pattern of its own, what it asks for.
    const samples = ["7", "x", ".", "", ":", "!", "abcdefgh", "0123456789abcdef0123"];
    const sample = ({ js, width }: Column): string =>
      samples.map((one) => one.padStart(width ?? 0, "0")).find((one) => new RegExp(`^(?:${js})$`, "u").test(one)) ??
      "?";
    const values = Object.fromEntries(layout.columns.map((column) => [column.name, sample(column)]));
    const { pattern, at } = reader(layout, ...layout.columns.map(({ name }) => name));
    const found = pattern.exec(write(layout, values));
    expect(Object.fromEntries(Object.entries(at).map(([name, group]) => [name, found?.[group]]))).toEqual(values);
  }
});

describe("the layout of 0.1", () => {
  test("what is written is what 0.1 writes", async () => {
    const client = testClients.client(server.port);
    const backend = testClients.backend(server.port);
    const holder = someone();
    await granted(backend, holder);
    expect((await hashOf(client, holder.name))["s"]).toMatch(withId(HASH_OF_ONE, holder.id));
    const waiter = rivalOf(holder);
    await refused(backend, waiter);
    const crowd = await hashOf(client, holder.name);
    expect(crowd["s"]).toMatch(withId(HASH_OF_TWO, holder.id));
    expect(crowd[`h${holder.id}`]).toMatch(new RegExp(`^${RECORD}$`, "u"));
    expect(crowd[`w${waiter.id}`]).toMatch(new RegExp(`^${RECORD}$`, "u"));
    expect(crowd["q1"]).toBe(waiter.id);
    expect(Object.keys(crowd)).toHaveLength(4);
    const [held] = (await backend.query(holder.name)).held;
    await backend.forceRelease(holder.name, held!.fence, "ops", "stuck");
    const forced = await hashOf(client, holder.name);
    expect(forced[`o${held!.fence}`]).toMatch(
      new RegExp(String.raw`^\d{13} ${holder.id} \{"by":"ops","reason":"stuck"\}$`),
    );
    expect(forced[`f${holder.id}`]).toBe(String(held!.fence));
    const [member, voter] = [testClients.backend(server.port, { prefix: "votes" }), someone()];
    await member.join({ quarantineMs: 0, allowEviction: true });
    await member.vote(voter, 5n);
    expect((await hashOf(client, voter.name, "votes"))["b"]).toBe(`${voter.id} 0000000000000000`);
  });

  test("what is new in a record is read by 0.1 as before, and what is new in a lock is in fields that it does not know", async () => {
    const [client, backend] = [testClients.client(server.port), testClients.backend(server.port)];
    const local = { waiters: 1, users: 0, holds: [{ name: "other", fence: 7n }], holdsMore: false };
    const holder = someone({ wantsOutcome: true, local });
    const waiter = rivalOf(holder);
    const { fence } = await granted(backend, holder);
    await refused(backend, waiter);
    const fields = await hashOf(client, holder.name);
    const OF_01 = /^\d{13} \d{13} \d{16} [.!vw][xs] \d{12} \d{6} \d{12} \d+ \d+ \d+ \d+ \d+ \S+ (.*)$/su;
    for (const record of [fields[`h${holder.id}`], fields[`w${waiter.id}`]]) {
      const [, who = ""] = OF_01.exec(record ?? "") ?? [];
      expect((JSON.parse(who) as unknown[]).slice(0, 2)).toEqual(["host:1", { why: "test" }]);
    }
    expect(await backend.release(holder, { value: "done", keepMs: 3_600_000, fence })).toBe("held");
    const after = await hashOf(client, holder.name);
    expect(Object.keys(after).toSorted()).toEqual(["r", "s"]);
    expect(after["s"]).toMatch(/^\d{16} \d{13}$/u);
  });

  test("what 0.1 has written is read, by TypeScript and by scripts", async () => {
    const record = `1790000060000 1790000000000 1790000000000000 ${WRITTEN}`;
    expect(toHolding("x", record, 1_790_000_010_000)).toEqual({
      name: "x",
      mode: "exclusive",
      limit: 1,
      holder: "host:1",
      fence: 1_790_000_000_000_000n,
      heldMs: 10_000,
      remainingMs: 50_000,
      meta: { why: "test" },
    });
    expect(toWaiting("x", record.replace(/ 1790000000000000 /u, " 0000000000000007 "), 0)).toMatchObject({ place: 7 });

    const [client, backend] = [testClients.client(server.port), testClients.backend(server.port)];
    const [holder, waiter] = [someone(), someone()];
    const [seconds] = await client.time();
    const nowMs = Number(seconds) * 1000;
    const last = BigInt(nowMs) * 1000n;
    const begun = `${nowMs + 60_000} ${nowMs}`;
    const key = namesOf("holdfast", false).lock(holder.name);
    await client.hset(key, {
      s: `${last} ${nowMs + 900_000} 1 x 1 ${nowMs + 60_000} ${holder.id} 1 1 1`,
      [`h${holder.id}`]: `${begun} ${last} ${WRITTEN}`,
      [`w${waiter.id}`]: `${begun} 0000000000000001 ${WRITTEN}`,
      q1: waiter.id,
    });
    const other = rivalOf(holder);
    expect(await refused(backend, other)).toMatchObject({ position: 2, heldBy: [{ holder: "host:1", fence: last }] });
    expect(await backend.renew([holder])).toEqual([{ held: true, wanted: true }]);
    expect(await backend.release(holder)).toBe("held");
    expect((await backend.query(holder.name)).held).toMatchObject([
      { fence: expect.toSatisfy((f: bigint) => f > last) },
    ]);
    expect(await backend.release({ ...waiter, name: holder.name })).toBe("held");
  });
});

/** Every operation once, on every way through the scripts; what was answered, without numbers that differ. */
async function play(backend: Member): Promise<unknown[]> {
  const first = someone();
  const [second, third] = [rivalOf(first), rivalOf(first)];
  const log: unknown[] = [];
  const looked = async (name: string): Promise<unknown> => {
    const { held, pending, forced } = await backend.query(name);
    return [held.map(seen), pending.map(seen), forced.map(({ by, reason }) => [by, reason])];
  };
  const { fence } = await granted(backend, first);
  log.push(
    await looked(first.name),
    (await refused(backend, second)).position,
    (await refused(backend, third)).position,
  );
  log.push(
    await looked(first.name),
    await backend.renew([first, second], [fence, fence]),
    await backend.release(first),
  );
  const handed = await waitFor(backend, second);
  log.push(handed.fence > fence, await looked(first.name), await backend.renew([second]));
  log.push(await backend.forceRelease(first.name, handed.fence, "ops", "stuck"), await backend.renew([second]));
  log.push((await waitFor(backend, third)).granted, await looked(first.name));
  const next = rivalOf(third);
  log.push((await backend.swap?.(third, next))?.granted, await backend.release(next));

  const shared = someone({ mode: "shared" });
  log.push((await granted(backend, shared)).run, (await granted(backend, rivalOf(shared))).run);
  log.push(await looked(shared.name), (await refused(backend, rivalOf(shared, { mode: "exclusive" }))).position);
  const limited = someone({ limit: 2, ttlMs: 45_000, minHoldMs: 30_000 });
  await granted(backend, limited);
  await granted(backend, rivalOf(limited));
  log.push(await backend.release(limited), await looked(limited.name));
  log.push((await refused(backend, rivalOf(limited, { queues: false }))).heldBy.map(seen));

  const worker = someone({ wantsOutcome: true, local: { waiters: 2, users: 1, holds: [], holdsMore: false } });
  const { fence: began } = await granted(backend, worker);
  const [wanting, plain] = [rivalOf(worker), rivalOf(worker, { wantsOutcome: false })];
  log.push((await refused(backend, wanting)).position, (await refused(backend, plain)).position);
  log.push(await backend.renew([worker, { ...worker, meta: { why: "other" }, changed: true }]));
  log.push(
    await backend.release(worker, { value: "a b\n\0c", keepMs: 3_600_000, fence: began }),
    await looked(worker.name),
  );
  const { outcome } = await backend.inspect(worker.name);
  log.push(
    outcome?.value,
    outcome?.holder,
    outcome?.fence === began,
    Math.ceil((outcome?.remainingMs ?? 0) / 3_600_000),
  );
  log.push((await refused(backend, wanting)).outcome?.value, await backend.forget?.(worker.name, began));
  log.push((await backend.steal?.(rivalOf(worker), "test"))?.granted, await backend.renew([plain]));

  await backend.join?.({ quarantineMs: 0, allowEviction: true });
  const voter = someone();
  const vote = async (claim: Claim, ballot: bigint): Promise<unknown> => (await backend.vote(claim, ballot)).vote;
  log.push(
    await vote(voter, 7n),
    await vote(rivalOf(voter), 8n),
    await backend.recall?.(voter.name, voter.id.slice(0, 8)).then((found) => found?.ballot),
  );
  log.push(await backend.withdraw?.(voter), await vote(rivalOf(voter), 7n), await backend.renew([voter]));
  return log;
}

/** Times in whole hours, so that what is slow looks the same. */
function seen({ mode, limit, holder, meta, ...rest }: Holding | Waiting): unknown {
  const hours = "remainingMs" in rest ? Math.ceil(rest.remainingMs / 3_600_000) : undefined;
  return [mode, limit, holder, meta, hours, "position" in rest ? rest.position : undefined];
}

/** A copy of the backend whose wire.ts says it otherwise. */
async function copyWith(change: (text: string) => string): Promise<{ path: string; text: string }> {
  const path = mkdtempSync(join(tmpdir(), "holdfast-wire-"));
  testClients.later(() => rmSync(path, { recursive: true }));
  for (const room of ["contract", "backends/redis"])
    cpSync(join(root, "src", room), join(path, "src", room), { recursive: true });
  symlinkSync(join(root, "node_modules"), join(path, "node_modules"));
  writeFileSync(join(path, "package.json"), '{ "type": "module" }');
  const folder = join(path, "src/backends/redis");
  const before = readFileSync(join(folder, "wire.ts"), "utf8");
  const after = change(before);
  expect(after).not.toBe(before);
  writeFileSync(join(folder, "wire.ts"), after);
  const { text } = await moduleOf(folder);
  writeFileSync(join(folder, "generated/scripts.ts"), text);
  return { path: folder, text };
}

/** Exchanges two columns, by their declarations. */
function swapped(before: string, ...pairs: readonly (readonly [one: string, other: string])[]): string {
  return pairs.reduce((text, [one, other]) => {
    expect(text.split(one)).toHaveLength(2);
    expect(text.split(other)).toHaveLength(2);
    return text.replace(one, "\0").replace(other, one).replace("\0", other);
  }, before);
}

describe("a layout that is declared otherwise", () => {
  const committed = readFileSync(join(root, "src/backends/redis/generated/scripts.ts"), "utf8");

  test("changes the scripts, which --check finds out of date, and both sides go on understanding each other", async () => {
    const { path, text } = await copyWith((before) =>
      swapped(
        before,
        ['digits("keep", 12)', 'digits("idle", 12)'],
        ['number("ttl")', 'number("ticket")'],
        ['digits("till", 13)', 'digits("since", 13)'],
        ['number("first")', 'word("latest")'],
        ['number("queued")', 'number("tail")'],
        ['digits("over", 13)', 'digits("left", 13)'],
      ).replace('digits("at", 13), word("id")', 'word("id"), digits("at", 13)'),
    );
    expect(text).not.toBe(committed);
    const other = (await import(join(path, "index.ts"))) as { redis: typeof redis };
    const [client, here] = [testClients.client(server.port), testClients.client(server.port)];
    const mine = testClients.own(other.redis(client, { prefix: "other" }));
    const claim = someone();
    await granted(mine, claim);
    const { s: state } = await hashOf(client, claim.name, "other");
    expect(state).toMatch(/ \d{13} \d{13} \d{16} \.x 000003600000 000063 000000060500 1 (?:0|10000) 500 60000 0 /u);
    expect(await play(mine)).toEqual(await play(testClients.own(redis(here, { prefix: "same" }))));
  });

  test("is refused by the build where a script relies on the order", async () => {
    const built = copyWith((text) => {
      const [last, death] = [
        'digits("last", FENCE_DIGITS), digits("death", 13)',
        'digits("death", 13), digits("last", FENCE_DIGITS)',
      ];
      return text.replace(last, death);
    });
    await expect(built).rejects.toThrow("attempt: it needs STATE.last.from to be 1, but it is 15");
  });

  test("is refused by the build where a script uses a name that it does not have", async () => {
    const built = copyWith((text) => text.replace('number("head")', 'number("front")'));
    await expect(built).rejects.toThrow(
      /head: no column of STATE_CROWD|STATE_CROWD\.head is not in wire\.ts|head: no column of CROWD/u,
    );
  });
});
