/** What is made of the answers of a store, one after the other: rows, bars that say when a renewal is late, and the past of a lock. */
import { describe, expect, onTestFinished, test } from "vitest";
import { memory, memoryStore } from "../../src/backends/memory/index.ts";
import { OwnEvents } from "../../src/console/own-events.ts";
import { LastValues, Rate } from "../../src/console/percentiles.ts";
import { Rows } from "../../src/console/rows.ts";
import { Timeline } from "../../src/console/timeline.ts";
import type { LockRow } from "../../src/console/wire.ts";
import type { Locks } from "../../src/core/api.ts";
import { createLocks } from "../../src/core/locks.ts";
import { FakeClock } from "../../src/testing/fake-clock.ts";
import { stage } from "../core/scripted.ts";

const NO_MARKS = { quarantines: new Map<string, number>(), deadlocked: new Set<string>() };

class Looks {
  readonly clock: FakeClock = new FakeClock();
  readonly #store = memoryStore({ clock: this.clock });
  readonly rows: Rows = new Rows();
  readonly timeline: Timeline = new Timeline();
  readonly #viewer = this.locks("viewer:1");

  locks(holder: string): Locks {
    return createLocks(memory({ store: this.#store }), { holder, clock: this.clock, wait: Infinity });
  }

  async look(afterMs = 0): Promise<ReadonlyMap<string, LockRow>> {
    await this.clock.advance(afterMs);
    const snapshot = await this.#viewer.query();
    const changes = this.rows.look(snapshot, this.clock.now(), NO_MARKS);
    this.timeline.look(this.rows, changes, snapshot.forced, this.clock.now());
    return this.rows.all;
  }

  past(name: string): readonly string[] {
    return this.timeline
      .segments(name, this.clock.now())
      .map(
        (one) =>
          `${one.kind} ${one.holder} ${one.end ?? "on"} ${Math.round((one.endMs ?? this.clock.now()) - one.sinceMs)}`,
      );
  }
}

describe("rows", () => {
  test("a lease that is renewed in time is not late; one whose renewals stop is, and one that was never renewed is not", async () => {
    const looks = new Looks();
    await looks.locks("web:1").acquire("a", { ttl: "30s" });
    await looks.locks("web:2").acquire("b", { ttl: "60s", renew: false });
    for (let i = 0; i < 40; i++) {
      const rows = await looks.look(1000);
      expect([...rows.values()].map(({ holders }) => holders[0]!.late)).toEqual([false, false]);
    }
    const { fullMs } = looks.rows.all.get("a")!.holders[0]!;
    expect(fullMs).toBeGreaterThan(28_000);
    expect(fullMs).toBeLessThanOrEqual(30_000);
    // As a stopped process: time goes on, and its timers do not fire.
    looks.clock.block(17_000);
    const snapshot = await looks.locks("viewer:2").query();
    looks.rows.look(snapshot, looks.clock.now(), NO_MARKS);
    expect(looks.rows.all.get("a")!.holders[0]!.late).toBe(true);
    expect(looks.rows.all.get("b")!.holders[0]!.late).toBe(false);
  });

  test("a limit, shared holders and who waits, in order", async () => {
    const looks = new Looks();
    for (let i = 0; i < 3; i++) void looks.locks(`job:${i}`).acquire("pool", { limit: 2 });
    for (let i = 0; i < 3; i++) await looks.locks(`read:${i}`).acquire("book", { mode: "shared" });
    await looks.clock.advance(2000);
    const rows = await looks.look();
    expect(rows.get("pool")).toMatchObject({
      limit: 2,
      waiting: 1,
      holders: [{ holder: "job:0" }, { holder: "job:1" }],
      waiters: [{ holder: "job:2", position: 1 }],
    });
    expect(rows.get("book")).toMatchObject({ mode: "shared", holders: [{}, {}, {}] });
  });
});

describe("the past of a lock", () => {
  test("has holds, waits, and when the lock changed hands", async () => {
    const looks = new Looks();
    const first = await looks.locks("web:1").acquire("a");
    await looks.look();
    const second = looks.locks("web:2").acquire("a");
    await looks.look(2000);
    await looks.look(1000);
    await first.release();
    await second;
    await looks.look(1000);
    // The second's lease began when the first's ended: the store says so, to the instant.
    expect(looks.past("a")).toEqual(["hold web:1 over 3000", "wait web:2 over 3000", "hold web:2 on 1000"]);
    expect(looks.timeline.wait.show()).toMatchObject({ count: 1, p50Ms: 3000 });
    expect(looks.timeline.hold.show()).toMatchObject({ count: 1, p50Ms: 3000 });
  });

  test("says which leases were ended by force, and which ran out", async () => {
    const looks = new Looks();
    const locks = looks.locks("web:1");
    const forced = await locks.acquire("a");
    await locks.acquire("b", { renew: false, ttl: "3s" });
    await looks.look();
    await looks.look(1000);
    await looks.locks("ada").forceRelease("a", { fence: forced.fence, reason: "stuck" });
    await looks.look(1000);
    await looks.look(1500);
    expect(looks.past("a")).toEqual([expect.stringMatching(/^hold web:1 forced/)]);
    expect(looks.past("b")).toEqual([expect.stringMatching(/^hold web:1 out/)]);
    expect(looks.timeline.lost).toBe(2);
  });

  test("what happened while no one watched is not made up", async () => {
    const looks = new Looks();
    const lease = await looks.locks("web:1").acquire("a");
    await looks.look();
    const fromMs = looks.clock.now();
    await looks.clock.advance(60_000);
    await lease.release();
    await looks.locks("web:2").acquire("a");
    looks.timeline.pause(fromMs, looks.clock.now());
    await looks.look(1000);
    expect(looks.timeline.unwatched).toEqual([[fromMs, fromMs + 60_000]]);
    expect(looks.past("a")).toEqual(["hold web:1 over 0", "hold web:2 on 1000"]);
    expect(looks.timeline.hold.show().count).toBe(0);
  });

  test("who holds and who waits all the time while no one watches is shown once, from the beginning", async () => {
    const looks = new Looks();
    await looks.locks("web:1").acquire("a");
    const stop = new AbortController();
    const waiter = looks.locks("web:2").acquire("a", { signal: stop.signal });
    waiter.catch(() => {});
    await looks.look();
    for (let visit = 0; visit < 3; visit++) {
      await looks.look(2000);
      const fromMs = looks.clock.now();
      await looks.clock.advance(5000);
      looks.timeline.pause(fromMs, looks.clock.now());
      await looks.look();
    }
    expect(looks.past("a")).toEqual(["hold web:1 on 21000", "wait web:2 on 21000"]);
    // Of one that is gone, it is known until when it was seen.
    const fromMs = looks.clock.now();
    stop.abort();
    await looks.clock.advance(5000);
    looks.timeline.pause(fromMs, looks.clock.now());
    await looks.look(1000);
    expect(looks.past("a").toSorted()).toEqual(["hold web:1 on 27000", "wait web:2 over 21000"]);
    expect(looks.timeline.wait.show().count).toBe(0);
  });

  test("leases of this process are known to the instant, and shown once", async () => {
    const looks = new Looks();
    const lease = await looks.locks("web:1").acquire("a");
    await looks.look();
    await looks.look(1000);
    await looks.clock.advance(300);
    await lease.release();
    looks.timeline.ownHold("a", String(lease.fence), "exclusive", 1300, "over", looks.clock.now());
    looks.timeline.ownHold("a", "999", "exclusive", 5, "lost", looks.clock.now());
    await looks.look(700);
    expect(looks.past("a")).toEqual(["hold web:1 over 1300", "hold this process lost 5"]);
    // Also if the store showed that it is gone before its event came.
    const other = await looks.locks("web:1").acquire("b");
    await looks.look(1000);
    await other.release();
    await looks.look(1000);
    looks.timeline.ownHold("b", String(other.fence), "exclusive", 1500, "over", looks.clock.now());
    expect(looks.past("b")).toEqual(["hold web:1 over 1500"]);
  });

  test("a lease that was lost is over when it was lost, and once: its user releases it later", async () => {
    const { clock, backend, locks } = stage();
    const timeline = new Timeline();
    const own = new OwnEvents(locks, timeline, () => clock.now());
    own.backend = backend.name;
    own.start();
    onTestFinished(() => own.stop());
    const lease = await locks.acquire("a");
    await clock.advance(1000);
    backend.listener!.lost(backend.steps[0]!.claims[0]!.id, { kind: "removed" });
    const lostMs = clock.now();
    await clock.advance(5000);
    await lease.release();
    expect(await own.figures()).toMatchObject({ hold: { count: 1, p50Ms: 1000 }, lost: 1 });
    expect(timeline.segments("a", clock.now())).toMatchObject([
      { kind: "hold", sinceMs: lostMs - 1000, endMs: lostMs, end: "lost" },
    ]);
  });

  test("a lease whose release had no answer was given back, and is not shown as lost", async () => {
    const { clock, backend, locks } = stage();
    const timeline = new Timeline();
    const own = new OwnEvents(locks, timeline, () => clock.now());
    own.backend = backend.name;
    own.start();
    onTestFinished(() => own.stop());
    const lease = await locks.acquire("a");
    backend.interfere.release = () => new Promise(() => {});
    const released = lease.release();
    await clock.advance(60_000);
    expect(await released).toBe("unknown");
    expect(timeline.segments("a", clock.now())).toMatchObject([{ kind: "hold", end: "over" }]);
  });

  test("is bounded: 400 parts of a lock, ten minutes, 2,000 locks that are free", async () => {
    const looks = new Looks();
    for (let i = 0; i < 450; i++) looks.timeline.ownHold("a", String(i), "exclusive", 1, "over", looks.clock.now());
    expect(looks.past("a")).toHaveLength(400);
    for (let i = 0; i < 2500; i++) looks.timeline.ownHold(`lock:${i}`, "1", "exclusive", 1, "over", looks.clock.now());
    await looks.look(1000);
    expect(looks.past("lock:499")).toEqual([]);
    expect(looks.past("lock:2499")).toHaveLength(1);
    await looks.look(601_000);
    expect(looks.past("lock:2499")).toEqual([]);
  });
});

describe("figures", () => {
  test("percentiles are by the nearest rank, of the last 512", () => {
    const values = new LastValues();
    expect(values.show()).toEqual({ count: 0, p50Ms: 0, p99Ms: 0 });
    for (let i = 1; i <= 100; i++) values.add(i);
    expect(values.show()).toEqual({ count: 100, p50Ms: 50, p99Ms: 99 });
    for (let i = 0; i < 512; i++) values.add(7);
    expect(values.show()).toEqual({ count: 612, p50Ms: 7, p99Ms: 7 });
  });

  test("a rate is of the last ten seconds, or of what was watched of them", () => {
    const rate = new Rate(10_000);
    rate.add(1000, 5);
    rate.add(2000, 5);
    expect(rate.perSecond(2000, 0)).toBe(5);
    expect(rate.perSecond(11_500, 0)).toBe(0.5);
    expect(rate.perSecond(30_000, 0)).toBe(0);
    expect(rate.perSecond(500, 0)).toBe(0);
  });
});
