/** What the backend puts into ZooKeeper, what it promises there, and what it refuses. */
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import type { Backend, Claim } from "../../../src/contract/backend.ts";
import { connect } from "../../../src/index.ts";
import { startZooKeeper, type ZooKeeperLab } from "../../../src/lab/servers/zookeeper.ts";
import {
  ZooKeeperClient,
  zookeeper,
  type ZooKeeperBackend,
  type ZooKeeperOptions,
} from "../../../src/backends/zookeeper/index.ts";
import { acquire, claim, eventually, granted, refused } from "./claims.ts";

let lab: ZooKeeperLab;
let servers: string;
let client: ZooKeeperClient;
const opened: Backend[] = [];
let locks = 0;

beforeAll(async () => {
  // Empty containers go within a second instead of a minute, so they go between any two of our steps.
  lab = await startZooKeeper({ javaArgs: ["-Dznode.container.checkIntervalMs=100"] });
  servers = lab.url.slice("zk://".length);
  client = new ZooKeeperClient({ servers });
});

afterEach(async () => {
  await Promise.all(opened.splice(0).map((backend) => backend.close()));
});

afterAll(async () => {
  await client.close();
  await lab.stop();
});

function open(options: Partial<ZooKeeperOptions> = {}): ZooKeeperBackend {
  const backend = zookeeper({ servers, session: "8s", base: "/locks", ...options });
  opened.push(backend);
  return backend;
}

function lockName(): string {
  return `lock-${++locks}`;
}

async function nodes(path: string): Promise<readonly string[]> {
  await client.sync(path);
  const { children } = await client.getChildren(path);
  return children.toSorted();
}

const UUID = "[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}";
const STRANGER = "_c_4e6ce9f9-0e37-4f6c-95c7-1d13c2408e9f";

/** A node as Curator makes it. */
async function stranger(path: string, kind: string, data = "10.1.2.3"): Promise<bigint> {
  await client.makePath(path);
  const { stat } = await client.create(`${path}/${STRANGER}-${kind}`, Buffer.from(data), "ephemeralSequential");
  return stat.czxid;
}

describe("layout", () => {
  test("is that of Curator's mutex: protected ephemeral sequential nodes below <base>/<name>", async () => {
    const backend = open();
    const name = lockName();
    const { fence } = await granted(backend, claim(name, { holder: "web-1:7", meta: { why: "test" } }));
    await refused(backend, claim(name, { mode: "shared" }));
    const [read, lock] = await nodes(`/locks/${name}`).then((found) =>
      found.toSorted((a, b) => Number(b.includes("READ")) - Number(a.includes("READ"))),
    );
    expect(lock).toMatch(new RegExp(`^_c_${UUID}-lock-0000000000$`));
    expect(read).toMatch(new RegExp(`^_c_${UUID}-__READ__0000000001$`));
    const { data, stat } = await client.getData(`/locks/${name}/${lock}`);
    expect(JSON.parse(data.toString())).toMatchObject({ holder: "web-1:7", meta: { why: "test" } });
    expect([stat.czxid, stat.ephemeralOwner]).toEqual([fence, backend.client.sessionId]);
  });

  test("is that of Curator's read/write lock, or kazoo's, where the dialect says so", async () => {
    const name = lockName();
    const backend = open({ dialect: (one) => (one === name ? "curator-rw" : "kazoo") });
    await granted(backend, claim(name));
    expect((await nodes(`/locks/${name}`))[0]).toMatch(new RegExp(`^_c_${UUID}-__WRIT__0000000000$`));
    const other = lockName();
    await granted(backend, claim(other));
    await refused(backend, claim(other, { mode: "shared" }));
    const kinds = (await nodes(`/locks/${other}`)).map((node) => node.slice(32));
    expect(kinds.toSorted()).toEqual(["__lock__0000000000", "__rlock__0000000001"]);
  });

  test("is that of Curator's semaphore where there is a limit", async () => {
    const backend = open();
    const name = lockName();
    const claims = [1, 2, 3, 4].map(() => claim(name, { limit: 2 }));
    for (const one of claims) await backend.attempt(one);
    const [queue, leases] = [await nodes(`/locks/${name}/locks`), await nodes(`/locks/${name}/leases`)];
    // Their numbers start again when the queue was empty for so long that ZooKeeper removed it.
    expect(queue).toHaveLength(2);
    for (const node of queue) expect(node).toMatch(new RegExp(`^_c_${UUID}-lock-\\d{10}$`));
    // The first in the queue has made its lease node, and waits for another to go.
    expect(leases).toHaveLength(3);
    for (const lease of leases) expect(lease).toMatch(new RegExp(`^_c_${UUID}-lease-\\d{10}$`));
  });

  test("leaves nothing: ZooKeeper removes empty containers; fences still rise afterwards, sequence numbers restart", async () => {
    const backend = open();
    const name = lockName();
    const first = claim(name);
    const before = await granted(backend, first);
    await backend.release(first);
    await eventually("the lock's node is gone", async () =>
      (await client.exists(`/locks/${name}`)) === undefined ? true : undefined,
    );
    const after = await granted(backend, claim(name));
    expect((await nodes(`/locks/${name}`))[0]).toMatch(/0000000000$/);
    expect(after.fence).toBeGreaterThan(before.fence);
  });

  test("may be removed at any time between two claims, with its parents, and no claim fails", async () => {
    const backend = open({ base: "/sometimes/there" });
    const fences = await Promise.all(
      Array.from({ length: 6 }, async (_, lock) => {
        const seen: bigint[] = [];
        for (let times = 0; times < 12; times++) {
          const one = claim(`brief-${lock}`, { limit: lock % 2 === 0 ? 1 : 2 });
          seen.push((await granted(backend, one)).fence);
          await backend.release(one);
          await sleep(Math.random() * 250);
        }
        return seen;
      }),
    );
    for (const seen of fences) expect(seen).toEqual(seen.toSorted((a, b) => Number(a - b)));
    await eventually("all is gone", async () => ((await client.exists("/sometimes")) === undefined ? true : undefined));
  });

  test("may be chosen path by path, so any recipe's lock can be shared", async () => {
    const backend = open({ names: "paths" });
    const one = claim(`/team/jobs/${lockName()}`);
    const { fence } = await granted(backend, one);
    expect(await nodes(one.name)).toHaveLength(1);
    for (const prefix of [one.name, "/team/jobs/", "/team/", "/"]) {
      const { held } = await backend.query(prefix);
      expect(held.map((holding) => [holding.name, holding.fence])).toContainEqual([one.name, fence]);
    }
    expect((await backend.query("/team/other")).held).toEqual([]);
    await expect(backend.attempt(claim("jobs"))).rejects.toMatchObject({ code: "ERR_LOCK_BACKEND", fatal: true });
  });

  test("is below a URL's chroot, and the chroot is made", async () => {
    const held = await connect(`${lab.url}/tenant/a?session=8s&base=/l`);
    const lease = await held.acquire("x");
    const [node] = await nodes("/tenant/a/l/x");
    expect((await client.exists(`/tenant/a/l/x/${node}`))?.czxid).toBe(lease.fence);
    await lease.release();
    await held.close();
  });
});

describe("time", () => {
  test("a ttl is as requested, and at most three quarters of the session that the ensemble gives", async () => {
    // This ensemble gives sessions of 1 s to 60 s.
    const given = async (session: ZooKeeperOptions["session"], ttlMs: number): Promise<number | undefined> => {
      const answer = await granted(open({ session }), claim(lockName(), { ttlMs }));
      expect(answer.fromMs).toBeLessThanOrEqual(performance.now());
      return answer.ttlMs;
    };
    expect(await given("8s", 5000)).toBe(5000);
    expect(await given("8s", 30_000)).toBe(6000);
    expect(await given("100ms", 30_000)).toBe(750);
    expect(await given("5m", 600_000)).toBe(45_000);
  });

  test("a lockDelay that the session has no room for is refused, and leaves nothing", async () => {
    const backend = open();
    const one = claim(lockName(), { ttlMs: 2000, lockDelayMs: 4500 });
    await expect(backend.attempt(one)).rejects.toMatchObject({ fatal: true, message: /lockDelay/ });
    expect((await backend.query(one.name)).held).toEqual([]);
    expect(await granted(backend, claim(one.name, { ttlMs: 2000, lockDelayMs: 4000 }))).toMatchObject({ ttlMs: 2000 });
  });

  test("a crash keeps the lock for ttl and lockDelay", async () => {
    const [crashing, backend] = [open({ session: "2s" }), open()];
    const one = claim(lockName(), { ttlMs: 500, lockDelayMs: 1000 });
    const askedMs = performance.now();
    await granted(crashing, one);
    crashing.client.abandon();
    await acquire(backend, claim(one.name));
    expect(performance.now() - askedMs).toBeGreaterThanOrEqual(1500);
  });

  test("minHold outlives close(), and nothing else of the process does", async () => {
    const [closing, backend] = [open({ session: "30s" }), open()];
    const [brief, other] = [claim(lockName(), { minHoldMs: 2000 }), claim(lockName())];
    const askedMs = performance.now();
    await granted(closing, brief);
    await granted(closing, other);
    expect(await closing.release(brief)).toBe("held");
    await closing.close();
    await granted(backend, other);
    await acquire(backend, claim(brief.name));
    expect(performance.now() - askedMs).toBeGreaterThanOrEqual(2000);
  });
});

describe("releasing", () => {
  test("says what a claim was, also where another process made it (S122)", async () => {
    const [a, b] = [open(), open()];
    for (const limit of [1, 2]) {
      const name = lockName();
      const claims = Array.from({ length: limit + 1 }, () => claim(name, { limit }));
      for (const one of claims.slice(0, limit)) await granted(a, one);
      const waiter = claims[limit] as Claim;
      await refused(a, waiter);
      expect(await b.release(waiter)).toBe("queued");
      expect(await b.release(waiter)).toBe("absent");
      for (const one of claims.slice(0, limit)) expect(await b.release(one)).toBe("held");
      const [mine, queued] = [claim(name, { limit }), claim(name, { limit })];
      await granted(a, mine);
      if (limit === 1) {
        await refused(a, queued);
        expect(await a.release(queued)).toBe("queued");
      }
      expect(await a.release(mine)).toBe("held");
      expect(await a.release(mine)).toBe("absent");
    }
  });
});

describe("query and force release", () => {
  test("shows other libraries' holders and waiters with what is known of them", async () => {
    const backend = open();
    const name = lockName();
    const fence = await stranger(`/locks/${name}`, "lock-");
    const { heldBy, position } = await refused(backend, claim(name));
    expect([heldBy[0]?.holder, heldBy[0]?.fence, position]).toEqual(["10.1.2.3", fence, 1]);
    const { held, pending } = await backend.query(name);
    expect(held).toMatchObject([
      { name, mode: "exclusive", limit: 1, holder: "10.1.2.3", fence, remainingMs: Infinity },
    ]);
    expect(pending).toMatchObject([{ name, holder: "test:1", position: 1 }]);
  });

  test("ends another library's lease by its fence, and hands over", async () => {
    const backend = open();
    const name = lockName();
    const fence = await stranger(`/locks/${name}`, "lock-");
    const waiter = claim(name);
    await refused(backend, waiter);
    expect(await backend.forceRelease(name, fence - 1n, "ops", "wrong")).toBe(false);
    expect(await backend.forceRelease(name, fence, "ops", "hangs")).toBe(true);
    expect(await backend.forceRelease(name, fence, "ops", "again")).toBe(false);
    await granted(backend, waiter);
    expect((await backend.query(name)).forced).toMatchObject([{ name, fence, by: "ops", reason: "hangs" }]);
  });

  test("never overwrites data that another program put into the lock's node", async () => {
    const backend = open();
    const name = lockName();
    await client.makePath("/locks");
    await client.create(`/locks/${name}`, Buffer.from("theirs"), "persistent");
    const { fence } = await granted(backend, claim(name));
    expect(await backend.forceRelease(name, fence, "ops", "hangs")).toBe(true);
    expect((await client.getData(`/locks/${name}`)).data.toString()).toBe("theirs");
    expect((await backend.query(name)).forced).toEqual([]);
  });

  test("reports at once to a holder that its node was deleted by hand", async () => {
    const backend = open();
    const lost = new Promise<unknown>((resolve) => {
      backend.listen({ lost: (id, reason) => resolve({ id, reason }), doubt: () => undefined });
    });
    const one = claim(lockName());
    const { fence } = await granted(backend, one);
    await client.delete(backend.leaseNode(one.name, fence) as string);
    expect(await lost).toEqual({ id: one.id, reason: { kind: "removed" } });
    expect(backend.leaseNode(one.name, fence)).toBeUndefined();
  });

  test("makes a lock again whose whole path was deleted by hand", async () => {
    const backend = open();
    const name = lockName();
    const [holder, waiter] = [claim(name), claim(name)];
    await granted(backend, holder);
    await refused(backend, waiter);
    for (const node of await nodes(`/locks/${name}`)) await client.delete(`/locks/${name}/${node}`);
    await eventually("the path is gone", async () =>
      (await client.exists(`/locks/${name}`)) === undefined ? true : undefined,
    );
    await granted(backend, waiter);
    expect((await backend.renew([holder]))[0]?.held).toBe(false);
    expect(await nodes(`/locks/${name}`)).toHaveLength(1);
  });

  test("lets a guard check the lease's node and write in one transaction", async () => {
    const backend = open();
    const one = claim(lockName());
    const { fence } = await granted(backend, one);
    const path = `/data-${locks}`;
    await client.create(path, Buffer.from("0"), "persistent");
    const node = backend.leaseNode(one.name, fence) as string;
    const write = (data: string) =>
      client.multi([
        { op: "check", path: node, version: 0 },
        { op: "setData", path, data: Buffer.from(data), version: -1 },
      ]);
    await write("1");
    await backend.release(one);
    await expect(write("2")).rejects.toMatchObject({ errors: ["NONODE", "RUNTIMEINCONSISTENCY"] });
    expect((await client.getData(path)).data.toString()).toBe("1");
  });
});

describe("mixed use", () => {
  const fails = async (backend: Backend, one: Claim, message: RegExp): Promise<void> => {
    const before = await backend.query(one.name);
    await expect(backend.attempt(one)).rejects.toMatchObject({ code: "ERR_LOCK_BACKEND", fatal: true, message });
    const after = await backend.query(one.name);
    expect([after.held.length, after.pending.length]).toEqual([before.held.length, before.pending.length]);
  };

  test("a lock used with and without a limit is refused on both sides", async () => {
    const backend = open();
    const [limited, plain] = [lockName(), lockName()];
    await granted(backend, claim(limited, { limit: 3 }));
    await fails(backend, claim(limited), /limit/);
    await fails(backend, claim(limited, { mode: "shared" }), /limit/);
    await granted(backend, claim(plain));
    await fails(backend, claim(plain, { limit: 3 }), /limit 1.*limit 3/);
  });

  test("recipes that do not see each other are refused", async () => {
    const [mutex, readWrite, kazoo] = [open(), open({ dialect: "curator-rw" }), open({ dialect: "kazoo" })];
    const [a, b] = [lockName(), lockName()];
    await stranger(`/locks/${a}`, "__WRIT__");
    await fails(mutex, claim(a), /curator-rw/);
    await stranger(`/locks/${b}`, "lock-");
    await fails(readWrite, claim(b), /dialect "curator"/);
    await fails(kazoo, claim(lockName(), { limit: 2 }), /kazoo/);
  });

  test("a queue whose sequence numbers wrapped is refused where other libraries are in it, and not where only we are", async () => {
    const backend = open();
    const name = lockName();
    await client.makePath(`/locks/${name}`);
    await client.create(`/locks/${name}/${STRANGER}-lock--2147483648`, Buffer.alloc(0), "ephemeral");
    await fails(backend, claim(name), /sequence numbers/);
  });

  test("a queue whose sequence numbers are nearly used up causes one warning, and still works", async () => {
    const backend = open();
    const name = lockName();
    const warnings: string[] = [];
    const hear = (warning: Error): void => void warnings.push((warning as NodeJS.ErrnoException).code ?? "");
    process.on("warning", hear);
    try {
      await client.makePath(`/locks/${name}`);
      await client.create(`/locks/${name}/${STRANGER}-lock-2147000000`, Buffer.alloc(0), "ephemeral");
      for (let times = 0; times < 2; times++) {
        const one = claim(name);
        await granted(backend, one);
        await backend.release(one);
      }
      await sleep(1);
    } finally {
      process.off("warning", hear);
    }
    expect(warnings).toEqual(["HOLDFAST_SEQUENCE"]);
  });

  test("a worker thread cannot renew: a session has one connection, and it is this thread's", async () => {
    const held = await connect(`${lab.url}?session=8s`);
    await expect(held.acquire(lockName(), { renew: "thread" })).rejects.toBeInstanceOf(TypeError);
    await held.close();
  });

  test("a closed backend says so", async () => {
    const backend = open();
    await backend.close();
    await backend.close();
    await expect(backend.attempt(claim("x"))).rejects.toMatchObject({ fatal: true, message: /closed/ });
  });

  test("a wrong password fails for good, and is not repeated in the message", async () => {
    const creator = open({ auth: { user: "ann", password: "right" }, acl: "creator", base: "/private" });
    await granted(creator, claim("mine"));
    const thief = open({ auth: { user: "ann", password: "hunter2" }, base: "/private" });
    const error = await thief.attempt(claim("mine")).catch((reason: unknown) => reason);
    expect(error).toMatchObject({ code: "ERR_LOCK_BACKEND", fatal: true, message: /NOAUTH/ });
    expect(String(error)).not.toContain("hunter2");
  });
});

describe("many", () => {
  test("a swap() is one round trip of two requests, and its fence is that of the new node", async () => {
    const backend = open();
    const name = lockName();
    const [first, second] = [claim(name), claim(name)];
    const before = await granted(backend, first);
    const requests = backend.client.requests;
    const after = await backend.swap(first, second);
    expect(backend.client.requests - requests).toBe(2);
    const { held } = await backend.query(name);
    expect(after).toMatchObject({ granted: true, fence: held[0]?.fence });
    expect(held[0]?.fence).toBeGreaterThan(before.fence);
  });

  test("a hand-over costs the same few requests, whether ten wait or a thousand", async () => {
    const perHandOver = async (waiters: number): Promise<number> => {
      const backend = open({ session: "60s" });
      const name = lockName();
      const claims = Array.from({ length: waiters }, () => claim(name));
      for (let at = 0; at < waiters; at += 50) {
        await Promise.all(claims.slice(at, at + 50).map((one) => backend.attempt(one)));
      }
      const grants = claims.slice(1).map((one) => backend.watch(one, AbortSignal.timeout(25_000)));
      // All watches are set once the server has answered something that was asked after them.
      await backend.client.sync("/");
      const before = backend.client.requests;
      const fences: bigint[] = [];
      for (let turn = 0; turn < 9; turn++) {
        await backend.release(claims[turn] as Claim);
        const answer = await grants[turn];
        fences.push(answer?.fence as bigint);
      }
      const requests = backend.client.requests - before;
      expect(fences).toEqual(fences.toSorted((a, b) => Number(a - b)));
      await backend.close();
      await Promise.all(grants);
      return requests / 9;
    };
    // Delete by the holder, list and check by the next; and at times the watch on one's own node.
    expect(await perHandOver(10)).toBeLessThanOrEqual(4);
    expect(await perHandOver(1000)).toBeLessThanOrEqual(4);
  });

  test("thousands of leases are confirmed in a handful of requests, and one that is gone harms no other", async () => {
    const backend = open({ session: "60s" });
    const claims = Array.from({ length: 2000 }, (_, at) => claim(`many-${at}`));
    for (let at = 0; at < claims.length; at += 100) {
      await Promise.all(claims.slice(at, at + 100).map((one) => granted(backend, one)));
    }
    await sleep(150);
    await backend.client.sync("/");
    const before = backend.client.requests;
    const renewals = await backend.renew(claims);
    expect(renewals.every(({ held }) => held === true)).toBe(true);
    expect(backend.client.requests - before).toBeLessThanOrEqual(4);
    const [holding] = (await backend.query("many-77")).held.filter(({ name }) => name === "many-77");
    await client.delete(backend.leaseNode("many-77", holding?.fence as bigint) as string);
    const again = await backend.renew(claims);
    expect(again.flatMap(({ held }, at) => (held === true ? [] : [claims[at]?.name]))).toEqual(["many-77"]);
  });
});
