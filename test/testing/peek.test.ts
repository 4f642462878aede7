import { expect, test } from "vitest";
import { createLocks } from "../../src/core/locks.ts";
import { memory, memoryStore } from "../../src/backends/memory/index.ts";
import { FakeClock, faulty, peek } from "../../src/testing/index.ts";
import { newClaim } from "../../src/testing/claim.ts";

test("peek() shows what a lease knows, and asks no store", async () => {
  const clock = new FakeClock({ nowMs: 0 });
  const store = memoryStore({ clock });
  const asked: string[] = [];
  const backend = faulty(memory({ store }), { clock, decide: (operation) => void asked.push(operation) });
  const locks = createLocks(backend, { clock, ttl: 10_000 });
  const lease = await locks.acquire("x", { renew: true });
  const group = await locks.acquire(["y", "z"]);
  expect(peek(lease)).toEqual([{ name: "x", fence: 1n, state: "held", trustedUntilMs: 9898 }]);
  expect(peek(group).map(({ name, state }) => `${name} ${state}`)).toEqual(["y held", "z held"]);
  const before = asked.length;
  clock.suspend(60_000);
  expect(peek(lease)[0]?.state).toBe("doubt");
  await clock.settle();
  expect(asked.length).toBe(before);
  clock.block(20_000);
  expect(peek(lease)[0]?.state).toBe("lost");
  expect(asked.length).toBe(before);
  await group.release();
  expect(peek(group)[0]?.state).not.toBe("held");
  await locks.close();
});

test("the view of a memory store changes nothing: what has ended is not swept, and no claim is granted", async () => {
  const clock = new FakeClock({ nowMs: 0 });
  const changes: string[] = [];
  const store = memoryStore({ clock, log: ({ kind, holder }) => changes.push(`${kind} ${holder}`) });
  const client = { lost: () => undefined, wanted: () => undefined };
  store.attempt(newClaim({ name: "x", ttlMs: 1000, holder: "a" }), client);
  store.attempt(newClaim({ name: "x", ttlMs: 9000, holder: "b" }), client);
  expect(store.view()).toMatchObject([{ name: "x", held: [{ fence: 1n }], queued: [{ holder: "b" }] }]);
  clock.block(2000);
  expect(store.view()).toMatchObject([{ name: "x", held: [], queued: [{ holder: "b" }] }]);
  expect(changes).toEqual(["granted a", "queued b"]);
  store.query("");
  expect(changes).toEqual(["granted a", "queued b", "dropped a", "granted b"]);
});
