/** Beside other libraries: what of theirs is respected, shown and hidden, and what they may do to our key. */
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Names } from "../../../src/backends/redis-plain/keys.ts";
import { createLocks } from "../../../src/index.ts";
import { newClaim } from "../../../src/testing/claim.ts";
import { granted } from "../../../src/testing/attempts.ts";
import { type Lab, startLab } from "./lab.ts";

let lab: Lab;
beforeAll(async () => {
  lab = await startLab();
});
afterAll(() => lab[Symbol.asyncDispose]());

const TTL_MS = 60_000;
const claimOf = (name: string, facts = {}): ReturnType<typeof newClaim> =>
  newClaim({ name, ttlMs: TTL_MS, queues: false, ...facts });

describe("a holder of another library", () => {
  test("keeps us out; its value is shown by its first four characters only, and it has no fence (S114)", async () => {
    const value = randomUUID();
    await lab.raw.set("held", value, "PX", TTL_MS, "NX");
    const backend = lab.backend();
    const answer = await backend.attempt(claimOf("held"));
    expect(answer.granted).toBe(false);
    const shown = [answer, await backend.inspect("held"), await backend.query("held")];
    const text = JSON.stringify(shown, (_, field: unknown) => (typeof field === "bigint" ? String(field) : field));
    expect(text).not.toContain(value);
    expect(text).not.toContain(value.slice(0, 9));
    const [holding] = (await backend.query("held")).held;
    expect(holding).toMatchObject({ fence: 0n, holder: `another library (value ${value.slice(0, 4)}…, 36 bytes)` });
    expect(holding!.remainingMs).toBeGreaterThan(0);
  });

  test("that never expires is shown so, and is not waited for by time", async () => {
    await lab.raw.set("for ever", "aabbccddeeff00112233445566778899");
    const backend = lab.backend({ events: false });
    const claim = claimOf("for ever", { queues: true });
    const answer = await backend.attempt(claim);
    expect(answer).toMatchObject({ granted: false });
    const { heldBy, retryMs } = answer as Exclude<typeof answer, { granted: true }>;
    expect(heldBy[0]?.holder).toContain("never expires");
    expect(heldBy[0]?.remainingMs).toBeGreaterThan(1e12);
    expect(retryMs).toBeLessThanOrEqual(250);
    await lab.raw.del("for ever");
    await granted(backend, claim);
  });

  test("is not ended by force: its holder would not notice", async () => {
    await lab.raw.set("theirs", "x", "PX", TTL_MS);
    await expect(lab.backend().forceRelease("theirs", 0n, "me", "why")).rejects.toThrow(/has no fence/u);
    expect(await lab.raw.get("theirs")).toBe("x");
  });

  test("wakes us when it deletes its key, without a poll", async () => {
    await lab.raw.set("woken", "x", "PX", TTL_MS);
    const backend = lab.backend();
    const claim = claimOf("woken", { queues: true });
    let answer = await backend.attempt(claim);
    // The first watch ends once the subscription is confirmed.
    await backend.watch(claim, new AbortController().signal);
    answer = await backend.attempt(claim);
    // Far more than the longest pause of a poll: what ends the second watch is the event.
    expect(answer).toMatchObject({ granted: false });
    expect((answer as { retryMs?: number }).retryMs).toBeGreaterThan(1000);
    const news = backend.watch(claim, new AbortController().signal);
    await lab.raw.del("woken");
    await news;
    await granted(backend, claim);
  });

  test("that deletes its key between our attempt and our watch is not missed", async () => {
    const backend = lab.backend();
    const [first, claim] = [claimOf("between"), claimOf("between", { queues: true })];
    await granted(backend, first);
    await backend.attempt(claim);
    await backend.watch(claim, new AbortController().signal);
    const other = claimOf("between", { queues: true });
    await backend.attempt(other);
    const heard = backend.watch(other, new AbortController().signal);
    await backend.attempt(claim);
    await lab.raw.del("between");
    await heard;
    await backend.watch(claim, new AbortController().signal);
    await granted(backend, claim);
  });
});

describe("what others do to our key", () => {
  test.each([
    ["deletes it", (key: string) => lab.raw.del(key), "gone"],
    ["overwrites it", (key: string) => lab.raw.set(key, "mine now", "PX", TTL_MS), "gone"],
    ["makes a hash of it", (key: string) => lab.raw.multi().del(key).hset(key, "a", "b").exec(), "overwritten"],
  ])("%s: the next renewal says so, and our release touches nothing", async (what, harm, kind) => {
    const backend = lab.backend();
    const claim = claimOf(`harmed: ${what}`);
    await granted(backend, claim);
    await harm(claim.name);
    const after = await lab.raw.dump(claim.name);
    const [renewal] = await backend.renew([claim]);
    expect(renewal).toMatchObject({ held: false, reason: { kind } });
    const release = backend.release(claim);
    if (kind === "overwritten") await expect(release).rejects.toMatchObject({ fatal: true, backend: "redis-plain" });
    else expect(await release).toBe("absent");
    expect(await lab.raw.dump(claim.name)).toEqual(after);
  });

  test("a key of another type is left alone, with an error that says so", async () => {
    await lab.raw.hset("a hash", "uuid:1", "1");
    await expect(lab.backend().attempt(claimOf("a hash"))).rejects.toThrow(/is no string.*layout=redisson/u);
    expect(await lab.raw.type("a hash")).toBe("hash");
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

describe("a holder that comes back too late", () => {
  test("touches neither a successor of ours nor one of another library", async () => {
    const [old, next] = [lab.backend(), lab.backend()];
    for (const successor of ["ours", "theirs"]) {
      const claim = claimOf(`late: ${successor}`);
      const { fence } = await granted(old, claim);
      await lab.raw.del(claim.name);
      const nextClaim = claimOf(claim.name);
      if (successor === "ours") expect((await granted(next, nextClaim)).fence).toBeGreaterThan(fence);
      else await lab.raw.set(claim.name, randomUUID(), "PX", TTL_MS, "NX");
      const value = await lab.raw.get(claim.name);
      expect(await old.renew([claim])).toMatchObject([{ held: false }]);
      expect(await old.release(claim)).toBe("absent");
      expect(await old.forceRelease(claim.name, fence, "me", "why")).toBe(false);
      expect(await lab.raw.get(claim.name)).toBe(value);
    }
  });

  test("whose late attempt took the lock again is not renewed as the old lease", async () => {
    const backend = lab.backend();
    const claim = claimOf("retaken");
    const { fence } = await granted(backend, claim);
    await lab.raw.del("retaken");
    await granted(backend, claim);
    expect(await backend.renew([claim], [fence])).toMatchObject([{ held: false, reason: { kind: "retaken" } }]);
  });
});

describe("fences", () => {
  test("rise although the clock of the server goes back: the notes remember the last", async () => {
    const backend = lab.backend();
    const ahead = (BigInt(Date.now()) + 86_400_000n) * 1000n;
    await lab.raw.hset("{stepped}:holdfast", "fence", String(ahead));
    expect((await granted(backend, claimOf("stepped"))).fence).toBe(ahead + 1n);
  });

  test("of an attempt that is repeated are the same, and the lease lasts from the second", async () => {
    const backend = lab.backend();
    const claim = claimOf("again");
    const { fence } = await granted(backend, claim);
    await lab.raw.pexpire("again", 5000);
    expect((await granted(backend, claim)).fence).toBe(fence);
    expect(await lab.raw.pttl("again")).toBeGreaterThan(5000);
  });

  test("lie beside the lock in the same slot, whatever braces its name and the client's prefix have", async () => {
    const prefixed = lab.client(undefined, { keyPrefix: "app:" });
    const names = ["a", "a{b}c", "a}b", "a{b", "{}a", "{}", "a{}{b}", "}{", "{a", ""];
    const { redisPlain } = await import("../../../src/backends/redis-plain/index.ts");
    const { slotOf } = await import("../../../src/backends/redis/keys.ts");
    await lab.raw.flushall();
    for (const backend of [lab.backend({ prefix: "p:" }), redisPlain(prefixed, { prefix: "q{" })]) {
      for (const name of names) await granted(backend, claimOf(name));
    }
    const keys = await lab.raw.keys("*");
    const notes = keys.filter((key) => key.endsWith(":holdfast"));
    expect(notes).toHaveLength(2 * names.length);
    for (const key of keys.filter((one) => !notes.includes(one))) {
      expect(notes.filter((one) => one.includes(key.replace(/^app:/u, "")) && slotOf(one) === slotOf(key))).not.toEqual(
        [],
      );
    }
  });
});

describe("the notes of two locks", () => {
  test("are never the same, also where one's name is the other's in braces", () => {
    const names = new Names("", "");
    const odd = names.of("a}b").notes.replace(/:holdfast$/u, "");
    const all = ["x", "{x}", "{x}:", "a}b", odd, odd.slice(0, -1), `${odd}:`, "a}b:", "a}b|"];
    expect(new Set(all.map((name) => names.of(name).notes)).size).toBe(all.length);
  });

  test("of a name and of the same name in braces say nothing of each other", async () => {
    const backend = lab.backend();
    const [plain, braced] = [claimOf("alike"), claimOf("{alike}")];
    const { fence } = await granted(backend, braced);
    await granted(backend, plain);
    expect(await backend.forceRelease("{alike}", fence, "me", "why")).toBe(true);
    expect((await backend.inspect("alike")).forced).toEqual([]);
    expect((await backend.query("alike")).forced).toEqual([]);
    expect((await backend.query("{alike}")).forced).toMatchObject([{ name: "{alike}", fence }]);
    expect(await backend.renew([plain])).toEqual([{ held: true }]);
  });
});

describe("what a plain lock cannot do", () => {
  test("is refused with what to do instead", async () => {
    const locks = createLocks(lab.backend());
    await expect(locks.acquire("a", { mode: "shared" })).rejects.toThrow(/neither readers nor a limit/u);
    await expect(locks.acquire("a", { limit: 2 })).rejects.toThrow(/neither readers nor a limit/u);
    await expect(lab.backend().attempt(claimOf("half \ud800"))).rejects.toThrow(/surrogate/u);
    await locks.close();
  });

  test("a waiting claim leaves the lock free for the gap after a lease of ours; a try does not", async () => {
    const backend = lab.backend({ gap: "30s" });
    const [holder, waiter] = [claimOf("gap"), claimOf("gap", { queues: true })];
    await granted(backend, holder);
    await backend.attempt(waiter);
    await backend.release(holder);
    expect(await backend.attempt(waiter)).toMatchObject({ granted: false, heldBy: [] });
    await granted(backend, claimOf("gap"));
  });
});
