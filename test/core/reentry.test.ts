/** Re-entry by async context. */
import { describe, expect, test } from "vitest";
import { LockLostError } from "../../src/contract/errors.ts";
import { failure, gate, stage } from "./scripted.ts";

describe("re-entry", () => {
  test("a nested run takes part in the lease: same fence, one attempt, released when all are", async () => {
    const { backend, locks } = stage();
    await locks.run("a", async (outer) => {
      await locks.run("a", async (inner) => {
        expect(inner.fence).toBe(outer.fence);
        await locks.run("a", (innermost) => expect(innermost.fence).toBe(outer.fence));
      });
      outer.assertHeld();
      expect(backend.count("release")).toBe(0);
    });
    expect(backend.count("attempt")).toBe(1);
    expect(backend.count("release")).toBe(1);
  });

  test("a nested acquire keeps the lock after the outer function has ended, until it is released too", async () => {
    const { locks, other } = stage();
    const inner = await locks.run("a", () => locks.acquire("a"));
    inner.assertHeld();
    expect(await other().tryAcquire("a")).toBeNull();
    expect(await inner.release()).toBe("released");
    expect(await other().tryAcquire("a")).not.toBeNull();
  });

  test("code outside the function does not re-enter, though it runs at the same time", async () => {
    const { clock, locks } = stage();
    const held = gate();
    const holder = locks.run("a", () => held.opened);
    await clock.settle();
    expect(await locks.tryAcquire("a")).toBeNull();
    held.open();
    await holder;
  });

  test("siblings started in parallel inside one holder take turns", async () => {
    const { locks } = stage();
    let inside = 0;
    let most = 0;
    await locks.run("a", async () => {
      await Promise.all(
        Array.from({ length: 5 }, () =>
          locks.run("a", async () => {
            most = Math.max(most, ++inside);
            await new Promise((resolve) => setImmediate(resolve));
            inside--;
          }),
        ),
      );
    });
    expect(most).toBe(1);
  });

  test("siblings that read go together, and a sibling that writes waits for them", async () => {
    const { locks } = stage();
    let readers = 0;
    let mostReaders = 0;
    let met = false;
    const read = async (): Promise<void> => {
      mostReaders = Math.max(mostReaders, ++readers);
      await new Promise((resolve) => setImmediate(resolve));
      readers--;
    };
    await locks.run("a", async () => {
      await Promise.all([
        locks.run("a", { mode: "shared" }, read),
        locks.run("a", { mode: "shared" }, read),
        locks.run("a", () => void (met = readers > 0)),
        locks.run("a", { mode: "shared" }, read),
      ]);
    });
    expect(mostReaders).toBe(2);
    expect(met).toBe(false);
  });

  test("a sibling's try is refused while another is inside", async () => {
    const { locks } = stage();
    await locks.run("a", async () => {
      const inside = gate();
      const first = locks.run("a", () => inside.opened);
      expect(await locks.tryAcquire("a")).toBeNull();
      inside.open();
      await first;
      const lease = await locks.tryAcquire("a");
      expect(lease).not.toBeNull();
      await lease!.release();
    });
  });

  test("a sibling that waits too long, or is aborted, leaves the line", async () => {
    const { clock, locks } = stage();
    await locks.run("a", async () => {
      const inside = gate();
      const controller = new AbortController();
      const first = locks.run("a", () => inside.opened);
      const late = failure(locks.run("a", { wait: "1s" }, () => {}));
      const aborted = failure(locks.run("a", { signal: controller.signal }, () => {}));
      const last = locks.run("a", () => "last");
      controller.abort(new Error("enough"));
      await clock.advance(1000);
      expect((await late)["code"]).toBe("ERR_LOCK_TIMEOUT");
      expect((await aborted).message).toBe("enough");
      inside.open();
      await first;
      expect(await last).toBe("last");
    });
  });

  test("S94: after a loss a re-entry fails with the loss, never with a fresh hold", async () => {
    const { backend, locks } = stage();
    const errors: Error[] = [];
    const outer = failure(
      locks.run("a", async ({ signal }) => {
        backend.listener!.lost(backend.steps[0]!.claims[0]!.id, "broken by hand");
        expect(signal.aborted).toBe(true);
        errors.push(await failure(locks.run("a", () => {})), await failure(locks.tryAcquire("a")));
      }),
    );
    expect(await outer).toBeInstanceOf(LockLostError);
    expect(errors.map((error) => error instanceof LockLostError)).toEqual([true, true]);
    expect(backend.count("attempt")).toBe(1);
  });

  test("a lease lost while re-entered is lost for all inside", async () => {
    const { backend, locks } = stage();
    const aborted: boolean[] = [];
    const outer = locks.run("a", async (outside) => {
      await locks.run("a", async (inside) => {
        const signals = [outside.signal, inside.signal];
        backend.listener!.lost(backend.steps[0]!.claims[0]!.id, "broken by hand");
        aborted.push(...signals.map((signal) => signal.aborted));
        expect(() => inside.assertHeld()).toThrow(LockLostError);
      });
    });
    expect(await failure(outer)).toBeInstanceOf(LockLostError);
    expect(aborted).toEqual([true, true]);
  });

  test("no claim enters a lease whose time has passed, though no timer has noticed yet", async () => {
    const { clock, locks } = stage();
    const stop = new AbortController();
    const outer = locks.run("a", async () => {
      const reader = await locks.acquire("a", { mode: "shared" });
      const writer = failure(locks.acquire("a", { wait: Infinity, signal: stop.signal }));
      const next = failure(locks.acquire("a", { mode: "shared", wait: Infinity }));
      clock.block(31_000);
      // The way is free for the next, into a lease that is over.
      stop.abort(new Error("enough"));
      expect((await writer).message).toBe("enough");
      expect(await next).toBeInstanceOf(LockLostError);
      expect(await reader.release()).toBe("lost");
    });
    const lost = failure(outer);
    await clock.settle();
    await clock.advance(1);
    expect(await lost).toBeInstanceOf(LockLostError);
  });

  test("a reader cannot become a writer inside itself: a TypeError instead of a deadlock", async () => {
    const { locks } = stage();
    await locks.run("a", { mode: "shared" }, async () => {
      await expect(locks.run("a", () => {})).rejects.toThrow(TypeError);
      await locks.run("a", { mode: "shared" }, () => {});
    });
  });

  test("a writer may read inside itself", async () => {
    const { backend, locks } = stage();
    await locks.run("a", () => locks.run("a", { mode: "shared" }, () => {}));
    expect(backend.count("attempt")).toBe(1);
  });

  test("another lock inside the function is taken as usual", async () => {
    const { backend, locks } = stage();
    await locks.run("a", () => locks.run("b", () => locks.run("a", () => {})));
    expect(backend.count("attempt")).toBe(2);
  });

  test("code that the function left behind starts afresh once the function has ended", async () => {
    const { backend, locks } = stage();
    const after = gate();
    let later: Promise<void> | undefined;
    await locks.run("a", () => {
      later = after.opened.then(() => locks.run("a", () => {}));
    });
    after.open();
    await later;
    expect(backend.count("attempt")).toBe(2);
  });

  test("two sets of locks do not re-enter each other", async () => {
    const { locks, other } = stage();
    const there = other();
    await locks.run("a", async () => expect(await there.tryAcquire("a")).toBeNull());
  });
});
