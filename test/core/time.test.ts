/** The five rules of time. Each test fails when its rule is broken. */
import { describe, expect, test } from "vitest";
import type { Lease } from "../../src/core/api.ts";
import type { Granted } from "../../src/contract/backend.ts";
import { LockLostError } from "../../src/contract/errors.ts";
import { memory } from "../../src/backends/memory/index.ts";
import { failure, gate, stage } from "./scripted.ts";

describe("rule 1: time is monotonic and read before the request leaves", () => {
  test("a slow answer costs trust: it counts from when the question left", async () => {
    const { clock, backend, locks } = stage();
    backend.interfere.attempt = async (pass) => {
      clock.block(4000);
      const answer = await pass();
      clock.block(3000);
      return answer;
    };
    const lease = await locks.acquire("a", { ttl: "10s" });
    expect(lease.remaining()).toBe(10_000 - 7000 - 102);
  });

  test("S35: a grant that comes back when nothing is left of it is not a lease, and is released", async () => {
    const { clock, backend, locks, other } = stage();
    let late = true;
    backend.interfere.attempt = async (pass) => {
      const answer = await pass();
      if (late) clock.block(10_000);
      late = false;
      return answer;
    };
    const lease = await locks.acquire("a", { ttl: "10s", wait: "1m" });
    expect(lease.remaining()).toBe(10_000 - 102);
    expect(backend.count("attempt") + backend.count("swap")).toBe(2);
    await lease.release();
    expect(await other().tryAcquire("a")).not.toBeNull();
  });

  test("S17: a wall clock that jumps an hour ahead makes a lease doubtful until a renewal confirms it, and loses nothing", async () => {
    const { clock, backend, locks } = stage();
    const lease = await locks.acquire("a");
    clock.suspend(3_600_000);
    expect(lease.remaining()).toBe(0);
    expect(() => lease.assertHeld()).toThrow(/in doubt/);
    expect(backend.count("renew")).toBe(0);
    await clock.advance(0);
    expect(backend.count("renew")).toBe(1);
    lease.assertHeld();
    expect(lease.signal.aborted).toBe(false);
    expect(await lease.release()).toBe("released");
  });

  describe("S165: while the machine slept the lease ended, another process held the lock, and a late attempt took it again", () => {
    async function asleep(): Promise<ReturnType<typeof stage> & { readonly lease: Lease }> {
      const world = stage();
      const { clock, backend, locks, other } = world;
      const lease = await locks.acquire("a");
      const [claim] = backend.steps[0]!.claims;
      await backend.release(claim!);
      await (await other().acquire("a")).release();
      expect(await backend.attempt(claim!)).toMatchObject({ granted: true });
      clock.suspend(60_000);
      return { ...world, lease };
    }

    test("a renewal does not revive the lease", async () => {
      const { clock, lease } = await asleep();
      expect(() => lease.assertHeld()).toThrow(/in doubt/);
      await clock.advance(0);
      expect(lease.signal.reason).toBeInstanceOf(LockLostError);
      expect(await lease.release()).toBe("lost");
    });

    test("its release is not a release of that lease, and leaves nothing", async () => {
      const { lease, other } = await asleep();
      expect(await lease.release()).toBe("lost");
      expect(await other().tryAcquire("a")).not.toBeNull();
    });

    test("nor where the answer is lost and the wall clock is set back before it is asked for again", async () => {
      const { clock, backend, lease } = await asleep();
      backend.interfere.renew = () => new Promise(() => {});
      const released = lease.release();
      await clock.advance(0);
      clock.suspend(-60_000);
      backend.interfere.release = async (pass) => {
        await pass();
        return "absent";
      };
      await clock.advance(60_000);
      expect(await released).toBe("unknown");
    });

    test("nor is it one where the answers are lost, or another request waits here", async () => {
      const { clock, backend, lease, locks } = await asleep();
      backend.interfere.renew = async () => {
        throw new Error("lost");
      };
      const next = locks.acquire("a");
      const released = lease.release();
      await clock.advance(60_000);
      expect(await released).toBe("unknown");
      expect((await next).fence).toBeGreaterThan(lease.fence);
    });
  });

  test.each([3_600_000, -3_600_000])(
    "a wall clock that is set by %i ms is a reason to ask the store, and no more",
    async (ms) => {
      const { clock, backend, locks } = stage();
      const lease = await locks.acquire("a");
      clock.suspend(ms);
      expect(lease.remaining()).toBe(0);
      await clock.advance(0);
      lease.assertHeld();
      expect(backend.count("renew")).toBe(1);
      await clock.advance(60_000);
      lease.assertHeld();
      expect(await lease.release()).toBe("released");
    },
  );

  test("S156: a wall clock that is set back does not end a lease that is not renewed", async () => {
    const { clock, locks } = stage();
    const lease = await locks.acquire("a", { renew: false, ttl: "10s" });
    clock.suspend(-3_600_000);
    await clock.advance(5000);
    expect(lease.remaining()).toBe(10_000 - 102 - 5000);
    await clock.advance(5000);
    expect(lease.signal.aborted).toBe(true);
  });

  describe("S165: a wall clock that is set back does not hide a sleep", () => {
    test.each([
      ["shorter than that", 40_000, false],
      ["longer than that", 80_000, false],
      ["as long, where anyone has looked in between", 60_000, true],
    ])("%s", async (_, sleptMs, looked) => {
      const { clock, backend, locks, other } = stage();
      const lease = await locks.acquire("a");
      const claim = backend.steps[0]!.claims[0]!;
      backend.interfere.renew = () => new Promise(() => {});
      await clock.advance(1000);
      clock.suspend(-60_000);
      // Any lock of these locks will do.
      if (looked) await locks.acquire("b");
      clock.suspend(sleptMs);
      await backend.release(claim);
      const next = await other().acquire("a");
      next.assertHeld();
      expect(() => lease.assertHeld()).toThrow("in doubt");
    });

    test("nor do several steps and sleeps, of a lease that is not renewed", async () => {
      const { clock, locks } = stage();
      const lease = await locks.acquire("a", { renew: false, ttl: "1m" });
      for (const ms of [10_000, -60_000, 20_000, -5000, 3000]) {
        clock.suspend(ms);
        await clock.advance(1000);
      }
      expect(lease.remaining()).toBe(60_000 - 602 - 5000 - 33_000);
    });

    test("and what was seen stays seen: a wall clock that is put right again settles nothing", async () => {
      const { clock, backend, locks } = stage();
      const lease = await locks.acquire("a");
      backend.interfere.renew = () => new Promise(() => {});
      clock.suspend(5000);
      expect(lease.remaining()).toBe(0);
      clock.suspend(-5000);
      expect(lease.remaining()).toBe(0);
    });

    test("nor does the answer to a question that left before", async () => {
      const { clock, backend, locks } = stage();
      const lease = await locks.acquire("a");
      const answer = gate();
      backend.interfere.renew = async (pass) => {
        backend.interfere.renew = () => new Promise(() => {});
        const said = await pass();
        await answer.opened;
        return said;
      };
      await clock.advance(10_000);
      clock.suspend(-60_000);
      expect(lease.remaining()).toBe(0);
      clock.suspend(60_000);
      answer.open();
      await clock.advance(0);
      expect(lease.remaining()).toBe(0);
    });
  });

  test("clocks that run apart by the most that a correction makes them do put nothing in doubt", async () => {
    const { clock, backend, locks } = stage();
    const lease = await locks.acquire("a", { ttl: "3h" });
    for (let minutes = 0; minutes < 600; minutes++) {
      await clock.advance(60_000);
      clock.suspend(60_000 * 0.0005);
      expect(lease.remaining()).toBeGreaterThan(0);
    }
    expect(backend.count("renew")).toBeLessThan(15);
  });

  test("short sleeps add up", async () => {
    const { clock, backend, locks } = stage();
    const lease = await locks.acquire("a");
    backend.interfere.renew = () => new Promise(() => {});
    clock.suspend(1500);
    lease.assertHeld();
    await clock.advance(1000);
    clock.suspend(1500);
    expect(() => lease.assertHeld()).toThrow("in doubt");
  });

  test("a machine that slept longer than the ttl ends a lease that is not renewed", async () => {
    const { clock, locks } = stage();
    const lease = await locks.acquire("a", { renew: false, ttl: "10s" });
    await clock.advance(4000);
    // Shorter than what is left by the monotonic clock: only the sleep counts here.
    clock.suspend(5000);
    expect(lease.remaining()).toBe(10_000 - 102 - 4000 - 5000);
    lease.assertHeld();
    clock.suspend(1000);
    expect(lease.remaining()).toBe(0);
    expect(() => lease.assertHeld()).toThrow(LockLostError);
    const result = lease.release();
    expect(lease.signal.reason).toBeInstanceOf(LockLostError);
    expect(await result).toBe("lost");
  });
});

describe("an older proof, as of a session that was alive a moment ago,", () => {
  test("does not move trust back", async () => {
    const { clock, backend, locks } = stage();
    const lease = await locks.acquire("a");
    await clock.advance(15_000);
    expect(backend.count("renew")).toBe(1);
    const trustedMs = lease.remaining() + clock.now();
    backend.interfere.renew = async () => [{ held: true, fromMs: 1 }];
    await clock.advance(8000);
    expect(backend.count("renew")).toBeGreaterThan(1);
    expect(lease.remaining() + clock.now()).toBe(trustedMs);
  });

  test("does not settle a doubt: it was sent before the machine slept, perhaps", async () => {
    const { clock, backend, locks } = stage();
    const lease = await locks.acquire("a");
    await clock.advance(100);
    clock.suspend(5000);
    backend.interfere.renew = async () => [{ held: true, fromMs: 50 }];
    expect(lease.remaining()).toBe(0);
    await clock.advance(1);
    expect(backend.count("renew")).toBe(1);
    expect(lease.remaining()).toBe(0);
    backend.interfere.renew = undefined;
    await clock.advance(12_000);
    expect(lease.remaining()).toBeGreaterThan(0);
  });
});

describe("rule 2: belief ends at sentAt + ttl − drift, whatever the network does", () => {
  test("the signal fires at that instant though the renewal hangs, before the store lets go", async () => {
    const { clock, backend, locks, other } = stage();
    backend.interfere.renew = () => new Promise(() => {});
    const lease = await locks.acquire("a", { ttl: "10s" });
    const { signal } = lease;
    await clock.advance(10_000 - 103);
    expect(signal.aborted).toBe(false);
    lease.assertHeld();
    await clock.advance(1);
    expect(signal.aborted).toBe(true);
    expect(signal.reason).toBeInstanceOf(LockLostError);
    expect(await other().tryAcquire("a")).toBeNull();
    await clock.advance(102);
    expect(await other().tryAcquire("a")).not.toBeNull();
  });

  test("S06: assertHeld() is right when the event loop was blocked and no timer could fire", async () => {
    const { clock, locks } = stage();
    const lease = await locks.acquire("a", { ttl: "10s" });
    clock.block(9000);
    lease.assertHeld();
    clock.block(898);
    expect(() => lease.assertHeld()).toThrow(LockLostError);
    expect(lease.remaining()).toBe(0);
    expect(lease.signal.aborted).toBe(false);
    await clock.advance(0);
    expect(lease.signal.aborted).toBe(true);
  });

  test("S06: a loop blocked for less than the ttl renews afterwards and goes on", async () => {
    const { clock, locks } = stage();
    const lease = await locks.acquire("a", { ttl: "10s" });
    for (let round = 0; round < 5; round++) {
      clock.block(9000);
      await clock.advance(0);
      lease.assertHeld();
      expect(lease.remaining()).toBeGreaterThan(9000);
    }
  });

  test("a renewal moves the instant forward from its own send time, not from its answer", async () => {
    const { clock, backend, locks } = stage();
    const answer = gate();
    backend.interfere.renew = async (pass) => {
      const renewals = await pass();
      await answer.opened;
      return renewals;
    };
    const lease = await locks.acquire("a", { ttl: "9s" });
    await clock.advance(3000);
    expect(backend.count("renew")).toBe(1);
    const sentAtMs = 9000 - 92 - lease.remaining();
    await clock.advance(2000);
    answer.open();
    await clock.settle();
    expect(lease.remaining()).toBeLessThanOrEqual(9000 - 92 - 2000);
    expect(sentAtMs).toBeGreaterThan(0);
  });

  test("a yes that comes after the instant does not revive the lease", async () => {
    const { clock, backend, locks } = stage();
    backend.interfere.renew = async (pass) => {
      const renewals = await pass();
      clock.block(9000);
      return renewals;
    };
    const lease = await locks.acquire("a", { ttl: "9s" });
    await clock.advance(3000);
    expect(() => lease.assertHeld()).toThrow(LockLostError);
    expect(lease.signal.aborted).toBe(true);
  });
});

describe("rule 3: unknown is neither yes nor no", () => {
  test("S11: a failed renewal is asked again, and the old instant stands meanwhile", async () => {
    const { clock, backend, locks } = stage();
    let failures = 3;
    backend.interfere.renew = async (pass) => {
      if (failures-- > 0) throw new Error("cut");
      return await pass();
    };
    const lease = await locks.acquire("a", { ttl: "9s" });
    await clock.advance(8000);
    expect(backend.count("renew")).toBeGreaterThanOrEqual(4);
    lease.assertHeld();
    await clock.advance(60_000);
    lease.assertHeld();
  });

  test("S09: a lost reply to acquire is repeated with the same claim, and one release frees the lock", async () => {
    const { clock, backend, locks, other } = stage();
    backend.interfere.attempt = async (pass) => {
      await pass();
      backend.interfere.attempt = undefined;
      throw new Error("reply lost");
    };
    const acquiring = locks.acquire("a");
    await clock.advance(100);
    const lease = await acquiring;
    const ids = new Set(backend.steps.map(({ claims }) => claims[0]!.id));
    expect(ids.size).toBe(1);
    expect(await lease.release()).toBe("released");
    expect(await other().tryAcquire("a")).not.toBeNull();
  });

  test("a try that got no answer is asked for once more, with the same claim, and then given up", async () => {
    const { clock, backend, locks, other } = stage();
    let lost = 1;
    backend.interfere.attempt = async (pass) => {
      const answer = await pass();
      if (lost-- > 0) throw new Error("the reply was lost");
      return answer;
    };
    const trying = locks.tryAcquire("a");
    await clock.advance(100);
    const lease = await trying;
    expect(lease).not.toBeNull();
    const [first, second] = backend.steps.map(({ claims: [claim] }) => claim!.id);
    expect(second).toBe(first);
    await lease!.release();
    lost = 2;
    const failing = failure(locks.tryAcquire("a"));
    await clock.advance(100);
    expect((await failing)["code"]).toBe("ERR_LOCK_BACKEND");
    expect(await other().tryAcquire("a")).not.toBeNull();
    expect(backend.count("attempt")).toBe(4);
  });

  test("S10: a lost reply to release is repeated, and says released", async () => {
    const { clock, backend, locks } = stage();
    const lease = await locks.acquire("a");
    backend.interfere.release = async (pass) => {
      await pass();
      backend.interfere.release = undefined;
      throw new Error("reply lost");
    };
    const releasing = lease.release();
    await clock.advance(100);
    expect(await releasing).toBe("released");
    expect(backend.count("release")).toBe(2);
  });

  test("an answer to the first asking that the second has overtaken proves nothing", async () => {
    const { clock, backend, locks } = stage();
    const lease = await locks.acquire("a");
    const [request, reply] = [gate(), gate()];
    backend.interfere.release = async (pass) => {
      // The second asking arrives first and ends the lease; the first then finds nothing, and is answered first.
      if (backend.count("release") === 1) await request.opened;
      const answer = await pass();
      if (backend.count("release") === 2 && answer === "held") await reply.opened;
      return answer;
    };
    const released = lease.release();
    await clock.advance(2000);
    expect(backend.count("release")).toBe(2);
    request.open();
    await clock.settle();
    reply.open();
    expect(await released).toBe("released");
    expect(lease.signal.aborted).toBe(false);
  });

  test.each([
    ["queues", "release", true],
    ["queues", "swap", true],
    ["takes the lock anew", "release", false],
    ["takes the lock anew", "swap", false],
  ] as const)(
    "also where an attempt that was long on its way %s in between, and the first asking is a %s",
    async (_, first, busy) => {
      const { clock, backend, locks, other } = stage();
      const lease = await locks.acquire("a");
      const { claims } = backend.steps[0]!;
      const inTheWay = busy ? other().acquire("a", { wait: Infinity }) : undefined;
      const next = first === "swap" ? locks.acquire("a", { wait: Infinity }) : undefined;
      // Long enough for a swap: before, the lease would change hands in memory.
      await clock.advance(20);
      const [request, reply] = [gate(), gate()];
      backend.interfere[first] = async (pass) => {
        backend.interfere[first] = undefined;
        await request.opened;
        return await pass();
      };
      const released = lease.release();
      await clock.settle();
      // The second asking arrives first and ends the lease; its answer is under way for long.
      backend.interfere.release = async (pass) => {
        backend.interfere.release = undefined;
        expect(await pass()).toBe("held");
        await reply.opened;
        return "held";
      };
      await clock.advance(2000);
      expect([backend.count(first), backend.interfere.release]).toEqual([first === "swap" ? 1 : 2, undefined]);
      const late = await backend.attempt(claims[0]!);
      expect(late).toMatchObject(busy ? { granted: false, position: 1 } : { granted: true });
      if (late.granted) expect(late.fence).toBeGreaterThan(lease.fence);
      request.open();
      await clock.settle();
      reply.open();
      expect(await released).toBe("released");
      expect(lease.signal.aborted).toBe(false);
      // What the late attempt had got went with it.
      await (await inTheWay)?.release();
      await (await next)?.release();
      expect(await backend.query("")).toMatchObject({ held: [], pending: [] });
    },
  );

  test.each([
    ["absent: it may have run out on the way, after it was given back in time", "release", "absent"],
    ["that the store cannot tell: others may have had it by then", "swap", undefined],
  ] as const)("an answer that comes after the lease's time says unknown where it is %s", async (_, step, was) => {
    const { clock, backend, locks } = stage();
    backend.interfere.renew = () => new Promise(() => {});
    const lease = await locks.acquire("a", { ttl: "10s" });
    if (step === "swap") void locks.acquire("a", { ttl: "10s", wait: Infinity }).catch(() => {});
    await clock.advance(9800);
    const reply = gate();
    backend.interfere[step] = async (pass) => {
      const answer = await pass();
      await reply.opened;
      return step === "swap" ? { ...(answer as Granted), released: was } : was;
    };
    const released = lease.release();
    await clock.advance(300);
    reply.open();
    expect(await released).toBe("unknown");
    expect(backend.count(step)).toBe(1);
  });

  test("a release that cannot be asked in time says unknown, and goes on asking behind the caller", async () => {
    const { clock, backend, locks, other } = stage();
    const lease = await locks.acquire("a");
    backend.interfere.release = () => Promise.reject(new Error("down"));
    const releasing = lease.release();
    await clock.advance(6000);
    expect(await releasing).toBe("unknown");
    backend.interfere.release = undefined;
    await clock.advance(2000);
    expect(await other().tryAcquire("a")).not.toBeNull();
  });

  test("a store that cannot be asked for the whole wait is reported as such, with the cause", async () => {
    const { clock, backend, locks } = stage();
    backend.interfere.attempt = () => Promise.reject(new Error("ECONNREFUSED"));
    const acquiring = failure(locks.acquire("a", { wait: "2s" }));
    await clock.advance(2000);
    const error = await acquiring;
    expect(error["code"]).toBe("ERR_LOCK_BACKEND");
    expect(error.message).toContain("ECONNREFUSED");
    expect(error.cause).toBeInstanceOf(Error);
  });
});

describe("rule 4: a caller that stops waiting removes its claim", () => {
  test("S56: a waiter that gives up leaves no place in the queue", async () => {
    const { clock, locks, other } = stage();
    await other().acquire("a");
    const waiting = failure(locks.acquire("a", { wait: "2s" }));
    await clock.advance(1000);
    expect((await locks.query("a")).pending).toHaveLength(1);
    await clock.advance(1000);
    expect((await waiting)["code"]).toBe("ERR_LOCK_TIMEOUT");
    expect((await locks.query("a")).pending).toHaveLength(0);
  });

  test("S12: a grant that arrives after the caller gave up is released", async () => {
    const { clock, backend, locks, other } = stage();
    const slow = gate();
    backend.interfere.attempt = async (pass) => {
      await slow.opened;
      return await pass();
    };
    const waiting = failure(locks.acquire("a", { wait: "2s" }));
    await clock.advance(2000);
    expect((await waiting)["code"]).toBe("ERR_LOCK_BACKEND");
    slow.open();
    await clock.advance(100);
    expect((await locks.query("a")).held).toHaveLength(0);
    expect(await other().tryAcquire("a")).not.toBeNull();
  });

  test("S12: a grant whose reply is lost after an abort is released", async () => {
    const { clock, backend, locks } = stage();
    const slow = gate();
    const controller = new AbortController();
    backend.interfere.attempt = async (pass) => {
      await slow.opened;
      await pass();
      throw new Error("reply lost");
    };
    const waiting = failure(locks.acquire("a", { signal: controller.signal }));
    controller.abort(new Error("enough"));
    expect((await waiting).message).toBe("enough");
    slow.open();
    await clock.advance(100);
    expect((await locks.query("a")).held).toHaveLength(0);
  });
});

describe("rule 5: a lease ends once", () => {
  test.each([
    [
      "had no answer: it may take the lock again behind another's back, and a renewal must be about the same lease",
      "lost",
    ],
    ["was sent twice, and granted: the other copy may", "granted twice"],
    ["was sent twice, and refused: the other copy may", "refused twice"],
    ["was answered: nothing can, and renewals need not say which lease they are about", "answered"],
  ])("S165: the first of two questions for a claim %s", async (_, how) => {
    const { clock, store, backend, locks, other } = stage();
    const isLost = how !== "answered";
    const fences: unknown[] = [];
    const renew = backend.renew.bind(backend);
    backend.renew = (claims, its) => (fences.push(its), renew(claims, its));
    const rival = how.startsWith("granted") || how === "lost" ? undefined : await other().acquire("a");
    backend.interfere.attempt = async (pass) => {
      backend.interfere.attempt = undefined;
      if (how === "lost") throw new Error("no answer");
      const answer = await pass();
      return how.endsWith("twice") ? { ...(answer as object), sentTwice: true } : answer;
    };
    const taking = locks.acquire("a", { ttl: "3s" });
    await clock.advance(100);
    await rival?.release();
    await clock.advance(100);
    const lease = await taking;
    const { claims } = backend.steps[0]!;
    if (isLost) {
      // Ended behind its back, and the news of it is lost; another has the lock in between; then the first question arrives.
      await memory({ store }).release(claims[0]!);
      await (await other().acquire("a")).release();
      expect(await backend.attempt(claims[0]!)).toMatchObject({ granted: true });
    }
    await clock.advance(1000);
    expect(fences).toEqual([isLost ? [lease.fence] : undefined]);
    expect(lease.signal.aborted).toBe(isLost);
    expect(await lease.release()).toBe(isLost ? "lost" : "released");
    expect((await other().query()).held).toEqual([]);
  });

  test.each([
    ["its release", "granted", false],
    ["its release", "lost", false],
    ["its release, which has no answer at first,", "cut", false],
    ["a swap, where another request waits here", "granted", true],
  ])(
    "S165: before a renewal has looked, %s tells that a copy of the question has taken the lock anew (%s)",
    async (_, how, isAwaited) => {
      const { clock, store, backend, locks, other } = stage();
      backend.interfere.attempt = async (pass) => {
        backend.interfere.attempt = undefined;
        if (how === "lost") throw new Error("no answer");
        return { ...((await pass()) as object), sentTwice: true };
      };
      const taking = locks.acquire("a");
      await clock.advance(100);
      const lease = await taking;
      const [claim] = backend.steps[0]!.claims;
      await memory({ store }).release(claim!);
      await (await other().acquire("a")).release();
      expect(await backend.attempt(claim!)).toMatchObject({ granted: true });
      backend.interfere.release = async (pass) => {
        backend.interfere.release = undefined;
        return how === "cut" ? await Promise.reject(new Error("no answer")) : await pass();
      };
      const next = isAwaited ? locks.acquire("a") : undefined;
      // Past its turn, after which a hold is not handed on in memory.
      await clock.advance(20);
      expect(await lease.release()).toBe("lost");
      await (await next)?.release();
      expect((await other().query()).held).toEqual([]);
    },
  );

  test.each(["is here", "is late"])(
    "a question about a lease that arrives behind a second asking for its release proves no loss (whose answer %s)",
    async (answer) => {
      const { clock, backend, locks, other } = stage();
      backend.interfere.attempt = async (pass) => {
        backend.interfere.attempt = undefined;
        return { ...((await pass()) as object), sentTwice: true };
      };
      const lease = await locks.acquire("a", { ttl: "30s" });
      const late = gate();
      const answers = gate();
      backend.interfere.renew = async (pass) => {
        await late.opened;
        return await pass();
      };
      backend.interfere.release = async (pass) => {
        backend.interfere.release = undefined;
        const was = await pass();
        if (answer === "is late") await answers.opened;
        return was;
      };
      const releasing = lease.release();
      // The store is silent, and is asked again: that one releases the lease.
      await clock.advance(2500);
      expect(backend.count("release")).toBe(1);
      late.open();
      await clock.advance(10);
      answers.open();
      // Nor that it was ours until then: another may have held the lock in between.
      expect(await releasing).toBe("unknown");
      expect(lease.signal.aborted).toBe(false);
      expect((await other().query()).held).toEqual([]);
    },
  );

  describe("a copy of the question has taken the lock anew, and the release cannot learn that at first", () => {
    /** Lost by force, without news of it: the claim holds the lock by the copy of its question. */
    async function echoed(): Promise<ReturnType<typeof stage> & { readonly lease: Lease }> {
      const all = stage();
      const { store, backend, locks, other } = all;
      backend.interfere.attempt = async (pass) => {
        backend.interfere.attempt = undefined;
        return { ...((await pass()) as object), sentTwice: true };
      };
      const lease = await locks.acquire("a");
      const [claim] = backend.steps[0]!.claims;
      await memory({ store }).release(claim!);
      await (await other().acquire("a")).release();
      expect(await backend.attempt(claim!)).toMatchObject({ granted: true });
      return { ...all, lease };
    }
    const broken = (): Promise<never> => Promise.reject(new Error("no answer"));

    test.each(["request", "reply"])("S165: the %s of its renewal was lost: it is asked for again", async (which) => {
      const { clock, store, backend, lease } = await echoed();
      backend.interfere.renew = async (pass) => {
        backend.interfere.renew = undefined;
        if (which === "reply") await pass();
        throw new Error("no answer");
      };
      const released = lease.release();
      await clock.advance(5000);
      expect(await released).toBe("lost");
      expect(lease.signal.reason).toBeInstanceOf(LockLostError);
      expect(store.view().flatMap(({ held }) => held)).toEqual([]);
    });

    test.each([
      ["no renewal has an answer", broken],
      ["the store cannot say", async () => [{ held: "unknown" }]],
    ])("S165: %s: then it is unknown, and nothing is left behind", async (_, renew) => {
      const { clock, store, backend, lease } = await echoed();
      backend.interfere.renew = renew;
      const released = lease.release();
      await clock.advance(5000);
      expect(await released).toBe("unknown");
      expect(store.view().flatMap(({ held }) => held)).toEqual([]);
    });

    test("a yes to its renewal counts, also where the release had no answer at first", async () => {
      const { clock, store, backend, locks } = stage();
      backend.interfere.attempt = async (pass) => ({ ...((await pass()) as object), sentTwice: true });
      const lease = await locks.acquire("a");
      backend.interfere.release = async (pass) => {
        backend.interfere.release = undefined;
        await pass();
        throw new Error("no answer");
      };
      const released = lease.release();
      await clock.advance(5000);
      expect(await released).toBe("released");
      expect(store.view().flatMap(({ held }) => held)).toEqual([]);
    });
  });

  test("a lost lease is never silently taken again", async () => {
    const { clock, backend, locks } = stage();
    const lease = await locks.acquire("a", { ttl: "9s" });
    backend.interfere.renew = async () => [{ held: false, reason: "flushed" }];
    await clock.advance(3000);
    expect(lease.signal.aborted).toBe(true);
    backend.interfere.renew = undefined;
    await clock.advance(60_000);
    expect(() => lease.assertHeld()).toThrow(/flushed/);
    expect(backend.count("attempt")).toBe(1);
    expect(await lease.release()).toBe("lost");
  });

  test("nothing is renewed after release began", async () => {
    const { clock, backend, locks } = stage();
    const lease = await locks.acquire("a", { ttl: "9s" });
    const slow = gate();
    backend.interfere.release = async (pass) => {
      await slow.opened;
      return await pass();
    };
    await clock.advance(2500);
    const releasing = lease.release();
    await clock.advance(1500);
    expect(backend.count("renew")).toBe(0);
    slow.open();
    expect(await releasing).toBe("released");
    await clock.advance(60_000);
    expect(backend.count("renew")).toBe(0);
  });

  test("releasing twice asks the store once and answers the same", async () => {
    const { backend, locks } = stage();
    const lease = await locks.acquire("a");
    expect(await Promise.all([lease.release(), lease.release()])).toEqual(["released", "released"]);
    expect(await lease.release()).toBe("released");
    expect(backend.count("release")).toBe(1);
    expect(() => lease.assertHeld()).toThrow(/was released/);
    expect(lease.remaining()).toBe(0);
  });
});

test("a machine that sleeps while an acquire is on its way leaves a lease in doubt, not trusted", async () => {
  const { clock, backend, locks } = stage();
  backend.interfere.attempt = async (pass) => {
    const answer = await pass();
    clock.suspend(60_000);
    return answer;
  };
  const lease = await locks.acquire("a");
  expect(() => lease.assertHeld()).toThrow(/in doubt/);
});

describe("a store that takes questions and never answers", () => {
  test("does not hang a release: unknown, after it was asked for again", async () => {
    const { clock, backend, locks } = stage();
    const lease = await locks.acquire("a");
    backend.interfere.release = () => new Promise(() => {});
    const releasing = lease.release();
    await clock.advance(10_000);
    expect(await releasing).toBe("unknown");
    // Repeatedly, but ever more slowly: the connection may be queueing all of it.
    expect(backend.count("release")).toBeGreaterThanOrEqual(2);
    expect(backend.count("release")).toBeLessThanOrEqual(5);
  });

  test("an answer to the second asking counts", async () => {
    const { clock, backend, locks } = stage();
    const lease = await locks.acquire("a");
    backend.interfere.release = () => {
      backend.interfere.release = undefined;
      return new Promise(() => {});
    };
    const releasing = lease.release();
    await clock.advance(3000);
    expect(await releasing).toBe("released");
  });

  test("does not hang a waiter for ever: after a whole ttl it is asked anew", async () => {
    const { clock, backend, locks } = stage();
    let questions = 0;
    backend.interfere.attempt = (pass) => (questions++ === 0 ? new Promise(() => {}) : pass());
    const acquiring = locks.acquire("a", { wait: Infinity, ttl: "10s" });
    await clock.advance(9000);
    expect(questions).toBe(1);
    await clock.advance(1000);
    (await acquiring).assertHeld();
    expect(questions).toBe(2);
  });

  test("is reported as such when the wait is over", async () => {
    const { clock, backend, locks } = stage();
    backend.interfere.attempt = () => new Promise(() => {});
    const acquiring = failure(locks.acquire("a", { wait: "3s" }));
    await clock.advance(3000);
    expect((await acquiring).message).toContain("no answer for 3 s");
  });
});

test("a try that was called off does not speak for the next one", async () => {
  const { clock, backend, locks } = stage();
  const slow = gate();
  const controller = new AbortController();
  backend.interfere.attempt = async () => {
    backend.interfere.attempt = undefined;
    await slow.opened;
    return { granted: false, heldBy: [] };
  };
  const first = failure(locks.tryAcquire("a", { signal: controller.signal }));
  controller.abort(new Error("never mind"));
  expect((await first).message).toBe("never mind");
  const answer = gate();
  backend.interfere.attempt = async (pass) => {
    await answer.opened;
    return await pass();
  };
  const second = locks.tryAcquire("a");
  slow.open();
  await clock.settle();
  answer.open();
  expect(await second).not.toBeNull();
});
