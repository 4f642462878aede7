/** Claims that go past the queue of their process, as the drop-ins make them: what the store says of one may come before its grant. */
import { expect, test } from "vitest";
import { memory, memoryStore } from "../../src/backends/memory/index.ts";
import type { Listener } from "../../src/contract/backend.ts";
import { LockLostError } from "../../src/contract/errors.ts";
import type { AcquireOptions, Lease, Locks, LocksOptions } from "../../src/core/api.ts";
import { takeByClaim } from "../../src/core/by-claim.ts";
import { insides } from "../../src/core/inside.ts";
import { createLocks } from "../../src/core/locks.ts";
import { type Faulty, faulty } from "../../src/testing/faulty.ts";
import { FakeClock } from "../../src/testing/fake-clock.ts";
import type { Member } from "../../src/contract/backend.ts";
import { failure } from "./scripted.ts";

interface Process {
  readonly locks: Locks;
  readonly backend: Faulty<Member>;
  readonly take: (stealsFor?: string, options?: AcquireOptions) => Promise<Lease | null>;
}

let ids = 0;

function processes(options: LocksOptions = {}): { clock: FakeClock; here: Process; there: Process } {
  const clock = new FakeClock();
  const store = memoryStore({ clock });
  const start = (holder: string): Process => {
    const backend = faulty(memory({ store }), { clock });
    const locks = createLocks(backend, { ...options, clock, holder });
    const id = (): string => `claim-${++ids}`.padEnd(22, "A");
    const take: Process["take"] = (stealsFor, own = {}) =>
      takeByClaim(insides.get(locks)!, "a", own, { id: id(), stealsFor });
    return { locks, backend, take };
  };
  return { clock, here: start("here"), there: start("there") };
}

test("a lease that was ended by force before its grant is known is never believed", async () => {
  const { clock, here, there } = processes({ renew: false });
  here.backend.faults.next("attempt", { fault: "delay", replyMs: 100 });
  const taking = here.take();
  await clock.settle();
  const [held] = (await there.locks.inspect("a")).held;
  await there.locks.forceRelease("a", { fence: held!.fence, reason: "test" });
  const next = await there.locks.acquire("a");
  await clock.advance(100);
  expect(await taking).toBeNull();
  next.assertHeld();
});

test.each([true, false])(
  "a thief that was robbed before its grant is known learns of it (renew: %s)",
  async (renew) => {
    const { clock, here, there } = processes({ renew });
    here.backend.faults.next("attempt", { fault: "delay", replyMs: 100 });
    // What it heard counts, also where the store does not answer any more.
    here.backend.faults.always("renew", { fault: "hang" });
    const robbed = failure(here.take("first"));
    await clock.settle();
    const thief = await there.take("second");
    await clock.advance(100);
    const lost = await robbed;
    expect(lost).toBeInstanceOf(LockLostError);
    expect(lost).toMatchObject({ loss: { kind: "forced", by: "there", reason: "second" } });
    thief!.assertHeld();
    await thief!.release();
    expect((await there.locks.inspect("a")).held).toEqual([]);
  },
);

test("a grant that was robbed on its way by a thief of its own process is not begun beside it", async () => {
  const { clock, here } = processes();
  here.backend.faults.next("attempt", { fault: "delay", replyMs: 100 });
  here.backend.faults.always("listen", { fault: "delay", replyMs: 1000 });
  let late: Lease | undefined;
  const waits = here.locks.acquire("a", { wait: Infinity }).then((lease) => (late = lease));
  await clock.settle();
  const thief = await here.take("test");
  await clock.advance(200);
  expect(late).toBeUndefined();
  thief!.assertHeld();
  await thief!.release();
  await clock.advance(1000);
  expect((await waits).fence).toBeGreaterThan(thief!.fence);
});

test("a grant of this process ends an older lease of it that was robbed elsewhere, though no news of that has come", async () => {
  const { clock, here, there } = processes();
  here.backend.faults.always("listen", { fault: "request-lost" });
  const first = await there.locks.acquire("a");
  const waits = here.locks.acquire("a", { wait: Infinity });
  await clock.settle();
  const robbed = await here.take("test");
  robbed!.assertHeld();
  const thief = await there.take("test");
  await thief!.release();
  const next = await waits;
  expect(next.fence).toBeGreaterThan(robbed!.fence);
  expect(() => robbed!.assertHeld()).toThrow(LockLostError);
  next.assertHeld();
  expect(await first.release()).toBe("lost");
});

test("a thief is known to its process, though the robbed lease's listeners have taken hundreds of other locks", async () => {
  const { clock, here } = processes();
  here.backend.faults.always("listen", { fault: "request-lost" });
  const robbed = await here.locks.acquire("a");
  const others: Promise<Lease>[] = [];
  robbed.signal.addEventListener("abort", () => {
    for (let count = 0; count < 600; count++) others.push(here.locks.acquire(`other ${count}`));
  });
  const thief = await here.take("test");
  await Promise.all(others);
  thief!.assertHeld();
  const closing = here.locks.close({ force: true, grace: 0 });
  expect(thief!.signal.aborted).toBe(true);
  await clock.advance(10);
  await closing;
});

test("where news may have been missed, a lease that is not renewed is looked at, too", async () => {
  const clock = new FakeClock();
  const store = memoryStore({ clock });
  const backend = memory({ store });
  let listener: Listener | undefined;
  backend.listen = (given) => void (listener = given);
  const here = createLocks(backend, { clock, renew: false });
  const there = createLocks(memory({ store }), { clock });
  const [ended, other] = [await here.acquire("a"), await here.acquire("b")];
  await there.forceRelease("a", { fence: ended.fence, reason: "test" });
  listener!.doubt();
  await clock.settle();
  expect(ended.remaining()).toBe(0);
  expect(ended.signal.reason).toMatchObject({ loss: { kind: "forced", reason: "test" } });
  other.assertHeld();
});

test("one that is given up while what lingers in its way goes back is not asked for", async () => {
  const { clock, here, there } = processes({ linger: 1000 });
  await (await here.locks.acquire("a")).release();
  expect((await there.locks.inspect("a")).held).toHaveLength(1);
  const abort = new AbortController();
  const release = here.backend.release.bind(here.backend);
  Object.assign(here.backend, {
    release: (...args: Parameters<typeof release>) => {
      abort.abort();
      return release(...args);
    },
  });
  expect((await failure(here.take(undefined, { signal: abort.signal }))).name).toBe("AbortError");
  await clock.advance(10);
  expect((await there.locks.inspect("a")).held).toEqual([]);
});
