/**
 * A listener is where its signal was read, and a subscriber is inside of no lease, also where a timer that another caller has set calls
 * them, or a force or a close in the middle of another's work. Else what they run would be a re-entry into a lease that is not theirs.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import * as diagnostics from "node:diagnostics_channel";
import { expect, onTestFinished, test } from "vitest";
import { memory } from "../../src/backends/memory/index.ts";
import { systemClock } from "../../src/contract/clock.ts";
import type { Lease, Locks } from "../../src/core/api.ts";
import { createLocks } from "../../src/core/locks.ts";
import { subscribe } from "../../src/core/subscribe.ts";
import { gate } from "./scripted.ts";

function start(): Locks {
  const locks = createLocks(memory());
  onTestFinished(() => locks.close({ grace: 0, force: true }));
  return locks;
}

function hear(channel: string, listener: (event: { readonly name: string }) => void): () => void {
  const heard = (event: unknown): void => listener(event as { readonly name: string });
  diagnostics.subscribe(channel, heard);
  return () => void diagnostics.unsubscribe(channel, heard);
}

/** Tries lock "a" when the signal aborts. Resolves with what came of it. */
function tryOn(locks: Locks, signal: AbortSignal): Promise<Lease | null> {
  return new Promise((resolve, reject) => {
    signal.addEventListener("abort", () => void locks.tryAcquire("a").then(resolve, reject), { once: true });
  });
}

test("S181: a listener that a timer calls is not inside the lease in which the timer was set", async () => {
  const locks = start();
  const [begun, tried] = [gate(), gate()];
  const work = locks.run("a", async () => {
    await locks.acquire("first", { ttl: "300ms", renew: false });
    begun.open();
    await tried.opened;
  });
  await begun.opened;
  const other = await locks.acquire("other", { ttl: "600ms", renew: false });
  expect(await tryOn(locks, other.signal)).toBeNull();
  tried.open();
  await work;
});

test("a listener of a lease that another's work ends by force is not inside that work's lease, nor is a subscriber", async () => {
  const locks = start();
  const other = await locks.acquire("other");
  const tries = [tryOn(locks, other.signal)];
  tries.push(
    new Promise((resolve, reject) => {
      onTestFinished(subscribe("lost", () => void locks.tryAcquire("a").then(resolve, reject)));
    }),
  );
  await locks.run("a", async () => {
    await locks.forceRelease("other", { fence: other.fence, reason: "test" });
    expect(await Promise.all(tries)).toEqual(tries.map(() => null));
  });
});

test("a listener of a lease that another's work closes is not inside that work's lease", async () => {
  const locks = start();
  const other = await locks.acquire("other");
  const tried = tryOn(locks, other.signal);
  await locks.run("a", async () => {
    void locks.close();
    await expect(tried).rejects.toMatchObject({ code: "ERR_LOCK_CLOSED" });
  });
});

test.each(["acquire:start", "acquire", "hold:start", "hold"] as const)(
  "S181: a subscriber to %s is not inside the lease of the function that sets it off, and the function still is",
  async (event) => {
    const locks = start();
    const tries: Promise<Lease | null>[] = [];
    onTestFinished(
      subscribe(event, ({ name }) => {
        if (name === "b") tries.push(locks.tryAcquire("a"));
      }),
    );
    await locks.run("a", async (outer) => {
      await locks.run("b", async () => {
        await locks.run("a", ({ fence }) => expect(fence).toBe(outer.fence));
      });
      await (await locks.acquire("b")).release();
      expect(await Promise.all(tries)).toEqual([null, null]);
    });
  },
);

test("nor is one that hears of a force, or of an acquire that failed, or of its turn", async () => {
  const locks = start();
  const other = await locks.acquire("other");
  const tries: Promise<Lease | null>[] = [];
  const tryIt = (): void => void tries.push(locks.tryAcquire("a"));
  for (const part of ["end", "asyncStart", "error"])
    onTestFinished(hear(`tracing:holdfast:acquire:${part}`, (event) => (event.name === "other" ? tryIt() : undefined)));
  onTestFinished(subscribe("force-release", tryIt));
  await locks.run("a", async () => {
    await expect(locks.acquire("other", { wait: 0 })).rejects.toMatchObject({ code: "ERR_LOCK_TIMEOUT" });
    await locks.forceRelease("other", { fence: other.fence, reason: "test" });
    expect(await Promise.all(tries)).toEqual([null, null, null, null]);
  });
});

test("who hears that a lease is wanted is not inside the lease of who wants it", async () => {
  const locks = start();
  const other = await locks.acquire("other");
  const tried = tryOn(locks, other.wanted);
  await locks.run("a", async () => {
    const wants = locks.acquire("other");
    expect(await tried).toBeNull();
    await other.release();
    await (await wants).release();
  });
});

test("a listener is inside the lease in which its signal was read, also where a timer calls it: lost is lost", async () => {
  const locks = start();
  await expect(
    locks.run("a", { ttl: "100ms", renew: false }, async ({ signal }) => {
      await expect(tryOn(locks, signal)).rejects.toMatchObject({ code: "ERR_LOCK_LOST" });
    }),
  ).rejects.toMatchObject({ code: "ERR_LOCK_LOST" });
});

test("a timer keeps no caller's context: what it starts is part of no one's trace", async () => {
  const trace = new AsyncLocalStorage<string>();
  const seen = await trace.run("mine", () => {
    return new Promise((resolve) => systemClock.setTimer(() => resolve([trace.getStore()]), 1, true));
  });
  expect(seen).toEqual([undefined]);
});
