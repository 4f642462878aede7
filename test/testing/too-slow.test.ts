/** A check that finds its machine too busy starts again with a longer ttl; anything else that is wrong is reported at once. */
import { expect, test } from "vitest";
import { memory } from "../../src/backends/memory/index.ts";
import { promise } from "../../src/testing/promises/promise.ts";
import { TooSlowError } from "../../src/testing/trial.ts";

/** With which ttls a check is tried that finds its machine too busy so often. */
async function ttlsOf(busyTimes: number, limit: { ttlMaxMs?: number } = {}): Promise<readonly number[]> {
  const ttls: number[] = [];
  const { check } = promise("keeps up", async ({ ttlMs }) => {
    ttls.push(ttlMs);
    if (ttls.length <= busyTimes) throw new TooSlowError("busy");
  });
  await check({ open: () => memory(), ttlMs: 100, ...limit });
  return ttls;
}

test("each time with twice the ttl, as far as the store can keep it", async () => {
  expect(await ttlsOf(0)).toEqual([100]);
  expect(await ttlsOf(7)).toEqual([100, 200, 400, 800, 1600, 3200, 6400, 12_800]);
  expect(await ttlsOf(5, { ttlMaxMs: 300 })).toEqual([100, 200, 300, 300, 300, 300]);
});

test("not for ever: a machine that is always too busy shows nothing, and that is said", async () => {
  await expect(ttlsOf(8)).rejects.toBeInstanceOf(TooSlowError);
});

test("a broken promise is reported at once", async () => {
  let tries = 0;
  const { check } = promise("is kept", async () => {
    tries++;
    throw new Error("broken");
  });
  await expect(check({ open: () => memory() })).rejects.toThrow("broken");
  expect(tries).toBe(1);
});

test("what ends with the ttl is waited for several times as long, however long the ttl has become", async () => {
  const waits: number[] = [];
  const { check } = promise("waits", async ({ ttlMs, patienceMs }) => {
    waits.push(patienceMs / ttlMs);
    if (waits.length < 8) throw new TooSlowError("busy");
  });
  await check({ open: () => memory() });
  expect(Math.min(...waits)).toBeGreaterThanOrEqual(4);
});
