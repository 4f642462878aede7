/** once(): what is kept, and when that is sure. What else could be taken for it: a lost answer, a lease inside, one that was given back. */
import { expect, test } from "vitest";
import type { Lease, OnceCodec } from "../../src/core/api.ts";
import { LockLostError } from "../../src/contract/errors.ts";
import type { FakeClock } from "../../src/testing/fake-clock.ts";
import { memory } from "../../src/backends/memory/index.ts";
import { failure, gate, stage } from "./scripted.ts";

const KEEP = { keep: "1h" } as const;

/** The code of once() is loaded by its first call, which takes real time. */
async function until(clock: FakeClock, isSo: () => boolean): Promise<void> {
  while (!isSo()) await clock.advance(1000 / 4);
}

test("a store that does not say whether it has kept it is not taken at its word: the work may run again", async () => {
  const { backend, clock, locks, other } = stage();
  let isCut = false;
  const cut = (pass: () => Promise<never>): Promise<never> =>
    isCut ? Promise.reject(new Error("the connection is gone")) : pass();
  Object.assign(backend.interfere, { release: cut, renew: cut, attempt: cut });
  const mine = failure(
    locks.once("a", { ...KEEP, ttl: "3s" }, () => {
      isCut = true;
      return "mine";
    }),
  );
  await until(clock, () => isCut);
  let ran = false;
  const theirs = other().once("a", { ...KEEP, wait: Infinity }, () => {
    ran = true;
    return "theirs";
  });
  await until(clock, () => ran);
  expect((await theirs).value).toBe("theirs");
  const error = await mine;
  expect(error).toBeInstanceOf(LockLostError);
  expect([error["result"], error["loss"]]).toEqual(["mine", { kind: "unkept" }]);
  isCut = false;
});

test("a lease inside it may outlive the work: nothing is kept before that is released, and the call waits for it", async () => {
  const { clock, locks, other, store } = stage();
  let inner: Lease | undefined;
  const enter = async (): Promise<string> => {
    inner = await locks.acquire("a");
    return "done";
  };
  let settled = false;
  const first = locks.once("a", KEEP, enter).finally(() => (settled = true));
  await until(clock, () => inner !== undefined);
  await clock.advance(60_000);
  expect([settled, store.inspect("a").outcome]).toEqual([false, undefined]);
  await inner!.release();
  expect((await first).value).toBe("done");
  expect((await other().once("a", KEEP, () => "again")).value).toBe("done");

  const second = failure(
    locks.once("b", { ...KEEP, maxHold: "10m" }, async () => {
      inner = await locks.acquire("b");
      return "late";
    }),
  );
  await until(clock, () => inner?.name === "b");
  await clock.advance(600_000);
  const error = await second;
  expect([error["result"], error["loss"]]).toEqual(["late", { kind: "max-hold" }]);
  // The store has the lease yet.
  expect([store.inspect("b").held.length, await inner!.release()]).toEqual([1, "lost"]);
  expect([store.inspect("b").held.length, store.inspect("b").outcome]).toEqual([0, undefined]);

  const third = locks.once("c", KEEP, async () => {
    inner = await locks.acquire("c");
    return "closed";
  });
  await until(clock, () => inner?.name === "c");
  await locks.close();
  expect((await third).value).toBe("closed");
  expect(store.inspect("c").outcome?.value).toBe('v"closed"');
});

test("work that gives its lease back leaves nothing with the lease of the next", async () => {
  const { clock, locks, store } = stage();
  const [first, second] = [gate(), gate()];
  const mine = failure(
    locks.once("a", KEEP, async (lease) => {
      await lease.release();
      await first.opened;
      return "mine";
    }),
  );
  const theirs = failure(
    locks.once("a", KEEP, async () => {
      await second.opened;
      throw new Error("theirs");
    }),
  );
  await clock.advance(1);
  first.open();
  const error = await mine;
  expect([error["result"], error["loss"]]).toEqual(["mine", { kind: "released" }]);
  second.open();
  expect((await theirs).message).toBe("theirs");
  expect(store.inspect("a").outcome).toBe(undefined);
});

test("all get what is kept, also while run() holds the lock in the same process", async () => {
  const { clock, locks, other } = stage();
  await locks.once("a", KEEP, () => "kept");
  const held = gate();
  const running = locks.run("a", () => held.opened);
  await clock.advance(1);
  const calls = [locks.once("a", KEEP, () => "again"), locks.once("a", { ...KEEP, wait: 0 }, () => "again")];
  await clock.advance(1);
  expect((await Promise.all(calls)).map(({ value, replayed }) => [value, replayed])).toEqual([
    ["kept", true],
    ["kept", true],
  ]);
  // Behind one that waits in this process.
  const there = other();
  const waiting = there.run("a", () => "its turn");
  await clock.advance(1);
  const behind = there.once("a", KEEP, () => "again");
  await clock.advance(1);
  expect((await behind).value).toBe("kept");
  held.open();
  await running;
  await clock.advance(1);
  await waiting;
});

test("the refusal of a try says nothing to a call that wants what is kept", async () => {
  const { backend, clock, locks, other } = stage();
  await other().once("a", KEEP, () => "kept");
  const held = gate();
  const running = other().run("a", () => held.opened);
  await clock.advance(1);
  const slow = gate();
  backend.interfere.attempt = async (pass) => {
    await slow.opened;
    return await pass();
  };
  const tries = [locks.tryAcquire("a"), locks.tryAcquire("a")];
  const mine = locks.once("a", { ...KEEP, wait: 0 }, () => "again");
  await clock.advance(1);
  slow.open();
  await clock.advance(1);
  expect((await mine).value).toBe("kept");
  expect(await Promise.all(tries)).toEqual([null, null]);
  held.open();
  await running;
});

test("its options are read when it is called; what a codec writes is read as others read it", async () => {
  const { clock, locks, store } = stage();
  const options: { keep: "1h" | "1s"; codec: OnceCodec<string> } = {
    keep: "1h",
    codec: { encode: () => "half \ud800", decode: (text: string) => text },
  };
  const mine = locks.once("a", options, () => "whole");
  options.keep = "1s";
  await clock.advance(1);
  const { value } = await mine;
  expect(value).toBe("half \ufffd");
  expect(store.inspect("a").outcome?.value).toBe(`v${value}`);
  expect(store.inspect("a").outcome?.remainingMs).toBeGreaterThan(1000);
});

test("S165: it is kept for the lease with its fence: one that a copy of the question has taken anew keeps nothing", async () => {
  const { store, backend, locks, other } = stage();
  backend.interfere.attempt = async (pass) => ({ ...((await pass()) as object), sentTwice: true });
  expect(await locks.once("mine", KEEP, () => 7)).toMatchObject({ value: 7, replayed: false });
  expect(backend.steps.map(({ step }) => step)).toEqual(["attempt", "release"]);
  const error = await failure(
    locks.once("a", KEEP, async () => {
      const [claim] = backend.steps.at(-1)!.claims;
      await memory({ store }).release(claim!);
      await (await other().acquire("a")).release();
      expect(await backend.attempt(claim!)).toMatchObject({ granted: true });
      return 7;
    }),
  );
  expect(error).toBeInstanceOf(LockLostError);
  expect(await locks.outcome("a")).toEqual({ state: "none" });
});
