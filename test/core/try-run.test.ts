/** tryRun(): runs if the lock is free, and says who holds it if not. */
import { expect, test } from "vitest";
import { LockBackendError, LockClosedError, LockLostError, LockTimeoutError } from "../../src/contract/errors.ts";
import { failure, gate, stage } from "./scripted.ts";

test("runs on a free lock, and frees it; says who holds a busy one, and asks once", async () => {
  const { backend, clock, locks, other } = stage();
  expect(await locks.tryRun("a", async ({ fence }) => Number(fence))).toEqual({ ran: true, value: 1 });
  const held = gate();
  const theirs = other({ holder: "there:7" }).run("a", { meta: { reason: "import" } }, () => held.opened);
  await clock.advance(1);
  const before = backend.count("attempt");
  const busy = await locks.tryRun("a", { ttl: "5s" }, () => expect.unreachable());
  expect(busy).toMatchObject({ ran: false, heldBy: [{ holder: "there:7", meta: { reason: "import" } }] });
  expect(backend.count("attempt")).toBe(before + 1);
  held.open();
  await theirs;
  expect((await locks.tryRun("a", () => "mine")).ran).toBe(true);
  expect(await locks.query("a")).toMatchObject({ held: [], pending: [] });
});

test("of several locks, all or none", async () => {
  const { locks, other } = stage();
  const b = await other().acquire("b");
  expect(await locks.tryRun(["a", "b", "c"], () => expect.unreachable())).toMatchObject({
    ran: false,
    heldBy: [{ name: "b" }],
  });
  expect(await locks.isHeld("a")).toBe(false);
  await b.release();
  expect(await locks.tryRun(["a", "b", "c"], ({ fences }) => fences.size)).toEqual({ ran: true, value: 3 });
});

test("busy also where this process holds it; inside its own function it re-enters", async () => {
  const { locks } = stage();
  await using _lease = await locks.acquire("a");
  expect(await locks.tryRun("a", () => 1)).toMatchObject({ ran: false, heldBy: [{ holder: "here:1" }] });
  expect(await locks.run("b", () => locks.tryRun("b", () => 1))).toEqual({ ran: true, value: 1 });
});

test("a quarantine is in the answer", async () => {
  const { backend, locks } = stage();
  backend.attempt = async () => ({ granted: false, heldBy: [], quarantineMs: 5000 });
  expect(await locks.tryRun("a", () => 1)).toEqual({ ran: false, heldBy: [], quarantineMs: 5000 });
});

test("the work's own errors stay what they are, a timeout of another lock too", async () => {
  const { locks } = stage();
  const own = new LockTimeoutError("other", 5, []);
  const rejects = (error: unknown): Promise<unknown> =>
    failure(
      locks.tryRun("a", () => {
        throw error;
      }),
    );
  expect(await rejects(own)).toBe(own);
  expect(await locks.isHeld("a")).toBe(false);
});

test("work that resolves after its lease was lost makes it reject, with the result", async () => {
  const { clock, locks, other } = stage();
  const held = gate();
  const lost = failure(locks.tryRun("a", () => held.opened.then(() => "late")));
  await clock.advance(1);
  const { fence } = (await other().query("a")).held[0]!;
  await other().forceRelease("a", { fence, reason: "stuck" });
  await clock.advance(1);
  held.open();
  const error = await lost;
  expect(error).toBeInstanceOf(LockLostError);
  expect(error["result"]).toBe("late");
});

test("a store that does not answer in time, and locks that are closed, are errors; close() waits for the work", async () => {
  const { backend, clock, locks } = stage();
  const held = gate();
  const mine = locks.tryRun("b", () => held.opened.then(() => "done"));
  await clock.advance(1);
  backend.interfere.attempt = () => new Promise(() => {});
  const late = failure(locks.tryRun("a", { timeout: "2s" }, () => expect.unreachable()));
  await clock.advance(2000);
  expect(await late).toBeInstanceOf(LockBackendError);
  const closed = failure(locks.close());
  expect(await failure(locks.tryRun("a", () => 1))).toBeInstanceOf(LockClosedError);
  held.open();
  expect(await mine).toEqual({ ran: true, value: "done" });
  await clock.advance(10_000);
  // The store has never answered for "a".
  expect(await closed).toBeInstanceOf(LockBackendError);
});

test("refuses a wait, and no work", async () => {
  const { locks } = stage();
  await expect(locks.tryRun("a", { wait: "1s" } as never, () => 1)).rejects.toThrow(
    /no `wait` for tryRun\(\).*use run/u,
  );
  await expect(locks.tryRun("a", {} as never)).rejects.toThrow(/`tryRun` to get a function/u);
  await expect(locks.tryRun("", () => 1)).rejects.toThrow(TypeError);
});

test.each(["a", ["a", "b"]])("a signal's reason is never taken for a busy lock, whatever it is (%j)", async (name) => {
  const { locks } = stage();
  const reason = new LockTimeoutError("another", 0, []);
  const aborted = locks.tryRun(name, { signal: AbortSignal.abort(reason) }, () => expect.unreachable());
  expect(await failure(aborted)).toBe(reason);
});
