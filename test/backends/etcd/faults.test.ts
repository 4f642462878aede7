/** Members that die, stop, are cut off or answer too late: no claim is granted what another holds, and all go on. */
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import type { LossReason } from "../../../src/contract/loss.ts";
import { createLocks } from "../../../src/core/locks.ts";
import { etcd, type EtcdBackend } from "../../../src/backends/etcd/index.ts";
import { type Proxy, startProxy } from "../../../src/lab/proxy.ts";
import { type EtcdLab, type EtcdServer, startEtcd } from "../../../src/lab/servers/etcd.ts";
import { acquire, claim, eventually, granted, refused, renewed } from "./claims.ts";

const TIMEOUT_MS = 120_000;

let lab: EtcdLab;
let observer: EtcdBackend;
const opened: EtcdBackend[] = [];
const proxies: Proxy[] = [];
let names = 0;

beforeAll(async () => {
  lab = await startEtcd({ members: 3, canIsolate: true });
  observer = etcd({ endpoints: lab.endpoints });
}, TIMEOUT_MS);

afterEach(async () => {
  await Promise.allSettled(opened.splice(0).map((backend) => backend.close()));
  await Promise.all(proxies.splice(0).map((proxy) => proxy.stop()));
});

afterAll(async () => {
  await observer.close();
  await lab.stop();
});

function open(...servers: readonly { readonly port: number }[]): EtcdBackend {
  const endpoints = servers.length === 0 ? lab.endpoints : servers.map(({ port }) => `127.0.0.1:${port}`).join(",");
  const backend = etcd({ endpoints });
  opened.push(backend);
  return backend;
}

async function openBehindProxy(server: EtcdServer): Promise<[EtcdBackend, Proxy]> {
  const proxy = await startProxy({ port: server.port });
  proxies.push(proxy);
  return [open(proxy), proxy];
}

function lockName(): string {
  return `faults-${++names}`;
}

/** All members serve again, and agree on who leads. */
async function whole(): Promise<void> {
  await eventually("all members are there", async () => {
    const all = await Promise.all(lab.servers.map((server) => server.status()));
    const leader = all[0]?.leaderId;
    return leader !== undefined && leader !== 0n && all.every((one) => one?.leaderId === leader) ? true : undefined;
  });
}

describe("a leader", () => {
  test.each([
    ["killed", (leader: EtcdServer) => leader.kill(), (leader: EtcdServer) => leader.restart()],
    ["stopped", (leader: EtcdServer) => leader.pause(), (leader: EtcdServer) => leader.resume()],
    ["cut off", (leader: EtcdServer) => lab.isolate(leader), () => lab.rejoin()],
  ] as const)(
    "that is %s: a holder keeps its lease, and a waiter gets the lock afterwards (S73)",
    { timeout: TIMEOUT_MS },
    async (_, strike, mend) => {
      await whole();
      const leader = await lab.leader();
      const name = lockName();
      const losses: (LossReason | string)[] = [];
      // It starts at the leader, and must find another member.
      const holder = open(leader, ...lab.servers.filter((server) => server !== leader));
      holder.listen({ lost: (_id, reason) => losses.push(reason), doubt: () => undefined });
      const waiter = open();
      const [held, waiting] = [claim(name, { ttlMs: 30_000 }), claim(name, { ttlMs: 30_000 })];
      const { fence } = await granted(holder, held);
      await refused(waiter, waiting);
      const acquired = acquire(waiter, waiting);
      await strike(leader);
      try {
        expect(await renewed(holder, held), "held").toBe(true);
        const next = await eventually("another member leads", async () => {
          const found = await lab.leader();
          return found === leader ? undefined : found;
        });
        expect(next).not.toBe(leader);
        expect(await renewed(holder, held), "held").toBe(true);
        expect(await eventually("released", () => holder.release(held).catch(() => undefined))).toMatch(/held|absent/);
        expect((await acquired).fence).toBeGreaterThan(fence);
        expect(losses).toEqual([]);
      } finally {
        await mend(leader);
      }
    },
  );
});

describe("a member without the others", () => {
  test("confirms nothing and grants nothing, though it answers", { timeout: TIMEOUT_MS }, async () => {
    await whole();
    const leader = await lab.leader();
    const alone = open(leader);
    const [held, free] = [claim(lockName(), { ttlMs: 4000 }), claim(lockName(), { ttlMs: 4000 })];
    const { fromMs = 0, ttlMs = 0 } = await granted(alone, held);
    await lab.isolate(leader);
    try {
      // Whatever it says, nothing is believed that the others may not know. One that was asked for before counts.
      const untilMs = fromMs + ttlMs;
      while (performance.now() < untilMs) {
        const [renewal] = await alone.renew([held]);
        if (renewal?.held === true) expect(renewal.fromMs).toBeLessThan(untilMs);
        const answer = await alone.attempt(free).catch(() => undefined);
        expect(answer?.granted, "a grant of a member alone").not.toBe(true);
      }
      // The others have let it go by themselves.
      await acquire(observer, claim(held.name));
      const [renewal] = await alone.renew([held]);
      expect(renewal?.held).not.toBe(true);
    } finally {
      await lab.rejoin();
    }
    expect(await renewed(alone, held), "the cluster has given the lock away").toBe(false);
  });

  test("does not answer a transaction of comparisons only from its own memory", { timeout: TIMEOUT_MS }, async () => {
    await whole();
    const leader = await lab.leader();
    const alone = open(leader);
    const one = claim(lockName());
    await granted(alone, one);
    const found = alone.leaseKey(one.name, (await observer.query(one.name)).held[0]?.fence ?? 0n);
    await lab.isolate(leader);
    try {
      await eventually("it knows no leader", async () => ((await leader.status())?.leaderId === 0n ? true : undefined));
      await acquire(observer, claim(lockName()));
      const when = [{ key: found?.key ?? Buffer.from("x"), createRevision: found?.createRevision ?? 0n }];
      // As the renewals ask: with a read in it.
      const read = { range: { key: Buffer.from("x") } };
      await expect(alone.client.txn({ when, success: [read], failure: [read] }, 1500)).rejects.toMatchObject({
        name: "EtcdError",
      });
    } finally {
      await lab.rejoin();
    }
  });
});

describe("a waiter", () => {
  test(
    "gets its turn after a compaction of everything that it could have heard (S73)",
    { timeout: TIMEOUT_MS },
    async () => {
      await whole();
      const name = lockName();
      const [holder, [waiter, proxy]] = [open(), await openBehindProxy(await lab.leader())];
      const [held, waiting] = [claim(name), claim(name)];
      await granted(holder, held);
      await refused(waiter, waiting);
      proxy.hang("replies");
      await holder.release(held);
      for (let i = 0; i < 3; i++) {
        const other = claim(lockName());
        await granted(holder, other);
        await holder.release(other);
      }
      await lab.etcdctl("compact", String(holder.client.revision));
      // The watch that was to tell begins only now, at a revision that is compacted.
      const watching = waiter.watch(waiting, AbortSignal.timeout(60_000));
      await proxy.heal();
      proxy.cut();
      await watching;
      await acquire(waiter, waiting);
    },
  );

  test("whose stream of watches is cut asks again, and gets its turn (S73)", { timeout: TIMEOUT_MS }, async () => {
    await whole();
    const name = lockName();
    const [holder, [waiter, proxy]] = [open(), await openBehindProxy(await lab.leader())];
    const [held, waiting] = [claim(name), claim(name)];
    await granted(holder, held);
    await refused(waiter, waiting);
    const watching = waiter.watch(waiting, AbortSignal.timeout(60_000));
    await eventually("it watches", () => (waiter.client.watches > 0 ? true : undefined));
    proxy.cut();
    expect(await watching, "no news").toBeUndefined();
    const acquired = acquire(waiter, waiting);
    await holder.release(held);
    await acquired;
  });

  test(
    "whose lease ended while it waited is not granted when its predecessor leaves (S71)",
    { timeout: TIMEOUT_MS },
    async () => {
      await whole();
      const name = lockName();
      const [holder, [waiter, proxy]] = [open(), await openBehindProxy(await lab.leader())];
      const [held, waiting, third] = [claim(name), claim(name, { ttlMs: 2000 }), claim(name)];
      await granted(holder, held);
      await refused(waiter, waiting);
      await refused(holder, third);
      proxy.hang("requests");
      await eventually("its place is gone", async () =>
        (await holder.query(name)).pending.length === 1 ? true : undefined,
      );
      const { revision } = holder.client;
      await holder.release(held);
      const grant = await acquire(holder, third);
      expect(grant.fence).toBeGreaterThan(revision);
      await proxy.heal();
      // It queues again, behind the third, and is not granted before that leaves.
      const answer = await eventually("an answer", () => waiter.attempt(waiting).catch(() => undefined));
      expect(answer.granted).toBe(false);
      await holder.release(third);
      expect((await acquire(waiter, waiting)).fence).toBeGreaterThan(grant.fence);
    },
  );
});

describe("a lost answer", () => {
  test("to a grant: asked again, it is the same lease, and there is one key", { timeout: TIMEOUT_MS }, async () => {
    const [backend, proxy] = await openBehindProxy(await lab.leader());
    const one = claim(lockName());
    // The connection and the lease are there.
    await granted(backend, claim(lockName(), { ttlMs: one.ttlMs }));
    proxy.drop("replies");
    await expect(backend.attempt(one)).rejects.toMatchObject({ code: "ERR_LOCK_BACKEND", fatal: false });
    await proxy.heal();
    proxy.cut();
    const grant = await eventually("granted", async () => {
      const answer = await backend.attempt(one).catch(() => undefined);
      return answer?.granted === true ? answer : undefined;
    });
    const { held, pending } = await observer.query(one.name);
    expect([held.map(({ fence }) => fence), pending]).toEqual([[grant.fence], []]);
    expect(await backend.release(one)).toBe("held");
  });

  test(
    "to a grant of a claim that was given up: nothing is left, also if the request comes late",
    { timeout: TIMEOUT_MS },
    async () => {
      const [backend, proxy] = await openBehindProxy(await lab.leader());
      const one = claim(lockName(), { renewed: true });
      const other = claim(lockName(), { renewed: true });
      // Both have one lease, which the other keeps alive.
      await granted(backend, other);
      proxy.hang("requests");
      await expect(backend.attempt(one)).rejects.toMatchObject({ fatal: false });
      const released = backend.release(one).catch(() => undefined);
      await proxy.heal();
      await released;
      await eventually("all is quiet", async () =>
        (await backend.release(one).catch(() => undefined)) === "absent" ? true : undefined,
      );
      const rival = claim(one.name);
      await acquire(observer, rival);
      await observer.release(rival);
      expect(await renewed(backend, other)).toBe(true);
    },
  );

  test("to a release: asked again, it says absent, and the lock is free", { timeout: TIMEOUT_MS }, async () => {
    const [backend, proxy] = await openBehindProxy(await lab.leader());
    const one = claim(lockName());
    await granted(backend, one);
    proxy.drop("replies");
    await expect(backend.release(one)).rejects.toMatchObject({ code: "ERR_LOCK_BACKEND" });
    await proxy.heal();
    proxy.cut();
    expect(await eventually("released", () => backend.release(one).catch(() => undefined))).toBe("absent");
    await granted(observer, claim(one.name));
  });
});

test(
  "a holder that was stopped past its ttl cannot overwrite what the next one wrote (S72)",
  { timeout: TIMEOUT_MS },
  async () => {
    await whole();
    const name = lockName();
    const [first, proxy] = await openBehindProxy(await lab.leader());
    const second = open();
    const counter = Buffer.from(`/counters/${name}`);
    const one = claim(name, { ttlMs: 2000 });
    const { fence } = await granted(first, one);
    const guard = first.leaseKey(name, fence);
    if (guard === undefined) throw new Error("it has no key");
    const write = (client: EtcdBackend["client"], key: typeof guard, value: string): Promise<boolean> =>
      client
        .txn({ when: [key], success: [{ put: { key: counter, value: Buffer.from(value), lease: 0n } }] })
        .then(({ succeeded }) => succeeded);
    expect(await write(first.client, guard, "1")).toBe(true);
    // As a process that is stopped: it says nothing, and hears nothing.
    proxy.hang();
    const next = claim(name);
    const grant = await acquire(second, next);
    expect(grant.fence).toBeGreaterThan(fence);
    const theirs = second.leaseKey(name, grant.fence);
    if (theirs === undefined) throw new Error("it has no key");
    expect(await write(second.client, theirs, "2")).toBe(true);
    await proxy.heal();
    expect(await eventually("an answer", () => write(first.client, guard, "stale").catch(() => undefined))).toBe(false);
    const { kvs } = await second.client.range({ key: counter });
    expect(kvs[0]?.value.toString()).toBe("2");
  },
);

test(
  "a member that stops under the core: work goes on, and no other process gets in",
  { timeout: TIMEOUT_MS },
  async () => {
    await whole();
    const [first] = lab.servers as [EtcdServer];
    const name = lockName();
    const locks = createLocks(etcd({ endpoints: lab.endpoints }), { ttl: 9000 });
    const others = createLocks(etcd({ endpoints: lab.endpoints }), { ttl: 9000 });
    try {
      await locks.run(name, async ({ signal }) => {
        first.pause();
        const untilMs = performance.now() + 9000;
        await eventually(
          "longer than a ttl has passed",
          async () => {
            expect(await others.tryAcquire(name), "another got in").toBeNull();
            return performance.now() > untilMs || signal.aborted ? true : undefined;
          },
          { paceMs: 300 },
        );
        expect(signal.aborted).toBe(false);
      });
    } finally {
      first.resume();
      await Promise.all([locks.close(), others.close()]);
    }
  },
);
