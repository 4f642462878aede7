/** The verbs: what they return, how they end, and what they leave behind. */
import { describe, expect, test } from "vitest";
import { LockLostError, LockTimeoutError } from "../../src/contract/errors.ts";
import { failure, gate, stage } from "./scripted.ts";

describe("run", () => {
  test("returns what the function returns and releases", async () => {
    const { locks } = stage();
    expect(await locks.run("a", ({ name, fence }) => `${name} ${typeof fence}`)).toBe("a bigint");
    expect((await locks.query()).held).toHaveLength(0);
  });

  test("S20: a function that throws, or rejects, still releases, and its error comes out as it is", async () => {
    const { locks } = stage();
    const error = new Error("mine");
    await expect(
      locks.run("a", () => {
        throw error;
      }),
    ).rejects.toBe(error);
    await expect(locks.run("a", () => Promise.reject(error))).rejects.toBe(error);
    expect((await locks.query()).held).toHaveLength(0);
  });

  test("a loss is reported by rejecting when the signal was not read", async () => {
    const { backend, locks } = stage();
    const error = await failure(
      locks.run("a", () => {
        backend.listener!.lost(backend.steps[0]!.claims[0]!.id, "evicted");
        return "done";
      }),
    );
    expect(error).toBeInstanceOf(LockLostError);
    expect(error["reason"]).toBe("evicted");
  });

  test("S137: work that resolves after a loss is not taken for complete, though it read the signal", async () => {
    const { backend, locks } = stage();
    const error = await failure(
      locks.run("a", ({ signal }) => {
        backend.listener!.lost(backend.steps[0]!.claims[0]!.id, "evicted");
        return signal.aborted;
      }),
    );
    expect(error).toBeInstanceOf(LockLostError);
    expect(error["result"]).toBe(true);
  });

  test("S137: a function that fails after a loss keeps its own error, with the loss as its cause", async () => {
    const { backend, locks } = stage();
    const mine = new Error("disk full");
    const error = await failure(
      locks.run("a", () => {
        backend.listener!.lost(backend.steps[0]!.claims[0]!.id, "evicted");
        throw mine;
      }),
    );
    expect(error).toBe(mine);
    expect(error.cause).toBeInstanceOf(LockLostError);
  });

  test("S137: a cause that the failure has already stays", async () => {
    const { backend, locks } = stage();
    const cause = new Error("no space");
    const error = await failure(
      locks.run("a", () => {
        backend.listener!.lost(backend.steps[0]!.claims[0]!.id, "evicted");
        throw new Error("disk full", { cause });
      }),
    );
    expect(error.cause).toBe(cause);
  });

  test("what is thrown and is no error stays exactly as it is, also where the lease was lost", async () => {
    for (const thrown of [{ status: 503 }, "in words", undefined, null]) {
      const { backend, locks } = stage();
      const caught = await locks
        .run("a", () => {
          backend.listener!.lost(backend.steps[0]!.claims[0]!.id, "evicted");
          // oxlint-disable-next-line typescript/only-throw-error -- that is what this is about
          throw thrown;
        })
        .catch((error: unknown) => error);
      expect(caught).toBe(thrown);
      if (typeof caught === "object" && caught !== null) expect(Object.keys(caught)).toEqual(["status"]);
    }
  });
});

describe("acquire", () => {
  test("waits in the queue and gets the next fence", async () => {
    const { clock, locks, other } = stage();
    const first = await other().acquire("a");
    const second = locks.acquire("a");
    await clock.advance(5000);
    await first.release();
    expect((await second).fence).toBeGreaterThan(first.fence);
  });

  test("gives up after 10 s unless said, and says who holds the lock and for how long", async () => {
    const { clock, locks, other } = stage();
    const { fence } = await other().acquire("a");
    await clock.advance(3000);
    const waiting = failure(locks.acquire("a"));
    await clock.advance(9999);
    await clock.advance(1);
    const error = await waiting;
    expect(error).toBeInstanceOf(LockTimeoutError);
    expect(error["code"]).toBe("ERR_LOCK_TIMEOUT");
    expect(error["waitedMs"]).toBe(10_000);
    expect(error.message).toContain('Lock "a" is held by there:2');
    expect(error.message).toContain(String(fence));
    expect(error["heldBy"]).toMatchObject([{ holder: "there:2", fence }]);
  });

  test("waits for ever with `wait: Infinity`", async () => {
    const { clock, locks, other } = stage();
    const first = await other().acquire("a");
    const second = locks.acquire("a", { wait: Infinity });
    await clock.advance(3_600_000);
    await first.release();
    (await second).assertHeld();
  });

  test("wait: 0 tries once, and rejects when the lock is taken", async () => {
    const { locks, other } = stage();
    await other().acquire("a");
    await expect(locks.acquire("a", { wait: 0 })).rejects.toBeInstanceOf(LockTimeoutError);
    (await locks.acquire("b", { wait: 0 })).assertHeld();
  });

  test("an aborted signal passed in: its own reason comes back and nothing is sent", async () => {
    const { backend, locks } = stage();
    const reason = new Error("never mind");
    await expect(locks.acquire("a", { signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
    expect(backend.steps).toEqual([]);
  });

  test("once acquired, the signal passed in no longer matters", async () => {
    const { locks } = stage();
    const controller = new AbortController();
    const lease = await locks.acquire("a", { signal: controller.signal });
    controller.abort();
    lease.assertHeld();
    expect(lease.signal.aborted).toBe(false);
  });

  test("disposal releases, and reports a loss that was not reported before", async () => {
    const { backend, locks } = stage();
    {
      await using lease = await locks.acquire("a");
      lease.assertHeld();
    }
    expect((await locks.query()).held).toHaveLength(0);
    const error = await failure(
      (async () => {
        await using lease = await locks.acquire("a");
        backend.listener!.lost(backend.steps.at(-1)!.claims[0]!.id, `evicted ${lease.name}`);
      })(),
    );
    expect(error).toBeInstanceOf(LockLostError);
  });

  test("a loss is never thrown from a timer and never an unhandled rejection", async () => {
    const { clock, backend, locks } = stage();
    const seen: unknown[] = [];
    const note = (error: unknown): void => void seen.push(error);
    process.on("unhandledRejection", note);
    process.on("uncaughtException", note);
    const lease = await locks.acquire("a");
    backend.interfere.renew = () => Promise.reject(new Error("down"));
    await clock.advance(60_000);
    expect(await lease.release()).toBe("lost");
    await new Promise((resolve) => setImmediate(resolve));
    process.off("unhandledRejection", note);
    process.off("uncaughtException", note);
    expect(seen).toEqual([]);
  });
});

describe("tryAcquire", () => {
  test("takes inherited options, and checks them, as acquire() does", async () => {
    const { locks, other } = stage();
    const options = Object.create({ mode: "shared" }) as { mode: "shared" };
    await locks.acquire("a", options);
    expect(await other().tryAcquire("a", options)).not.toBeNull();
    await expect(locks.tryAcquire("b", Object.create({ bogus: 1 }) as object)).rejects.toThrow(/bogus/);
    await expect(locks.tryAcquire("b", Object.create({ wait: 1 }) as object)).rejects.toThrow(/wait/);
  });

  test("resolves to null when another claim has the lock", async () => {
    const { locks, other } = stage();
    const lease = await other().acquire("a");
    expect(await locks.tryAcquire("a")).toBeNull();
    await lease.release();
    expect(await locks.tryAcquire("a")).not.toBeNull();
  });

  test("rejects when the store cannot be asked: unknown is not no; and cleans up", async () => {
    const { clock, backend, locks } = stage();
    backend.interfere.attempt = async (pass) => {
      await pass();
      throw new Error("reply lost");
    };
    const trying = failure(locks.tryAcquire("a"));
    await clock.advance(100);
    expect((await trying).message).toContain("reply lost");
    await clock.advance(100);
    expect((await locks.query()).held).toHaveLength(0);
  });

  test("a store that hangs does not hang a try", async () => {
    const { clock, backend, locks } = stage();
    backend.interfere.attempt = () => new Promise(() => {});
    const trying = failure(locks.tryAcquire("a"));
    await clock.advance(5000);
    expect((await trying)["code"]).toBe("ERR_LOCK_BACKEND");
  });
});

describe("several names", () => {
  test("are those that were checked, whatever the caller's array says afterwards", async () => {
    const { locks } = stage();
    let looks = 0;
    const names = new Proxy(["a", "b"], {
      get: (all, key) => (key === "0" && looks++ > 0 ? "" : Reflect.get(all, key)),
    });
    const lease = await locks.acquire(names);
    expect([...lease.fences.keys()]).toEqual(["a", "b"]);
    await lease.release();
  });

  test("all or nothing, sorted, each with its own fence", async () => {
    const { backend, locks } = stage();
    await locks.run(["b", "a", "b"], async (lease) => {
      expect([...lease.fences.keys()]).toEqual(["a", "b"]);
      // @ts-expect-error Several locks have several fences.
      expect(() => lease.fence as bigint).toThrow(/fenceOf/);
      expect(lease.fenceOf("b")).toBe(lease.fences.get("b"));
      expect(() => lease.fenceOf("c")).toThrow(/one of the locks of this lease \(a, b\), got "c"/);
      lease.assertHeld();
      expect(lease.remaining()).toBeGreaterThan(0);
      expect(lease.name).toBe("a, b");
    });
    expect(backend.steps.filter(({ step }) => step === "attempt").map(({ claims }) => claims[0]!.name)).toEqual([
      "a",
      "b",
    ]);
    expect((await locks.query()).held).toHaveLength(0);
  });

  test("opposite orders never deadlock", async () => {
    const { locks, other } = stage();
    const there = other();
    await Promise.all(
      Array.from({ length: 20 }, (_, index) =>
        (index % 2 === 0 ? locks : there).run(index % 3 === 0 ? ["x", "y"] : ["y", "x"], { wait: Infinity }, () => {}),
      ),
    );
  });

  test("one that cannot be had gives back the others, within one wait for all", async () => {
    const { clock, locks, other } = stage();
    const there = other();
    const first = await there.acquire("a");
    await there.acquire("b");
    let code: unknown;
    void failure(locks.acquire(["a", "b"], { wait: "2s" })).then((error) => (code = error["code"]));
    // Most of the wait is spent on the first, and what is left of it on the second.
    await clock.advance(1500);
    await first.release();
    await clock.advance(499);
    expect((await locks.query("a")).held).toMatchObject([{ holder: "here:1" }]);
    expect(code).toBeUndefined();
    await clock.advance(1);
    expect(code).toBe("ERR_LOCK_TIMEOUT");
    await clock.settle();
    expect((await locks.query("a")).held).toHaveLength(0);
    expect(await locks.tryAcquire(["a", "b"])).toBeNull();
    expect((await locks.query("a")).held).toHaveLength(0);
  });

  test("losing one is losing all", async () => {
    const { backend, locks } = stage();
    const lease = await locks.acquire(["a", "b"]);
    const { signal } = lease;
    backend.listener!.lost(backend.steps[1]!.claims[0]!.id, "evicted");
    expect(signal.aborted).toBe(true);
    expect(() => lease.assertHeld()).toThrow(LockLostError);
    expect(await lease.release()).toBe("lost");
  });

  test("one name in an array is that lock, and re-enters as such", async () => {
    const { locks } = stage();
    await locks.run(["a"], async (outer) => {
      await locks.run(["a", "b"], (lease) => expect(lease.fenceOf("a")).toBe(outer.fenceOf("a")));
    });
  });
});

test("query shows who holds, since when, for how long, and who waits", async () => {
  const { clock, locks, other } = stage();
  const { fence } = await locks.acquire("invoice:42", { meta: { reason: "nightly" } });
  await clock.advance(2000);
  const controller = new AbortController();
  const waiting = failure(other().acquire("invoice:42", { signal: controller.signal, meta: { reason: "retry" } }));
  await clock.advance(1000);
  const { held, pending, forced } = await locks.query("invoice:");
  expect({ held, pending, forced }).toEqual({
    held: [
      {
        name: "invoice:42",
        mode: "exclusive",
        limit: 1,
        holder: "here:1",
        fence,
        heldMs: 3000,
        remainingMs: 27_000,
        sinceMs: clock.wall() - 3000,
        processHolders: 1,
        processWaiters: 0,
        meta: { reason: "nightly" },
        id: expect.any(String),
      },
    ],
    pending: [
      {
        name: "invoice:42",
        mode: "exclusive",
        limit: 1,
        holder: "there:2",
        waitingMs: 1000,
        position: 1,
        sinceMs: clock.wall() - 1000,
        processWaiters: 0,
        meta: { reason: "retry" },
        id: expect.any(String),
      },
    ],
    forced: [],
  });
  expect((await locks.query("other")).held).toEqual([]);
  controller.abort(new Error("done"));
  await waiting;
});

test("a gate that never opens does not stop others", async () => {
  const { clock, locks, other } = stage();
  const never = gate();
  void locks.run("a", { maxHold: "1m", ttl: "10s" }, () => never.opened).catch(() => {});
  const next = other().acquire("a", { wait: "2m" });
  await clock.advance(75_000);
  (await next).assertHeld();
});

describe("a loss that only the release finds out", () => {
  test("run rejects though the signal was taken: it had no time to tell", async () => {
    const { backend, locks } = stage();
    backend.interfere.release = async () => "absent";
    const error = await failure(locks.run("a", ({ signal }) => signal.aborted));
    expect(error).toBeInstanceOf(LockLostError);
    expect(error["reason"]).toContain("no longer knows it");
  });

  test("release says lost", async () => {
    const { backend, locks } = stage();
    const lease = await locks.acquire("a");
    backend.interfere.release = async () => "absent";
    expect(await lease.release()).toBe("lost");
  });

  test("the same when the lease was given up for a local waiter", async () => {
    const { clock, backend, locks } = stage();
    backend.interfere.swap = async (pass) => ({ ...((await pass()) as object), released: "absent" });
    const first = failure(locks.run("a", () => clock.block(11)));
    const second = locks.run("a", () => "second");
    expect(await first).toBeInstanceOf(LockLostError);
    expect(await second).toBe("second");
  });
});

describe("a swap whose reply is lost", () => {
  test("counts as the release it was, and the next holder is served", async () => {
    const { clock, backend, locks } = stage();
    backend.interfere.swap = async (pass) => {
      await pass();
      throw new Error("reply lost");
    };
    const first = await locks.acquire("a");
    const second = locks.acquire("a");
    clock.block(11);
    const releasing = first.release();
    await clock.advance(100);
    expect(await releasing).toBe("released");
    (await second).assertHeld();
  });

  test("proves nothing after the machine has slept", async () => {
    const { clock, backend, locks } = stage();
    const lease = await locks.acquire("a");
    backend.interfere.release = async () => {
      backend.interfere.release = async () => "absent";
      throw new Error("reply lost");
    };
    clock.suspend(60_000);
    const releasing = lease.release();
    await clock.advance(100);
    expect(await releasing).toBe("unknown");
  });
});
