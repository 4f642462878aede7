/** The rules that need two clients: two in this process over one store, and two processes. */
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import type { Locks, LocksOptions } from "../../../src/core/api.ts";
import { webLocks, type WebLockManager, type WebLockSnapshot } from "../../../src/drop-ins/web-locks/index.ts";
import { eventually } from "../../../src/testing/eventually.ts";
import { ClientProcess } from "./client-process.ts";
import { hold, isSettled, modes, rejectsExactly, rejectsWith, unreached } from "./rules/rule.ts";
import { type Store, STORES } from "./stores.ts";

let count = 0;
let name: string;
beforeEach(() => void (name = `clients ${++count}`));

function clientsOf(list: WebLockSnapshot["held"]): readonly string[] {
  return list.filter((one) => one.name === name).map(({ clientId }) => clientId);
}

describe.each(Object.entries(STORES))("two clients on %s", (_, start) => {
  let store: Store;
  let [oneLocks, otherLocks]: [Locks, Locks] = [undefined as never, undefined as never];
  let [one, other]: [WebLockManager, WebLockManager] = [undefined as never, undefined as never];

  beforeAll(async () => {
    store = await start();
    [oneLocks, otherLocks] = [await store.client(), await store.client()];
    [one, other] = [webLocks(oneLocks), webLocks(otherLocks)];
  });

  afterAll(() => store.stop());

  test("exclude each other, and take turns in the order of their requests", async () => {
    const first = await hold(one, name);
    const second = hold(other, name);
    await eventually("it waits", async () =>
      modes((await one.query()).pending, name).length === 1 ? true : undefined,
    );
    expect(await other.request(name, { ifAvailable: true }, (lock) => lock)).toBeNull();
    const third = hold(one, name);
    // A process may pass a lock around for 10 ms before the next process has its turn: this one has had it for longer.
    await sleep(20);
    first.release();
    await first.request;
    const theirs = await second;
    expect(theirs.lock.fence).toBeGreaterThan(first.lock.fence);
    theirs.release();
    const last = await third;
    expect(last.lock.fence).toBeGreaterThan(theirs.lock.fence);
    last.release();
    await last.request;
  });

  test("share a lock, and have different ids", async () => {
    const readers = [await hold(one, name, { mode: "shared" }), await hold(other, name, { mode: "shared" })];
    const { held } = await one.query();
    expect(modes(held, name)).toEqual(["shared", "shared"]);
    expect(new Set(clientsOf(held)).size).toBe(2);
    expect(clientsOf((await other.query()).held).toSorted()).toEqual(clientsOf(held).toSorted());
    const writer = other.request(name, () => "written");
    expect(await isSettled(writer)).toBe(false);
    for (const { release } of readers) release();
    expect(await writer).toBe("written");
  });

  test("see a deadlock in a snapshot", async () => {
    const [mine, theirs] = [await hold(one, name), await hold(other, `${name} 2`)];
    const giveUp = new AbortController();
    const { signal } = giveUp;
    const crossed = [one.request(`${name} 2`, { signal }, unreached), other.request(name, { signal }, unreached)];
    const snapshot = await eventually("both wait", async () => {
      const seen = await one.query();
      return seen.pending.filter((waits) => waits.name.startsWith(name)).length === 2 ? seen : undefined;
    });
    const whose = (list: "held" | "pending", which: string): string | undefined =>
      snapshot[list].find((info) => info.name === which)?.clientId;
    expect(whose("held", name)).toBe(whose("pending", `${name} 2`));
    expect(whose("held", `${name} 2`)).toBe(whose("pending", name));
    giveUp.abort("no");
    for (const request of crossed) await rejectsExactly("no", request);
    mine.release();
    theirs.release();
    await Promise.all([mine.request, theirs.request]);
  });

  test("are listed in the order in which they asked", async () => {
    const holder = await hold(one, name);
    const waiters: Promise<unknown>[] = [];
    const asked: string[] = [];
    for (const mode of ["shared", "exclusive", "shared"] as const) {
      waiters.push(other.request(name, { mode }, () => {}));
      asked.push(mode);
      await eventually("it is listed", async () => {
        const { pending } = await other.query();
        return modes(pending, name).length === asked.length ? true : undefined;
      });
    }
    expect(modes((await other.query()).pending, name)).toEqual(asked);
    holder.release();
    await Promise.all([holder.request, ...waiters]);
  });

  test("steal from each other: the robbed one hears of it at once", async () => {
    const robbed = await hold(one, name);
    const rejected = rejectsWith("AbortError", robbed.request);
    const waits = one.request(name, () => "waited");
    await eventually("it waits", async () =>
      modes((await one.query()).pending, name).length === 1 ? true : undefined,
    );
    const thief = await hold(other, name, { steal: true });
    await rejected;
    expect(robbed.lock.signal.aborted).toBe(true);
    expect(thief.lock.fence).toBeGreaterThan(robbed.lock.fence);
    expect(await isSettled(waits)).toBe(false);
    // And back again.
    const again = rejectsWith("AbortError", thief.request);
    const back = await hold(one, name, { steal: true });
    await again;
    back.release();
    expect(await waits).toBe("waited");
  });

  test("exclude what is held without Web Locks, under the same name", async () => {
    await oneLocks.run(name, async () => {
      expect(await other.request(name, { ifAvailable: true }, (lock) => lock)).toBeNull();
      expect(modes((await other.query()).held, name)).toEqual(["exclusive"]);
    });
    const { release, request } = await hold(one, name);
    expect(await otherLocks.tryAcquire(name)).toBeNull();
    release();
    await request;
  });
});

describe.each(["file", "redis"])("two processes on %s", (kind) => {
  let store: Store;
  let own: Locks;
  let mine: WebLockManager;

  beforeAll(async () => {
    store = await STORES[kind]!();
    own = await store.client();
    mine = webLocks(own);
  });

  afterAll(() => store.stop());

  async function startOther(options?: LocksOptions): Promise<ClientProcess> {
    const client = await ClientProcess.start(store.url as string, options);
    onTestFinished(() => client.close());
    return client;
  }

  test("exclude each other, wait for each other, and give up", async () => {
    const other = await startOther();
    const theirs = other.request(name);
    await other.reported("granted", theirs);
    expect(await mine.request(name, { ifAvailable: true }, (lock) => lock)).toBeNull();
    const giveUp = new AbortController();
    const given = mine.request(name, { signal: giveUp.signal }, unreached);
    const waits = hold(mine, name);
    const snapshot = await eventually("both are listed", async () => {
      const seen = await mine.query();
      return modes(seen.pending, name).length === 2 ? seen : undefined;
    });
    expect(new Set([...clientsOf(snapshot.held), ...clientsOf(snapshot.pending)]).size).toBe(2);
    giveUp.abort("no");
    await rejectsExactly("no", given);
    other.release(theirs);
    await other.reported("resolved", theirs);
    const held = await waits;
    const tried = other.request(name, { ifAvailable: true });
    await other.reported("none", tried);
    held.release();
    await held.request;
  });

  test("steal from each other: the robbed request rejects while its callback goes on", async () => {
    const other = await startOther();
    const theirs = other.request(name);
    const { fence } = await other.reported("granted", theirs);
    const thief = await hold(mine, name, { steal: true });
    expect(thief.lock.fence).toBeGreaterThan(BigInt(fence as string));
    expect(await other.reported("rejected", theirs)).toMatchObject({ error: "AbortError", cause: "LockLostError" });
    expect(await other.reported("lost", theirs)).toMatchObject({ error: "LockLostError" });
    const rejected = rejectsWith("AbortError", thief.request);
    const back = other.request(name, { steal: true });
    await other.reported("granted", back);
    await rejected;
    other.release(back);
    await other.reported("resolved", back);
  });

  test.each([true, "thread"] as const)("a stolen lock is renewed like any other (renew: %s)", async (renew) => {
    const other = await startOther({ ttl: "3s", renew });
    const theirs = other.request(name, { steal: true });
    await other.reported("granted", theirs);
    await eventually("it is held for longer than its ttl", async () => {
      const [holding] = (await own.query(name)).held;
      return holding !== undefined && holding.heldMs > 3500 ? true : undefined;
    });
    other.release(theirs);
    await other.reported("resolved", theirs);
  });

  test("a lock of a process that was killed goes to the next one", async () => {
    const other = await startOther({ ttl: "2s" });
    const theirs = other.request(name);
    await other.reported("granted", theirs);
    const waits = mine.request(name, () => "mine");
    expect(await isSettled(waits)).toBe(false);
    await other.kill();
    expect(await waits).toBe("mine");
  });
});
