/** `locks.contention()`: exact numbers on a simulated clock, and bounded memory. */
import { describe, expect, onTestFinished, test } from "vitest";
import type { Granted, Refused } from "../../src/contract/backend.ts";
import type { LockContention } from "../../src/core/contention-api.ts";
import type { Locks } from "../../src/core/api.ts";
import { createLocks } from "../../src/core/locks.ts";
import { subscribe } from "../../src/core/subscribe.ts";
import { memory } from "../../src/backends/memory/index.ts";
import { failure, gate, stage } from "./scripted.ts";

/** One lock's figures. */
async function figures(locks: Locks, name = "a"): Promise<LockContention> {
  const found = (await locks.contention()).locks.find((lock) => lock.name === name);
  if (found === undefined) throw new Error(`nothing is known of ${name}`);
  return found;
}

/** Who was waited for, with the reason where there is one. */
async function shares(locks: Locks, name = "a"): Promise<Record<string, readonly [number, number]>> {
  const { holders } = await figures(locks, name);
  return Object.fromEntries(
    holders.map(({ holder, reason, waitMs, waits }) => [
      reason === undefined ? holder : `${holder} ${reason}`,
      [waitMs, waits],
    ]),
  );
}

const because = (reason: string): { readonly meta: { readonly reason: string } } => ({ meta: { reason } });
const sorted = (all: Iterable<number>): number[] => [...all].toSorted((a, b) => a - b);

test("it counts from the first call on, and says since when", async () => {
  const { clock, locks } = stage();
  await (await locks.acquire("before")).release();
  const beganMs = clock.wall();
  expect(await locks.contention()).toMatchObject({ sinceMs: beganMs, forMs: 0, locks: [], others: { locks: 0 } });
  await clock.advance(1500);
  await (await locks.acquire("a")).release();
  const shown = await locks.contention();
  expect(shown).toMatchObject({ sinceMs: beganMs, forMs: 1500 });
  expect(shown.locks).toMatchObject([{ name: "a", sinceMs: beganMs + 1500, acquires: 1, contended: 0, waitMs: 0 }]);
  expect(JSON.parse(JSON.stringify(shown))).toEqual(shown);
});

test("a wait is that of the holder in the other process, with its reason", async () => {
  const { clock, locks, other } = stage();
  await locks.contention();
  const lease = await other().acquire("a", because("import"));
  const waiting = locks.acquire("a");
  await clock.advance(2000);
  // While it goes on, too: a lock that never comes free is the one to find.
  expect(await figures(locks)).toMatchObject({ waiting: 1, acquires: 0, waitMs: 2000, wait: { count: 0 } });
  await lease.release();
  const mine = await waiting;
  await clock.advance(300);
  await mine.release();
  const seen = await figures(locks);
  expect(seen).toMatchObject({
    waiting: 0,
    acquires: 1,
    contended: 1,
    timeouts: 0,
    lost: 0,
    waitMs: 2000,
    unknownMs: 0,
  });
  expect(seen.wait).toEqual({ count: 1, p50Ms: 2000, p90Ms: 2000, p99Ms: 2000, maxMs: 2000 });
  expect(seen.hold).toEqual({ count: 1, p50Ms: 300, p90Ms: 300, p99Ms: 300, maxMs: 300 });
  expect(seen.holders).toEqual([{ holder: "there:2", reason: "import", waitMs: 2000, waits: 1 }]);
});

describe("a chain of holders", () => {
  test("in this process: each wait is split at each hand-over, exactly", async () => {
    const { clock, locks } = stage();
    await locks.contention();
    const a = await locks.acquire("a", because("a"));
    const b = locks.acquire("a", because("b"));
    await clock.advance(30);
    const c = locks.acquire("a", because("c"));
    await clock.advance(70);
    await a.release();
    const second = await b;
    await clock.advance(50);
    await second.release();
    await (await c).release();
    // B waited 100 for A; C 70 for A and 50 for B.
    expect(await shares(locks)).toEqual({ "here:1 a": [170, 2], "here:1 b": [50, 1] });
    const { waitMs, unknownMs, wait, hold } = await figures(locks);
    expect([waitMs, unknownMs, wait.p50Ms, wait.maxMs, hold.maxMs]).toEqual([220, 0, 100, 120, 100]);
  });

  test("handed on in memory, too", async () => {
    const { backend, clock, locks } = stage();
    await locks.contention();
    const a = await locks.acquire("a", because("a"));
    const [b, c] = [locks.acquire("a", because("b")), locks.acquire("a", because("c"))];
    await clock.advance(4);
    await a.release();
    await clock.advance(3);
    await (await b).release();
    await (await c).release();
    expect(backend.count("attempt") + backend.count("swap")).toBe(1);
    expect(await shares(locks)).toEqual({ "here:1 a": [8, 2], "here:1 b": [3, 1] });
    expect((await figures(locks)).handOver).toMatchObject({ memory: { count: 2, maxMs: 0 }, store: { count: 0 } });
  });

  test("an end is handed on once, though several who waited for it begin", async () => {
    const { clock, locks } = stage();
    await locks.contention();
    const writer = await locks.acquire("a");
    // Of different terms, so that each has a lease of its own.
    const readers = (["10s", "20s"] as const).map((ttl) => locks.acquire("a", { mode: "shared", ttl }));
    await clock.advance(5);
    await writer.release();
    await clock.advance(100);
    for (const lease of await Promise.all(readers)) await lease.release();
    const { memory: inMemory, store } = (await figures(locks)).handOver;
    expect(inMemory.count + store.count).toBe(1);
  });

  test("in other processes: split where the store's next word says that the new holder began", async () => {
    const { clock, locks, other } = stage();
    await locks.contention();
    const first = await other({ holder: "there:2" }).acquire("a", { ttl: "3s", ...because("x") });
    const second = other({ holder: "there:3" }).acquire("a", { ttl: "3s", ...because("y") });
    await clock.advance(1);
    // It asks again after two thirds of a ttl at the latest.
    const mine = locks.acquire("a", { ttl: "3s" });
    await clock.advance(700);
    await first.release();
    await clock.advance(3300);
    await (await second).release();
    await (await mine).release();
    const { waitMs } = await figures(locks);
    expect(waitMs).toBe(4000);
    expect(await shares(locks)).toEqual({ "there:2 x": [700, 1], "there:3 y": [3300, 1] });
  });

  test("without another word of the store, it is all that of the first", async () => {
    const { clock, locks, other } = stage();
    await locks.contention();
    const first = await other({ holder: "there:2" }).acquire("a");
    const second = other({ holder: "there:3" }).acquire("a");
    await clock.advance(1);
    const mine = locks.acquire("a");
    await clock.advance(100);
    await first.release();
    const next = await second;
    await clock.advance(100);
    await next.release();
    await (await mine).release();
    expect(await shares(locks)).toEqual({ "there:2": [200, 1] });
  });

  test("from this process to another and back", async () => {
    const { clock, locks, other } = stage();
    await locks.contention();
    const a = await locks.acquire("a", because("a"));
    const theirs = other().acquire("a", because("t"));
    await clock.advance(1);
    const b = locks.acquire("a", because("b"));
    await clock.advance(99);
    await a.release();
    const between = await theirs;
    await clock.advance(400);
    await between.release();
    await (await b).release();
    expect(await shares(locks)).toEqual({ "here:1 a": [99, 1], "there:2 t": [400, 1] });
    // Another had it in between: that is no hand-over.
    expect((await figures(locks)).handOver).toMatchObject({ memory: { count: 0 }, store: { count: 0 } });
  });

  test("a wait for which no holder is known is kept apart", async () => {
    const { backend, clock, locks } = stage();
    await locks.contention();
    const refusal: Refused = { granted: false, heldBy: [], retryMs: 100 };
    let refusals = 5;
    backend.interfere.attempt = (pass) => (refusals-- > 0 ? Promise.resolve(refusal) : pass());
    backend.watch = () => new Promise(() => {});
    const mine = locks.acquire("a");
    await clock.advance(10_000);
    await (await mine).release();
    const { waitMs, unknownMs, holders } = await figures(locks);
    expect(waitMs).toBeGreaterThanOrEqual(500);
    expect([unknownMs, holders]).toEqual([waitMs, []]);
  });
});

describe("hand-over through the store", () => {
  test("the gap is from the release to the beginning of the next, and its wait is no holder's", async () => {
    const { backend, clock, locks } = stage();
    await locks.contention();
    backend.interfere.swap = async (pass) => {
      await new Promise<void>((resolve) => clock.setTimer(resolve, 7));
      return await pass();
    };
    const a = await locks.acquire("a");
    const b = locks.acquire("a");
    await clock.advance(100);
    void a.release();
    await clock.advance(7);
    await (await b).release();
    const { handOver, hold, unknownMs, waitMs } = await figures(locks);
    expect(handOver).toMatchObject({ memory: { count: 0 }, store: { count: 1, p50Ms: 7, maxMs: 7 } });
    expect([hold.maxMs, waitMs, unknownMs]).toEqual([100, 107, 7]);
  });

  test("a word of the store that is older than the end of a lease of this process is not believed", async () => {
    const { backend, clock, locks } = stage();
    await locks.contention();
    const a = await locks.acquire("a", because("a"));
    const b = locks.acquire("a");
    await clock.advance(100);
    const { held: heldBy } = await backend.query("a");
    backend.interfere.swap = async (_, [held]) => {
      await backend.release(held!);
      return { granted: false, heldBy, retryMs: 100, released: "held" };
    };
    backend.watch = () => new Promise(() => {});
    void a.release();
    await clock.advance(5000);
    await (await b).release();
    const { waitMs, unknownMs } = await figures(locks);
    expect(unknownMs).toBeGreaterThanOrEqual(100);
    expect(await shares(locks)).toEqual({ "here:1 a": [waitMs - unknownMs, 1] });
    expect(waitMs - unknownMs).toBe(100);
  });

  test("a lock that lay idle was not handed over", async () => {
    const { clock, locks } = stage();
    await locks.contention();
    await (await locks.acquire("a")).release();
    await clock.advance(50);
    await (await locks.acquire("a")).release();
    expect((await figures(locks)).handOver).toMatchObject({ memory: { count: 0 }, store: { count: 0 } });
  });
});

describe("what comes of a call", () => {
  test("timeouts and aborts have waited; tries have not", async () => {
    const { clock, locks, other } = stage();
    await locks.contention();
    await other().acquire("a");
    const stop = new AbortController();
    const late = failure(locks.acquire("a", { wait: "1s" }));
    const aborted = failure(locks.acquire("a", { signal: stop.signal }));
    await clock.advance(400);
    stop.abort(new Error("enough"));
    await aborted;
    await clock.advance(600);
    await late;
    expect(await locks.tryAcquire("a")).toBeNull();
    expect(await locks.tryRun("a", () => 1)).toMatchObject({ ran: false });
    await failure(locks.acquire("a", { wait: 0 }));
    expect(await figures(locks)).toMatchObject({
      acquires: 5,
      contended: 5,
      timeouts: 3,
      aborted: 1,
      busy: 1,
      errors: 0,
      waiting: 0,
      waitMs: 1400,
      wait: { count: 2, maxMs: 1000 },
      hold: { count: 0 },
    });
    expect(await shares(locks)).toEqual({ "there:2": [1400, 2] });
  });

  test("a lease that is lost counts, with the time that it was held", async () => {
    const { backend, clock, locks } = stage();
    await locks.contention();
    const lease = await locks.acquire("a");
    const waiting = locks.acquire("a");
    await clock.advance(500);
    backend.listener!.lost(backend.steps[0]!.claims[0]!.id, "evicted");
    await clock.advance(500);
    expect(await figures(locks)).toMatchObject({ lost: 1, hold: { count: 1, maxMs: 500 } });
    expect(await lease.release()).toBe("lost");
    await clock.advance(40_000);
    await (await waiting).release();
    expect(await figures(locks)).toMatchObject({ lost: 1, hold: { count: 2 } });
  });

  test("a loss that only the release shows counts once, too", async () => {
    const { backend, locks } = stage();
    await locks.contention();
    const lease = await locks.acquire("a");
    backend.interfere.release = async () => "absent";
    expect(await lease.release()).toBe("lost");
    expect(await figures(locks)).toMatchObject({ lost: 1, hold: { count: 1 } });
  });

  test("locks that close: those who wait are over, and the figures stay", async () => {
    const { clock, locks, other } = stage();
    await locks.contention();
    await other().acquire("a");
    const waiting = failure(locks.acquire("a"));
    await clock.advance(250);
    await locks.close();
    await waiting;
    await clock.advance(1000);
    expect(await figures(locks)).toMatchObject({ waiting: 0, errors: 1, waitMs: 250 });
  });

  test("once() that gets another's value has waited for that one; elect() waits for its turn", async () => {
    const { clock, locks, other } = stage();
    await locks.contention();
    // Its code is loaded by the first call, which takes time of another clock.
    await locks.outcome("a");
    const work = gate();
    const theirs = other().once("a", { keep: "1h", ...because("compute") }, () => work.opened);
    await clock.advance(1);
    const mine = locks.once("a", { keep: "1h" }, () => {});
    await clock.advance(900);
    work.open();
    await theirs;
    await clock.advance(1000);
    expect(await mine).toMatchObject({ replayed: true });
    const over = new AbortController();
    const leader = await other().acquire("office", because("leader"));
    const office = locks.elect("office", { signal: over.signal }, () => over.abort());
    await clock.advance(200);
    await leader.release();
    await clock.advance(1000);
    await office;
    const { acquires, contended, waitMs, hold } = await figures(locks);
    expect([acquires, contended, hold.count]).toEqual([1, 1, 0]);
    expect((await shares(locks))["there:2 compute"]).toEqual([waitMs, 1]);
    expect(waitMs).toBeGreaterThanOrEqual(900);
    expect(await figures(locks, "office")).toMatchObject({
      acquires: 1,
      contended: 1,
      waitMs: 200,
      hold: { count: 1 },
    });
  });

  test("each lock of a group has its own wait", async () => {
    const { clock, locks, other } = stage();
    await locks.contention();
    const [first, second] = [await other().acquire("a", because("x")), await other().acquire("b", because("y"))];
    const group = locks.acquire(["a", "b"]);
    await clock.advance(100);
    await first.release();
    await clock.advance(200);
    await second.release();
    await clock.advance(0);
    await (await group).release();
    expect(await shares(locks, "a")).toEqual({ "there:2 x": [100, 1] });
    expect(await shares(locks, "b")).toEqual({ "there:2 y": [200, 1] });
  });

  test("a re-entry is no acquire and no hold of its own", async () => {
    const { clock, locks } = stage();
    await locks.contention();
    await locks.run("a", async () => {
      const inside = [locks.run("a", () => clock.advance(10)), locks.run("a", () => {})];
      await Promise.all(inside);
    });
    expect(await figures(locks)).toMatchObject({ acquires: 1, contended: 0, waitMs: 0, hold: { count: 1, maxMs: 10 } });
  });
});

describe("several holders", () => {
  test("a wait for readers is divided among those who read", async () => {
    const { clock, locks } = stage();
    await locks.contention();
    const one = await locks.acquire("a", { mode: "shared", ...because("one") });
    const two = await locks.acquire("a", { mode: "shared", ...because("two") });
    const writer = locks.acquire("a");
    await clock.advance(100);
    await one.release();
    await clock.advance(60);
    await two.release();
    await (await writer).release();
    expect(await shares(locks)).toEqual({ "here:1 one": [50, 1], "here:1 two": [110, 1] });
  });

  test("and so is one for a place among several, here and elsewhere", async () => {
    const { clock, locks, other } = stage();
    await locks.contention();
    const theirs = await other().acquire("a", { limit: 2, ...because("t") });
    const mine = await locks.acquire("a", { limit: 2, ...because("m") });
    const third = locks.acquire("a", { limit: 2 });
    await clock.advance(100);
    await mine.release();
    await (await third).release();
    await theirs.release();
    expect(await shares(locks)).toEqual({ "here:1 m": [50, 1], "there:2 t": [50, 1] });
  });

  test("a minHold that keeps the lock taken is its holder's wait", async () => {
    const { clock, locks } = stage();
    await locks.contention();
    const mine = await locks.acquire("a", { minHold: "5s", ...because("cron") });
    const next = locks.acquire("a");
    await clock.advance(1000);
    await mine.release();
    await clock.advance(4000);
    await (await next).release();
    const { "here:1 cron": cron } = await shares(locks);
    expect(cron?.[0]).toBe(5000);
  });
});

test("`reset` begins anew, and what goes on goes on; `end` stops until the next call", async () => {
  const { clock, locks, other } = stage();
  await locks.contention();
  await (await locks.acquire("b")).release();
  const lease = await other().acquire("a");
  const mine = locks.acquire("a");
  await clock.advance(1000);
  expect((await locks.contention({ reset: true })).locks.map(({ name, waitMs }) => [name, waitMs])).toEqual([
    ["a", 1000],
    ["b", 0],
  ]);
  await clock.advance(200);
  expect((await locks.contention()).locks).toMatchObject([{ name: "a", waiting: 1, waitMs: 200, acquires: 0 }]);
  expect(await shares(locks)).toEqual({ "there:2": [200, 1] });
  await lease.release();
  await (await mine).release();
  expect(await locks.contention({ reset: true })).toMatchObject({ locks: [{ acquires: 1, waitMs: 200 }] });
  const held = await locks.acquire("a");
  const next = locks.acquire("a");
  await held.release();
  await locks.contention({ reset: true });
  const none = { count: 0 };
  expect((await locks.contention()).locks).toMatchObject([
    { name: "a", acquires: 0, wait: none, hold: none, handOver: { memory: none, store: none } },
  ]);
  await (await next).release();
  await locks.contention({ end: true });
  await (await locks.acquire("a")).release();
  await clock.advance(10);
  expect(await locks.contention()).toMatchObject({ sinceMs: clock.wall(), forMs: 0, locks: [] });
});

test("a lease and a wait that began while nothing was counted do no harm", async () => {
  const { clock, locks } = stage();
  const lease = await locks.acquire("a");
  const early = locks.acquire("a");
  await clock.advance(100);
  await locks.contention();
  const mine = locks.acquire("a");
  await clock.advance(100);
  await lease.release();
  const second = await early;
  await clock.advance(100);
  await second.release();
  await (await mine).release();
  const { waitMs, waiting, holders } = await figures(locks);
  expect([waitMs, waiting, holders.map(({ holder }) => holder)]).toEqual([200, 0, ["here:1"]]);
});

test("wrong options are refused", async () => {
  const { locks } = stage();
  for (const wrong of [{ top: 3 }, { reset: 1 }, { end: "yes" }, null, 7]) {
    await expect(locks.contention(wrong as never)).rejects.toMatchObject({ code: "ERR_LOCK_ARGUMENT" });
  }
});

test("subscribers change nothing of it; other locks of the process are not in it", async () => {
  const { clock, store, locks, other } = stage();
  onTestFinished(subscribe("acquire", () => {}));
  onTestFinished(subscribe("hold", () => {}));
  await locks.contention();
  const beside = createLocks(memory({ store }), { clock, holder: "here:1" });
  const lease = await other().acquire("a", because("x"));
  const [mine, theirs] = [locks.acquire("a"), beside.acquire("a")];
  await clock.advance(100);
  await lease.release();
  await (await mine).release();
  await (await theirs).release();
  expect(await figures(locks)).toMatchObject({ acquires: 1, waitMs: 100, hold: { count: 1 } });
  expect((await beside.contention()).locks).toEqual([]);
});

test("a subscriber that makes events unreadable breaks no lock, and no lock beside it is left out", async () => {
  const { locks } = stage();
  const spoil = (event: object): void => {
    Object.defineProperty(event, "name", {
      get: () => {
        throw new Error("spoiled");
      },
    });
  };
  const ends = [subscribe("acquire:start", spoil), subscribe("hold:start", spoil)];
  await locks.contention();
  expect(await locks.run("a", () => "done")).toBe("done");
  for (const end of ends) end();
  await (await locks.acquire("b")).release();
  expect(await figures(locks, "b")).toMatchObject({ acquires: 1 });
});

describe("in bounded memory", () => {
  test("100,000 locks: those with the greatest wait stay, and the others are added up", async () => {
    const { clock, locks, other } = stage();
    await locks.contention();
    const theirs = other();
    const hot = await theirs.acquire("hot");
    const waiting = locks.acquire("hot");
    await clock.advance(100);
    await hot.release();
    await (await waiting).release();
    for (let index = 0; index < 100_000; index++) await (await locks.acquire(`lock ${index}`)).release();
    const shown = await locks.contention();
    expect(shown.locks.length).toBeLessThanOrEqual(512);
    expect(shown.locks[0]).toMatchObject({ name: "hot", waitMs: 100 });
    expect(shown.others.locks + shown.locks.length).toBe(100_001);
    expect(shown.others.acquires + shown.locks.reduce((sum, { acquires }) => sum + acquires, 0)).toBe(100_001);
    // Those that were used last are there.
    expect(shown.locks.some(({ name }) => name === "lock 99999")).toBe(true);
  });

  test("of those with the same wait, the ones that were not used for longest give way", async () => {
    const { clock, locks } = stage();
    await locks.contention();
    const use = async (name: string): Promise<void> => {
      await (await locks.acquire(name)).release();
      await clock.advance(1);
    };
    for (let index = 0; index < 512; index++) await use(`lock ${index}`);
    await use("lock 3");
    await use("one more");
    const names = (await locks.contention()).locks.map(({ name }) => name);
    expect([names.length, names.includes("lock 3"), names.includes("lock 4")]).toEqual([257, true, false]);
  });

  test("the waits for locks that give way stay in the sum", async () => {
    const { clock, locks, other } = stage();
    await locks.contention();
    const theirs = other();
    for (let index = 0; index < 512; index++) {
      const lease = await theirs.acquire(`lock ${index}`);
      const mine = locks.acquire(`lock ${index}`);
      await clock.advance(1);
      await lease.release();
      await (await mine).release();
    }
    await (await locks.acquire("one more")).release();
    const { locks: listed, others } = await locks.contention();
    expect([listed.length, others.locks, others.waitMs]).toEqual([257, 256, 256]);
  });

  test("locks that give way while they are held, or waited for, are added up when they are over", async () => {
    const { clock, locks, other } = stage();
    await locks.contention();
    const theirs = other();
    const names = Array.from({ length: 600 }, (_, index) => `lock ${index}`);
    const held = await Promise.all(names.map((name) => theirs.acquire(name)));
    const waiting = names.map((name) => locks.acquire(name));
    await clock.advance(100);
    for (const lease of held) await lease.release();
    for (const lease of await Promise.all(waiting)) await lease.release();
    const { locks: listed, others } = await locks.contention();
    const sum = (field: "acquires" | "contended" | "waitMs"): number =>
      listed.reduce((all, lock) => all + lock[field], others[field]);
    expect(others.locks).toBeGreaterThan(0);
    expect([sum("acquires"), sum("contended"), sum("waitMs")]).toEqual([600, 600, 60_000]);
    expect(listed.every((lock) => lock.waiting === 0)).toBe(true);
  });

  test("leases of locks that have given way are counted as lost all the same", async () => {
    const { clock, locks } = stage();
    await locks.contention();
    const names = Array.from({ length: 600 }, (_, index) => `lock ${index}`);
    await Promise.all(names.map((name) => locks.acquire(name, { ttl: "1s", renew: false })));
    await clock.advance(2000);
    const { locks: listed, others } = await locks.contention();
    expect(others.lost).toBeGreaterThan(0);
    expect(listed.reduce((sum, { lost }) => sum + lost, others.lost)).toBe(600);
  });

  test("a thousand holders and reasons: the greatest stay, and all parts make the whole", async () => {
    const { clock, locks, other } = stage();
    await locks.contention();
    for (let index = 0; index < 1000; index++) {
      const lease = await other({ holder: `h${index}` }).acquire("a", because("x".repeat(3000)));
      const mine = locks.acquire("a");
      await clock.advance(index === 3 ? 5000 : 10);
      await lease.release();
      await (await mine).release();
    }
    const { holders, otherHolders, unknownMs, waitMs } = await figures(locks);
    expect(holders).toHaveLength(16);
    expect(holders[0]).toMatchObject({ holder: "h3", waitMs: 5000 });
    expect(Math.max(...holders.map(({ reason }) => reason?.length ?? 0))).toBeLessThanOrEqual(200);
    expect(holders.reduce((sum, one) => sum + one.waitMs, otherHolders.waitMs + unknownMs)).toBe(waitMs);
    expect(holders.reduce((sum, one) => sum + one.waits, otherHolders.waits)).toBe(1000);
    expect(waitMs).toBe(14_990);
  });

  test("a thousand who wait at once cost no more than their own notes", async () => {
    const { clock, locks } = stage();
    await locks.contention();
    const first = await locks.acquire("a");
    const all = Array.from({ length: 1000 }, (_, at) => locks.run("a", because(`r${at}`), () => {}));
    await clock.advance(1000);
    await first.release();
    await Promise.all(all);
    const { waitMs, acquires, wait } = await figures(locks);
    expect([waitMs, acquires, wait.count, wait.maxMs]).toEqual([1_000_000, 1001, 1000, 1000]);
  });
});

test("percentiles of many: by the nearest rank, at most 6.25 % off", async () => {
  const { clock, locks } = stage();
  await locks.contention();
  const values: number[] = [];
  for (let index = 1; index <= 400; index++) {
    const heldMs = Math.round(1.03 ** index);
    values.push(heldMs);
    const lease = await locks.acquire("a", { renew: false, ttl: "24h" });
    await clock.advance(heldMs);
    await lease.release();
  }
  const exact = sorted(values);
  const { hold } = await figures(locks);
  for (const [field, part] of [
    ["p50Ms", 0.5],
    ["p90Ms", 0.9],
    ["p99Ms", 0.99],
  ] as const) {
    const right = exact[Math.ceil(part * exact.length) - 1]!;
    expect(Math.abs(hold[field] / right - 1), field).toBeLessThanOrEqual(0.0625);
  }
  expect([hold.count, hold.maxMs]).toEqual([400, exact.at(-1)]);
});

test("what a store says of holders may be anything: nothing of it reaches a caller", async () => {
  const { backend, clock, locks } = stage();
  await locks.contention();
  const odd = { name: "a", mode: "exclusive", limit: 1, fence: 9n, heldMs: 5, remainingMs: 1000, holder: "h\0x" };
  const reason = {
    get reason(): never {
      throw new Error("no");
    },
  };
  const metas: readonly unknown[] = [undefined, null, 7, { reason: 7 }, { reason: "a\0b" }, reason];
  let asked = 0;
  backend.interfere.attempt = (pass): Promise<unknown> => {
    const meta = metas[asked++];
    if (asked > metas.length) return pass();
    return Promise.resolve({ granted: false, heldBy: [{ ...odd, meta }], retryMs: 10 } as unknown as Granted | Refused);
  };
  const mine = locks.acquire("a");
  await clock.advance(5000);
  await (await mine).release();
  const { holders, waitMs } = await figures(locks);
  expect(holders.reduce((sum, one) => sum + one.waitMs, 0)).toBeCloseTo(waitMs, 3);
  expect(holders.map(({ holder, reason: why }) => [holder, why])).toEqual([
    ["h\0x", undefined],
    ["h\0x", "a\0b"],
  ]);
});
