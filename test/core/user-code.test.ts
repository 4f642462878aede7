/** User code runs in the middle of ours: abort listeners, work functions, close() at any time. */
import { randomUUID } from "node:crypto";
import { getEventListeners } from "node:events";
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { describe, expect, test, vi } from "vitest";
import type { Lease } from "../../src/core/api.ts";
import { LockClosedError, LockLostError } from "../../src/contract/errors.ts";
import { failure, gate, stage } from "./scripted.ts";

describe("re-entry", () => {
  test("S121: a sibling in line never runs in a lease that went back to the store", async () => {
    const { clock, locks, other } = stage();
    const there = other();
    const [bDone, cDone] = [gate(), gate()];
    const leases: Lease[] = [];
    const c = { running: false };
    const outer = failure(
      locks.run("n", () =>
        Promise.all([
          locks.run("n", () => Promise.reject(new Error("mine"))),
          locks.run("n", () => bDone.opened),
          locks.run("n", async (lease) => {
            leases.push(lease);
            c.running = true;
            await cDone.opened;
            c.running = false;
          }),
        ]),
      ),
    );
    expect((await outer).message).toBe("mine");
    const rival = there.acquire("n", { wait: "1m" });
    bDone.open();
    await clock.settle();
    // Either of the two may be first: never both.
    expect(c.running).toBe(true);
    leases[0]!.assertHeld();
    let got = false;
    void rival.then(() => (got = true));
    await clock.advance(20_000);
    expect(got).toBe(false);
    cDone.open();
    await rival;
    expect(c.running).toBe(false);
    expect(leases[0]!.remaining()).toBe(0);
  });

  test("S121: after a release it is no re-entry: the inner call acquires afresh", async () => {
    const { locks, other } = stage();
    const there = other();
    const fences: bigint[] = [];
    await locks.run("n", async (lease) => {
      fences.push(lease.fence);
      expect(await lease.release()).toBe("released");
      const between = (await there.tryAcquire("n"))!;
      fences.push(between.fence);
      expect(await locks.tryAcquire("n")).toBeNull();
      await between.release();
      await locks.run("n", (inner) => {
        fences.push(inner.fence);
        inner.assertHeld();
      });
    });
    expect(fences).toEqual([...fences].toSorted((a, b) => (a < b ? -1 : 1)));
    expect(new Set(fences).size).toBe(3);
  });

  test("S121: a lease that escaped from a re-entry keeps its siblings waiting until it is released", async () => {
    const { clock, locks } = stage();
    const order: string[] = [];
    await locks.run("n", async () => {
      const escaped = locks.run("n", () => locks.acquire("n"));
      const sibling = locks.run("n", () => void order.push("sibling"));
      const inner = await escaped;
      await clock.settle();
      order.push("inner");
      await inner.release();
      await sibling;
    });
    expect(order).toEqual(["inner", "sibling"]);
  });

  test("S121: a loss sends away the siblings that wait for their turn, at once", async () => {
    const { backend, clock, locks } = stage();
    const inside = gate();
    const errors: Error[] = [];
    const outer = failure(
      locks.run("n", async () => {
        const first = locks.run("n", () => inside.opened).catch(() => {});
        const waiting = failure(locks.run("n", () => "never"));
        await clock.settle();
        backend.listener!.lost(backend.steps[0]!.claims[0]!.id, "broken by hand");
        errors.push(await waiting);
        inside.open();
        await first;
      }),
    );
    expect(await outer).toBeInstanceOf(LockLostError);
    expect(errors[0]).toBeInstanceOf(LockLostError);
  });

  test("S121: nor when the outer function has ended before: the hold decides, not the lease around it", async () => {
    const { backend, clock, locks } = stage();
    const inside = gate();
    const started: string[] = [];
    let waiting: Promise<Error> | undefined;
    await locks.run("n", () => {
      void locks.run("n", () => inside.opened).catch(() => {});
      waiting = failure(locks.run("n", () => started.push("in a lost lease")));
    });
    await clock.settle();
    backend.listener!.lost(backend.steps[0]!.claims[0]!.id, "broken by hand");
    expect(await waiting).toBeInstanceOf(LockLostError);
    inside.open();
    await clock.settle();
    expect(started).toEqual([]);
  });

  test("S155: exclusive inside a shared re-entry is refused, whatever the outermost lease is", async () => {
    const { locks } = stage();
    await locks.run("n", async () => {
      const done = gate();
      const reader = locks.run("n", { mode: "shared" }, () => done.opened);
      const writer = failure(locks.run("n", { mode: "shared" }, () => locks.run("n", () => "beside a reader")));
      expect(await writer).toBeInstanceOf(TypeError);
      done.open();
      await reader;
    });
  });

  test("S157: re-entry heeds a signal that is aborted", async () => {
    const { locks } = stage();
    await locks.run("n", async () => {
      const reason = new Error("enough");
      expect(await failure(locks.run("n", { signal: AbortSignal.abort(reason) }, () => {}))).toBe(reason);
    });
  });

  test("S157: re-entry while closing learns from its signal that it should stop", async () => {
    const { locks } = stage();
    const aborted = await locks.run("n", async () => {
      void locks.close();
      return await locks.run("n", ({ signal }) => signal.aborted);
    });
    expect(aborted).toBe(true);
  });

  test("S139: work that starts itself again from inside run() does not pile up contexts", async () => {
    const { locks } = stage();
    setFlagsFromString("--expose-gc");
    const collect = runInNewContext("gc") as () => void;
    let first: WeakRef<Lease> | undefined;
    let turns = 0;
    const kept = await new Promise<boolean>((resolve) => {
      const again = (): void => {
        void locks.run("n", (lease) => {
          first ??= new WeakRef(lease);
          turns++;
          setImmediate(() => {
            if (turns < 50) return again();
            // A WeakRef keeps its target to the end of the turn in which it was made or looked at.
            return void setImmediate(() => {
              collect();
              resolve(first!.deref() !== undefined);
            });
          });
        });
      };
      again();
    });
    expect(kept).toBe(false);
  });

  test("S139: a listener on the signal of several locks is kept no longer than they are", async () => {
    const { locks } = stage();
    setFlagsFromString("--expose-gc");
    const collect = runInNewContext("gc") as () => void;
    let known: WeakRef<object> | undefined;
    await locks.run(["n", "m"], ({ signal }) => {
      const mine = {};
      known = new WeakRef(mine);
      signal.addEventListener("abort", () => void mine);
    });
    await new Promise((resolve) => setImmediate(resolve));
    collect();
    expect(known!.deref()).toBeUndefined();
  });
});

describe("losses", () => {
  test("S128: an abort listener that releases another lease lost in the same instant does not stop the watchdog", async () => {
    const { backend, clock, locks } = stage();
    backend.interfere.renew = () => Promise.reject(new Error("down"));
    const leases = await Promise.all(["a", "b", "c", "d"].map((name) => locks.acquire(name, { ttl: "3s" })));
    const lost: string[] = [];
    leases.forEach((lease, at) => {
      lease.signal.addEventListener("abort", () => {
        lost.push(lease.name);
        void leases[(at + 1) % 4]!.release();
        void leases[(at + 2) % 4]!.release();
      });
    });
    await clock.advance(10_000);
    expect(lost.length).toBeGreaterThan(0);
    backend.interfere.renew = undefined;
    const healthy = await locks.acquire("e", { ttl: "3s" });
    await clock.advance(10_000);
    healthy.assertHeld();
    await healthy.release();
    await locks.close();
    expect(clock.timers).toBe(0);
  });

  test("S128: a listener releases a lease that the same sweep has in hand: one entry never lies in two heaps", async () => {
    const { clock, locks } = stage({ chance: { id: () => randomUUID(), fraction: () => 1 } });
    // The loop is blocked, so that one sweep finds the first ended, the renewed one due, and the other ending soon.
    const renewed = await locks.acquire("c", { ttl: "30s" });
    const ended = await locks.acquire("a", { ttl: "10s", renew: false });
    const later = await locks.acquire("b", { ttl: "12s", renew: false });
    ended.signal.addEventListener("abort", () => void later.release());
    await clock.advance(9500);
    clock.block(600);
    await clock.advance(100_000);
    expect(ended.signal.aborted).toBe(true);
    expect(await later.release()).toBe("released");
    renewed.assertHeld();
    await locks.close();
    expect(clock.timers).toBe(0);
  });

  test("S129: every shared lease learns of the loss, though each listener releases its own", async () => {
    const { backend, clock, locks } = stage();
    const leases = await Promise.all(
      Array.from({ length: 6 }, () => locks.acquire("a", { mode: "shared", ttl: "3s" })),
    );
    expect(backend.count("attempt")).toBe(1);
    const reported: number[] = [];
    leases.forEach((lease, at) =>
      lease.signal.addEventListener("abort", () => {
        reported.push(at);
        void lease.release();
      }),
    );
    backend.listener!.lost(backend.steps[0]!.claims[0]!.id, "broken by hand");
    expect(reported).toEqual([0, 1, 2, 3, 4, 5]);
    await clock.settle();
  });

  test("S129: close() stops every shared lease, though each listener releases its own", async () => {
    const { locks } = stage();
    const leases = await Promise.all(Array.from({ length: 5 }, () => locks.acquire("a", { mode: "shared" })));
    const reported: number[] = [];
    leases.forEach((lease, at) =>
      lease.signal.addEventListener("abort", () => {
        reported.push(at);
        void lease.release();
      }),
    );
    await locks.close();
    expect(reported).toEqual([0, 1, 2, 3, 4]);
  });

  test("S139: nothing renews a lease that a listener released while another's answer was unknown", async () => {
    const { backend, clock, locks } = stage();
    const [dropped, kept] = [await locks.acquire("b", { ttl: "3s" }), await locks.acquire("a", { ttl: "3s" })];
    kept.signal.addEventListener("abort", () => void dropped.release());
    let renewals = 0;
    backend.interfere.renew = async (_, claims) => {
      renewals++;
      return claims.map((claim) =>
        claim.name === "a" ? { held: false, reason: "gone" } : { held: "unknown", cause: new Error("slow") },
      );
    };
    await clock.advance(1500);
    expect(kept.signal.aborted).toBe(true);
    const before = renewals;
    expect(before).toBeGreaterThan(0);
    await clock.advance(20_000);
    expect(renewals).toBe(before);
  });

  test("S150: a shared lease whose ttl has passed is lost, though another local reader shares the hold", async () => {
    const { clock, locks } = stage();
    const other = await locks.acquire("a", { mode: "shared", ttl: "3s" });
    const run = failure(
      locks.run("a", { mode: "shared", ttl: "3s" }, () => {
        clock.block(5000);
        return "done";
      }),
    );
    const error = await run;
    expect(error).toBeInstanceOf(LockLostError);
    expect(error["result"]).toBe("done");
    expect(await other.release()).toBe("lost");
  });

  test("S152: news of a loss that overtakes the grant's own reply: that grant is not believed", async () => {
    const { backend, clock, locks, other } = stage();
    const held = gate();
    backend.interfere.attempt = async (pass) => {
      const answer = await pass();
      await held.opened;
      return answer;
    };
    const acquiring = locks.acquire("a");
    await clock.settle();
    const [mine] = (await locks.query("a")).held;
    // The news arrives while the grant's reply is still on its way.
    expect(await other().forceRelease("a", { fence: mine!.fence, reason: "test" })).toBe(true);
    await clock.settle();
    held.open();
    const lease = await acquiring;
    expect(lease.fence).toBeGreaterThan(mine!.fence);
    expect((await locks.query("a")).held.map(({ fence }) => fence)).toEqual([lease.fence]);
    expect(await lease.release()).toBe("released");
    expect(await locks.query()).toMatchObject({ held: [], pending: [] });
  });
});

describe("releases", () => {
  test("a listener that releases the lease whose loss is noticed by its own release ends it once", async () => {
    const { clock, locks } = stage();
    const ends: unknown[] = [];
    const note = (message: unknown): void => void ends.push(message);
    subscribe("tracing:holdfast:hold:end", note);
    const lease = await locks.acquire("a", { ttl: "3s" });
    lease.signal.addEventListener("abort", () => void lease.release());
    clock.block(5000);
    expect(await lease.release()).toBe("lost");
    await clock.settle();
    unsubscribe("tracing:holdfast:hold:end", note);
    expect(ends).toHaveLength(1);
  });

  test("a backend whose swap throws does not strand the next waiter", async () => {
    const { backend, clock, locks } = stage();
    const lease = await locks.acquire("a");
    const next = locks.acquire("a", { wait: "1m" });
    await clock.advance(20);
    backend.swap = () => {
      throw new Error("not a promise");
    };
    void lease.release();
    await clock.advance(5000);
    (await next).assertHeld();
  });

  test("a backend that answers nothing is asked again, and nothing is left unhandled", async () => {
    const { backend, clock, locks } = stage();
    let asked = 0;
    backend.interfere.attempt = async (pass) => (asked++ === 0 ? undefined : await pass());
    const lease = locks.acquire("a", { wait: "1m" });
    await clock.advance(5000);
    (await lease).assertHeld();
  });
});

describe("subscribers", () => {
  test("one that aborts the caller's signal at the moment of the grant leaves no lease without a user", async () => {
    const { locks, other } = stage();
    const controller = new AbortController();
    const abort = (): void => controller.abort(new Error("enough"));
    subscribe("tracing:holdfast:hold:start", abort);
    const lease = await locks.acquire("x", { signal: controller.signal });
    unsubscribe("tracing:holdfast:hold:start", abort);
    lease.assertHeld();
    expect(await lease.release()).toBe("released");
    expect(await other().tryAcquire("x")).not.toBeNull();
  });

  test("one that closes everything at the moment of a grant finds nothing half done", async () => {
    const { clock, locks, other } = stage();
    const closing: Promise<void>[] = [];
    const close = (): void => void closing.push(locks.close());
    subscribe("tracing:holdfast:hold:start", close);
    const results = await Promise.allSettled(
      Array.from({ length: 5 }, () => locks.run("x", { mode: "shared" }, ({ signal }) => signal.aborted)),
    );
    unsubscribe("tracing:holdfast:hold:start", close);
    await Promise.all(closing);
    expect(results.some(({ status }) => status === "fulfilled")).toBe(true);
    expect(await other().query()).toMatchObject({ held: [], pending: [] });
    expect(clock.timers).toBe(0);
  });
});

describe("close", () => {
  test("S149: close() from inside the work does not end the lease under it", async () => {
    const { clock, locks, other } = stage();
    const there = other();
    const log: string[] = [];
    const working = locks.run("x", async (lease) => {
      void locks.close().then(() => log.push("closed"));
      await clock.sleep(1000);
      lease.assertHeld();
      log.push((await there.tryAcquire("x")) === null ? "still held" : "given away");
    });
    await working;
    await clock.settle();
    expect(log).toEqual(["still held", "closed"]);
  });

  test("S149, S133: close() at any turn around the grant never ends the lease under the work", async () => {
    let ran = 0;
    for (let turns = 0; turns < 25; turns++) {
      const { locks, other } = stage();
      const there = other();
      const log: string[] = [];
      const working = locks.run("x", async (lease) => {
        ran++;
        await Promise.resolve();
        lease.assertHeld();
        log.push((await there.tryAcquire("x")) === null ? "held" : "given away");
      });
      for (let turn = 0; turn < turns; turn++) await Promise.resolve();
      const closing = locks.close();
      const [worked] = await Promise.allSettled([working, closing]);
      if (worked.status === "rejected") expect(worked.reason).toBeInstanceOf(LockClosedError);
      expect(log.includes("given away")).toBe(false);
      expect(await there.tryAcquire("x")).not.toBeNull();
    }
    expect(ran).toBeGreaterThan(5);
  });

  test("S149: elect() under close(): the work ends before the lease does", async () => {
    const { clock, locks, other } = stage();
    const there = other();
    const log: string[] = [];
    const office = locks.elect("x", async (lease) => {
      void locks.close();
      await clock.sleep(1000);
      lease.assertHeld();
      log.push((await there.tryAcquire("x")) === null ? "held" : "given away");
    });
    await office;
    expect(log).toEqual(["held"]);
  });

  test("S149: closing grants nothing: sending a queued writer away does not let the reader behind it in", async () => {
    const { clock, locks } = stage();
    const reading = gate();
    const reader = locks.run("x", { mode: "shared" }, () => reading.opened);
    await clock.settle();
    const writer = failure(locks.run("x", () => "writer"));
    const late = failure(locks.run("x", { mode: "shared" }, () => "late reader"));
    await clock.settle();
    const closing = locks.close();
    expect(await writer).toBeInstanceOf(LockClosedError);
    expect(await late).toBeInstanceOf(LockClosedError);
    reading.open();
    await reader;
    await closing;
  });

  test("S151, S131: release() and run() settle when close() comes while the store leaves a release unanswered", async () => {
    const { backend, clock, locks } = stage();
    const lease = await locks.acquire("a");
    backend.interfere.release = () => new Promise(() => {});
    const releasing = lease.release();
    const closing = failure(locks.close());
    await clock.advance(60_000);
    expect(await releasing).toBe("unknown");
    const error = await closing;
    expect(error["code"]).toBe("ERR_LOCK_BACKEND");
    expect(error.message).toContain('"a"');
  });

  test("S131: release() settles when the store hangs and others wait here", async () => {
    const { backend, clock, locks } = stage();
    const lease = await locks.acquire("a");
    const waiting = failure(locks.acquire("a", { wait: "20s" }));
    await clock.advance(20);
    backend.interfere.swap = () => new Promise(() => {});
    backend.interfere.release = () => new Promise(() => {});
    const releasing = lease.release();
    await clock.advance(30_000);
    expect(await releasing).toBe("unknown");
    await waiting;
  });

  test("S132: close() waits for releases under way and for the clean-up of waiters that gave up", async () => {
    const { backend, clock, locks, other } = stage();
    const there = other();
    const rival = await there.acquire("b");
    const controller = new AbortController();
    const waiting = failure(locks.acquire("b", { signal: controller.signal, wait: "1m" }));
    const lease = await locks.acquire("a");
    await clock.settle();
    const answered = gate();
    backend.interfere.release = async (pass) => {
      await answered.opened;
      return await pass();
    };
    controller.abort(new Error("enough"));
    void lease.release();
    let closed = false;
    const closing = locks.close().then(() => (closed = true));
    await clock.settle();
    expect(closed).toBe(false);
    expect(backend.closed).toBe(false);
    answered.open();
    await closing;
    await waiting;
    expect((await there.query()).pending).toEqual([]);
    expect((await there.query()).held.map(({ name }) => name)).toEqual(["b"]);
    await rival.release();
  });

  test("S132: a waiter that gave up while its attempt was on its way leaves nothing behind close()", async () => {
    const { backend, clock, locks, other } = stage();
    const there = other();
    const rival = await there.acquire("b");
    const arrived = gate();
    backend.interfere.attempt = async (pass) => {
      await arrived.opened;
      return await pass();
    };
    const waiting = failure(locks.acquire("b", { wait: "1s" }));
    await clock.advance(1000);
    await waiting;
    let closed = false;
    const closing = locks.close().then(() => (closed = true));
    await clock.settle();
    expect(closed).toBe(false);
    arrived.open();
    await closing;
    expect((await there.query()).pending).toEqual([]);
    await rival.release();
    expect(await there.tryAcquire("b")).not.toBeNull();
  });

  test("S133: close({ force: true }) after a close() that timed out ends it", async () => {
    const { clock, backend, locks, other } = stage();
    const finish = gate();
    const working = failure(locks.run("a", () => finish.opened));
    await clock.settle();
    const first = failure(locks.close({ grace: "1s" }));
    await clock.advance(1000);
    expect(await first).toBeInstanceOf(LockClosedError);
    const forced = locks.close({ grace: 0, force: true });
    await clock.advance(0);
    await forced;
    expect(backend.closed).toBe(true);
    expect(await other().tryAcquire("a")).not.toBeNull();
    finish.open();
    expect(await working).toBeInstanceOf(LockLostError);
  });

  test("S133: a wrong grace closes nothing, and the next close() works", async () => {
    const { backend, locks } = stage();
    await expect(locks.close({ grace: "soon" as never })).rejects.toThrow(/grace/);
    await expect(locks.close({ force: "yes" as never })).rejects.toThrow(/force/);
    await locks.run("a", () => {});
    await locks.close();
    expect(backend.closed).toBe(true);
  });

  test("S153: those who wait inside a lease are sent away, and close() settles", async () => {
    const { clock, locks } = stage();
    const inside = gate();
    const started: string[] = [];
    let second: Promise<Error> | undefined;
    const working = locks.run("a", async () => {
      const first = locks.run("a", () => inside.opened);
      second = failure(locks.run("a", () => started.push("second")));
      await first;
    });
    await clock.settle();
    const closing = locks.close();
    expect(await second).toBeInstanceOf(LockClosedError);
    inside.open();
    await working;
    await closing;
    expect(started).toEqual([]);
  });

  test("S157: elect() settles with close(), and starts no work whose signal is aborted", async () => {
    const { clock, locks } = stage();
    let terms = 0;
    const office = locks.elect("a", () => void terms++);
    await clock.advance(10);
    const before = terms;
    await locks.close();
    await office;
    expect(terms).toBe(before);
    const closed = stage();
    const controller = new AbortController();
    let started = false;
    const elected = closed.locks.elect("a", { signal: controller.signal }, () => void (started = true));
    await Promise.resolve();
    controller.abort(new Error("step down"));
    await elected;
    await closed.clock.settle();
    expect(started).toBe(false);
  });

  test("S147: a holder gets the error that it still holds the lock, not that it was not acquired", async () => {
    const { locks } = stage();
    const lease = await locks.acquire("a");
    const { signal } = lease;
    let message = "";
    signal.addEventListener("abort", () => (message = (signal.reason as Error).message));
    await locks.close();
    expect(message).toContain("still held");
    expect(message).not.toContain("not acquired");
  });
});

describe("many, and deep", () => {
  test("S139: 20,000 re-entries into each other are stopped, lost and left without a deep stack", async () => {
    const { backend, clock, locks } = stage();
    const inside = gate();
    const leases: Lease[] = [];
    // Not waited for: the outer ones end first, and the last one out takes all of them along.
    const nest = (depth: number): Promise<unknown> =>
      locks.run("n", async (lease) => {
        leases.push(lease);
        if (depth > 0) void nest(depth - 1).catch(() => {});
        else await inside.opened;
      });
    await nest(20_000);
    while (leases.length < 20_001) await clock.settle();
    const last = leases.at(-1)!;
    const { signal } = last;
    const closing = locks.close();
    expect((signal.reason as Error).name).toBe("LockClosedError");
    backend.listener!.lost(backend.steps[0]!.claims[0]!.id, "broken by hand");
    expect(() => last.assertHeld()).toThrow(/broken by hand/);
    inside.open();
    expect(await last.release()).toBe("lost");
    await closing;
    expect(clock.timers).toBe(0);
  });

  test("S142: a try that enters looks at itself, not at all who wait: 10,000 tries cost 10,000 looks", async () => {
    const { backend, clock, locks } = stage();
    const answer = gate();
    backend.interfere.attempt = async (pass) => {
      await answer.opened;
      return await pass();
    };
    // Each check of a lease goes by the clock.
    const looks = vi.spyOn(clock, "now");
    const tries = Array.from({ length: 10_000 }, () => locks.tryAcquire("n"));
    expect(looks.mock.calls.length).toBeLessThan(100_000);
    looks.mockRestore();
    answer.open();
    await clock.settle();
    const leases = await Promise.all(tries);
    expect(leases.filter((lease) => lease !== null)).toHaveLength(1);
  });
});

describe("groups", () => {
  test("S124: a group inside elected work that was asked to stop notices the loss of a part while it waits for the rest", async () => {
    const { backend, clock, locks, other } = stage();
    const there = other();
    const rival = await there.acquire("b");
    const stop = new AbortController();
    const error: unknown[] = [];
    const office = locks.elect("a", { signal: stop.signal }, async () => {
      stop.abort(new Error("step down"));
      error.push(await failure(locks.acquire(["a", "b"], { wait: "1m" })));
    });
    await clock.settle();
    expect(error).toEqual([]);
    backend.listener!.lost(backend.steps[0]!.claims[0]!.id, "broken by hand");
    await clock.settle();
    // At once, and not after the rest of the minute.
    expect(error[0]).toBeInstanceOf(LockLostError);
    await office;
    await rival.release();
  });

  test("S146: groups with one long-lived signal leave nothing on it", async () => {
    const { locks } = stage();
    const controller = new AbortController();
    const composed = vi.spyOn(AbortSignal, "any");
    try {
      for (let i = 0; i < 100; i++) await (await locks.acquire(["a", "b"], { signal: controller.signal })).release();
      // On Node 20 each of them stays with the signal that it was made of.
      expect(composed).not.toHaveBeenCalled();
    } finally {
      composed.mockRestore();
    }
    expect(getEventListeners(controller.signal, "abort")).toEqual([]);
    const there = (await locks.acquire("b"))!;
    const waiting = failure(locks.acquire(["a", "b"], { signal: controller.signal, wait: Infinity }));
    controller.abort(new Error("enough"));
    expect((await waiting).message).toBe("enough");
    await there.release();
  });

  test("S137: two disposals at once of a lost lease, or group, say the loss once", async () => {
    for (const name of ["a", ["a", "b"]]) {
      const { backend, locks } = stage();
      const lease = await locks.acquire(name);
      backend.listener!.lost(backend.steps[0]!.claims[0]!.id, "evicted");
      const settled = await Promise.allSettled([lease[Symbol.asyncDispose](), lease[Symbol.asyncDispose]()]);
      expect(settled.map(({ status }) => status).toSorted()).toEqual(["fulfilled", "rejected"]);
    }
  });

  test("S137: nor does a listener that disposes of the lease whose loss its own disposal notices", async () => {
    for (const name of ["a", ["a", "b"]]) {
      const { clock, locks } = stage();
      const lease = await locks.acquire(name, { ttl: "3s", renew: false });
      const outcomes: Promise<string>[] = [];
      const dispose = (): void => {
        outcomes.push(
          Promise.resolve(lease[Symbol.asyncDispose]()).then(
            () => "quiet",
            () => "loss",
          ),
        );
      };
      lease.signal.addEventListener("abort", dispose);
      clock.block(4000);
      dispose();
      expect((await Promise.all(outcomes)).toSorted()).toEqual(["loss", "quiet"]);
    }
  });
});
