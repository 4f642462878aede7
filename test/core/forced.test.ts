/** A lease of its own that a process ends by force is over at once, whether or not the backend tells what happens to leases. */
import { expect, test, vi } from "vitest";
import type { Backend, Listener } from "../../src/contract/backend.ts";
import { memory, memoryStore } from "../../src/backends/memory/index.ts";
import { LockLostError } from "../../src/contract/errors.ts";
import { createLocks } from "../../src/core/locks.ts";
import type { Locks } from "../../src/core/api.ts";
import { FakeClock } from "../../src/testing/fake-clock.ts";
import { failure } from "./scripted.ts";

function withoutNews(): { readonly locks: Locks; readonly other: Locks } {
  const clock = new FakeClock();
  const store = memoryStore({ clock });
  const deaf: { listen?: unknown } = memory({ store });
  deaf.listen = undefined;
  return {
    locks: createLocks(deaf as Backend, { clock, holder: "here:1" }),
    other: createLocks(memory({ store }), { clock }),
  };
}

test("forceRelease() of one's own lease ends it here, before its answer", async () => {
  const { locks, other } = withoutNews();
  const lease = await locks.acquire("a");
  const bystander = await locks.acquire("b");
  expect(await locks.forceRelease("a", { fence: lease.fence, reason: "stuck" })).toBe(true);
  expect(lease.remaining()).toBe(0);
  expect(() => lease.assertHeld()).toThrow(LockLostError);
  expect(lease.signal.reason).toMatchObject({
    reason: "ended by force by here:1: stuck",
    loss: { kind: "forced", by: "here:1", reason: "stuck" },
  });
  expect(await other.tryAcquire("a")).not.toBeNull();
  expect(await lease.release()).toBe("lost");
  bystander.assertHeld();
});

test("forceRelease() with the fence of a lease that was lent on here ends it too", async () => {
  const { locks, other } = withoutNews();
  const first = await locks.acquire("a");
  const next = locks.acquire("a");
  await first.release();
  const lease = await next;
  expect(lease.fence).toBe(first.fence + 1n);
  expect(await locks.forceRelease("a", { fence: lease.fence, reason: "stuck" })).toBe(true);
  expect(() => lease.assertHeld()).toThrow(LockLostError);
  expect(await other.tryAcquire("a")).not.toBeNull();
});

test("work under it is not taken for done", async () => {
  const { locks } = withoutNews();
  const running = locks.run("a", async ({ fence }) => await locks.forceRelease("a", { fence, reason: "stuck" }));
  expect(await failure(running)).toBeInstanceOf(LockLostError);
});

test("forceRelease() that ended nothing ends nothing here", async () => {
  const { locks } = withoutNews();
  const lease = await locks.acquire("a");
  expect(await locks.forceRelease("a", { fence: lease.fence + 100n, reason: "stuck" })).toBe(false);
  lease.assertHeld();
  expect(await lease.release()).toBe("released");
});

test("forceRelease() keeps who did it, where that is another than these locks", async () => {
  const { locks, other } = withoutNews();
  const lease = await locks.acquire("a");
  expect(await other.forceRelease("a", { fence: lease.fence, reason: "stuck", by: "ada@laptop" })).toBe(true);
  expect((await other.inspect("a")).forced).toMatchObject([{ by: "ada@laptop", reason: "stuck" }]);
  const own = await locks.acquire("b");
  expect(await locks.forceRelease("b", { fence: own.fence, reason: "stuck", by: "ada@laptop" })).toBe(true);
  expect(own.signal.reason).toMatchObject({ loss: { kind: "forced", by: "ada@laptop", reason: "stuck" } });
  for (const by of ["", 7, "x".repeat(201)] as string[])
    await expect(locks.forceRelease("b", { fence: 1n, reason: "stuck", by })).rejects.toThrow("`by`");
});

test.each([true, false] as const)(
  "news that only asks to look ends a lease that was ended by force elsewhere, renewed by itself or not: %s",
  async (renew) => {
    const clock = new FakeClock();
    const store = memoryStore({ clock });
    const backend: { listen?: Backend["listen"] } = memory({ store });
    const heard: Listener[] = [];
    // As Redis and Postgres do it: the message proves nothing by arriving.
    backend.listen = (listener) => void heard.push(listener);
    const locks = createLocks(backend as Backend, { clock });
    const other = createLocks(memory({ store }), { clock, holder: "there:2" });
    const beganMs = clock.now();
    const lease = await locks.acquire("a", { ttl: "5s", renew });
    const [claim] = (await other.inspect("a")).held;
    heard[0]!.doubt(claim!.id);
    await clock.advance(200);
    lease.assertHeld();
    expect(await other.forceRelease("a", { fence: lease.fence, reason: "stuck" })).toBe(true);
    heard[0]!.doubt(claim!.id);
    // What looks is loaded by the first such news, which takes no time of this clock.
    await vi.waitFor(async () => {
      await clock.advance(1);
      expect(lease.signal.aborted).toBe(true);
    });
    expect(clock.now() - beganMs).toBeLessThan(4000);
    expect(lease.signal.reason).toMatchObject({
      loss: renew ? {} : { kind: "forced", by: "there:2", reason: "stuck" },
    });
  },
);
