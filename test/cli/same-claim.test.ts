/** Two commands that ask with the same claim at the same time: one that gives up must not end what the other was given (S168). */
import { afterAll, beforeAll, expect, test } from "vitest";

import { memory, memoryStore } from "../../src/backends/memory/index.ts";
import type { OpenStore } from "../../src/cli/open-store.ts";
import { seekLease } from "../../src/cli/seek-lease.ts";
import type { Backend, Claim } from "../../src/contract/backend.ts";
import { createLocks, openBackend } from "../../src/index.ts";
import { type EtcdLab, startEtcd } from "../../src/lab/servers/etcd.ts";
import { type RedisServer, startRedis } from "../../src/lab/servers/redis.ts";
import { newClaim } from "../../src/testing/claim.ts";

let redis: RedisServer;
let etcd: EtcdLab;
beforeAll(async () => {
  [redis, etcd] = await Promise.all([startRedis(), startEtcd()]);
});
afterAll(async () => {
  await Promise.all([redis.stop(), etcd.stop()]);
});

/** A store that the command has heard of once: the claim waits. No news of it arrives. */
function deaf(backend: Backend): OpenStore {
  let asked = false;
  const heard: Backend = {
    name: backend.name,
    async attempt(claim) {
      if (asked) return backend.attempt(claim);
      asked = true;
      return { granted: false, heldBy: [], position: 1, retryMs: 3_600_000 };
    },
    watch: () => new Promise(() => {}),
    renew: (claims) => backend.renew(claims),
    release: (claim) => backend.release(claim),
    query: (prefix) => backend.query(prefix),
    inspect: (name) => backend.inspect(name),
    forceRelease: (name, fence, by, reason) => backend.forceRelease(name, fence, by, reason),
    close: async () => {},
  };
  const none = async (): Promise<void> => {};
  return { backend: heard, locks: createLocks(heard), url: "", immediate: false, tie: () => {}, close: none };
}

const STORES: Readonly<Record<string, () => Promise<readonly [Backend, Backend]>>> = {
  memory: async () => {
    const store = memoryStore();
    return [memory({ store }), memory({ store })];
  },
  ioredis: async () => [await openBackend(redis.url), await openBackend(redis.url)],
  etcd: async () => [await openBackend(etcd.url), await openBackend(etcd.url)],
  "node-redis": async () => {
    const url = `${redis.url}?client=redis`;
    return [await openBackend(url), await openBackend(url)];
  },
};

const wanted = (): Claim => newClaim({ name: `same ${Math.random()}`, ttlMs: 60_000, queues: true, resumes: true });

test.each(Object.entries(STORES))("S168: %s: a signal: the lease stays, and that is said", async (_, open) => {
  const [first, second] = await open();
  const claim = wanted();
  expect(await first.attempt(claim)).toMatchObject({ granted: true });
  const [stop, notes] = [new AbortController(), [] as string[]];
  const note = (line: string): void => void notes.push(line);
  const sought = seekLease({ store: deaf(second), claim, waitMs: 3_600_000, stop: stop.signal, note });
  stop.abort(new Error("a signal"));
  await expect(sought).rejects.toThrow("a signal");
  expect(notes).toEqual([expect.stringContaining("was not released")]);
  expect(await first.renew([claim])).toMatchObject([{ held: true }]);
  expect(await first.release(claim)).toBe("held");
  await Promise.all([first.close(), second.close()]);
});

test.each(Object.entries(STORES))("S168: %s: the end of --wait: it is the lease of both", async (_, open) => {
  const [first, second] = await open();
  const claim = wanted();
  const granted = await first.attempt(claim);
  const { signal } = new AbortController();
  const sought = seekLease({ store: deaf(second), claim, waitMs: 1, stop: signal, note: () => {} });
  expect((await sought).granted).toMatchObject({ fence: granted.granted && granted.fence });
  expect(await first.release(claim)).toBe("held");
  await Promise.all([first.close(), second.close()]);
});

test.each(Object.entries(STORES))("S168: %s: one that only waited leaves the queue", async (_, open) => {
  const [first, second] = await open();
  const [holder, claim] = [wanted(), wanted()];
  const waiting = { ...claim, name: holder.name };
  await first.attempt(holder);
  await second.attempt(waiting);
  const { signal } = new AbortController();
  const sought = seekLease({ store: deaf(second), claim: waiting, waitMs: 1, stop: signal, note: () => {} });
  await expect(sought).rejects.toMatchObject({ name: "LockTimeoutError" });
  expect((await first.query(holder.name)).pending).toEqual([]);
  expect(await first.release(holder)).toBe("held");
  await Promise.all([first.close(), second.close()]);
});
