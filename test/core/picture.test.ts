/** query(), inspect() and isHeld(): who holds, who waits, and what this process knows better than the store. */
import { describe, expect, test } from "vitest";
import { LockBackendError, LockClosedError, LockDeadlockError, LockLostError } from "../../src/contract/errors.ts";
import { FenceRejectedError } from "../../src/fence/rejected.ts";
import { countWaiters } from "../../src/core/read-snapshot.ts";
import { failure, gate, ScriptedBackend, stage } from "./scripted.ts";

const sorted = (names: readonly (string | undefined)[]): readonly (string | undefined)[] => names.toSorted();

describe("the true picture", () => {
  test("five who wait here behind a lease of this process are five, in order, though the store knows of none", async () => {
    const { clock, locks } = stage();
    const held = gate();
    const all = ["first", "b", "c", "d", "e", "f"].map((reason) =>
      locks.run("a", { meta: { reason } }, () => held.opened),
    );
    await clock.advance(100);
    const { held: holders, pending } = await locks.query("a");
    expect(holders.map(({ processHolders, processWaiters }) => [processHolders, processWaiters])).toEqual([[1, 0]]);
    expect(pending.map(({ meta, position, waitingMs }) => [meta["reason"], position, waitingMs])).toEqual(
      ["b", "c", "d", "e", "f"].map((reason, at) => [reason, at + 1, 100]),
    );
    held.open();
    await Promise.all(all);
    expect(await locks.query("a")).toMatchObject({ held: [], pending: [] });
  });

  test("another process sees how many wait there, behind the lease or behind the claim, once that was written", async () => {
    const { clock, locks, other } = stage();
    const [held, theirs] = [gate(), other({ holder: "there:1" })];
    const patient = { wait: Infinity };
    const all = [1, 2, 3].map(() => locks.run("a", patient, () => held.opened));
    await clock.advance(0);
    all.push(...[1, 2, 3, 4].map(() => theirs.run("a", patient, () => held.opened)));
    await clock.advance(25_000);
    const seen = await other().inspect("a");
    // Two behind the lease; one of the four queues at the store, with three behind it.
    expect(seen.held.map(({ processWaiters }) => processWaiters)).toEqual([2]);
    expect(seen.pending.map(({ holder, processWaiters }) => [holder, processWaiters])).toEqual([["there:1", 3]]);
    const exact = await theirs.inspect("a");
    expect(exact.pending.map(({ position, processWaiters }) => [position, processWaiters])).toEqual(
      [1, 2, 3, 4].map((position) => [position, 0]),
    );
    expect(exact.pending[0]?.id).toBe(seen.pending[0]?.id);
    held.open();
    await clock.advance(1000);
    await Promise.all(all);
  });

  test("a lease that is not renewed shows what was so when it was granted", async () => {
    const { clock, locks, other } = stage();
    const lease = await locks.acquire("a", { renew: false });
    const waiting = locks.acquire("a", { wait: Infinity });
    await clock.advance(25_000);
    expect((await other().inspect("a")).held.map(({ processWaiters }) => processWaiters)).toEqual([0]);
    await lease.release();
    await (await waiting).release();
  });

  test("those who wait behind a claim stand where it stands, before a claim that queued after it", async () => {
    const { clock, locks, other } = stage();
    const held = gate();
    const first = other().run("a", () => held.opened);
    await clock.advance(1);
    const all = [locks.run("a", { meta: { n: "1" } }, () => {}), locks.run("a", { meta: { n: "2" } }, () => {})];
    await clock.advance(1);
    const last = other().run("a", { meta: { n: "3" } }, () => {});
    await clock.advance(1);
    const { pending } = await locks.inspect("a");
    expect(pending.map(({ meta, position }) => [meta["n"], position])).toEqual([
      ["1", 1],
      ["2", 2],
      ["3", 3],
    ]);
    // What is for finding deadlocks is not shown.
    for (const one of pending) for (const field of ["order", "local"]) expect(one).not.toHaveProperty(field);
    held.open();
    await clock.advance(1000);
    await Promise.all([first, last, ...all]);
  });

  test("those who wait behind a lease of this process get it first, before a claim of another that queued before them", async () => {
    const { clock, locks, other } = stage();
    const held = gate();
    const all = [locks.run("a", () => held.opened)];
    await clock.advance(1);
    all.push(other().run("a", { meta: { n: "theirs" } }, () => {}));
    await clock.advance(1);
    all.push(...["1", "2"].map((n) => locks.run("a", { meta: { n } }, () => {})));
    const { pending } = await locks.inspect("a");
    expect(pending.map(({ meta, position }) => [meta["n"], position])).toEqual([
      ["1", 1],
      ["2", 2],
      ["theirs", 3],
    ]);
    held.open();
    await clock.advance(1000);
    await Promise.all(all);
  });

  test("those who wait behind several claims or leases of one process are counted once, where a limit lets it have several", async () => {
    const { clock, locks, other } = stage();
    const [held, theirs] = [gate(), other({ holder: "there:1" })];
    const options = { wait: Infinity, limit: 3 };
    const waiters = async (): Promise<number> => countWaiters(await other().inspect("a"));
    const all = Array.from({ length: 7 }, () => locks.run("a", options, () => held.opened));
    await clock.advance(25_000);
    // Three hold it, and four wait behind their leases.
    expect(await waiters()).toBe(4);
    all.push(...Array.from({ length: 8 }, () => theirs.run("a", options, () => held.opened)));
    await clock.advance(25_000);
    // Three of the eight queue at the store, with five behind them.
    expect((await other().inspect("a")).pending).toHaveLength(3);
    expect(await waiters()).toBe(12);
    held.open();
    await clock.advance(1000);
    await Promise.all(all);
  });

  test("those who wait behind several leases are said by one that is renewed: of one that is not, nothing is written later", async () => {
    const { clock, locks, other } = stage();
    const options = { wait: Infinity, limit: 2 };
    const leases = [
      await locks.acquire("a", options),
      await locks.acquire("a", { ...options, renew: false, ttl: "60s" }),
    ];
    const waiting = [locks.acquire("a", options), locks.acquire("a", options)];
    await clock.advance(25_000);
    expect((await other().inspect("a")).held.map(({ processWaiters }) => processWaiters)).toEqual([2, 0]);
    await Promise.all(leases.map((lease) => lease.release()));
    for (const lease of await Promise.all(waiting)) await lease.release();
  });

  test("three readers of one process are three", async () => {
    const { clock, locks, other } = stage();
    const held = gate();
    const all = [1, 2, 3].map(() => locks.run("a", { mode: "shared" }, () => held.opened));
    await clock.advance(1);
    expect((await locks.inspect("a")).held.map(({ processHolders }) => processHolders)).toEqual([3]);
    await clock.advance(25_000);
    expect((await other().inspect("a")).held.map(({ processHolders }) => processHolders)).toEqual([3]);
    held.open();
    await Promise.all(all);
  });

  test("one whose question has not come back waits all the same", async () => {
    const { backend, clock, locks } = stage();
    backend.interfere.attempt = () => new Promise(() => {});
    const waiting = failure(locks.acquire("a", { wait: "1s", limit: 3 }));
    await clock.advance(500);
    expect(await locks.inspect("a")).toMatchObject({ held: [], limit: 3 });
    expect((await locks.query()).pending.map(({ name, waitingMs }) => [name, waitingMs])).toEqual([["a", 500]]);
    await clock.advance(500);
    await waiting;
    expect((await locks.query()).pending).toEqual([]);
  });

  test("counts that another process could not have written are taken for none", async () => {
    const { backend, locks } = stage();
    const lease = await locks.acquire("b");
    const right = await backend.query("b");
    for (const waiters of [-1, 1.5, Number.NaN, "7", { valueOf: () => 7 }, 2 ** 60]) {
      const local = { waiters, users: waiters, holds: [], holdsMore: false };
      backend.query = async () => ({ ...right, held: [{ ...right.held[0]!, name: "x", fence: 9n, local }] }) as never;
      const [holder] = (await locks.query("")).held;
      expect([holder?.processHolders, holder?.processWaiters], String(waiters)).toEqual([1, 0]);
    }
    await lease.release();
  });
});

describe("inspect()", () => {
  test("means exactly one lock, and says what once() keeps without its value", async () => {
    const { clock, locks } = stage();
    await using held = await locks.acquire("ab", { limit: 3 });
    await locks.once("a", { keep: "1m" }, () => "secret");
    await clock.advance(10_000);
    const state = await locks.inspect("a");
    expect(state).toMatchObject({ name: "a", limit: undefined, held: [], pending: [], forced: [] });
    expect(state.outcome).toMatchObject({ ageMs: 10_000, remainingMs: 50_000, bytes: 9 });
    expect(JSON.stringify(state)).not.toContain("secret");
    expect(await locks.inspect("ab")).toMatchObject({ limit: 3, held: [{ fence: held.fence }], outcome: undefined });
  });

  test("since when, by this machine's clock", async () => {
    const { clock, locks, other } = stage();
    const beganMs = clock.wall();
    await using _held = await other().acquire("a");
    const waiting = locks.acquire("a");
    await clock.advance(3000);
    const { held, pending } = await locks.inspect("a");
    expect([held[0]?.sinceMs, pending[0]?.sinceMs]).toEqual([beganMs, beganMs]);
    void waiting.then((lease) => lease.release());
  });

  test("takes a time limit and a signal, checks its name, and ends with the locks", async () => {
    const { backend, clock, locks } = stage();
    backend.inspect = () => new Promise(() => {});
    const late = failure(locks.inspect("a", { timeout: "2s" }));
    const stop = new AbortController();
    const stopped = failure(locks.isHeld("a", { signal: stop.signal }));
    stop.abort(new Error("enough"));
    expect((await stopped).message).toBe("enough");
    await clock.advance(2000);
    expect(await late).toBeInstanceOf(LockBackendError);
    await expect(locks.inspect("")).rejects.toThrow(TypeError);
    await expect(locks.inspect("a", { wait: 1 } as never)).rejects.toThrow(TypeError);
    const asked = failure(locks.inspect("a"));
    await clock.advance(0);
    await locks.close();
    expect(await asked).toBeInstanceOf(LockClosedError);
  });

  test("a backend that answers something else is named", async () => {
    const { backend, locks } = stage();
    backend.inspect = async () => ({ held: 7 }) as never;
    expect((await failure(locks.inspect("a"))).message).toMatch(
      /scripted backend answered inspect\(\) with an object/u,
    );
  });
});

test("isHeld(): a lease of any process, what is left of it, a quarantine; not those who wait, nor an outcome", async () => {
  const { backend, clock, locks, other } = stage();
  expect(await locks.isHeld("a")).toBe(false);
  const lease = await other().acquire("a", { minHold: "5s" });
  expect(await locks.isHeld("a")).toBe(true);
  await lease.release();
  expect(await locks.isHeld("a")).toBe(true);
  await clock.advance(5000);
  expect(await locks.isHeld("a")).toBe(false);
  // Its holder is gone: what is left after the ttl is the delay.
  await other().acquire("b", { ttl: "10s", lockDelay: "5s", renew: false });
  await clock.advance(12_000);
  expect((await locks.inspect("b")).held.map(({ remainder }) => remainder)).toEqual(["lockDelay"]);
  expect(await locks.isHeld("b")).toBe(true);
  await clock.advance(5000);
  expect(await locks.isHeld("b")).toBe(false);
  await locks.once("a", { keep: "1m" }, () => 1);
  expect(await locks.isHeld("a")).toBe(false);
  backend.inspect = async () => ({ held: [], pending: [], forced: [], quarantineMs: 10 });
  expect(await locks.isHeld("a")).toBe(true);
});

test("snapshots and leases can be written as JSON, with fences as strings", async () => {
  const { locks, other } = stage();
  const lease = await other().acquire("a", { meta: { reason: "import" } });
  await using both = await locks.acquire(["b", "c"]);
  const { fence } = lease;
  expect(JSON.parse(JSON.stringify({ lease, both }))).toEqual({
    lease: { name: "a", fence: String(fence) },
    both: { name: "b, c", fences: { b: String(both.fences.get("b")), c: String(both.fences.get("c")) } },
  });
  const [snapshot, state] = [await locks.query(), await locks.inspect("a")];
  const parsed = JSON.parse(JSON.stringify(snapshot)) as { readonly held: readonly Record<string, unknown>[] };
  expect(sorted(parsed.held.map(({ name }) => String(name)))).toEqual(["a", "b", "c"]);
  expect(JSON.parse(JSON.stringify(state))).toMatchObject({ name: "a", held: [{ fence: String(fence) }] });
  expect(JSON.parse(JSON.stringify(state.held[0]))).toMatchObject({ fence: String(fence) });
  await other().forceRelease("a", { fence, reason: "stuck" });
  expect(JSON.parse(JSON.stringify((await locks.query("a")).forced))).toMatchObject([{ fence: String(fence) }]);
});

test("errors can be written as JSON, with fences as strings, and without what the work came to", async () => {
  const { locks, other } = stage();
  const asJson = (error: unknown): unknown => JSON.parse(JSON.stringify({ error }));
  const lease = await other().acquire("a", { meta: { reason: "import" } });
  const fence = String(lease.fence);
  const busy = await failure(locks.acquire("a", { wait: 0 }));
  expect(asJson(busy)).toMatchObject({
    error: {
      name: "LockTimeoutError",
      code: "ERR_LOCK_TIMEOUT",
      lock: "a",
      heldBy: [{ fence, meta: { reason: "import" } }],
    },
  });
  expect(asJson(busy)).toHaveProperty("error.message", busy.message);
  const members = [
    { holder: "p", waitsFor: "a", mode: "exclusive", holds: [{ name: "b", fence: 7n }], meta: {} },
  ] as const;
  const deadlock = new LockDeadlockError("a", { members, description: "p holds b" });
  expect(asJson(deadlock)).toMatchObject({ error: { deadlock: { members: [{ holds: [{ fence: "7" }] }] } } });
  const lost = new LockLostError("a", 7n, { kind: "gone" });
  lost.result = { fence: 7n };
  expect(asJson(lost)).toMatchObject({ error: { fence: "7", loss: { kind: "gone" } } });
  expect(asJson(lost)).not.toHaveProperty("error.result");
  expect(asJson(new FenceRejectedError("a", 8n, 7n))).toMatchObject({ error: { current: "8", offered: "7" } });
  const knot: { kind: "gone"; itself?: unknown } = { kind: "gone" };
  knot.itself = knot;
  expect(asJson(new LockLostError("a", 7n, knot))).toEqual({
    error: {
      name: "LockLostError",
      code: "ERR_LOCK_LOST",
      lock: "a",
      message: new LockLostError("a", 7n, knot).message,
    },
  });
});

describe("while the store's answer is on its way", () => {
  const counts = (all: readonly { readonly processWaiters: number }[]): readonly number[] =>
    all.map(({ processWaiters }) => processWaiters);

  test("the lease goes on: those who wait behind it here are counted once", async () => {
    const { backend, clock, locks } = stage();
    const lease = await locks.acquire("a");
    // Not passed on in memory: they want something else.
    const all = [1, 2, 3, 4, 5].map(() => locks.acquire("a", { wait: Infinity, maxHold: "10m" }));
    await clock.advance(25_000);
    const stored = await backend.query("a");
    expect(stored.held[0]?.local?.waiters).toBe(5);
    backend.query = async () => {
      await lease.release();
      await all[0];
      return stored;
    };
    const { held, pending } = await locks.query("a");
    expect([counts(held), counts(pending)]).toEqual([[0], [0, 0, 0, 0]]);
    for (const one of all) await (await one).release();
  });

  test("a claim that the store shows as a holder already does not wait as well: its grant is still on the way", async () => {
    const { backend, clock, locks, other } = stage();
    const theirs = await other().acquire("a");
    const all = [1, 2].map(() => locks.acquire("a", { wait: Infinity }));
    await clock.advance(25_000);
    const { held: holders, pending: waiters, ...rest } = await backend.query("a");
    backend.query = async () => ({ ...rest, held: [{ ...holders[0]!, id: waiters[0]!.id }], pending: [] });
    const { held, pending } = await locks.query("a");
    expect(held.map(({ id }) => id)).toEqual([waiters[0]!.id]);
    expect(pending.map(({ id, position }) => [id, position])).toEqual([[undefined, 1]]);
    await theirs.release();
    for (const one of all) await (await one).release();
  });

  test("a claim is withdrawn: neither it nor those behind it are counted beside the one that replaces it", async () => {
    const { backend, clock, locks, other } = stage();
    const theirs = await other().acquire("a");
    const abort = new AbortController();
    const first = failure(locks.acquire("a", { wait: Infinity, signal: abort.signal }));
    const all = [1, 2, 3].map(() => locks.acquire("a", { wait: Infinity, mode: "shared" }));
    await clock.advance(25_000);
    const stored = await backend.inspect("a");
    expect(stored.pending.map(({ local }) => local?.waiters)).toEqual([3]);
    backend.inspect = async () => {
      abort.abort();
      await first;
      return stored;
    };
    const { pending } = await locks.inspect("a");
    expect(pending.map(({ position, mode, processWaiters }) => [position, mode, processWaiters])).toEqual(
      [1, 2, 3].map((position) => [position, "shared", 0]),
    );
    await theirs.release();
    for (const one of all) await (await one).release();
  });
});

describe("what is on its way out of the store", () => {
  test("a claim that was withdrawn before the store was asked is not shown while its release is not there yet, nor are those behind it", async () => {
    const { backend, clock, locks, other } = stage();
    const theirs = await other().acquire("a");
    const abort = new AbortController();
    const first = failure(locks.acquire("a", { wait: Infinity, signal: abort.signal }));
    const all = [1, 2, 3].map(() => locks.acquire("a", { wait: Infinity, mode: "shared" }));
    await clock.advance(25_000);
    const sent = gate();
    backend.interfere.release = async (pass) => {
      await sent.opened;
      return await pass();
    };
    abort.abort();
    await first;
    expect((await backend.inspect("a")).pending.map(({ local }) => local?.waiters)).toContain(3);
    const { pending } = await locks.inspect("a");
    expect(pending.map(({ position, mode, processWaiters }) => [position, mode, processWaiters])).toEqual(
      [1, 2, 3].map((position) => [position, "shared", 0]),
    );
    sent.open();
    await theirs.release();
    for (const one of all) await (await one).release();
  });

  test("a lease that is being released shows none behind it: they are listed themselves", async () => {
    const { backend, clock, locks } = stage();
    const lease = await locks.acquire("a");
    const all = [1, 2, 3].map(() => locks.acquire("a", { wait: Infinity, maxHold: "10m" }));
    await clock.advance(25_000);
    const sent = gate();
    backend.interfere.release = backend.interfere.swap = async (pass) => {
      await sent.opened;
      return await pass();
    };
    const released = lease.release();
    const { held, pending } = await locks.query("a");
    expect(held.map(({ processWaiters }) => processWaiters)).toEqual([0]);
    expect(pending.map(({ processWaiters }) => processWaiters)).toEqual([0, 0, 0]);
    sent.open();
    await released;
    for (const one of all) await (await one).release();
  });

  test("nor does one that was lost, and is still in use", async () => {
    const { backend, clock, locks } = stage();
    const lease = await locks.acquire("a");
    const all = [1, 2, 3].map(() => locks.acquire("a", { wait: Infinity }));
    await clock.advance(25_000);
    expect((await backend.inspect("a")).held.map(({ local }) => local?.waiters)).toEqual([3]);
    backend.listener!.lost(backend.steps[0]!.claims[0]!.id, { kind: "removed" });
    expect(lease.signal.aborted).toBe(true);
    const { held, pending } = await locks.query("a");
    expect(held.map(({ processWaiters }) => processWaiters)).toEqual([0]);
    expect(pending.map(({ processWaiters }) => processWaiters)).toEqual([0, 0, 0]);
    await lease.release();
    for (const one of all) await (await one).release();
  });

  test("what is left of a lease has none behind it: those who wait do so elsewhere by now", async () => {
    const { clock, locks, other } = stage();
    const lease = await locks.acquire("a", { minHold: "1m", wait: Infinity });
    const all = [1, 2, 3].map(() => locks.acquire("a", { wait: Infinity }));
    await clock.advance(25_000);
    expect(countWaiters(await other().inspect("a"))).toBe(3);
    await lease.release();
    await clock.advance(12_000);
    const { held, pending } = await other().inspect("a");
    expect(held.map(({ remainder, processWaiters }) => [remainder, processWaiters])).toEqual([["minHold", 0]]);
    expect(pending.map(({ processWaiters }) => processWaiters)).toEqual([2]);
    await clock.advance(30_000);
    for (const one of all) await (await one).release();
  });

  test("a claim that was made, and withdrawn, while the store was asked is not shown, nor are those behind it", async () => {
    const { backend, clock, locks, other } = stage();
    const theirs = await other().acquire("a");
    const all: Promise<{ release(): Promise<unknown> }>[] = [];
    backend.query = async (prefix) => {
      const abort = new AbortController();
      const first = failure(locks.acquire("a", { wait: Infinity, signal: abort.signal }));
      all.push(...[1, 2, 3].map(() => locks.acquire("a", { wait: Infinity, mode: "shared" })));
      await clock.advance(25_000);
      const stored = await ScriptedBackend.prototype.query.call(backend, prefix);
      expect(stored.pending.map(({ local }) => local?.waiters)).toEqual([3]);
      abort.abort();
      await first;
      await clock.advance(100);
      expect((await backend.inspect("a")).pending.map(({ mode }) => mode)).toEqual(["shared"]);
      return stored;
    };
    const { pending } = await locks.query("a", { timeout: "1m" });
    expect(pending.map(({ position, mode, processWaiters }) => [position, mode, processWaiters])).toEqual(
      [1, 2, 3].map((position) => [position, "shared", 0]),
    );
    await theirs.release();
    for (const one of all) await (await one).release();
  });
});

test.each([
  ["null", { outcome: null }],
  [
    "a getter that throws",
    {
      get outcome(): never {
        throw new Error("no");
      },
    },
  ],
])("an outcome that is %s is a mistake of the backend", async (_, wrong) => {
  const { backend, locks } = stage();
  const lists = { held: [], pending: [], forced: [] };
  backend.inspect = async () => Object.defineProperties(lists, Object.getOwnPropertyDescriptors(wrong)) as never;
  for (const asked of [locks.inspect("a"), locks.outcome("a")]) {
    expect(await failure(asked)).toMatchObject({ code: "ERR_LOCK_BACKEND", fatal: true });
  }
});
