/** RFencedLock: one token for both sides, which is the fence. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { granted, refused } from "../../../src/testing/attempts.ts";
import { claimOf, type Lab, startLab } from "./lab.ts";

let lab: Lab;
beforeAll(async () => {
  lab = await startLab();
});
afterAll(() => lab[Symbol.asyncDispose]());

const TOKEN = (name: string): string => `redisson_lock_token:{${name}}`;

describe("tokens", () => {
  test("rise over holders of both sides", async () => {
    const backend = lab.backend({ kind: "fenced" });
    for (let turn = 0n; turn < 3n; turn++) {
      const claim = claimOf("both");
      expect((await granted(backend, claim)).fence).toBe(2n * turn + 1n);
      expect(await lab.java.tryLockAndGetToken("both")).toBe(0);
      await backend.release(claim);
      expect(await lab.java.tryLockAndGetToken("both")).toBe(Number(2n * turn + 2n));
      expect((await refused(backend, claimOf("both"))).heldBy).toMatchObject([{ fence: 2n * turn + 2n }]);
      await lab.java.unlock("both");
    }
    expect(await lab.raw.pttl(TOKEN("both"))).toBe(-1);
  });

  test("are not used up by an attempt that is repeated", async () => {
    const backend = lab.backend({ kind: "fenced" });
    const claim = claimOf("again");
    const { fence } = await granted(backend, claim);
    expect((await granted(backend, claim)).fence).toBe(fence);
    expect(await lab.raw.get(TOKEN("again"))).toBe(String(fence));
  });

  test("go on above the last that we remember if the counter was lost", async () => {
    const backend = lab.backend({ kind: "fenced" });
    await lab.raw.set(TOKEN("lost"), "41");
    const claim = claimOf("lost");
    expect((await granted(backend, claim)).fence).toBe(42n);
    await backend.release(claim);
    await lab.raw.del(TOKEN("lost"));
    expect((await granted(backend, claimOf("lost"))).fence).toBe(43n);
    expect(await lab.raw.get(TOKEN("lost"))).toBe("43");
  });

  test.each(["not a number", "-3", "9007199254740993", "0012", ""])("%j is refused and left alone", async (text) => {
    const name = `odd ${text}`;
    await lab.raw.set(TOKEN(name), text);
    await expect(lab.backend({ kind: "fenced" }).attempt(claimOf(name))).rejects.toMatchObject({ fatal: true });
    expect(await lab.raw.get(TOKEN(name))).toBe(text);
    expect(await lab.raw.exists(name)).toBe(0);
  });
});

test("a holder in Java is ended by force by its token, and no other token ends it", async () => {
  const backend = lab.backend({ kind: "fenced" });
  const token = BigInt(await lab.java.tryLockAndGetToken("theirs"));
  expect(await backend.forceRelease("theirs", token - 1n, "me", "why")).toBe(false);
  expect(await backend.forceRelease("theirs", token, "me", "why")).toBe(true);
  expect(await lab.java.unlock("theirs")).toBe(null);
  expect((await backend.inspect("theirs")).forced).toMatchObject([{ fence: token, by: "me" }]);
  expect((await granted(backend, claimOf("theirs"))).fence).toBe(token + 1n);
});

test("the token of a dead lease of ours does not end, nor name, one who took the lock in Java without a token", async () => {
  const backend = lab.backend({ kind: "fenced" });
  const claim = claimOf("dead");
  const { fence } = await granted(backend, claim);
  await lab.raw.del("dead");
  expect(await lab.java.tryLock("dead")).toBe(true);
  expect((await backend.inspect("dead")).held).toMatchObject([{ fence: 0n }]);
  expect(await backend.forceRelease("dead", fence, "me", "why")).toBe(false);
  expect(await lab.java.unlock("dead")).toBe(1);
});

test("each name may have a kind of its own", async () => {
  const backend = lab.backend({ kind: (name) => (name.startsWith("f:") ? "fenced" : "lock") });
  expect((await granted(backend, claimOf("f:a"))).fence).toBe(1n);
  expect((await granted(backend, claimOf("a"))).fence).toBeGreaterThan(1_000_000n);
  const wrong = lab.backend({ kind: () => "semaphore" as "lock" });
  await expect(wrong.attempt(claimOf("a"))).rejects.toThrow(/`kind` should be lock, read-write or fenced/u);
});
