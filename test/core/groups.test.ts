/** Several locks at once, on a bad day: parts that are lost, callers that give up, a store that hangs. */
import { describe, expect, test } from "vitest";
import { LockLostError } from "../../src/contract/errors.ts";
import type { Locks } from "../../src/core/api.ts";
import { failure, gate, type Stage, stage } from "./scripted.ts";

const never = (): Promise<never> => new Promise(() => {});

describe("what a release says", () => {
  const names = ["a", "b", "c"];

  test("is released where all parts are, also when asked again", async () => {
    const { locks } = stage();
    const lease = await locks.acquire(names);
    expect(await lease.release()).toBe("released");
    expect(await lease.release()).toBe("released");
  });

  test("is unknown where one part is, and lost where one is, whatever the others are", async () => {
    for (const [lost, result] of [
      ["", "unknown"],
      ["c", "lost"],
    ] as const) {
      const { backend, clock, locks } = stage();
      const lease = await locks.acquire(names, { ttl: "3s" });
      const claims = backend.steps.map(({ claims: [claim] }) => claim!);
      backend.interfere.release = (pass, [claim]) =>
        claim!.name === "b" ? Promise.reject(new Error("cut off")) : pass();
      for (const { id, name } of claims) if (name === lost) backend.listener!.lost(id, "broken by hand");
      const released = lease.release();
      await clock.advance(30_000);
      expect(await released).toBe(result);
    }
  });
});

describe("who gives up", () => {
  for (const order of ["the loss first", "the abort first"]) {
    test(`S124: a part is lost and the caller aborts, ${order}: the caller gets its own reason`, async () => {
      const { backend, clock, locks, other } = stage();
      const there = other();
      await there.acquire("b");
      const controller = new AbortController();
      const reason = new Error("enough");
      const waiting = failure(locks.acquire(["a", "b"], { wait: "1m", signal: controller.signal }));
      await clock.settle();
      const lose = (): void => backend.listener!.lost(backend.steps[0]!.claims[0]!.id, "broken by hand");
      const abort = (): void => controller.abort(reason);
      for (const step of order === "the loss first" ? [lose, abort] : [abort, lose]) step();
      expect(await waiting).toBe(reason);
      await Promise.all([locks.close(), there.close()]);
      expect(await other().query()).toMatchObject({ held: [], pending: [] });
      expect(clock.timers).toBe(0);
    });
  }

  test("S124: an abort in any turn around the last grant: the lease or the caller's reason, and nothing stays held", async () => {
    const answers = new Set<string>();
    for (let turns = 0; turns < 25; turns++) {
      const { locks, other } = stage();
      const controller = new AbortController();
      const reason = new Error("enough");
      const group = locks.acquire(["a", "b"], { signal: controller.signal });
      const answer = group.then(
        () => "lease",
        (error: unknown) => (error === reason ? "reason" : String(error)),
      );
      for (let turn = 0; turn < turns; turn++) await Promise.resolve();
      controller.abort(reason);
      answers.add(await answer);
      await locks.close();
      expect(await other().query()).toMatchObject({ held: [], pending: [] });
    }
    expect([...answers].toSorted()).toEqual(["lease", "reason"]);
  });

  test("S131: an aborted or refused group is answered at once, though the store does not take its parts back", async () => {
    const { backend, clock, locks, other } = stage();
    const rival = await other().acquire("b");
    backend.interfere.release = never;
    const before = clock.now();
    expect(await locks.tryAcquire(["a", "b"])).toBeNull();
    const controller = new AbortController();
    const waiting = failure(locks.acquire(["a2", "b"], { wait: "1m", signal: controller.signal }));
    await clock.settle();
    controller.abort(new Error("enough"));
    expect((await waiting).message).toBe("enough");
    expect(clock.now()).toBe(before);
    // close() waits for them, in bounded time, and says what may be left.
    const closing = failure(locks.close());
    await clock.advance(30_000);
    const error = await closing;
    expect(error["code"]).toBe("ERR_LOCK_BACKEND");
    expect(error.message).toContain('"a"');
    expect(error.message).toContain('"a2"');
    await rival.release();
  });

  test("S132: close() waits for the parts of a group that was not handed out", async () => {
    const { backend, clock, locks, other } = stage();
    const rival = await other().acquire("b");
    const answered = gate();
    backend.interfere.release = async (pass) => {
      await answered.opened;
      return await pass();
    };
    expect(await locks.tryAcquire(["a", "b"])).toBeNull();
    let closed = false;
    const closing = locks.close().then(() => (closed = true));
    await clock.settle();
    expect(closed).toBe(false);
    answered.open();
    await closing;
    expect((await other().query()).held.map(({ name }) => name)).toEqual(["b"]);
    await rival.release();
  });
});

describe("a group that does not queue, where each answer takes most of its time", () => {
  const NAMES = ["a", "b", "c"];
  function slow(): Stage {
    const all = stage();
    all.backend.interfere.attempt = async (pass) => {
      await new Promise<void>((resolve) => all.clock.setTimer(resolve, 800));
      return await pass();
    };
    return all;
  }

  test.each([
    ["tryAcquire()", (locks: Locks) => locks.tryAcquire(NAMES, { ttl: "1s" })],
    ["acquire() with wait: 0", (locks: Locks) => locks.acquire(NAMES, { ttl: "1s", wait: 0 })],
  ])("S142: %s has the time of an answer for each of them", async (_, take) => {
    const { clock, locks } = slow();
    const taking = take(locks);
    await clock.advance(2500);
    const lease = await taking;
    expect([...lease!.fences.keys()]).toEqual(NAMES);
    await lease!.release();
  });

  test("S142: a timeout of the caller's is for all of them, and one that is never answered is given up in its time", async () => {
    const { backend, clock, locks } = slow();
    const limited = failure(locks.tryAcquire(NAMES, { ttl: "10s", timeout: "1s" }));
    await clock.advance(1001);
    expect((await limited).message).toContain('Lock "b" was not acquired');
    backend.interfere.attempt = never;
    const silent = failure(locks.tryAcquire(["d", "e"], { ttl: "1s" }));
    await clock.advance(1001);
    expect((await silent).message).toContain('Lock "d" was not acquired');
  });
});

describe("parts that end before the rest can be had", () => {
  test("S124: they are taken again with pauses, until the wait is over", async () => {
    const { backend, clock, locks } = stage();
    backend.interfere.attempt = async (pass) => {
      await clock.sleep(5);
      return await pass();
    };
    const waiting = failure(locks.acquire(["a", "b"], { maxHold: 1, wait: "20s" }));
    await clock.advance(20_100);
    const error = await waiting;
    expect(error).toBeInstanceOf(LockLostError);
    expect(error.message).toContain("maxHold");
    expect(backend.count("attempt")).toBeLessThan(100);
    await locks.close();
    expect(clock.timers).toBe(0);
  });

  test("S124: without an end of the wait a signal ends it, and close() does, in the middle of a pause", async () => {
    const { backend, clock, locks } = stage();
    backend.interfere.attempt = async (pass) => {
      await clock.sleep(5);
      return await pass();
    };
    const controller = new AbortController();
    const options = { maxHold: 1, wait: Infinity } as const;
    const aborted = failure(locks.acquire(["a", "b"], { ...options, signal: controller.signal }));
    const closed = failure(locks.acquire(["c", "d"], options));
    await clock.advance(60_000);
    expect(backend.count("attempt")).toBeLessThan(500);
    const now = clock.now();
    controller.abort(new Error("enough"));
    expect((await aborted).message).toBe("enough");
    expect(clock.now()).toBe(now);
    const closing = locks.close();
    expect((await closed)["code"]).toBe("ERR_LOCK_CLOSED");
    await closing;
    expect(clock.timers).toBe(0);
  });
});
