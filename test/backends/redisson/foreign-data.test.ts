/** Data that is no lock: looked at before it is believed, never changed, and named in the error. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { RedissonKind } from "../../../src/backends/redisson/index.ts";
import { granted } from "../../../src/testing/attempts.ts";
import { claimOf, type Lab, startLab } from "./lab.ts";

let lab: Lab;
beforeAll(async () => {
  lab = await startLab();
});
afterAll(() => lab[Symbol.asyncDispose]());

const UUID = "0f8fad5b-d9cb-469f-a165-70867728950e";
const KINDS: readonly RedissonKind[] = ["lock", "read-write", "fenced"];

const DATA: readonly (readonly [what: string, command: readonly string[], error: RegExp])[] = [
  ["a string", ["SET", "x", "abc"], /another type/u],
  ["a list", ["RPUSH", "x", "a"], /another type/u],
  ["a hash of something else", ["HSET", "x", "name", "Ada"], /no lock of Redisson/u],
  ["a hash with a lock's field and another", ["HSET", "x", `${UUID}:1`, "1", "name", "Ada"], /no lock of Redisson/u],
  ["two holders of one lock", ["HSET", "x", `${UUID}:1`, "1", `${UUID}:2`, "1"], /no lock of Redisson/u],
  ["a mode that there is not", ["HSET", "x", "mode", "both", `${UUID}:1`, "1"], /no lock of Redisson/u],
  ["a mode without a holder", ["HSET", "x", "mode", "read"], /no lock of Redisson/u],
  ["a count that is none", ["HSET", "x", `${UUID}:1`, "many"], /no lock of Redisson/u],
  ["a count that is too great", ["HSET", "x", "mode", "read", `${UUID}:1`, "99999999999"], /no lock of Redisson/u],
  ["very many fields", ["HSET", "x", ...Array.from({ length: 20_002 }, (_, i) => `${UUID}:${i}`)], /no lock/u],
  ["notes of another type", ["SET", "{x}:holdfast", "abc"], /another type/u],
];

describe.each(DATA)("%s", (_, command, error) => {
  test.each(KINDS)("is refused and left as it is, as %s", async (kind) => {
    await lab.raw.flushall();
    await lab.raw.call(command[0] as string, ...command.slice(1));
    const before = await lab.dump();
    const backend = lab.backend({ kind });
    const claim = claimOf("x");
    await expect(backend.attempt(claim)).rejects.toThrow(error);
    await expect(backend.attempt(claim)).rejects.toMatchObject({ fatal: true, backend: "redisson" });
    const [renewal] = await backend.renew([claim]);
    expect(renewal).not.toMatchObject({ held: true });
    await backend.release(claim).catch(() => undefined);
    await backend.forceRelease("x", 5n, "me", "why").catch(() => undefined);
    expect((await backend.query("")).held).toEqual([]);
    expect(await lab.dump()).toEqual(before);
  });
});

test("a reader of Java with a huge count costs no time: only the last deadlines are looked at", async () => {
  await lab.raw.hset("huge", { mode: "read", [`${UUID}:1`]: "999999999" });
  await lab.raw.set(`{huge}:${UUID}:1:rwlock_timeout:999999999`, "1", "PX", 60_000);
  const backend = lab.backend({ kind: "read-write" });
  const claim = claimOf("huge", { mode: "shared" });
  await granted(backend, claim);
  expect((await backend.inspect("huge")).held).toHaveLength(2);
  expect(await backend.release(claim)).toBe("held");
  expect(await lab.raw.exists("huge")).toBe(1);
});

describe("one name as two kinds, which do not exclude each other in Java", () => {
  test("is refused with what to do", async () => {
    await lab.java.tryLock("two");
    await expect(lab.backend({ kind: "read-write" }).attempt(claimOf("two"))).rejects.toThrow(/held as an RLock/u);
    await lab.java.unlock("two");
    await lab.java.tryReadLock("two");
    for (const kind of ["lock", "fenced"] as const) {
      await expect(lab.backend({ kind }).attempt(claimOf("two"))).rejects.toThrow(/held as an RReadWriteLock/u);
    }
  });

  test("in Java, while we hold it, is noticed by the next renewal; the release touches only what is ours", async () => {
    const backend = lab.backend();
    const claim = claimOf("joined");
    await granted(backend, claim);
    expect(await lab.java.tryReadLock("joined")).toBe(true);
    expect(await backend.renew([claim])).toMatchObject([{ held: false, reason: { kind: "overwritten" } }]);
    await backend.release(claim);
    expect(await lab.raw.hgetall("joined")).toEqual({ mode: "read", [lab.java.field()]: "1" });
  });
});

describe("what others do to our lock", () => {
  test.each([
    ["deletes it", (key: string) => lab.raw.del(key), "gone"],
    ["makes a string of it", (key: string) => lab.raw.set(key, "mine"), "overwritten"],
    ["adds a field", (key: string) => lab.raw.hset(key, "name", "Ada"), "overwritten"],
    ["deletes the notes", (key: string) => lab.raw.del(`{${key}}:holdfast`), "overwritten"],
  ])("%s: the next renewal says so", async (what, harm, kind) => {
    const backend = lab.backend();
    const claim = claimOf(`harmed: ${what}`);
    const { fence } = await granted(backend, claim);
    await harm(claim.name);
    expect(await backend.renew([claim], [fence])).toMatchObject([{ held: false, reason: { kind } }]);
    await backend.release(claim).catch(() => undefined);
    if (what === "adds a field") expect(await lab.raw.hgetall(claim.name)).toEqual({ name: "Ada" });
    if (what.includes("string")) expect(await lab.raw.get(claim.name)).toBe("mine");
  });

  test("a lock whose notes became something else is lost, and no other lock that is renewed with it", async () => {
    const backend = lab.backend();
    const claims = [claimOf("harmed notes"), claimOf("renewed with it")];
    const fences = [(await granted(backend, claims[0]!)).fence, (await granted(backend, claims[1]!)).fence];
    await lab.raw.set("{harmed notes}:holdfast", "mine");
    const answers = await backend.renew(claims, fences);
    expect(answers).toMatchObject([{ held: false, reason: { kind: "overwritten" } }, { held: true }]);
  });

  test("a lock that Java has joined as another kind is not kept from it by our minHold", async () => {
    const backend = lab.backend();
    const claim = claimOf("joined, kept", { minHoldMs: 5000 });
    await granted(backend, claim);
    expect(await lab.java.tryWriteLock(claim.name)).toBe(true);
    await backend.release(claim);
    expect(await lab.raw.hgetall(claim.name)).toEqual({ mode: "write", [`${lab.java.field()}:write`]: "1" });
    expect(await lab.raw.pttl(claim.name)).toBeGreaterThan(5000);
  });

  test("a last fence in the notes that is no number is not counted on from", async () => {
    await lab.raw.hset("{no number}:holdfast", "fence", "nan");
    const { fence } = await granted(lab.backend(), claimOf("no number"));
    expect(fence).toBeGreaterThan(1_000_000n);
  });

  test("PERSIST does not make a lease of ours last for ever", async () => {
    const backend = lab.backend();
    const claim = claimOf("persisted");
    await granted(backend, claim);
    await lab.raw.persist("persisted");
    expect(await backend.renew([claim])).toEqual([{ held: true }]);
    expect(await lab.raw.pttl("persisted")).toBeGreaterThan(0);
  });
});

test("notes that another program has deleted are not made anew for ever", async () => {
  const backend = lab.backend({ kind: "read-write" });
  const claim = claimOf("without notes", { mode: "shared" });
  await granted(backend, claim);
  await lab.hear("redisson_rwlock:{without notes}");
  await lab.raw.del("{without notes}:holdfast", ...(await lab.raw.keys("{without notes}:*timeout:1")));
  expect(await backend.release(claim)).toBe("absent");
  expect(await lab.raw.exists("without notes")).toBe(0);
  expect(await lab.raw.pttl("{without notes}:holdfast")).toBeGreaterThan(0);
});

test("the values of a hash that is no lock are not read: they may be large", async () => {
  await lab.raw.hset("cache", "name", "Ada");
  await lab.raw.config("RESETSTAT");
  await lab.backend().query("cache");
  const stats = await lab.raw.info("commandstats");
  expect(stats).toContain("cmdstat_hkeys:");
  // The one is for our notes.
  expect(stats).toContain("cmdstat_hget:calls=1,");
  expect(stats).not.toMatch(/cmdstat_h(?:getall|vals|scan):/u);
});

test("hashes that only look a little like locks are not shown by query()", async () => {
  await lab.raw.flushall();
  await lab.raw.hset("stock", "shoes:42", "3");
  await lab.raw.hset("cache", "name", "Ada");
  await lab.java.tryLock("real");
  expect((await lab.backend().query("")).held.map(({ name }) => name)).toEqual(["real"]);
});
