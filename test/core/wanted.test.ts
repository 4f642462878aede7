/** `lease.wanted`, and what a claim shows of its process: hints and facts that decide nothing. */
import { describe, expect, test } from "vitest";
import type { Claim, Waiting } from "../../src/contract/backend.ts";
import { failure, gate, stage } from "./scripted.ts";

describe("lease.wanted", () => {
  test("fires once when a claim of another process queues, and not for one that only tries", async () => {
    const { clock, locks, other } = stage();
    const lease = await locks.acquire("a");
    const heard: string[] = [];
    lease.wanted.addEventListener("abort", () => heard.push("wanted"));
    expect(await other().tryAcquire("a")).toBe(null);
    await clock.advance(15_000);
    expect(heard).toEqual([]);
    const waiting = [failure(other().acquire("a")), failure(other().acquire("a"))];
    await clock.advance(0);
    expect(heard).toEqual(["wanted"]);
    await clock.advance(20_000);
    await Promise.all(waiting);
    expect(heard).toEqual(["wanted"]);
    expect(lease.signal.aborted).toBe(false);
    lease.assertHeld();
    await lease.release();
  });

  test("has fired already where a claim queued when the lease was granted", async () => {
    const { clock, locks, other } = stage();
    const first = await other().acquire("a");
    const second = locks.acquire("a");
    await clock.advance(0);
    const third = other().acquire("a");
    await clock.advance(0);
    await first.release();
    expect((await second).wanted.aborted).toBe(true);
    await (await second).release();
    expect((await third).wanted.aborted).toBe(false);
    await (await third).release();
  });

  test("fires for a request of this process, and for the next holder only while one waits", async () => {
    const { clock, locks } = stage();
    const first = await locks.acquire("a");
    expect(first.wanted.aborted).toBe(false);
    const second = locks.acquire("a");
    await clock.advance(0);
    expect(first.wanted.aborted).toBe(true);
    await first.release();
    expect((await second).wanted.aborted).toBe(false);
    await (await second).release();
  });

  test("is asked of the store by the first who wants to know it of a lease, once, and not before", async () => {
    const { backend, clock, locks } = stage();
    const expected: string[] = [];
    Object.assign(backend, { expectWanted: ({ name, mode }: Claim) => expected.push(`${mode} ${name}`) });
    const readers = await Promise.all(["a", "a", "b"].map((name) => locks.acquire(name, { mode: "shared" })));
    await clock.advance(15_000);
    expect(expected).toEqual([]);
    for (const { wanted } of [...readers.slice(0, 2), ...readers.slice(0, 2)]) expect(wanted.aborted).toBe(false);
    // Both readers of `a` are one lease of the store's.
    expect(expected).toEqual(["shared a"]);
    void readers[2]!.wanted;
    expect(expected).toEqual(["shared a", "shared b"]);
    await Promise.all(readers.map((lease) => lease.release()));
    const again = await locks.acquire("a", { mode: "shared" });
    void again.wanted;
    expect(expected).toEqual(["shared a", "shared b", "shared a"]);
    await again.release();
  });

  test("is learnt from the next renewal where the message was lost", async () => {
    const { backend, clock, locks, other } = stage();
    const lease = await locks.acquire("a");
    expect(lease.wanted.aborted).toBe(false);
    const { listener } = backend;
    listener!.wanted = () => {};
    const waiting = other().acquire("a", { wait: "20s" });
    await clock.advance(1);
    expect(lease.wanted.aborted).toBe(false);
    await clock.advance(10_000);
    expect(lease.wanted.aborted).toBe(true);
    await lease.release();
    await (await waiting).release();
  });

  test("of a re-entry and of a group is that of the lease, and of any part", async () => {
    const { clock, locks, other } = stage();
    const held = gate();
    const inside = locks.run("a", async (outer) => {
      await locks.run("a", async (inner) => {
        expect(inner.wanted).toBe(outer.wanted);
        await held.opened;
      });
    });
    const group = await locks.acquire(["b", "c"]);
    expect(group.wanted.aborted).toBe(false);
    const waiting = other().acquire("c");
    await clock.advance(0);
    expect(group.wanted.aborted).toBe(true);
    held.open();
    await inside;
    await group.release();
    await (await waiting).release();
  });

  test("listeners may do anything: release, acquire, close", async () => {
    const { clock, locks, other } = stage();
    const lease = await locks.acquire("a");
    const next: Promise<unknown>[] = [];
    lease.wanted.addEventListener("abort", () => {
      next.push(lease.release(), failure(locks.acquire("b")), locks.close());
    });
    const theirs = other().acquire("a");
    await clock.advance(0);
    await (await theirs).release();
    expect((await Promise.allSettled(next)).map(({ status }) => status)).toEqual([
      "fulfilled",
      "fulfilled",
      "fulfilled",
    ]);
  });
});

describe("what a claim shows of its process", () => {
  const waitersOf = ({ held, pending }: { held: readonly unknown[]; pending: readonly unknown[] }): unknown =>
    [...held, ...pending].map((entry) => (entry as Waiting).local?.waiters ?? 0);

  test("how many wait here behind a lease, and behind a claim that waits: after a third of a ttl at most", async () => {
    const { clock, locks, other, store } = stage();
    const lease = await locks.acquire("a");
    const there = other();
    const ours = [1, 2, 3].map(() => locks.acquire("a", { wait: "1h" }));
    const theirs = [1, 2].map(() => there.acquire("a", { wait: "1h" }));
    await clock.advance(0);
    await clock.advance(10_000);
    // Ours behind the lease; of theirs one is in the store, and one behind it.
    expect(waitersOf(store.inspect("a"))).toEqual([3, 1]);
    await lease.release();
    await Promise.all([...ours, ...theirs].map(async (one) => (await one).release()));
    expect(waitersOf(store.inspect("a"))).toEqual([]);
  });

  test("which locks those hold who wait: from the start, the locks of functions that they are inside of", async () => {
    const { clock, locks, other, store } = stage();
    const there = await other().acquire("b");
    const done = locks.run("a", async ({ fence }) => {
      const leaving = new AbortController();
      const waiting = failure(locks.acquire("b", { signal: leaving.signal }));
      await clock.advance(0);
      expect(store.inspect("b").pending[0]?.local).toEqual({
        waiters: 0,
        users: 0,
        holds: [{ name: "a", fence }],
        holdsMore: false,
      });
      leaving.abort();
      await waiting;
    });
    await done;
    await there.release();
  });

  test("at most 16 of them, and that there are more", async () => {
    const { clock, locks, other, store } = stage();
    const there = await other().acquire("z");
    const nest = async (depth: number): Promise<void> => {
      if (depth > 0) return locks.run(`n${depth}`, () => nest(depth - 1));
      const leaving = new AbortController();
      const waiting = failure(locks.acquire("z", { signal: leaving.signal }));
      await clock.advance(0);
      const local = store.inspect("z").pending[0]?.local;
      expect([local?.holds.length, local?.holdsMore]).toEqual([16, true]);
      leaving.abort();
      await waiting;
    };
    await nest(20);
    await there.release();
  });
});
