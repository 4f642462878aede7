/** What a keep-alive is worth, and from when trust counts. */
import { renameSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { Reader } from "../../../src/backends/etcd/client/codec.ts";
import { etcd, type EtcdBackend } from "../../../src/backends/etcd/index.ts";
import { Lease } from "../../../src/backends/etcd/lease.ts";
import { type Proxy, startProxy } from "../../../src/lab/proxy.ts";
import { type EtcdLab, type EtcdServer, startEtcd } from "../../../src/lab/servers/etcd.ts";
import { claim, eventually, granted, refused, renewed } from "./claims.ts";
import { type FakeKey, fakeServer, type FakeServer, leaseAnswer, txnAnswer } from "./fake-server.ts";

const header = (term: bigint): { clusterId: bigint; memberId: bigint; revision: bigint; term: bigint } => ({
  clusterId: 1n,
  memberId: 1n,
  revision: 1n,
  term,
});

describe("a keep-alive", () => {
  const answer = (term: bigint, ttl = 9): Parameters<Lease["answered"]>[0] => ({ header: header(term), id: 1n, ttl });
  const lease = (): Lease => new Lease(answer(2n), 9, 1000);
  const later = (): number => performance.now() + 1;

  test("counts from when it was sent, once the cluster has answered a later question in the same term", () => {
    const one = lease();
    one.answered(answer(5n), 2000);
    expect(one.provenMs, "not yet").toBe(1000);
    one.confirmed(5n, later());
    expect(one.provenMs).toBe(2000);
  });

  test("counts for nothing when the term has changed: its member may have been no leader any more", () => {
    const one = lease();
    one.answered(answer(5n), 2000);
    one.confirmed(6n, later());
    one.confirmed(5n, later());
    expect(one.provenMs).toBe(1000);
  });

  test("is not proven by an answer to what was asked before", () => {
    const one = lease();
    const beforeMs = performance.now() - 1;
    one.answered(answer(5n), 2000);
    one.confirmed(5n, beforeMs);
    expect(one.provenMs).toBe(1000);
    one.confirmed(5n, later());
    expect(one.provenMs, "and still can be").toBe(2000);
  });

  test("of a lease that the member does not know proves nothing", () => {
    const one = lease();
    one.answered(answer(5n, 0), 2000);
    one.confirmed(5n, later());
    expect(one.provenMs).toBe(1000);
  });
});

describe("a renewal", () => {
  const opened: EtcdBackend[] = [];
  let server: FakeServer | undefined;

  afterEach(async () => {
    await Promise.all(opened.splice(0).map((backend) => backend.close()));
    await server?.stop();
  });

  /** Grants one lock, and then answers keep-alives and questions as `terms` say. */
  async function holder(terms: { keepAlive: bigint; later: bigint; ttl: number; gone: boolean }): Promise<EtcdBackend> {
    let key: FakeKey | undefined;
    server = await fakeServer((method, message) => {
      if (method === "Lease/LeaseGrant") return leaseAnswer(1n, 9, 2n);
      if (method === "Lease/LeaseKeepAlive") return leaseAnswer(1n, terms.ttl, terms.keepAlive);
      if (method === "Lease/LeaseRevoke") return leaseAnswer(1n, 0, 2n);
      if (method !== "KV/Txn") return { status: 5, reason: "etcdserver: requested lease not found" };
      if (key === undefined) {
        key = { key: putKey(message), create: 10n };
        return txnAnswer(true, [[], [key], [key]], 2n, 10n);
      }
      return terms.gone ? txnAnswer(false, [[]], terms.later, 12n) : txnAnswer(true, [[key]], terms.later, 12n);
    });
    const backend = etcd({ endpoints: server.endpoint });
    opened.push(backend);
    return backend;
  }

  /** The key of the first put of a transaction. */
  function putKey(message: Buffer): string {
    const reader = new Reader(message);
    while (reader.next()) {
      if (reader.field !== 2) {
        reader.skip();
        continue;
      }
      const operation = reader.message();
      if (!operation.next() || operation.field !== 2) continue;
      const put = operation.message();
      if (put.next()) return put.text();
    }
    throw new Error("no put");
  }

  test.each([
    ["yes: both answers are of one term", { keepAlive: 3n, later: 3n, ttl: 9, gone: false }, true],
    ["unknown: a stale leader noted the keep-alive", { keepAlive: 3n, later: 4n, ttl: 9, gone: false }, "unknown"],
    [
      "unknown: the member does not know the lease, but the key is there",
      { keepAlive: 3n, later: 3n, ttl: 0, gone: false },
      "unknown",
    ],
    [
      "no: the key is gone, though the keep-alive succeeded (as before etcd 3.4.38)",
      { keepAlive: 3n, later: 3n, ttl: 9, gone: true },
      false,
    ],
  ] as const)("%s", async (_, terms, held) => {
    const backend = await holder(terms);
    const one = claim("a", { ttlMs: 9000 });
    const { fromMs = 0 } = await granted(backend, one);
    const sentMs = performance.now();
    const [renewal] = await backend.renew([one]);
    expect(renewal?.held).toBe(held);
    if (renewal?.held === true) {
      expect(renewal.fromMs).toBeGreaterThan(fromMs);
      expect(renewal.fromMs).toBeGreaterThanOrEqual(sentMs);
    }
  });
});

describe("trust counts from before the request left, however late its answer comes", () => {
  let lab: EtcdLab;
  let proxy: Proxy;
  let backend: EtcdBackend;

  beforeAll(async () => {
    lab = await startEtcd();
    proxy = await startProxy({ port: (await lab.leader()).port });
    backend = etcd({ endpoints: `127.0.0.1:${proxy.port}` });
  });

  afterAll(async () => {
    await backend.close();
    await proxy.stop();
    await lab.stop();
  });

  /** Holds the answers back until the clock has surely moved on. */
  async function late<T>(asked: Promise<T>): Promise<T> {
    const heldMs = performance.now();
    await eventually("time has passed", () => (performance.now() - heldMs > 20 ? true : undefined));
    await proxy.heal();
    return asked;
  }

  test("of a grant, of a renewal, and of an answer to a holder that asks again", async () => {
    // One that is not kept alive once more before it is granted, however long the answer takes.
    const one = claim("trust-1", { ttlMs: 600_000, renewed: true });
    for (const ask of [
      () => granted(backend, one),
      async () => (await backend.renew([one]))[0],
      () => granted(backend, one),
    ] as (() => Promise<unknown>)[]) {
      let sentMs = Infinity;
      proxy.onRequest = () => {
        sentMs = performance.now();
        return undefined;
      };
      proxy.hang("replies");
      const asked = ask();
      await eventually("it was sent", () => (sentMs < Infinity ? true : undefined));
      const answer = (await late(asked)) as { readonly fromMs?: number };
      expect(answer.fromMs).toBeLessThanOrEqual(sentMs);
    }
    await backend.release(one);
  });

  test("S166: a renewal that is answered while its key is being removed does not revive it", async () => {
    await eventually("a renewal that the cluster had said yes to", async () => {
      const holder = etcd({ endpoints: lab.endpoints });
      const one = claim(`trust-2-${performance.now()}`, { ttlMs: 1000, renewed: true });
      const { fence } = await granted(holder, one);
      const { client } = holder;
      const txn = client.txn.bind(client);
      const is = { removing: false, renewed: false, yes: false };
      const until = (what: keyof typeof is): Promise<true> => eventually(what, () => (is[what] ? true : undefined));
      client.txn = async (request, limitMs) => {
        const isRemoval = request.success.some((operation) => "remove" in operation);
        if (isRemoval) {
          is.removing = true;
          await until("renewed");
        }
        const answer = await txn(request, limitMs);
        if (!isRemoval) {
          is.yes ||= answer.succeeded;
          await until("removing");
        }
        return answer;
      };
      const [renewal] = await holder.renew([one], [fence]);
      expect(renewal?.held, "the key was on its way out").toBe(false);
      expect((await holder.renew([one], [fence]))[0]?.held).toBe(false);
      is.renewed = true;
      await eventually("the lock is free", async () =>
        (await backend.inspect(one.name)).held.length === 0 ? true : undefined,
      );
      await holder.close();
      // Where the machine is too busy for a ttl of a second, its lease may have been over before.
      return is.yes ? true : undefined;
    });
  });

  test("a waiter's place is kept alive while it waits, beyond its ttl", async () => {
    await eventually("one that was kept alive in time", async () => {
      const waiting = etcd({ endpoints: lab.endpoints });
      const [holder, waiter] = [claim(`trust-4-${performance.now()}`), claim("", { ttlMs: 1000 })];
      const place = { ...waiter, name: holder.name };
      await granted(backend, holder);
      let kept = 0;
      const { client } = waiting;
      const keepAlive = client.keepAlive.bind(client);
      client.keepAlive = async (id, limitMs) => {
        const answer = await keepAlive(id, limitMs);
        kept++;
        return answer;
      };
      await refused(waiting, place);
      await eventually("it was kept alive for longer than its ttl", () => (kept >= 5 ? true : undefined));
      const places = (await backend.query(holder.name)).pending.length;
      await backend.release(holder);
      await waiting.close();
      // Where the machine is too busy for a ttl of a second, it may have been kept alive too late.
      return places === 1 ? true : undefined;
    });
  });
});

describe("a cluster that was restored from an older snapshot", () => {
  let lab: EtcdLab;

  beforeAll(async () => {
    lab = await startEtcd();
  });

  afterAll(() => lab.stop());

  /** As an operator does it, with the data of now put aside. */
  async function restore(file: string): Promise<void> {
    const [server] = lab.servers as [EtcdServer];
    const peer = /http:\/\/[\d.:]+/u.exec(await lab.etcdctl("member", "list"))?.[0] ?? "";
    await server.kill();
    const data = join(server.data, "data");
    renameSync(data, `${data}-before`);
    const members = ["--name=m1", `--initial-cluster=m1=${peer}`, `--initial-advertise-peer-urls=${peer}`];
    await lab.etcdctl("snapshot", "restore", file, `--data-dir=${data}`, ...members);
    await server.restart();
    await lab.leader();
  }

  test("keeps no lease that it does not know, and grants nothing to those who saw the newer revision", async (context) => {
    const help = await lab.etcdctl("snapshot", "restore", "--help");
    if (!help.includes("--data-dir")) context.skip("etcdctl 3.6 restores no snapshots any more: etcdutl does");
    const backend = etcd({ endpoints: lab.endpoints });
    const losses: string[] = [];
    const doubts: (string | undefined)[] = [];
    backend.listen({ lost: (id) => losses.push(id), doubt: (id) => doubts.push(id) });
    const [kept, lost] = [claim("kept"), claim("lost")];
    await granted(backend, kept);
    const file = join(lab.servers[0]?.data as string, "snapshot.db");
    await lab.etcdctl("snapshot", "save", file);
    const { fence } = await granted(backend, lost);
    for (const one of [claim("more-1"), claim("more-2"), claim("more-3")]) {
      await granted(backend, one);
      await backend.release(one);
    }
    const seen = backend.client.revision;
    await restore(file);

    await eventually("it doubts all leases after it has connected again", () =>
      doubts.includes(undefined) ? true : undefined,
    );
    expect(await renewed(backend, lost), "the cluster does not know it").toBe(false);
    expect(await renewed(backend, kept), "the snapshot has it").toBe(true);
    expect((await backend.inspect("lost")).held).toEqual([]);
    const refusal = {
      fatal: true,
      message: expect.stringMatching(/went back from revision .* older snapshot/) as unknown,
    };
    await expect(backend.attempt(claim("lost")), "its fence would repeat").rejects.toMatchObject(refusal);
    await eventually("nothing is left of that claim", async () => {
      const { held, pending } = await backend.inspect("lost");
      return held.length + pending.length === 0 ? true : undefined;
    });

    const newcomer = etcd({ endpoints: lab.endpoints });
    const repeated = await granted(newcomer, claim("lost"));
    expect(repeated.fence, "who saw nothing cannot know it: the pages say so").toBeLessThanOrEqual(seen);
    expect(fence).toBeLessThanOrEqual(seen);
    await Promise.all([backend.close(), newcomer.close()]);
  });
});
