/** The queue in front of a lock inside one process. */
import { describe, expect, test } from "vitest";
import { gate, stage } from "./scripted.ts";

describe("one process, one contender", () => {
  test("claims are served first come, first served", async () => {
    const { locks } = stage();
    const order: number[] = [];
    await Promise.all(
      Array.from({ length: 20 }, (_, index) =>
        locks.run("a", async () => {
          order.push(index);
          await Promise.resolve();
        }),
      ),
    );
    expect(order).toEqual(Array.from({ length: 20 }, (_, index) => index));
  });

  test("the hold changes hands in memory: 64 sections cost one attempt and one release", async () => {
    const { backend, locks } = stage();
    await Promise.all(Array.from({ length: 64 }, () => locks.run("a", () => {})));
    expect(backend.count("attempt")).toBe(1);
    expect(backend.count("swap")).toBe(0);
    expect(backend.count("release")).toBe(1);
  });

  test("each local holder has a fence of its own, rising, also from run to run", async () => {
    const { backend, locks } = stage();
    const fences: bigint[] = [];
    await Promise.all(Array.from({ length: 200 }, () => locks.run("a", ({ fence }) => fences.push(fence))));
    expect(new Set(fences).size).toBe(200);
    expect(fences.every((fence, index) => index === 0 || fence > fences[index - 1]!)).toBe(true);
    expect(backend.count("swap")).toBe(3);
  });

  test("after the run is spent another process gets its turn", async () => {
    const { locks, other } = stage();
    const order: string[] = [];
    const first = locks.run("a", () => {});
    const elsewhere = other().run("a", () => void order.push("there"));
    const here = Array.from({ length: 100 }, () => locks.run("a", () => void order.push("here")));
    await Promise.all([first, elsewhere, ...here]);
    expect(order.indexOf("there")).toBe(63);
    expect(order).toHaveLength(101);
  });

  test("after a few milliseconds another process gets its turn, though the run is not spent", async () => {
    const { clock, locks, other } = stage();
    const order: string[] = [];
    const slow = locks.run("a", () => clock.block(11));
    const elsewhere = other().run("a", () => void order.push("there"));
    const here = [1, 2].map(() => locks.run("a", () => void order.push("here")));
    await Promise.all([slow, elsewhere, ...here]);
    expect(order).toEqual(["there", "here", "here"]);
  });

  test("claims of another shape wait their turn and go to the store", async () => {
    const { backend, locks } = stage();
    const work = (): void => {};
    await Promise.all([locks.run("a", work), locks.run("a", { ttl: "20s" }, work), locks.run("a", work)]);
    expect(backend.count("swap")).toBe(2);
  });

  test("what only people read does not send a claim to the store: the lease is lent, and shows it from its next renewal on", async () => {
    const { backend, clock, locks, other } = stage();
    const seen = async (): Promise<unknown> => (await other().query("a")).held[0]?.meta;
    const held = gate();
    const first = locks.run("a", { meta: { job: "1" } }, () => {});
    const second = locks.run("a", { meta: { job: "2" } }, () => held.opened);
    await first;
    await clock.advance(1);
    expect([backend.count("attempt"), backend.count("swap"), backend.count("release")]).toEqual([1, 0, 0]);
    expect(await seen()).toEqual({ job: "1" });
    await clock.advance(10_000);
    expect(await seen()).toEqual({ job: "2" });
    const renewed = backend.steps.findLast(({ step }) => step === "renew")!.claims[0];
    expect(renewed?.changed).toBe(true);
    await clock.advance(10_000);
    // The store knows it: the next renewal carries nothing.
    expect(backend.steps.findLast(({ step }) => step === "renew")!.claims[0]?.changed).toBe(undefined);
    held.open();
    await second;
  });

  test("a waiter that leaves the middle of the line does not disturb it", async () => {
    const { locks } = stage();
    const held = gate();
    const order: number[] = [];
    const controller = new AbortController();
    const first = locks.run("a", () => held.opened);
    const waiting = [1, 2, 3].map((index) =>
      locks.run("a", index === 2 ? { signal: controller.signal } : {}, () => void order.push(index)),
    );
    controller.abort(new Error("left"));
    held.open();
    const results = await Promise.allSettled([first, ...waiting]);
    expect(results.map(({ status }) => status)).toEqual(["fulfilled", "fulfilled", "rejected", "fulfilled"]);
    expect(order).toEqual([1, 3]);
  });

  test("the place in the store's queue is passed on when the first local waiter gives up", async () => {
    const { clock, backend, locks, other } = stage();
    const lease = await other().acquire("a");
    const controller = new AbortController();
    const first = locks.run("a", { signal: controller.signal }, () => "first");
    const second = locks.run("a", () => "second");
    await clock.settle();
    const late = other({ holder: "late:3" }).run("a", () => "late");
    await clock.settle();
    controller.abort(new Error("left"));
    await expect(first).rejects.toThrow("left");
    expect((await locks.query("a")).pending.map(({ holder }) => holder)).toEqual(["here:1", "late:3"]);
    await lease.release();
    expect(await second).toBe("second");
    expect(await late).toBe("late");
    expect(
      new Set(backend.steps.filter(({ step }) => step === "attempt").map(({ claims }) => claims[0]!.id)).size,
    ).toBe(1);
  });

  test("a try is refused at once while another request here holds or waits", async () => {
    const { backend, locks } = stage();
    const lease = await locks.acquire("a");
    expect(await locks.tryAcquire("a")).toBeNull();
    expect(backend.count("attempt")).toBe(1);
    await lease.release();
    expect(await locks.tryAcquire("a")).not.toBeNull();
  });

  test("a try leaves nothing in the store's queue", async () => {
    const { locks, other } = stage();
    await other().acquire("a");
    expect(await locks.tryAcquire("a")).toBeNull();
    expect((await locks.query("a")).pending).toHaveLength(0);
  });
});

describe("shared mode", () => {
  test("local readers share one lease of the store", async () => {
    const { backend, locks } = stage();
    let inside = 0;
    let most = 0;
    const read = async (): Promise<void> => {
      most = Math.max(most, ++inside);
      await new Promise((resolve) => setImmediate(resolve));
      inside--;
    };
    await Promise.all(Array.from({ length: 10 }, () => locks.run("a", { mode: "shared" }, read)));
    expect(most).toBe(10);
    expect(backend.count("attempt")).toBe(1);
    expect(backend.count("release")).toBe(1);
  });

  test("a reader behind a waiting writer waits, so that a stream of readers cannot starve the writer", async () => {
    const { locks } = stage();
    const order: string[] = [];
    const reading = gate();
    const first = locks.run("a", { mode: "shared" }, () => reading.opened);
    const writer = locks.run("a", () => void order.push("writer"));
    const reader = locks.run("a", { mode: "shared" }, () => void order.push("reader"));
    await new Promise((resolve) => setImmediate(resolve));
    expect(order).toEqual([]);
    reading.open();
    await Promise.all([first, writer, reader]);
    expect(order).toEqual(["writer", "reader"]);
  });

  test("a stream of local readers lets a writer of another process in", async () => {
    const { clock, locks, other } = stage();
    const order: string[] = [];
    const stop = new AbortController();
    const reader = async (): Promise<void> => {
      while (!stop.signal.aborted) {
        await locks.run("a", { mode: "shared" }, async () => {
          order.push("reader");
          await new Promise((resolve) => setImmediate(resolve));
        });
      }
    };
    const readers = [reader(), reader(), reader()];
    const writing = other().run("a", () => void order.push("writer"));
    for (let step = 0; step < 20 && !order.includes("writer"); step++) await clock.advance(5);
    expect(order).toContain("writer");
    stop.abort();
    await writing;
    await Promise.all(readers);
  });

  test("readers and writers of many processes never meet", async () => {
    const { locks, other } = stage();
    const all = [locks, other(), other({ holder: "third:3" })];
    let readers = 0;
    let writers = 0;
    const violations: string[] = [];
    const check = (): void => {
      if (writers > 1 || (writers === 1 && readers > 0)) violations.push(`${writers} writers, ${readers} readers`);
    };
    await Promise.all(
      Array.from({ length: 120 }, (_, index) =>
        all[index % 3]!.run("a", { mode: index % 4 === 0 ? "exclusive" : "shared", wait: Infinity }, async () => {
          if (index % 4 === 0) writers++;
          else readers++;
          check();
          await new Promise((resolve) => setImmediate(resolve));
          check();
          if (index % 4 === 0) writers--;
          else readers--;
        }),
      ),
    );
    expect(violations).toEqual([]);
  });
});

describe("limit", () => {
  test("as many hold at once as the limit says, never more, in this process and others", async () => {
    const { locks, other } = stage();
    const all = [locks, other()];
    let inside = 0;
    let most = 0;
    await Promise.all(
      Array.from({ length: 60 }, (_, index) =>
        all[index % 2]!.run("a", { limit: 3, wait: Infinity }, async () => {
          most = Math.max(most, ++inside);
          await new Promise((resolve) => setImmediate(resolve));
          inside--;
        }),
      ),
    );
    expect(most).toBe(3);
    expect((await locks.query()).held).toHaveLength(0);
  });

  test("S62: claimants that disagree on the limit get an error with both numbers", async () => {
    const { locks } = stage();
    await locks.acquire("a", { limit: 3 });
    await expect(locks.acquire("a", { limit: 5 })).rejects.toThrow(/3.*5|5.*3/);
  });
});

test("nothing stays behind when everything has ended", async () => {
  const { clock, locks, other } = stage();
  const there = other();
  await Promise.all([
    ...Array.from({ length: 30 }, () => locks.run("a", () => {})),
    ...Array.from({ length: 30 }, () => there.run("a", { mode: "shared" }, () => {})),
  ]);
  expect(await locks.query()).toMatchObject({ held: [], pending: [] });
  await locks.close();
  await there.close();
  expect(clock.timers).toBe(0);
});

test("a hold in doubt is not handed over in memory: the next holder has a lease of its own, which is sure", async () => {
  const { clock, backend, locks } = stage();
  const first = await locks.acquire("a");
  const waiting = locks.acquire("a");
  clock.suspend(5000);
  void first.release();
  await clock.settle();
  const second = await waiting;
  expect(second.remaining()).toBeGreaterThan(0);
  // Whether it was still the same lease is asked before it is released, which a swap cannot do.
  expect([backend.count("renew"), backend.count("swap")]).toEqual([1, 0]);
  expect(backend.count("attempt")).toBeGreaterThan(1);
});

describe("is not handed over in memory, so that the next holder's time is its own:", () => {
  test("a hold with minHold", async () => {
    const { clock, locks } = stage();
    const options = { minHold: "1m", wait: Infinity } as const;
    const first = await locks.acquire("a", options);
    let entered = false;
    void locks.acquire("a", options).then(() => (entered = true));
    await first.release();
    await clock.advance(59_000);
    expect(entered).toBe(false);
    await clock.advance(2000);
    expect(entered).toBe(true);
  });

  test("a hold with maxHold", async () => {
    const { clock, locks } = stage();
    const first = await locks.acquire("a", { maxHold: "1m" });
    const waiting = locks.acquire("a", { maxHold: "1m" });
    await clock.advance(5);
    void first.release();
    await clock.settle();
    const second = await waiting;
    await clock.advance(60_000 - 1);
    second.assertHeld();
    await clock.advance(1);
    expect(second.signal.aborted).toBe(true);
  });

  test("a hold that is not renewed", async () => {
    const { clock, locks } = stage();
    const options = { ttl: "10s", renew: false } as const;
    const first = await locks.acquire("a", options);
    const waiting = locks.acquire("a", options);
    await clock.advance(5);
    void first.release();
    await clock.settle();
    expect((await waiting).remaining()).toBe(10_000 - 102);
  });
});
