/** Members that die, stop, are cut off or answer too late: no claim is granted what another holds, and all go on. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Claim } from "../../../src/contract/backend.ts";
import type { LossReason } from "../../../src/contract/loss.ts";
import { etcd, type EtcdBackend } from "../../../src/backends/etcd/index.ts";
import { type Proxy, startProxy } from "../../../src/lab/proxy.ts";
import { type EtcdLab, type EtcdServer, startEtcd } from "../../../src/lab/servers/etcd.ts";
import { acquire, claim, eventually, granted, refused, renewed } from "./claims.ts";

let lab: EtcdLab;
let observer: EtcdBackend;
const opened: EtcdBackend[] = [];
const proxies: Proxy[] = [];
let names = 0;

beforeAll(async () => {
  lab = await startEtcd({ members: 3, canIsolate: true });
  observer = etcd({ endpoints: lab.endpoints });
});

afterAll(async () => {
  await Promise.allSettled(opened.map((backend) => backend.close()));
  await Promise.all(proxies.map((proxy) => proxy.stop()));
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

/** A lease that is held through the leader, and a claim that waits for it elsewhere. Then something happens to the leader. */
async function holderAndWaiter(leader: EtcdServer): Promise<() => Promise<void>> {
  const name = lockName();
  const losses: (LossReason | string)[] = [];
  // It starts at the leader, and must find another member.
  const holder = open(leader, ...lab.servers.filter((server) => server !== leader));
  holder.listen({ lost: (_id, reason) => losses.push(reason), doubt: () => undefined });
  const waiter = open();
  const [held, waiting] = [claim(name), claim(name)];
  const { fence } = await granted(holder, held);
  await refused(waiter, waiting);
  const acquired = acquire(waiter, waiting);
  return async () => {
    expect(await renewed(holder, held), "held").toBe(true);
    await eventually("another member leads", async () => ((await lab.leader()) === leader ? undefined : true));
    expect(await renewed(holder, held), "held").toBe(true);
    expect(await eventually("released", () => holder.release(held).catch(() => undefined))).toMatch(/held|absent/);
    expect((await acquired).fence).toBeGreaterThan(fence);
    expect(losses).toEqual([]);
  };
}

describe("a leader", () => {
  test.each([
    ["killed", (leader: EtcdServer) => leader.kill(), (leader: EtcdServer) => leader.restart()],
    ["stopped", (leader: EtcdServer) => leader.pause(), (leader: EtcdServer) => leader.resume()],
  ] as const)(
    "that is %s: a holder keeps its lease, and a waiter gets the lock afterwards (S73)",
    async (_, strike, mend) => {
      await whole();
      const leader = await lab.leader();
      const goOn = await holderAndWaiter(leader);
      await strike(leader);
      try {
        await goOn();
      } finally {
        await mend(leader);
      }
    },
  );

  test("that is cut off: the others go on (S73), and it confirms nothing and grants nothing, though it answers", async () => {
    await whole();
    const leader = await lab.leader();
    const goOn = await holderAndWaiter(leader);
    const alone = open(leader);
    const [held, free] = [claim(lockName(), { ttlMs: 2000 }), claim(lockName(), { ttlMs: 2000 })];
    const { fromMs = 0, ttlMs = 0 } = await granted(alone, held);
    await lab.isolate(leader);
    try {
      await Promise.all([goOn(), confirmsNothing(alone, held, free, fromMs + ttlMs), answersNothing(alone, leader)]);
    } finally {
      await lab.rejoin();
    }
    expect(await renewed(alone, held), "the cluster has given the lock away").toBe(false);
  });

  /** Whatever it says, nothing is believed that the others may not know. What was asked for before counts. */
  async function confirmsNothing(alone: EtcdBackend, held: Claim, free: Claim, untilMs: number): Promise<void> {
    while (performance.now() < untilMs) {
      const [renewal] = await alone.renew([held]);
      if (renewal?.held === true) expect(renewal.fromMs).toBeLessThan(untilMs);
      const answer = await alone.attempt(free).catch(() => undefined);
      expect(answer?.granted, "a grant of a member alone").not.toBe(true);
    }
    // The others have let it go by themselves.
    await acquire(observer, claim(held.name));
    expect((await alone.renew([held]))[0]?.held).not.toBe(true);
  }

  /** A transaction of comparisons alone would be answered from its own memory; ours have a read in them. */
  async function answersNothing(alone: EtcdBackend, leader: EtcdServer): Promise<void> {
    await eventually("it knows no leader", async () => ((await leader.status())?.leaderId === 0n ? true : undefined));
    const key = Buffer.from("x");
    const asked = alone.client.txn({ when: [{ key, createRevision: 0n }], success: [{ range: { key } }] }, 1000);
    await expect(asked).rejects.toMatchObject({ name: "EtcdError" });
  }
});

/** Ends the lease of the claim's key, as its time would. */
async function endLease({ name, id }: Claim): Promise<void> {
  const span = { key: Buffer.from(`/holdfast/${name}/`), end: Buffer.from(`/holdfast/${name}0`) };
  const { kvs } = await observer.client.range(span);
  const lease = kvs.find(({ value }) => value.includes(id))?.lease;
  if (lease === undefined) throw new Error("it has no key");
  await observer.client.revokeLease(lease);
}

// From here on all members stay: what follows waits for time limits, and needs no turn of its own.
describe.concurrent("a waiter", () => {
  test("gets its turn after a compaction of everything that it could have heard (S73)", async () => {
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
    // The watch that was to tell begins only now, when all of it is compacted.
    const watching = waiter.watch(waiting, AbortSignal.timeout(60_000));
    await proxy.heal();
    proxy.cut();
    await watching;
    await acquire(waiter, waiting);
  });

  test("whose stream of watches is cut asks again, and gets its turn (S73)", async () => {
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

  test("whose lease ended while it waited is not granted when its predecessor leaves (S71)", async () => {
    await whole();
    const name = lockName();
    const [holder, [waiter, proxy]] = [open(), await openBehindProxy(await lab.leader())];
    const [held, waiting, third] = [claim(name), claim(name), claim(name)];
    await granted(holder, held);
    await refused(waiter, waiting);
    await refused(holder, third);
    proxy.hang("requests");
    await endLease(waiting);
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
  });
});

describe.concurrent("a lost answer", () => {
  test("to a grant: asked again, it is the same lease, and there is one key", async () => {
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

  test("to a grant of a claim that was given up: nothing is left, also if the request comes late", async () => {
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
  });

  test("to a release: asked again, it says absent, and the lock is free", async () => {
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

test("a holder whose lease ended while it was stopped cannot overwrite what the next one wrote (S72)", async () => {
  await whole();
  const name = lockName();
  const [first, proxy] = await openBehindProxy(await lab.leader());
  const second = open();
  const counter = Buffer.from(`/counters/${name}`);
  const one = claim(name);
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
  await endLease(one);
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
});
