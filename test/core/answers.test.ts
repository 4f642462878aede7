/** What a call answers: the truth about the lock, in time, and in words that help. */
import { describe, expect, test } from "vitest";
import { LockBackendError, LockLostError, LockTimeoutError } from "../../src/contract/errors.ts";
import { failure, gate, stage } from "./scripted.ts";

describe("work and its lease", () => {
  test("S137: what resolves after close() asked it to stop, while the lease was held, resolves", async () => {
    const { clock, locks } = stage();
    const working = locks.run("a", async ({ signal }) => {
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
      return "stopped early";
    });
    await clock.settle();
    void locks.close();
    expect(await working).toBe("stopped early");
  });

  test("S137: it is judged when the work settles: a release that is slow is not a loss", async () => {
    const { backend, clock, locks } = stage();
    backend.interfere.release = async (pass) => {
      await clock.sleep(5000);
      return await pass();
    };
    expect(await locks.run("a", { ttl: "3s" }, () => "done")).toBe("done");
  });

  test("S137: in doubt the release decides: confirmed, the work is complete", async () => {
    const { clock, locks } = stage();
    expect(
      await locks.run("a", () => {
        clock.suspend(5000);
        return "done";
      }),
    ).toBe("done");
  });

  test("S137: in doubt the release decides: not confirmed, the work is not complete", async () => {
    const { backend, clock, locks } = stage();
    backend.interfere.release = () => Promise.reject(new Error("down"));
    const working = failure(
      locks.run("a", () => {
        clock.suspend(5000);
        return "done";
      }),
    );
    await clock.advance(60_000);
    expect(await working).toBeInstanceOf(LockLostError);
  });

  test("S137: disposal does not reject after an explicit release, whose answer said it", async () => {
    const { backend, locks } = stage();
    const lease = await locks.acquire("a");
    backend.listener!.lost(backend.steps[0]!.claims[0]!.id, "evicted");
    expect(await lease.release()).toBe("lost");
    await lease[Symbol.asyncDispose]();
    const second = await locks.acquire("b");
    backend.listener!.lost(backend.steps.at(-1)!.claims[0]!.id, "evicted");
    expect(second.signal.aborted).toBe(true);
    expect(await failure(Promise.resolve(second[Symbol.asyncDispose]()))).toBeInstanceOf(LockLostError);
  });

  test("S137: elect() takes a loss for the end of a term", async () => {
    const { backend, clock, locks } = stage();
    const stop = new AbortController();
    const fences: bigint[] = [];
    const office = locks.elect("a", { signal: stop.signal }, async ({ fence, signal }) => {
      fences.push(fence);
      if (fences.length > 1) stop.abort();
      backend.listener!.lost(backend.steps[0]!.claims[0]!.id, "evicted");
      signal.throwIfAborted();
    });
    await clock.advance(60_000);
    await office;
    expect(fences).toHaveLength(2);
  });

  test("S130: a release whose reply was lost, and that was asked for again, is no loss", async () => {
    const { backend, clock, locks } = stage();
    let asked = 0;
    backend.interfere.release = async (pass) => {
      const was = await pass();
      if (asked++ === 0) throw new Error("connection reset");
      return was;
    };
    const working = locks.run("a", () => "done");
    await clock.advance(5000);
    expect(await working).toBe("done");
    expect(asked).toBe(2);
  });

  test("S122: a claim that was only queued when it was released was not held", async () => {
    const { backend, locks } = stage();
    const lease = await locks.acquire("a");
    backend.interfere.release = async (pass) => {
      await pass();
      return "queued";
    };
    expect(await lease.release()).toBe("lost");
  });

  test("S157: a release in one step with the next claim is known as soon as the store says yes", async () => {
    const { backend, clock, locks } = stage();
    const lease = await locks.acquire("a", { ttl: "3s" });
    const next = locks.acquire("a", { ttl: "3s", wait: "1m" });
    await clock.advance(20);
    backend.interfere.swap = async (pass) => {
      const answer = await pass();
      backend.interfere.swap = undefined;
      clock.block(3100);
      return answer;
    };
    expect(await lease.release()).toBe("released");
    await (await next).release();
  });

  test("S124: a group is not handed out when a part was lost while the rest was waited for", async () => {
    const { backend, clock, locks, other } = stage();
    const rival = await other().acquire("b");
    const group = locks.acquire(["a", "b"], { wait: "1m" });
    await clock.settle();
    const first = backend.steps.find(({ step }) => step === "attempt")!.claims[0]!;
    backend.interfere.renew = async (_, claims) => claims.map(() => ({ held: false, reason: "evicted" }));
    backend.listener!.lost(first.id, "evicted");
    backend.interfere.renew = undefined;
    await clock.settle();
    await rival.release();
    await clock.advance(5000);
    const lease = await group;
    lease.assertHeld();
    expect(lease.fences.size).toBe(2);
    expect((await locks.query()).held.map(({ name }) => name).toSorted()).toEqual(["a", "b"]);
  });

  test("S124: nor when its time passed and no timer has noticed", async () => {
    const { backend, clock, locks } = stage();
    let attempts = 0;
    backend.interfere.attempt = async (pass, [claim]) => {
      const answer = await pass();
      if (claim!.name === "b" && attempts++ === 0) clock.block(5000);
      return answer;
    };
    const lease = await locks.acquire(["a", "b"], { ttl: "3s", wait: "1m" });
    lease.assertHeld();
  });
});

describe("tries", () => {
  test("S142: two tries at once on a free lock: one gets it", async () => {
    const { locks } = stage();
    const leases = await Promise.all([locks.tryAcquire("a"), locks.tryAcquire("a")]);
    expect(leases.filter((lease) => lease !== null)).toHaveLength(1);
  });

  test("S142: a try does not say busy because another try, which fails, is under way", async () => {
    const { backend, clock, locks } = stage();
    let first = true;
    const fail = gate();
    backend.interfere.attempt = async (pass) => {
      if (!first) return await pass();
      first = false;
      await fail.opened;
      return { granted: false, heldBy: [] };
    };
    const one = locks.tryAcquire("a");
    const two = locks.tryAcquire("a");
    await clock.settle();
    fail.open();
    expect(await one).toBeNull();
    expect(await two).not.toBeNull();
  });

  test("S142: nor because the first one was aborted while the store was asked", async () => {
    const { backend, clock, locks } = stage();
    const answer = gate();
    backend.interfere.attempt = async (pass) => {
      await answer.opened;
      return await pass();
    };
    const controller = new AbortController();
    const one = failure(locks.tryAcquire("a", { signal: controller.signal }));
    const two = locks.tryAcquire("a");
    await clock.settle();
    controller.abort(new Error("enough"));
    answer.open();
    expect((await one).message).toBe("enough");
    await clock.advance(100);
    expect(await two).not.toBeNull();
  });

  test("S154: a queued acquire behind an aborted try survives a passing error", async () => {
    const { backend, clock, locks } = stage();
    const controller = new AbortController();
    let failures = 0;
    backend.interfere.attempt = async (pass) => {
      if (failures++ < 3) throw new Error("passing");
      return await pass();
    };
    const one = failure(locks.tryAcquire("a", { signal: controller.signal }));
    const two = locks.acquire("a", { wait: "30s" });
    controller.abort(new Error("enough"));
    await one;
    await clock.advance(10_000);
    (await two).assertHeld();
  });

  test("S147: tryAcquire() refuses `wait`, which it could not heed", async () => {
    const { locks } = stage();
    await expect(locks.tryAcquire("a", { wait: "1s" } as never)).rejects.toThrow(/wait/);
  });

  test("S148: a try in an outage takes as long as it is given", async () => {
    const { backend, clock, locks } = stage();
    backend.interfere.attempt = () => new Promise(() => {});
    const trying = failure(locks.tryAcquire("a", { timeout: "300ms" }));
    await clock.advance(300);
    expect(await trying).toBeInstanceOf(LockBackendError);
  });

  test("S148: query() in an outage takes as long as it is given, and heeds its signal", async () => {
    const { backend, clock, locks } = stage();
    backend.query = () => new Promise(() => {});
    const asking = failure(locks.query("", { timeout: "300ms" }));
    await clock.advance(300);
    expect(await asking).toBeInstanceOf(LockBackendError);
    const controller = new AbortController();
    const aborted = failure(locks.query("", { signal: controller.signal }));
    controller.abort(new Error("enough"));
    expect((await aborted).message).toBe("enough");
    const byDefault = failure(locks.query());
    await clock.advance(10_000);
    expect(await byDefault).toBeInstanceOf(LockBackendError);
    await expect(locks.query("", { timeout: "soon" } as never)).rejects.toThrow(TypeError);
    expect(clock.timers).toBe(0);
  });
});

describe("time", () => {
  test("S138: a ttl below 100 ms is refused, with a hint that numbers are milliseconds", async () => {
    const { backend, locks } = stage();
    for (const ttl of [1, 2, 99, "99ms"] as const) {
      await expect(locks.acquire("a", { ttl })).rejects.toThrow(/at least 100 ms/);
    }
    await expect(locks.acquire("a", { ttl: 30 })).rejects.toThrow(/numbers are milliseconds/);
    expect(backend.count("attempt")).toBe(0);
    await (await locks.acquire("a", { ttl: 100 })).release();
  });

  test("S135: maxHold counts from when the lease began here, not from when its claim was sent", async () => {
    const { backend, clock, locks } = stage();
    // A lease that was handed over is trusted from the waiter's last heartbeat, which may be long ago.
    backend.interfere.attempt = async (pass) => ({ ...((await pass()) as object), fromMs: clock.now() - 5000 });
    const lease = await locks.acquire("a", { maxHold: "10s" });
    await clock.advance(9900);
    lease.assertHeld();
    await clock.advance(200);
    expect(() => lease.assertHeld()).toThrow(/maxHold/);
  });

  test("S156: renew: false and a machine that slept past the ttl: the signal aborts within a second", async () => {
    const { clock, locks } = stage();
    const lease = await locks.acquire("a", { ttl: "30s", renew: false });
    const { signal } = lease;
    await clock.advance(500);
    clock.suspend(29_800);
    expect(lease.remaining()).toBe(0);
    await clock.advance(1000);
    expect(signal.aborted).toBe(true);
  });

  test("S156: a shorter sleep is taken off its time, and the rest is still trusted", async () => {
    const { clock, locks } = stage();
    const lease = await locks.acquire("a", { ttl: "30s", renew: false });
    clock.suspend(10_000);
    await clock.advance(1000);
    lease.assertHeld();
    expect(lease.remaining()).toBeLessThan(20_000);
    await clock.advance(19_000);
    expect(() => lease.assertHeld()).toThrow(LockLostError);
  });

  test("S157: checking a lease in doubt many times asks for that lease once", async () => {
    const { backend, clock, locks } = stage();
    const leases = await Promise.all(Array.from({ length: 50 }, (_, at) => locks.acquire(`lock ${at}`)));
    const before = backend.count("renew");
    const answer = gate();
    backend.interfere.renew = async (pass) => {
      await answer.opened;
      return await pass();
    };
    clock.suspend(5000);
    for (let look = 0; look < 1000; look++) leases[0]!.remaining();
    await clock.advance(1);
    for (let look = 0; look < 1000; look++) leases[0]!.remaining();
    await clock.advance(1);
    expect(backend.count("renew") - before).toBe(1);
    expect(backend.steps.findLast(({ step }) => step === "renew")!.claims).toHaveLength(1);
    answer.open();
    await clock.settle();
    leases[0]!.assertHeld();
  });

  test("S139: one group per ttl is not kept for ever", async () => {
    const { clock, locks } = stage();
    for (let ttl = 1000; ttl < 1200; ttl++) await (await locks.acquire("a", { ttl })).release();
    await clock.advance(10_000);
    expect(clock.timers).toBe(0);
  });

  test("S171: news of a single lease that proves nothing makes only that one renewed at once", async () => {
    const { backend, clock, locks } = stage();
    const lease = await locks.acquire("a");
    await locks.acquire("b");
    const before = backend.count("renew");
    backend.listener!.doubt(backend.steps[0]!.claims[0]!.id);
    await clock.advance(1);
    expect(backend.count("renew") - before).toBe(1);
    expect(backend.steps.at(-1)!.claims.map(({ name }) => name)).toEqual(["a"]);
    lease.assertHeld();
    backend.listener!.doubt("an id that this process did not make");
    await clock.advance(1);
    expect(backend.count("renew") - before).toBe(1);
  });
});

describe("many and odd callers", () => {
  test("S146: more than ten waiters with one signal cause no warning, and all of them hear it", async () => {
    const { clock, locks, other } = stage();
    await other().acquire("a");
    const warnings: Error[] = [];
    const note = (warning: Error): void => void warnings.push(warning);
    process.on("warning", note);
    const controller = new AbortController();
    const waiting = Array.from({ length: 40 }, () =>
      failure(locks.acquire("a", { signal: controller.signal, wait: "1m" })),
    );
    const offices = Array.from({ length: 15 }, (_, at) =>
      locks.elect(`office ${at}`, { signal: controller.signal }, () => clock.sleep(100_000)),
    );
    await clock.settle();
    controller.abort(new Error("enough"));
    expect((await Promise.all(waiting)).every(({ message }) => message === "enough")).toBe(true);
    await new Promise((resolve) => setImmediate(resolve));
    process.off("warning", note);
    expect(warnings).toEqual([]);
    void Promise.allSettled(offices);
  });

  test("S157: what a backend throws reaches users as a LockBackendError, with its cause", async () => {
    const { backend, locks } = stage();
    const cause = new Error("socket hang up");
    backend.query = () => Promise.reject(cause);
    backend.forceRelease = () => Promise.reject(cause);
    backend.interfere.attempt = () => Promise.reject(cause);
    for (const asking of [
      locks.query(),
      locks.forceRelease("a", { fence: 1n, reason: "test" }),
      locks.tryAcquire("a", { timeout: "100ms" }),
    ]) {
      void asking.catch(() => {});
    }
    expect(await failure(locks.query())).toMatchObject({ code: "ERR_LOCK_BACKEND", cause });
    expect(await failure(locks.forceRelease("a", { fence: 1n, reason: "test" }))).toMatchObject({
      code: "ERR_LOCK_BACKEND",
      cause,
    });
  });

  test("a backend that throws instead of rejecting leaves the queue whole", async () => {
    const { backend, clock, locks } = stage();
    const right = backend.attempt.bind(backend);
    backend.attempt = () => {
      throw new Error("not a promise");
    };
    const waiting = locks.acquire("a", { wait: "1m" });
    await clock.advance(100);
    backend.attempt = right;
    await clock.advance(5000);
    await (await waiting).release();
  });

  test("S147: LockTimeoutError tells the holder's age as of now, not as of the last look", async () => {
    const { clock, locks, other } = stage();
    await other().acquire("a");
    await clock.advance(1000);
    const waiting = failure(locks.acquire("a", { wait: "4s" }));
    await clock.advance(4000);
    const error = (await waiting) as unknown as LockTimeoutError;
    expect(error).toBeInstanceOf(LockTimeoutError);
    expect(error.heldBy[0]!.heldMs).toBe(5000);
  });

  test("S147: a timer that is a few milliseconds late is not worth a word", async () => {
    const { backend, clock, locks } = stage();
    const lease = await locks.acquire("a", { ttl: "3s" });
    backend.interfere.renew = () => new Promise(() => {});
    await clock.advance(4000);
    expect(() => lease.assertHeld()).toThrow(/was lost/);
    expect((lease.signal.reason as Error).message).not.toContain("noticed");
  });
});
