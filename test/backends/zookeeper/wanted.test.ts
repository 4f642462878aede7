/** What a holder learns of those who wait for it, what nodes say of their processes, and what ZooKeeper cannot do. */
import { setImmediate as nextTurn } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import type { Backend, Claim, LocalFacts, Renewal } from "../../../src/contract/backend.ts";
import { LockBackendError } from "../../../src/contract/errors.ts";
import { type Proxy, startProxy } from "../../../src/lab/proxy.ts";
import { startZooKeeper, type ZooKeeperLab } from "../../../src/lab/servers/zookeeper.ts";
import type { LocalLease } from "../../../src/backends/zookeeper/local-leases.ts";
import { readClaim } from "../../../src/backends/zookeeper/node-data.ts";
import { renewLeases } from "../../../src/backends/zookeeper/renewals.ts";
import { zookeeper, type ZooKeeperBackend, ZooKeeperClient } from "../../../src/backends/zookeeper/index.ts";
import { claim, eventually, granted, refused } from "./claims.ts";

let lab: ZooKeeperLab;
let servers: string;
let client: ZooKeeperClient;
let proxy: Proxy;
const opened: Backend[] = [];
let locks = 0;

beforeAll(async () => {
  lab = await startZooKeeper();
  servers = lab.url.slice("zk://".length);
  client = new ZooKeeperClient({ servers });
  proxy = await startProxy({ port: lab.servers[0]!.port });
});

afterEach(async () => {
  await Promise.all(opened.splice(0).map((backend) => backend.close()));
});

afterAll(async () => {
  await client.close();
  await proxy.stop();
  await lab.stop();
});

function open(at: string = servers): ZooKeeperBackend {
  const backend = zookeeper({ servers: at, session: "40s", base: "/locks" });
  opened.push(backend);
  return backend;
}

function lockName(): string {
  return `wanted-${++locks}`;
}

/** A lease whose holder listens, and what it hears. */
async function listening(
  name: string,
  at: string = servers,
): Promise<{ readonly backend: ZooKeeperBackend; readonly held: Claim; readonly heard: string[] }> {
  const backend = open(at);
  const [held, heard] = [claim(name), [] as string[]];
  backend.listen({ lost: () => undefined, doubt: () => undefined, wanted: (id) => heard.push(id) });
  await granted(backend, held);
  backend.expectWanted(held);
  expect(await isWanted(backend, held)).toBe(false);
  return { backend, held, heard };
}

/** As a renewal says: it is no older than itself. */
async function isWanted(backend: Backend, held: Claim): Promise<boolean> {
  const [renewal] = await backend.renew([held]);
  if (renewal?.held !== true) throw new Error(`the lease is not held: ${JSON.stringify(renewal)}`);
  return renewal.wanted === true;
}

describe("a holder that listens", () => {
  test("hears once of a queue of a hundred, and pays no more for it than for a queue of one", async () => {
    const name = lockName();
    const { backend, held, heard } = await listening(name);
    const others = open();
    const waiters = Array.from({ length: 100 }, () => claim(name));
    const before = backend.client.requests;
    await refused(others, waiters[0]!);
    await eventually("the holder hears of it", () => (heard.length > 0 ? true : undefined));
    await Promise.all(waiters.slice(1).map((waiter) => refused(others, waiter)));
    expect(await isWanted(backend, held)).toBe(true);
    // A list, the watch of a waiter, which may be set anew once when others came in between, and the renewal.
    expect(backend.client.requests - before).toBeLessThanOrEqual(6);
    expect(heard).toEqual([held.id]);
    await Promise.all(waiters.map((waiter) => others.release(waiter)));
    expect(await isWanted(backend, held)).toBe(false);
    await refused(others, claim(name));
    await eventually("the holder hears of the next queue", () => (heard.length > 1 ? true : undefined));
    expect(heard).toEqual([held.id, held.id]);
  });

  test("hears nothing of tries, and none is shown waiting", async () => {
    const name = lockName();
    const { backend, held, heard } = await listening(name);
    const others = open();
    for (let times = 0; times < 10; times++) {
      const trying = Promise.all(Array.from({ length: 3 }, () => others.attempt(claim(name, { queues: false }))));
      expect((await backend.inspect(name)).pending).toEqual([]);
      expect(await isWanted(backend, held)).toBe(false);
      expect((await trying).map((answer) => answer.granted)).toEqual([false, false, false]);
    }
    expect(await isWanted(backend, held)).toBe(false);
    expect(heard).toEqual([]);
  });

  test("hears of Curator's waiters too", async () => {
    const name = lockName();
    const { backend, held, heard } = await listening(name);
    const theirs = `/locks/${name}/_c_4e6ce9f9-0e37-4f6c-95c7-1d13c2408e9f-lock-`;
    const { path } = await client.create(theirs, Buffer.from("10.1.2.3"), "ephemeralSequential");
    await eventually("the holder hears of it", () => (heard.length > 0 ? true : undefined));
    await client.delete(path);
    expect(await isWanted(backend, held)).toBe(false);
  });

  test("hears of who came while its connection was gone", async () => {
    const name = lockName();
    const { backend, held, heard } = await listening(name, `127.0.0.1:${proxy.port}`);
    proxy.hang();
    await refused(open(), claim(name));
    proxy.cut();
    await proxy.heal();
    await eventually("the holder hears of it", () => (heard.length > 0 ? true : undefined));
    const isStill = async (): Promise<true | undefined> =>
      (await isWanted(backend, held).catch(() => false)) ? true : undefined;
    await eventually("a renewal says so", isStill);
  });

  test("watches no longer when its lease is over", async () => {
    const name = lockName();
    const { backend, held, heard } = await listening(name);
    await backend.release(held);
    const others = open();
    await granted(others, claim(name));
    const before = backend.client.requests;
    for (let times = 0; times < 3; times++) await refused(others, claim(name));
    await backend.inspect(lockName());
    // The look at another lock: a sync, its node and its list.
    expect([backend.client.requests - before, heard]).toEqual([3, []]);
  });
});

describe("a renewal", () => {
  const held = claim("any");
  const renewed = (ttlMs: number, wanted: { readonly isWanted: boolean; look(): Promise<void> }): Promise<unknown> => {
    const lease = {
      claim: { ...held, ttlMs },
      ttlMs,
      node: { path: "/any", czxid: 1n },
      wanted,
    } as unknown as LocalLease;
    const asked = { multi: async () => [], since: (ms: number) => ms } as unknown as ZooKeeperClient;
    const steps = { find: () => lease, apply: (_: unknown, answer: Renewal) => answer, tell: () => undefined };
    return renewLeases(asked, [lease.claim], undefined, steps);
  };

  test("says what the server announced before it confirmed the lease, though that is still being read", async () => {
    let isWanted = false;
    const read = nextTurn().then(() => void (isWanted = true));
    const wanted = {
      get isWanted() {
        return isWanted;
      },
      look: () => read,
    };
    expect(await renewed(30_000, wanted)).toMatchObject([{ held: true, wanted: true }]);
  });

  test("does not wait for that for as long as would cost the lease", async () => {
    const never = new Promise<void>(() => undefined);
    expect(await renewed(40, { isWanted: false, look: () => never })).toMatchObject([{ held: true }]);
  });
});

describe("a lease whose holder does not listen", () => {
  test("costs no request for it", async () => {
    const [backend, others, name] = [open(), open(), lockName()];
    const held = claim(name);
    await granted(backend, held);
    await refused(others, claim(name));
    const before = backend.client.requests;
    await isWanted(backend, held);
    // The renewal, and perhaps the watch that every lease gets after a while.
    expect(backend.client.requests - before).toBeLessThanOrEqual(2);
  });
});

describe("the data of a node", () => {
  const facts = (waiters: number): LocalFacts => ({ waiters, users: 1, holds: [], holdsMore: false });

  test("is written anew after a change, once in a third of a ttl, and readable for versions before 0.2", async () => {
    const [backend, name] = [open(), lockName()];
    const held = claim(name, { ttlMs: 9000, holder: "web-1:7", meta: { why: "test" }, local: facts(0) });
    await granted(backend, held);
    const [node] = (await client.getChildren(`/locks/${name}`)).children;
    const read = async (): Promise<{ readonly data: Buffer; readonly version: number }> => {
      await client.sync("/");
      const { data, stat } = await client.getData(`/locks/${name}/${node}`);
      return { data, version: stat.version };
    };
    const began = performance.now();
    for (let waiters = 1; waiters <= 50; waiters++)
      await backend.renew([{ ...held, local: facts(waiters), changed: true }]);
    const { version } = await read();
    const most = 1 + Math.floor((performance.now() - began) / 3000);
    expect(version).toBeGreaterThanOrEqual(1);
    expect(version).toBeLessThanOrEqual(most);
    // What came too soon is written by a later renewal, though that one has no news.
    const last = await eventually("the last change is written", async () => {
      await backend.renew([held]);
      const { data } = await read();
      return readClaim(data).local?.waiters === 50 ? data : undefined;
    });
    expect(Object.keys(JSON.parse(last.toString()))).toEqual([
      "holdfast",
      "holder",
      "meta",
      "limit",
      "ttlMs",
      "id",
      "local",
    ]);
    expect(readClaim(last)).toMatchObject({ holder: "web-1:7", meta: { why: "test" }, id: held.id });
  });

  test("wakes no waiter when it changes", async () => {
    const [backend, others, name] = [open(), open(), lockName()];
    const [held, waiter] = [claim(name), claim(name)];
    await granted(backend, held);
    await refused(others, waiter);
    let news: unknown = "none";
    const watched = others.watch(waiter, AbortSignal.timeout(60_000)).then((grant) => (news = grant));
    // Its watch is set: what it asks after that is answered after that.
    await others.inspect(name);
    await backend.renew([{ ...held, local: facts(7), changed: true }]);
    await eventually("the waiter's own server shows it", async () =>
      (await others.inspect(name)).held[0]?.local?.waiters === 7 ? true : undefined,
    );
    await nextTurn();
    expect(news).toBe("none");
    await backend.release(held);
    expect(await watched).toMatchObject({ granted: true });
  });

  test("of strangers is shown as far as it makes sense, and costs little", () => {
    const hostile = (local: unknown): LocalFacts | undefined =>
      readClaim(Buffer.from(JSON.stringify({ holdfast: 1, holder: "a", local, id: "<script>" }))).local;
    for (const nonsense of [
      null,
      7,
      "x",
      [],
      { waiters: -1, users: 0, holds: [] },
      { waiters: 1, users: 1, holds: 1 },
    ]) {
      expect(hostile(nonsense)).toBeUndefined();
    }
    const many = Array.from({ length: 1000 }, (_, at) => [`lock-${at}`, String(at)]);
    const long = [["x".repeat(5000), "1"], ["a", "9".repeat(30)], ["b", 7], "c", ["d", "8"]];
    expect(hostile({ waiters: 1, users: 2, holds: many })).toMatchObject({ holds: { length: 16 }, holdsMore: true });
    expect(hostile({ waiters: 1, users: 2, holds: long })).toMatchObject({ holds: [{ name: "d", fence: 8n }] });
    expect(readClaim(Buffer.from('{"holdfast":1,"holder":"a","id":"<script>"}')).id).toBeUndefined();
  });
});

test("what ZooKeeper cannot do is refused in its own words, and costs no lease", async () => {
  const [backend, name] = [open(), lockName()];
  const [held, other] = [claim(name), claim(lockName())];
  for (const one of [held, other]) await granted(backend, one);
  const failed = async (promise: Promise<unknown>): Promise<unknown> =>
    promise.then(
      () => undefined,
      (error) => error,
    );
  const [renewed, refusedOne] = await backend.renew([other, { ...held, ttlMs: held.ttlMs / 2 }]);
  expect(renewed).toMatchObject({ held: true });
  if (refusedOne?.held !== "unknown") throw new Error(`answered ${refusedOne?.held}`);
  for (const [error, why] of [
    [await failed(backend.attempt(claim(name, { wantsOutcome: true }))), backend.can.outcomes],
    [await failed(backend.release(held, { value: "done", keepMs: 1000, fence: 1n })), backend.can.outcomes],
    [refusedOne.cause, backend.can.otherTtl],
  ]) {
    expect(error).toBeInstanceOf(LockBackendError);
    expect(error).toMatchObject({ fatal: true, message: `Lock ${JSON.stringify(name)}: ${String(why)}.` });
  }
  expect("steal" in backend).toBe(false);
  expect(await isWanted(backend, held)).toBe(false);
  expect((await backend.inspect(name)).pending).toEqual([]);
  expect(await backend.release(held)).toBe("held");
});
