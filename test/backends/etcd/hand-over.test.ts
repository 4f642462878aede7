/** A release that grants: the next claim's key is written with it, so that its fence needs no write of its own. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Claim } from "../../../src/contract/backend.ts";
import { etcd, type EtcdBackend } from "../../../src/backends/etcd/index.ts";
import type { KeyValue } from "../../../src/backends/etcd/client/kv-messages.ts";
import { isHandedOver } from "../../../src/backends/etcd/hand-over.ts";
import { escapedBelow } from "../../../src/backends/etcd/keys.ts";
import { Lease } from "../../../src/backends/etcd/lease.ts";
import { LocalClaim } from "../../../src/backends/etcd/local-claim.ts";
import { readClaim, writeClaim } from "../../../src/backends/etcd/record.ts";
import { type EtcdLab, startEtcd } from "../../../src/lab/servers/etcd.ts";
import { acquire, claim, eventually, granted, refused } from "./claims.ts";

let lab: EtcdLab;
let one: EtcdBackend;
let two: EtcdBackend;
let names = 0;

beforeAll(async () => {
  lab = await startEtcd();
  one = etcd({ endpoints: lab.endpoints });
  two = etcd({ endpoints: lab.endpoints });
});

afterAll(async () => {
  await Promise.all([one.close(), two.close()]);
  await lab.stop();
});

/** Renewed with others: so that a process has the same key of a lock each time. */
function pooled(name: string, change: Partial<Claim> = {}): Claim {
  return claim(name, { renewed: true, ...change });
}

function lockName(): string {
  return `handed-${++names}`;
}

async function keysOf(name: string): Promise<readonly KeyValue[]> {
  const [key, end] = [Buffer.from(`/holdfast/${name}/`), Buffer.from(`/holdfast/${name}0`)];
  return (await one.client.range({ key, end, byCreation: "ascending" })).kvs;
}

/** A lock that the first process holds, and that both have met at: so it knows who may be next. */
async function met(name: string, held: Claim = pooled(name)): Promise<Claim> {
  const first = pooled(name);
  await granted(two, first);
  await refused(one, held);
  await two.release(first);
  await acquire(one, held);
  return held;
}

/** The key of another program in the queue. It goes with its lease, which this returns. */
async function anothers(name: string): Promise<bigint> {
  const { id } = await one.client.grantLease(60);
  const key = Buffer.from(`/holdfast/${name}/${id.toString(16)}`);
  await one.client.txn({ when: [], success: [{ put: { key, value: Buffer.from(""), lease: id } }] });
  return id;
}

function watch(backend: EtcdBackend, waiting: Claim): ReturnType<EtcdBackend["watch"]> {
  return backend.watch(waiting, AbortSignal.timeout(60_000));
}

async function watching(
  backend: EtcdBackend,
  waiting: Claim,
): Promise<{ readonly news: ReturnType<EtcdBackend["watch"]> }> {
  const { watches } = backend.client;
  const news = watch(backend, waiting);
  await eventually("it watches", () => (backend.client.watches > watches ? true : undefined));
  return { news };
}

describe("the next claim", () => {
  test("has its fence by the release of the one before it, without a write of its own", async () => {
    const name = lockName();
    const held = await met(name);
    const waiting = pooled(name);
    await refused(two, waiting);
    const { news } = await watching(two, waiting);
    await one.release(held);
    const { revision } = one.client;
    const grant = await news;
    const [own] = await keysOf(name);
    expect(grant?.fence).toBe(revision);
    // It was created, and written by the release.
    expect(own).toMatchObject({ modRevision: revision, version: 2n });
    expect(own?.createRevision).toBeLessThan(grant?.fence ?? 0n);
    expect((await one.inspect(name)).held.map(({ fence }) => fence)).toEqual([grant?.fence]);
    expect((await two.renew([waiting], [grant?.fence ?? 0n]))[0]?.held).toBe(true);
    // It is ended by that fence, and by no older one.
    expect(await one.forceRelease(name, own?.createRevision ?? 0n, "me", "test")).toBe(false);
    expect(await one.forceRelease(name, grant?.fence ?? 0n, "me", "test")).toBe(true);
    expect((await two.renew([waiting]))[0]).toMatchObject({ held: false, reason: { kind: "forced" } });
  });

  test("has it in a swap() too, and the queue goes on in its order", async () => {
    const name = lockName();
    const held = await met(name);
    const [waiting, next] = [pooled(name), pooled(name)];
    await refused(two, waiting);
    const { news } = await watching(two, waiting);
    expect(await one.swap(held, next)).toMatchObject({ granted: false, position: 1, released: "held" });
    const { fence = 0n } = (await news) ?? {};
    expect(fence).toBe(one.client.revision);
    const { news: nextNews } = await watching(one, next);
    await two.release(waiting);
    expect((await nextNews)?.fence).toBe(two.client.revision);
    expect(two.client.revision).toBeGreaterThan(fence);
    expect((await keysOf(name))[0]?.version).toBe(2n);
    await one.release(next);
  });

  test("shows since when it holds, and not since when it waited; and what it showed last", async () => {
    const name = lockName();
    const held = await met(name);
    const waiting = pooled(name, { meta: { step: "old" } });
    await refused(two, waiting);
    const renamed = { ...waiting, meta: { step: "new" } };
    await refused(two, renamed);
    await eventually("it has waited", async () => {
      const [pending] = (await one.inspect(name)).pending;
      return pending?.meta["step"] === "new" && pending.waitingMs > 400 ? true : undefined;
    });
    await one.release(held);
    await acquire(two, renamed);
    const grantedMs = Date.now();
    expect((await one.inspect(name)).held[0]?.meta).toEqual({ step: "new" });
    await eventually("it says when it began to hold", async () => {
      const [holding] = (await one.inspect(name)).held;
      return (holding?.heldMs ?? Infinity) <= Date.now() - grantedMs + 100 ? true : undefined;
    });
    await two.release(renamed);
    expect(await keysOf(name)).toEqual([]);
  });

  test("writes its key itself where the queue of that revision is no longer known", async () => {
    const name = lockName();
    const held = await met(name);
    const waiting = pooled(name);
    await refused(two, waiting);
    await one.release(held);
    const [touched] = await keysOf(name);
    await granted(one, claim(lockName()));
    await lab.etcdctl("compact", String(one.client.revision));
    const { fence } = await granted(two, waiting);
    expect(touched?.modRevision).toBeGreaterThan(touched?.createRevision ?? 0n);
    expect(fence).toBeGreaterThan(touched?.modRevision ?? 0n);
    await two.release(waiting);
  });

  test.each([
    ["and asks", (waiting: Claim) => acquire(two, waiting)],
    ["and learns it by its watch", (waiting: Claim) => watch(two, waiting)],
  ])("that was only believed to be next, because another was before it, writes its key itself: %s", async (_, wait) => {
    const name = lockName();
    const held = await met(name);
    const waiting = pooled(name);
    const between = await anothers(name);
    await refused(two, waiting);
    const news = wait(waiting);
    await eventually("it watches", () => (two.client.watches > 0 ? true : undefined));
    await one.release(held);
    const { revision } = one.client;
    expect((await keysOf(name))[1]?.modRevision).toBe(revision);
    // As etcdctl does: its number is the revision at which it was granted, so that one is taken.
    await one.client.revokeLease(between);
    expect((await news)?.fence).toBeGreaterThan(revision);
    await two.release(waiting);
  });

  test("does not believe in a write that is no later than what its process had seen before it waited", () => {
    const local = new LocalClaim(pooled(lockName()), escapedBelow("/holdfast/"));
    const key = Buffer.from("k");
    const value = writeClaim(local.claim);
    const own = { key, value, createRevision: 5n, modRevision: 9n, version: 2n, lease: 1n };
    const blocked = { keys: [], mustLeave: 1, revision: 6n };
    const lease = new Lease(
      { header: { clusterId: 1n, memberId: 1n, revision: 1n, term: 1n }, id: 1n, ttl: 30 },
      30,
      0,
    );
    local.place = { key, lease, createRevision: 5n, mayAppear: false, shownKey: undefined };
    const firstThen = { revision: 9n, kv: own };
    const believed = [8n, 9n, 10n].map((knownRevision) => {
      local.blocked = { ...blocked, knownRevision };
      return isHandedOver(local, own, firstThen);
    });
    expect(believed).toEqual([true, false, false]);
    // Nor where it never waited, as far as is known, or where another first was there.
    local.blocked = undefined;
    expect(isHandedOver(local, own, firstThen)).toBe(false);
    local.blocked = { ...blocked, knownRevision: 6n };
    expect(isHandedOver(local, own, { revision: 9n, kv: { ...own, createRevision: 4n } })).toBe(false);
    local.claim = { ...local.claim, resumes: true };
    expect(isHandedOver(local, own, firstThen)).toBe(false);
  });

  test.each([
    ["without its lease", () => Promise.resolve(0n)],
    ["with another lease", async () => (await one.client.grantLease(2)).id],
  ])("that another program wrote %s writes its key itself, so that it ends with its own lease", async (_, leaseOf) => {
    const name = lockName();
    const held = await met(name);
    const waiting = pooled(name);
    await refused(two, waiting);
    await one.release(held);
    const [own] = await keysOf(name);
    const { key, value, lease } = own as KeyValue;
    await one.client.txn({ when: [], success: [{ put: { key, value, lease: await leaseOf() } }] });
    const [written] = await keysOf(name);
    expect(written?.lease).not.toBe(lease);
    const { fence } = await granted(two, waiting);
    expect(fence).toBeGreaterThan(written?.modRevision ?? 0n);
    expect((await keysOf(name))[0]).toMatchObject({ lease, modRevision: fence });
    expect(await two.release(waiting)).toBe("held");
  });

  test("with a minHold writes its key itself: where another process releases it, that counts from the grant, and not from when it began to wait", async () => {
    const name = lockName();
    const held = await met(name);
    const waiting = pooled(name, { minHoldMs: 60_000 });
    await refused(two, waiting);
    const queuedMs = Date.now();
    await eventually("it has waited", () => (Date.now() > queuedMs + 50 ? true : undefined));
    const freedMs = Date.now();
    await one.release(held);
    await acquire(two, waiting);
    const [own] = await keysOf(name);
    expect(readClaim((own as KeyValue).value).sinceMs).toBeGreaterThanOrEqual(freedMs);
    expect(await one.release({ ...waiting, resumes: true, minHoldMs: 0 })).toBe("held");
    expect((await one.inspect(name)).held).toMatchObject([{ remainder: "minHold" }]);
  });

  test("is never a lock below this one, where names are paths: that one may be held, and keeps its fence", async () => {
    const backends = [1, 2, 3].map(() => etcd({ endpoints: lab.endpoints, names: "paths" }));
    const [a, b, c] = backends as [EtcdBackend, EtcdBackend, EtcdBackend];
    const name = lockName();
    const [first, second, under] = [pooled(name), pooled(name), pooled(`${name}/below`)];
    await granted(a, first);
    await refused(b, second);
    const { fence } = await granted(c, under);
    await a.release(first);
    await acquire(b, second);
    await b.release(second);
    expect((await c.renew([under], [fence]))[0]).toMatchObject({ held: true });
    expect(await c.release(under)).toBe("held");
    await Promise.all(backends.map((backend) => backend.close()));
  });

  test("of another program is not written", async () => {
    const name = lockName();
    const held = pooled(name);
    const first = pooled(name);
    await granted(two, first);
    await refused(one, held);
    const id = await anothers(name);
    await two.release(first);
    await acquire(one, held);
    await one.release(held);
    const [theirs] = await keysOf(name);
    expect(theirs).toMatchObject({ lease: id, version: 1n });
    await one.client.revokeLease(id);
  });
});

describe("a waiter whose watch begins late", () => {
  test("learns that the one before it has left meanwhile", async () => {
    const name = lockName();
    const [held, waiting] = [claim(name), claim(name)];
    await granted(one, held);
    await refused(two, waiting);
    await one.release(held);
    expect((await watch(two, waiting))?.granted).toBe(true);
    await two.release(waiting);
  });

  test("learns it also where that one has come back since, behind it, with a key of the same name", async () => {
    const name = lockName();
    const [held, waiting, again] = [pooled(name), pooled(name), pooled(name)];
    await granted(one, held);
    await refused(two, waiting);
    await one.release(held);
    await refused(one, again);
    expect((await watch(two, waiting))?.granted).toBe(true);
    expect((await one.inspect(name)).held).toMatchObject([{ id: waiting.id }]);
    await two.release(waiting);
    await acquire(one, again);
    await one.release(again);
  });

  test("hears of what happens later, though much else was written in between", async () => {
    const name = lockName();
    const [held, waiting] = [claim(name), claim(name)];
    await granted(one, held);
    await refused(two, waiting);
    for (const other of [claim(lockName()), claim(lockName())]) {
      await granted(one, other);
      await one.release(other);
    }
    const { calls } = two.client;
    const news = watch(two, waiting);
    await eventually("it has looked once more", () => (two.client.calls > calls ? true : undefined));
    await one.release(held);
    expect((await news)?.granted).toBe(true);
    await two.release(waiting);
  });
});
