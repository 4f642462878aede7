/** once(): of all callers everywhere one does the work, and the others get what came of it. */
import { describe, expect, test } from "vitest";
import type { Locks } from "../../src/core/api.ts";
import { LockBackendError, LockClosedError, LockLostError, LockOutcomeError } from "../../src/contract/errors.ts";
import { memory } from "../../src/backends/memory/index.ts";
import { failure, gate, stage } from "./scripted.ts";

const KEEP = { keep: "1h" } as const;

describe("once()", () => {
  test("one of several processes does the work; the others wait, and get its value and fence", async () => {
    const { clock, locks, other } = stage();
    const [held, runs] = [gate(), [] as string[]];
    const work = (who: string) => async (): Promise<{ by: string }> => {
      runs.push(who);
      await held.opened;
      return { by: who };
    };
    const all = [
      locks.once("a", KEEP, work("here")),
      other().once("a", KEEP, work("there")),
      other().once("a", KEEP, work("yonder")),
    ];
    await clock.advance(20_000 / 4);
    held.open();
    const results = await Promise.all(all);
    expect(runs).toEqual(["here"]);
    expect(results.map(({ value, replayed }) => [value, replayed])).toEqual([
      [{ by: "here" }, false],
      [{ by: "here" }, true],
      [{ by: "here" }, true],
    ]);
    expect(new Set(results.map(({ fence }) => fence)).size).toBe(1);
    const late = await other().once("a", KEEP, work("late"));
    expect([late.value, late.replayed, runs.length]).toEqual([{ by: "here" }, true, 1]);
  });

  test("who only wants the lock, and stands in line among those who want the value, gets the lock", async () => {
    const { clock, locks, other } = stage();
    const held = gate();
    const work = other().once("a", KEEP, () => held.opened.then(() => "done"));
    await clock.advance(1);
    const first = locks.once("a", KEEP, () => "not done");
    await clock.advance(1);
    const plain = locks.acquire("a", { wait: "1m" });
    const last = locks.once("a", KEEP, () => "not done");
    await clock.advance(1);
    held.open();
    await clock.advance(100);
    expect([(await work).value, (await first).value, (await last).value]).toEqual(["done", "done", "done"]);
    await clock.advance(1000);
    const lease = await plain;
    lease.assertHeld();
    expect(await lease.release()).toBe("released");
  });

  test("runs again when its time is over, and run() takes no notice of it", async () => {
    const { clock, locks } = stage();
    let runs = 0;
    const work = (): number => ++runs;
    expect((await locks.once("a", { keep: "10s" }, work)).value).toBe(1);
    expect(await locks.run("a", () => "mine")).toBe("mine");
    await clock.advance(9_999);
    expect((await locks.once("a", { keep: "10s" }, work)).value).toBe(1);
    await clock.advance(1);
    expect((await locks.once("a", { keep: "10s" }, work)).value).toBe(2);
  });

  test("a thousand callers of one process are one run and a few questions", async () => {
    const { backend, clock, locks } = stage();
    const held = gate();
    const all = Array.from({ length: 1000 }, () => locks.once("a", KEEP, () => held.opened.then(() => "done")));
    await clock.advance(10);
    held.open();
    const results = await Promise.all(all);
    expect(results.filter(({ replayed }) => !replayed).length).toBe(1);
    expect(backend.count("attempt")).toBeLessThanOrEqual(4);
    expect(backend.count("release")).toBe(1);
  });

  test("a failure frees the name, and the next caller runs; its own caller gets its own error", async () => {
    const { clock, locks, other } = stage();
    const own = new RangeError("out of paper");
    const held = gate();
    const first = failure(locks.once("a", KEEP, () => held.opened.then(() => Promise.reject(own))));
    const second = other().once("a", KEEP, () => "printed");
    await clock.advance(1);
    held.open();
    expect(await first).toBe(own);
    expect((await second).value).toBe("printed");
  });

  test("all get a failure that is kept: name, message and code", async () => {
    const { clock, locks, other } = stage();
    const own = Object.assign(new RangeError("out of paper"), { code: "EPAPER", secret: "s" });
    const options = { keep: "1h", keepFailure: "5s" } as const;
    expect(await failure(locks.once("a", options, () => Promise.reject(own)))).toBe(own);
    const theirs = (await failure(other().once("a", options, () => "printed"))) as Error & { code?: string };
    expect([theirs.name, theirs.message, theirs.code]).toEqual(["RangeError", "out of paper", "EPAPER"]);
    expect(theirs).not.toHaveProperty("secret");
    expect(theirs.cause).toBeInstanceOf(LockOutcomeError);
    await clock.advance(5000);
    expect((await other().once("a", options, () => "printed")).value).toBe("printed");
  });

  test("all get the value as it was read back, its own caller too", async () => {
    const { locks, other } = stage();
    const mine = await locks.once<unknown>("a", KEEP, () => ({ day: new Date(0), none: undefined }));
    expect(mine.value).toEqual({ day: "1970-01-01T00:00:00.000Z" });
    expect((await other().once<unknown>("a", KEEP, () => "never")).value).toEqual(mine.value);
    const codec = { encode: (n: bigint) => n.toString(36), decode: (text: string) => BigInt(parseInt(text, 36)) };
    expect((await locks.once("b", { ...KEEP, codec }, () => 36n)).value).toBe(36n);
    expect((await other().once("b", { ...KEEP, codec }, () => 0n)).value).toBe(36n);
    expect((await locks.once("c", KEEP, () => undefined)).value).toBe(undefined);
    expect((await other().once<unknown>("c", KEEP, () => "never")).value).toBe(undefined);
  });

  test("a value that cannot be kept is done all the same: its own caller has it, others learn why not", async () => {
    const { locks, other } = stage();
    const circle: { self?: unknown } = {};
    circle.self = circle;
    for (const [name, value, why] of [
      ["circle", circle, /circular/],
      ["long", "x".repeat(65_536), /65538 bytes long/],
      ["function", () => "", /cannot be written/],
    ] as const) {
      expect((await locks.once<unknown>(name, KEEP, () => value)).value).toBe(value);
      const error = await failure(other().once<unknown>(name, KEEP, () => "again"));
      expect(error).toBeInstanceOf(LockOutcomeError);
      expect(error.message).toMatch(why);
    }
  });

  test("what another program wrote is not taken for a value", async () => {
    const { locks, store } = stage();
    const outside = memory({ store });
    const claim = { id: "x".repeat(22), name: "a", mode: "exclusive", limit: 1, ttlMs: 1000, holder: "x:1" } as const;
    const rest = { lockDelayMs: 0, minHoldMs: 0, meta: {}, queues: false };
    for (const value of ["", "?", "v{", "e", "enull"]) {
      const granted = await outside.attempt({ ...claim, ...rest });
      const fence = granted.granted ? granted.fence : 0n;
      await outside.release({ ...claim, ...rest }, { value, keepMs: 60_000, fence });
      expect(await failure(locks.once("a", KEEP, () => "again"))).toBeInstanceOf(LockOutcomeError);
    }
  });

  test("all get the fence under which the work was done, also where a call of the same process failed just before", async () => {
    const { locks, other } = stage();
    const failed = failure(locks.once("a", KEEP, () => Promise.reject(new Error("no"))));
    const mine = await locks.once("a", KEEP, ({ fence }) => String(fence));
    expect((await failed).message).toBe("no");
    const theirs = await other().once("a", KEEP, () => "again");
    expect([mine.value, String(theirs.fence)]).toEqual([theirs.value, theirs.value]);
    expect(mine.fence).toBe(theirs.fence);
  });

  test("after a loss it rejects with the result, and nothing is kept", async () => {
    const { clock, locks, other } = stage();
    const held = gate();
    const lost = failure(locks.once("a", KEEP, () => held.opened.then(() => "late")));
    await clock.advance(1);
    const { fence } = (await other().query("a")).held[0]!;
    await other().forceRelease("a", { fence, reason: "stuck" });
    await clock.advance(1);
    held.open();
    const error = await lost;
    expect(error).toBeInstanceOf(LockLostError);
    expect(error["result"]).toBe("late");
    expect((await other().once("a", KEEP, () => "again")).replayed).toBe(false);
  });

  // The answer, the loss that the caller must learn of instead of "done", and how the store comes to keep nothing.
  const unkept: [string, string, (here: ReturnType<typeof stage>) => void][] = [
    [
      "the lease ran out while the release was on its way",
      "gone",
      ({ backend, clock }) => {
        backend.interfere.release = (pass) => {
          clock.block(30_000);
          return pass();
        };
      },
    ],
    [
      "no release comes to the store in time",
      "unkept",
      ({ backend, clock }) => {
        const atMs = clock.now();
        backend.interfere.release = (pass) =>
          clock.now() > atMs + 60_000 ? pass() : Promise.reject(new Error("the request was lost"));
      },
    ],
    [
      "the machine slept, and the store cannot say whether the lease is still the same",
      "unkept",
      ({ backend, clock }) => {
        clock.suspend(10_000);
        backend.interfere.renew = () => Promise.resolve([{ held: "unknown", cause: new Error("no answer") }]);
      },
    ],
  ];
  test.each(unkept)("where nothing may be kept, it rejects with the result: %s", async (_how, kind, spoil) => {
    const here = stage();
    const mine = failure(
      here.locks.once("a", { ...KEEP, ttl: "20s" }, () => {
        spoil(here);
        return "mine";
      }),
    );
    await here.clock.advance(120_000);
    const error = await mine;
    expect(error).toBeInstanceOf(LockLostError);
    expect((error as unknown as LockLostError).loss.kind).toBe(kind);
    expect(error["result"]).toBe("mine");
    expect((await here.other().once("a", KEEP, () => "again")).value).toBe("again");
  });

  test("an error whose properties throw is kept as far as it can be read, and the lease ends", async () => {
    const { locks, other } = stage();
    class Hostile extends Error {
      get code(): string {
        throw new Error("no code");
      }
    }
    const options = { ...KEEP, keepFailure: "1m" } as const;
    const work = (): never => {
      throw new Hostile("hostile");
    };
    expect(await failure(locks.once("a", options, work))).toBeInstanceOf(Hostile);
    expect((await other().query("a")).held).toEqual([]);
    expect((await failure(other().once("a", options, () => "again"))).message).toBe("hostile");
  });

  test("a release whose reply was lost has kept it, and is asked for again until the store says so", async () => {
    const { backend, clock, locks, other } = stage();
    let losses = 2;
    backend.interfere.release = async (pass) => {
      const answer = await pass();
      if (losses-- > 0) throw new Error("the reply was lost");
      return answer;
    };
    const mine = locks.once("a", KEEP, () => "kept");
    await clock.advance(5000);
    expect((await mine).value).toBe("kept");
    expect((await other().once("a", KEEP, () => "again")).value).toBe("kept");
  });

  test("a holder that dies is replaced", async () => {
    const { clock, locks, other, backend } = stage();
    void locks.once("a", { ...KEEP, ttl: "1s" }, () => new Promise(() => {})).catch(() => {});
    await clock.advance(1);
    backend.interfere.renew = () => new Promise(() => {});
    const theirs = other().once("a", { ...KEEP, wait: "1m" }, () => "again");
    await clock.advance(3000);
    expect((await theirs).value).toBe("again");
  });

  test("refuses what cannot be: several names, shared, a limit, the same lock inside, no work, no keep", async () => {
    const { locks } = stage();
    const once = locks.once.bind(locks) as unknown as (...args: unknown[]) => Promise<unknown>;
    const work = (): string => "";
    for (const args of [
      [["a", "b"], KEEP, work],
      ["a", { ...KEEP, mode: "shared" }, work],
      ["a", { ...KEEP, limit: 2 }, work],
      ["a", KEEP],
      ["a", {}, work],
      ["a", { keep: "999ms" }, work],
      ["a", { keep: "1h", keepFailure: 1 }, work],
      ["a", { keep: "9000h" }, work],
      ["a", { ...KEEP, linger: "1s" }, work],
      ["a", { ...KEEP, codec: { encode: String } }, work],
      ["a", { ...KEEP, codec: null }, work],
    ]) {
      await expect(once(...args), JSON.stringify(args)).rejects.toThrow(TypeError);
    }
    await expect(locks.run("a", () => locks.once("a", KEEP, work))).rejects.toThrow(/inside a function that holds/);
    expect(await locks.once("a", KEEP, () => locks.run("a", () => "re-entered"))).toMatchObject({
      value: "re-entered",
    });
  });

  test("a store that keeps no outcomes says why, before any work", async () => {
    for (const [can, why] of [
      [{ outcomes: "a quorum has no clock" }, /a quorum has no clock/],
      [undefined, /does not say/],
    ] as const) {
      const { backend, locks } = stage();
      Object.assign(backend, { can });
      const error = await failure(locks.once("a", KEEP, () => expect.unreachable()));
      expect(error).toBeInstanceOf(LockBackendError);
      expect(error.message).toMatch(why);
    }
  });

  test("close() waits for its work, and sends those away who wait", async () => {
    const { clock, locks } = stage();
    const held = gate();
    const first = locks.once("a", KEEP, () => held.opened.then(() => "done"));
    const second = failure(locks.once("a", KEEP, () => "again"));
    await clock.advance(1);
    const closed = locks.close();
    expect(await second).toBeInstanceOf(LockClosedError);
    held.open();
    expect((await first).value).toBe("done");
    await closed;
  });

  test("after forget() an older answer is not taken for an outcome that is kept", async () => {
    const { backend, clock, locks, store } = stage();
    const { fence } = await locks.once("a", KEEP, () => "old");
    const late = gate();
    backend.interfere.attempt = async (pass) => {
      const answer = await pass();
      await late.opened;
      return answer;
    };
    const before = locks.once("a", KEEP, () => "new");
    await clock.advance(1);
    backend.interfere.attempt = undefined;
    store.forget("a", fence);
    const after = locks.once("a", KEEP, () => "new");
    await clock.advance(1);
    late.open();
    expect([(await before).value, (await after).value]).toEqual(["old", "new"]);
  });
});

describe("outcome() and forget()", () => {
  test("none, running, done; and after forget() the next one runs", async () => {
    const { clock, locks, other } = stage();
    expect(await locks.outcome("a")).toEqual({ state: "none" });
    const held = gate();
    const mine = locks.once("a", KEEP, () => held.opened.then(() => ({ sum: 7 })));
    await clock.advance(1000);
    const running = await other().outcome("a");
    expect(running).toMatchObject({ state: "running", holder: "here:1", heldMs: 1000 });
    const { fence: first } = running as { readonly fence: bigint };
    // A running lease is never ended by it.
    expect(await other().forget("a", { fence: first })).toBe(false);
    held.open();
    const { fence } = await mine;
    await clock.advance(60_000);
    const done = await other().outcome<{ sum: number }>("a");
    expect(done).toEqual({
      state: "done",
      value: { sum: 7 },
      fence,
      holder: "here:1",
      at: new Date(clock.wall() - 60_000),
      remainingMs: 3_540_000,
    });
    expect(await locks.forget("a", { fence: fence + 1n })).toBe(false);
    expect((await other().once("a", KEEP, () => "again")).replayed).toBe(true);
    expect(await locks.forget("a", { fence })).toBe(true);
    expect(await locks.forget("a", { fence })).toBe(false);
    expect(await other().outcome("a")).toEqual({ state: "none" });
    expect((await other().once("a", KEEP, () => "again")).value).toBe("again");
  });

  test("failed: the error that is kept, or why the value cannot be had", async () => {
    const { locks, other } = stage();
    const failed = locks.once("a", { ...KEEP, keepFailure: "1m" }, () => {
      throw Object.assign(new RangeError("too far"), { code: "E_FAR" });
    });
    await failure(failed);
    const state = await other().outcome("a");
    expect(state).toMatchObject({ state: "failed", error: { name: "RangeError", message: "too far", code: "E_FAR" } });
    await locks.once("b", KEEP, () => () => {});
    expect(await other().outcome("b")).toMatchObject({
      state: "failed",
      error: expect.any(LockOutcomeError) as unknown,
    });
  });

  test("refuse what cannot be, and a store that keeps none", async () => {
    const { backend, locks } = stage();
    for (const options of [{}, { fence: 1 }, null, undefined]) {
      await expect(locks.forget("a", options as never)).rejects.toThrow(TypeError);
    }
    await expect(locks.outcome("", {})).rejects.toThrow(TypeError);
    await expect(locks.outcome("a", { codec: {} } as never)).rejects.toThrow(/codec/u);
    await expect(locks.outcome("a", { keep: 1 } as never)).rejects.toThrow(/keep/u);
    backend.inspect = async () => ({ held: [], pending: [], forced: [], outcome: { value: 7 } }) as never;
    await expect(locks.outcome("a")).rejects.toThrow(/outcome that cannot be read/u);
    Object.assign(backend, { can: { outcomes: "it has no clock" } });
    await expect(locks.outcome("a")).rejects.toThrow(/it has no clock/u);
    await expect(locks.forget("a", { fence: 1n })).rejects.toThrow(/it has no clock/u);
  });
});

test("the types say what comes back", async () => {
  const { locks } = stage();
  const result: { readonly value: number } = await (locks as Locks).once("a", KEEP, () => 1);
  expect(result.value).toBe(1);
});
