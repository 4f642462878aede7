/**
 * A machine that slept, and what the end of work under a lease says then: what the store says, also where no release of its own
 * asks it. And what a release knows whose answer was lost.
 */
import { describe, expect, test } from "vitest";
import { LockLostError } from "../../src/contract/errors.ts";
import { failure, gate, stage, type Stage } from "./scripted.ts";

/** Work inside another's lease, and work beside another with which it shares one. Each sleeps before it ends. */
const ENDINGS: Record<string, (world: Stage) => { readonly ended: Promise<unknown>; readonly goOn: () => void }> = {
  "a re-entry": ({ clock, locks }) => {
    const { opened, open } = gate();
    let ended!: Promise<unknown>;
    const outer = locks.run("a", async () => {
      ended = locks.run("a", () => clock.suspend(5000));
      ended.catch(() => {});
      await opened;
    });
    outer.catch(() => {});
    return { ended: clock.settle().then(() => ended), goOn: open };
  },
  "one of two that share a hold": ({ clock, locks }) => {
    const { opened, open } = gate();
    const other = locks.run("a", { mode: "shared" }, () => opened);
    other.catch(() => {});
    const ended = locks.run("a", { mode: "shared" }, () => clock.suspend(5000));
    return { ended, goOn: open };
  },
};

describe.each(Object.entries(ENDINGS))("S137: %s that ends in doubt", (_, begin) => {
  test("is complete when the store confirms the hold, which is asked for once", async () => {
    const world = stage();
    const { ended, goOn } = begin(world);
    await world.clock.advance(100);
    await ended;
    expect(world.backend.count("renew")).toBe(1);
    expect(world.backend.count("release")).toBe(0);
    goOn();
    await world.clock.settle();
    expect(world.backend.count("release")).toBe(1);
  });

  test("is not, when the store no longer knows the hold", async () => {
    const world = stage();
    world.backend.interfere.renew = async (pass, claims) => {
      for (const claim of claims) await world.backend.release(claim);
      return await pass();
    };
    const { ended, goOn } = begin(world);
    const failed = failure(ended);
    await world.clock.advance(100);
    expect(await failed).toBeInstanceOf(LockLostError);
    goOn();
  });

  test("is not, when the store gives no answer in bounded time", async () => {
    for (const renew of [() => new Promise(() => {}), () => Promise.reject(new Error("down"))]) {
      const world = stage();
      world.backend.interfere.renew = renew;
      const { ended, goOn } = begin(world);
      const failed = failure(ended);
      await world.clock.advance(5000);
      expect((await failed).message).toContain("slept");
      goOn();
      await world.clock.advance(60_000);
    }
  });

  test("goes by the release of the last one out, where that comes first", async () => {
    for (const was of ["held", "absent"] as const) {
      const world = stage();
      const { backend, clock } = world;
      let renewals = 0;
      // The watchdog's own renewal hangs; the one before the release brings the answer.
      backend.interfere.renew = (pass, claims) => {
        if (renewals++ === 0) return new Promise(() => {});
        return was === "held" ? pass() : Promise.resolve(claims.map(() => ({ held: false, reason: "gone" })));
      };
      const { ended, goOn } = begin(world);
      const settled = ended.then(
        () => "complete",
        (error: unknown) => error,
      );
      await clock.advance(100);
      goOn();
      await clock.advance(100);
      expect(await settled).toEqual(was === "held" ? "complete" : expect.any(LockLostError));
    }
  });

  test("is settled by close({ force })", async () => {
    const world = stage();
    world.backend.interfere.renew = () => new Promise(() => {});
    const { ended } = begin(world);
    const failed = failure(ended);
    await world.clock.settle();
    const closing = world.locks.close({ force: true, grace: 0 }).catch(() => {});
    await world.clock.advance(20_000);
    await closing;
    expect(await failed).toBeInstanceOf(LockLostError);
    expect(world.clock.timers).toBe(0);
  });
});

test("S137: one that ended in doubt is released by the last one out, also where another request waits", async () => {
  const { backend, clock, locks } = stage();
  const { opened, open } = gate();
  let inner!: Promise<unknown>;
  const outer = locks.run("a", async () => {
    await clock.settle();
    inner = locks.run("a", () => clock.suspend(5000));
    inner.catch(() => {});
    await opened;
  });
  await clock.advance(100);
  const next = locks.acquire("a");
  // That the wall clock is put right again settles nothing. A swap could not ask.
  clock.suspend(-5000);
  open();
  await clock.advance(100);
  await outer;
  expect(backend.count("swap")).toBe(0);
  expect(backend.count("renew")).toBeGreaterThan(0);
  await inner;
  await (await next).release();
});

test("S137: an answer on its way that is older than the sleep does not end the doubt: the store is asked again", async () => {
  const { backend, clock, locks } = stage();
  const answer = gate();
  let renewals = 0;
  backend.interfere.renew = async (pass) => {
    if (renewals++ === 0) await answer.opened;
    return await pass();
  };
  const [one, two] = [await locks.acquire("a", { mode: "shared" }), await locks.acquire("a", { mode: "shared" })];
  await clock.advance(10_000);
  expect(renewals).toBe(1);
  clock.suspend(5000);
  const released = one.release();
  answer.open();
  await clock.advance(100);
  expect(await released).toBe("released");
  expect(renewals).toBe(2);
  await two.release();
});

test("S137: a store whose word settles nothing is asked with pauses, and for a bounded time", async () => {
  const { backend, clock, locks } = stage();
  // As a backend whose proof of life is older than the question.
  const fromMs = clock.now();
  backend.interfere.renew = async (_, claims) => claims.map(() => ({ held: true, fromMs }));
  const [one, two] = [await locks.acquire("a", { mode: "shared" }), await locks.acquire("a", { mode: "shared" })];
  await clock.advance(1);
  clock.suspend(5000);
  const released = one.release();
  await clock.advance(5000);
  expect(await released).toBe("unknown");
  expect(backend.count("renew")).toBeLessThanOrEqual(101);
  await two.release();
});

test("S137: a thousand that end in doubt at once are one question", async () => {
  const { backend, clock, locks } = stage();
  const { opened, open } = gate();
  const work = Array.from({ length: 1000 }, () => locks.run("a", { mode: "shared" }, () => opened));
  await clock.settle();
  clock.suspend(5000);
  open();
  await clock.advance(100);
  await Promise.all(work);
  // The last one out asks for itself, before its release.
  expect(backend.count("renew")).toBeLessThanOrEqual(2);
  expect(backend.count("release")).toBe(1);
});

describe("S130: a release whose answer was lost, and which the store does not know when it is asked again", () => {
  /** The first request is carried out, or was carried out for another caller, and its answer is lost. */
  function losingTheAnswer({ backend }: Stage, before: () => void = () => {}): void {
    backend.interfere.release = async (pass) => {
      backend.interfere.release = undefined;
      await pass();
      before();
      throw new Error("reply lost");
    };
  }

  test("counts as released where the lease was trusted all the time", async () => {
    const world = stage();
    losingTheAnswer(world);
    const lease = await world.locks.acquire("a");
    const released = lease.release();
    await world.clock.advance(100);
    expect(await released).toBe("released");
    expect(world.backend.count("release")).toBe(2);
  });

  test("does so after a forced release at that very moment, too: the work was over while the lease was trusted", async () => {
    const world = stage();
    const lease = await world.locks.acquire("a");
    world.backend.interfere.release = async () => {
      world.backend.interfere.release = undefined;
      await world.other().forceRelease("a", { fence: lease.fence, reason: "stuck" });
      throw new Error("request lost");
    };
    const working = lease.release();
    await world.clock.advance(100);
    expect(await working).toBe("released");
  });

  test("is unknown where trust ended before the second asking", async () => {
    const world = stage();
    losingTheAnswer(world, () => world.clock.block(4000));
    const lease = await world.locks.acquire("a", { ttl: "3s" });
    const released = lease.release();
    await world.clock.advance(1000);
    expect(await released).toBe("unknown");
  });

  test("is a loss where the lease was not trusted when the work settled", async () => {
    const world = stage();
    losingTheAnswer(world);
    const working = failure(world.locks.run("a", { ttl: "3s" }, () => world.clock.block(4000)));
    await world.clock.advance(1000);
    expect(await working).toBeInstanceOf(LockLostError);
  });

  test("is a loss where that was in doubt when the work settled", async () => {
    const world = stage();
    losingTheAnswer(world);
    const working = failure(world.locks.run("a", () => world.clock.suspend(5000)));
    await world.clock.advance(1000);
    expect(await working).toBeInstanceOf(LockLostError);
  });

  test("is unknown where the machine slept before the second asking was answered", async () => {
    const world = stage();
    losingTheAnswer(world, () => world.clock.suspend(5000));
    const lease = await world.locks.acquire("a");
    const released = lease.release();
    await world.clock.advance(1000);
    expect(await released).toBe("unknown");
    expect(world.backend.count("release")).toBe(2);
  });
});

describe("S137: a release that began in time, and whose answer came after a sleep", () => {
  test.each([
    ["the store did not know the lease", "absent", "unknown"],
    ["the backend could not tell", undefined, "unknown"],
    ["the store had it", "held", "released"],
    ["the claim was waiting anew", "queued", "lost"],
  ] as const)("%s: %s is %s", async (_, was, result) => {
    const { backend, clock, locks } = stage();
    const lease = await locks.acquire("a");
    backend.interfere.release = async () => {
      clock.suspend(5000);
      return was;
    };
    expect(await lease.release()).toBe(result);
    expect(backend.count("release")).toBe(1);
  });
});

test("S137: a release that began in doubt is unknown where the store's word on the lease settles nothing", async () => {
  const { backend, clock, locks } = stage();
  const lease = await locks.acquire("a");
  clock.suspend(5000);
  // The claim holds the lock, maybe anew.
  backend.interfere.renew = async (_, claims) => claims.map(() => undefined);
  expect(await lease.release()).toBe("unknown");
  expect(backend.count("release")).toBe(1);
});
