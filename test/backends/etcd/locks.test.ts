/** What is special about locks in etcd: leases that are shared, what outlives a process, and what others see. */
import { mkdirSync } from "node:fs";
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import type { Claim } from "../../../src/contract/backend.ts";
import type { LossReason } from "../../../src/contract/loss.ts";
import { createLocks } from "../../../src/core/locks.ts";
import { etcd, type EtcdBackend, EtcdClient } from "../../../src/backends/etcd/index.ts";
import { examineEtcd } from "../../../src/cli/doctor/etcd.ts";
import { openRenewer } from "../../../src/backends/etcd/open.ts";
import { startProxy } from "../../../src/lab/proxy.ts";
import { type EtcdLab, startEtcd } from "../../../src/lab/servers/etcd.ts";
import { findProgram } from "../../../src/lab/servers/programs.ts";
import { makeScratch, removeScratch } from "../../../src/lab/servers/scratch.ts";
import { ROOT } from "../../dist.ts";
import { acquire, claim, eventually, granted, refused } from "./claims.ts";

let lab: EtcdLab;
let backend: EtcdBackend;
let other: EtcdBackend;
let names = 0;

beforeAll(async () => {
  lab = await startEtcd();
  backend = etcd({ endpoints: lab.endpoints });
  other = etcd({ endpoints: lab.endpoints });
});

afterAll(async () => {
  await Promise.all([backend.close(), other.close()]);
  await lab.stop();
});

function lockName(): string {
  return `locks-${++names}.`;
}

async function leasesOf(prefix: string): Promise<readonly bigint[]> {
  const { kvs } = await other.client.range({ key: Buffer.from(`/holdfast/${prefix}`), end: Buffer.from("/holdfast0") });
  return kvs.filter(({ key }) => key.toString().startsWith(`/holdfast/${prefix}`)).map(({ lease }) => lease);
}

/** Which calls were made when the result is called. What goes on beside them (places kept alive, leases revoked) is not counted. */
function countCalls({ client }: EtcdBackend): () => readonly string[] {
  const made: string[] = [];
  const txn = client.txn.bind(client);
  const spies = [
    vi.spyOn(client, "txn").mockImplementation((request, limitMs) => {
      if (request.rank !== "keep") made.push("txn");
      return txn(request, limitMs);
    }),
    ...(["range", "grantLease"] as const).map((method) => vi.spyOn(client, method)),
  ];
  return () => {
    const others = spies.slice(1).flatMap((spy) => spy.mock.calls.map(() => spy.getMockName()));
    for (const spy of spies) spy.mockRestore();
    return [...made, ...others];
  };
}

test("a release that is asked for again while it is on its way is sent once; one after another attempt is its own", async () => {
  const name = lockName();
  const one = claim(name);
  await granted(backend, one);
  const made = countCalls(backend);
  expect(await Promise.all([backend.release(one), backend.release(one)])).toEqual(["held", "held"]);
  expect(made()).toEqual(["txn"]);
  await granted(backend, one);
  const asked = [backend.release(one), backend.attempt(one), backend.release(one)] as const;
  expect(await Promise.all(asked)).toMatchObject(["held", { granted: true }, "held"]);
  expect(await leasesOf(name)).toEqual([]);
});

describe("leases", () => {
  test("of claims that are renewed together are one; two claims on one lock never share one", async () => {
    const prefix = lockName();
    const apart = ["a", "b", "c"].map((end) => claim(prefix + end, { renewed: true }));
    const rivals = [claim(`${prefix}a`, { renewed: true }), claim(`${prefix}a`, { renewed: true })];
    await Promise.all(apart.map((one) => granted(backend, one)));
    expect(new Set(await leasesOf(prefix)).size, "one for three locks").toBe(1);
    for (const rival of rivals) await refused(backend, rival);
    const queue = await leasesOf(`${prefix}a`);
    expect(queue).toHaveLength(3);
    expect(new Set(queue).size, "three claims on one lock").toBe(3);
    for (const one of [...apart, ...rivals]) await backend.release(one);
    const made = countCalls(backend);
    await granted(backend, claim(`${prefix}d`, { renewed: true }));
    // Looks of claims that are over may go on beside it.
    expect(made(), "a cycle asks for no new lease").not.toContain("grantLease");
  });

  test("of claims that are renewed by another thread, or not at all, are their own", async () => {
    const prefix = lockName();
    const all = ["a", "b"].map((end) => claim(prefix + end));
    for (const one of all) await granted(backend, one);
    expect(new Set(await leasesOf(prefix)).size).toBe(2);
    for (const one of all) await backend.release(one);
  });

  test("that are shared: a claim that is not renewed ends, though the others of its lease live on", async () => {
    await eventually("the one ended, and the other did not", async () => {
      const prefix = lockName();
      const [kept, left] = ["kept", "left"].map((end) => claim(prefix + end, { ttlMs: 1000, renewed: true })) as [
        Claim,
        Claim,
      ];
      await Promise.all([granted(backend, kept), granted(backend, left)]);
      await eventually("the one that is not renewed ended", async () => {
        await backend.renew([kept]);
        return (await other.query(left.name)).held.length === 0 ? true : undefined;
      });
      expect((await backend.renew([left]))[0]?.held).toBe(false);
      // Where the machine is too busy for a ttl of a second, both may have.
      return (await backend.release(kept)) === "held" ? true : undefined;
    });
  });

  test("are as long as the cluster gave them, and no shorter than ttl and lockDelay", async () => {
    const one = claim(lockName(), { ttlMs: 1500, lockDelayMs: 2000 });
    const { ttlMs } = await granted(backend, one);
    // Four seconds, of which two are the delay.
    expect(ttlMs).toBe(2000);
    await backend.release(one);
  });

  test("of claims that are not renewed have all their time from the grant on, at once and after a wait", async () => {
    const [before, next, last] = [claim(lockName()), claim(`locks-${names}.`), claim(`locks-${names}.`)];
    await granted(backend, before);
    await refused(backend, last);
    await backend.release(before);
    const { fromMs: startMs = 0, ttlMs = 0 } = await acquire(backend, last);
    await eventually("some of it is over", () => (performance.now() > startMs + ttlMs / 50 ? true : undefined));
    const [askedMs, free] = [performance.now(), claim(lockName())];
    expect((await granted(backend, free)).fromMs, "of a lease that was used before").toBeGreaterThanOrEqual(askedMs);
    await refused(backend, next);
    const waitedMs = performance.now();
    await eventually("it waits", () => (performance.now() > waitedMs + ttlMs / 50 ? true : undefined));
    const leftMs = performance.now();
    await backend.release(last);
    expect((await acquire(backend, next)).fromMs, "after a wait").toBeGreaterThanOrEqual(leftMs);
    for (const one of [next, free]) await backend.release(one);
  });

  test("that end by themselves take the claim along: the holder learns it", async () => {
    const holder = etcd({ endpoints: lab.endpoints });
    const losses: (LossReason | string)[] = [];
    holder.listen({ lost: (_id, reason) => losses.push(reason), doubt: () => undefined });
    const one = claim(lockName());
    await granted(holder, one);
    const [lease] = await leasesOf(one.name);
    await other.client.revokeLease(lease ?? 0n);
    await eventually("it learns of it", () => (losses.length > 0 ? true : undefined));
    expect(losses).toEqual([{ kind: "gone" }]);
    expect((await holder.renew([one]))[0]?.held).toBe(false);
    await granted(holder, claim(one.name));
    await holder.close();
  });

  test("that are not used any more are gone after close()", async () => {
    const closing = etcd({ endpoints: lab.endpoints });
    const one = claim(lockName(), { renewed: true });
    await granted(closing, one);
    const [lease] = await leasesOf(one.name);
    await closing.release(one);
    await closing.close();
    expect((await other.client.timeToLive(lease ?? 0n)).ttl).toBe(0);
  });
});

describe("what outlives a process", () => {
  test("minHold, and nothing else", async () => {
    const brief = etcd({ endpoints: lab.endpoints });
    const [kept, waiting] = [claim(lockName(), { minHoldMs: 3_600_000 }), claim(lockName())];
    await granted(other, claim(waiting.name));
    await granted(brief, kept);
    await refused(brief, waiting);
    expect(await brief.release(kept)).toBe("held");
    await brief.close();
    expect((await other.query(waiting.name)).pending).toEqual([]);
    const next = claim(kept.name);
    const refusal = await refused(other, next);
    expect(refusal.position, "first in line behind what is kept").toBe(1);
    const [shown] = (await other.query(kept.name)).held;
    expect(shown?.remainder, "no claim holds it").toBe("minHold");
    await other.release(next);
  });

  test("minHold, until it is ended by force, by the fence that the lease had", async () => {
    const one = claim(lockName(), { minHoldMs: 3_600_000 });
    const { fence } = await granted(backend, one);
    expect(await backend.release(one)).toBe("held");
    const next = claim(one.name);
    await refused(other, next);
    expect(await other.forceRelease(one.name, fence + 1n, "ops", "wrong fence")).toBe(false);
    expect(await other.forceRelease(one.name, fence, "ops", "the day is over")).toBe(true);
    await acquire(other, next);
  });

  test("a claim that is found again by its id: renewed, released, and asked for with the same fence", async () => {
    const first = etcd({ endpoints: lab.endpoints });
    const one = claim(lockName());
    const { fence } = await granted(first, one);
    await first.abandon();
    const resumed = { ...one, resumes: true };
    const second = etcd({ endpoints: lab.endpoints });
    expect((await granted(second, resumed)).fence).toBe(fence);
    expect((await second.renew([resumed], [fence]))[0]?.held).toBe(true);
    expect((await second.renew([resumed], [fence + 1n]))[0]?.held).toBe(false);
    const third = etcd({ endpoints: lab.endpoints });
    expect(await third.release(resumed)).toBe("held");
    expect(await third.release(resumed)).toBe("absent");
    await Promise.all([second.close(), third.close()]);
  });
});

describe("one claim that two processes ask for at the same time", () => {
  test.each([{}, { mode: "shared" as const }, { limit: 2 }, { queues: false }])(
    "is one lease, with one fence, and ends for both: %o",
    async (shape) => {
      const both = [etcd({ endpoints: lab.endpoints }), etcd({ endpoints: lab.endpoints })] as const;
      const one = claim(lockName(), { ...shape, resumes: true });
      let looks = 0;
      for (const { client } of both) {
        const range = client.range.bind(client);
        // Neither sees the other when it looks whether the claim holds already.
        client.range = async (request, limitMs) => {
          const answer = await range(request, limitMs);
          looks++;
          await eventually("both have looked", () => (looks >= 2 ? true : undefined));
          return answer;
        };
      }
      const answers = await Promise.all(both.map((process) => acquire(process, one)));
      expect(answers[0]?.fence).toBe(answers[1]?.fence);
      expect((await other.inspect(one.name)).held.map(({ fence }) => fence)).toEqual([answers[0]?.fence]);
      await eventually("nothing waits", async () =>
        (await other.inspect(one.name)).pending.length === 0 ? true : undefined,
      );
      for (const process of both) expect((await process.renew([one]))[0]?.held).toBe(true);
      expect(await both[0].release(one)).toBe("held");
      expect((await both[1].renew([one]))[0]?.held).toBe(false);
      expect((await other.inspect(one.name)).held).toEqual([]);
      await Promise.all(both.map((process) => process.close()));
    },
  );
});

describe("others", () => {
  test("who overwrite our key end the lease, and never make two holders", async () => {
    const one = claim(lockName());
    await granted(backend, one);
    const [kv] = (
      await other.client.range({
        key: Buffer.from(`/holdfast/${one.name}/`),
        end: Buffer.from(`/holdfast/${one.name}0`),
      })
    ).kvs;
    await lab.etcdctl("put", "--ignore-lease", kv?.key.toString() ?? "", "mine");
    expect((await backend.renew([one]))[0]?.held).toBe(false);
    await acquire(other, claim(one.name));
  });

  describe("who write to a waiter's key", () => {
    const shapes = [{}, { mode: "shared" }, { limit: 2 }, { resumes: true }] as const;
    const contents = { anything: () => "touched", "the same again": (value: Buffer) => value.toString() } as const;
    const all = shapes.flatMap((shape) => Object.keys(contents).map((content) => ({ shape, content })));

    test.each(all)("give it neither the lock nor an older fence: %o", async ({ shape, content }) => {
      const name = lockName();
      const ahead = "limit" in shape ? shape : {};
      // With a limit of two, two must be ahead.
      const [first, second] = [claim(name, ahead), claim(name, ahead)];
      const [waiter, between] = [claim(name, shape), claim(name, ahead)];
      await granted(other, first);
      if ("limit" in shape) await granted(other, second);
      await refused(other, between);
      await refused(backend, waiter);
      const { kvs } = await other.client.range({
        key: Buffer.from(`/holdfast/${name}/`),
        end: Buffer.from(`/holdfast/${name}0`),
      });
      const own = kvs.find(({ value }) => value.includes(waiter.id));
      if (own === undefined) throw new Error("it has no key");
      const value = Buffer.from(contents[content as keyof typeof contents](own.value));
      await other.client.txn({ when: [], success: [{ put: { key: own.key, value, lease: own.lease } }] });

      await refused(backend, waiter);
      await refused(backend, { ...waiter, resumes: true });
      await other.release(first);
      const { fence } = await acquire(other, between);
      await refused(backend, waiter);
      await other.release(second);
      await other.release(between);
      // Another process that asks for the same claim finds it, and no word that it was granted.
      if ("resumes" in shape) expect((await other.renew([waiter]))[0]?.held).toBe(false);
      expect((await acquire(backend, waiter)).fence).toBeGreaterThan(fence);
      expect((await other.inspect(name)).held).toHaveLength(1);
      expect(await backend.release(waiter)).toBe("held");
    });
  });

  test("see a swap() as one step, and it is one call", async () => {
    const [first, second] = [claim(lockName(), { renewed: true }), claim("", { renewed: true })];
    const next = { ...second, name: first.name };
    await granted(backend, first);
    // A lease for the second is there already.
    const warm = claim(first.name, { renewed: true });
    await refused(backend, warm);
    await backend.release(warm);
    const made = countCalls(backend);
    const answer = await backend.swap(first, next);
    expect(made()).toEqual(["txn"]);
    expect(answer).toMatchObject({ granted: true, released: "held" });
    await backend.release(next);
  });

  test("cost a hand-over two transactions, whether five wait or a hundred", async () => {
    const name = lockName();
    const costs: number[] = [];
    for (const count of [5, 100]) {
      const holder = claim(name);
      await granted(other, holder);
      const waiters = Array.from({ length: count }, () => claim(name));
      await Promise.all(waiters.map((one) => refused(backend, one)));
      const [first] = (await other.query(name)).pending;
      expect(first?.position).toBe(1);
      const stop = new AbortController();
      const watching = waiters.map((one) => backend.watch(one, stop.signal));
      await eventually("all watch", () => (backend.client.watches >= count ? true : undefined));
      const made = countCalls(backend);
      await other.release(holder);
      const grant = await Promise.race(watching);
      expect(grant?.granted).toBe(true);
      costs.push(made().filter((call) => call === "txn").length);
      stop.abort();
      await Promise.all(watching);
      for (const one of waiters) await backend.release(one);
    }
    // It looks at its queue, and writes its key. The holder had met no other claim, so it could not do that for it.
    expect(costs).toEqual([2, 2]);
  });

  test("thousands of leases are renewed in a handful of calls, and one that is gone harms no other", async () => {
    const many = etcd({ endpoints: lab.endpoints });
    const prefix = lockName();
    const claims = Array.from({ length: 250 }, (_, i) => claim(`${prefix}${i}`, { renewed: true }));
    await Promise.all(claims.map((one) => granted(many, one)));
    const [victim] = (await other.query(`${prefix}7`)).held;
    await other.forceRelease(victim?.name ?? "", victim?.fence ?? 0n, "ops", "stuck");
    const { calls } = many.client;
    const renewals = await many.renew(claims);
    expect(renewals.filter(({ held }) => held === false)).toHaveLength(1);
    expect(renewals.filter(({ held }) => held === true)).toHaveLength(249);
    expect(many.client.calls - calls).toBeLessThan(8);
    await Promise.all(claims.map((one) => many.release(one)));
    await many.close();
  });
});

describe("access", () => {
  test("IPv6 addresses are dialled, and a connection alone keeps no process alive", async () => {
    const proxy = await startProxy({ port: lab.servers[0]?.port ?? 0 });
    const client = new EtcdClient({ endpoints: `[::ffff:127.0.0.1]:${proxy.port}` });
    await client.range({ key: Buffer.from("x") });
    expect(proxy.connections).toBe(1);
    await client.close();
    await proxy.stop();
  });

  test("close() in an outage rejects in time, and names what may stay (S132)", async () => {
    const proxy = await startProxy({ port: lab.servers[0]?.port ?? 0 });
    const cut = etcd({ endpoints: `127.0.0.1:${proxy.port}` });
    const name = lockName();
    await granted(other, claim(name));
    await refused(cut, claim(name));
    proxy.hang();
    await expect(cut.close()).rejects.toMatchObject({ code: "ERR_LOCK_BACKEND", message: new RegExp(name) });
    await expect(cut.attempt(claim(name))).rejects.toMatchObject({ fatal: true });
    await proxy.stop();
  });

  test("over TLS, with certificates of both sides; without one, or with an untrusted server, there is no lock", async () => {
    const scratch = makeScratch();
    const at = (file: string): string => join(scratch, file);
    const openssl = await findProgram("openssl");
    mkdirSync(scratch, { recursive: true });
    const make = (...args: readonly string[]): unknown => execFileSync(openssl, args, { stdio: "ignore" });
    const key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"];
    make("req", "-x509", ...key, "-keyout", at("ca.key"), "-out", at("ca.pem"), "-subj", "/CN=ca");
    for (const who of ["server", "client"]) {
      make(
        "req",
        "-x509",
        ...key,
        "-keyout",
        at(`${who}.key`),
        "-out",
        at(`${who}.pem`),
        "-subj",
        `/CN=${who}`,
        "-CA",
        at("ca.pem"),
        "-CAkey",
        at("ca.key"),
        "-addext",
        "subjectAltName=IP:127.0.0.1",
        "-addext",
        "basicConstraints=critical,CA:FALSE",
      );
    }
    const files = [`--cacert=${at("ca.pem")}`, `--cert=${at("client.pem")}`, `--key=${at("client.key")}`];
    const safe = await startEtcd({
      tls: true,
      args: [
        `--cert-file=${at("server.pem")}`,
        `--key-file=${at("server.key")}`,
        `--trusted-ca-file=${at("ca.pem")}`,
        "--client-cert-auth",
      ],
      clientArgs: files,
    });
    try {
      const { openBackend } = await import("../../../src/backends/etcd/open.ts");
      const good = await openBackend(`${safe.url}?ca=${at("ca.pem")}&cert=${at("client.pem")}&key=${at("client.key")}`);
      await granted(good, claim("a"));
      await good.close();
      for (const query of [`ca=${at("ca.pem")}`, `cert=${at("client.pem")}&key=${at("client.key")}`]) {
        const bad = await openBackend(`${safe.url}?${query}`);
        await expect(bad.attempt(claim("b"))).rejects.toMatchObject({ code: "ERR_LOCK_BACKEND" });
        await bad.close();
      }
    } finally {
      await safe.stop();
      removeScratch(scratch);
    }
  });
});

test("renew: true through the core: hundreds of runs on a few locks, none inside with another", async () => {
  const locks = createLocks(backend, { ttl: "10s" });
  const rivals = createLocks(other, { ttl: "10s" });
  const inside = new Map<string, number>();
  const visit = async (which: typeof locks, name: string): Promise<void> => {
    await which.run(name, { wait: "100s" }, async () => {
      inside.set(name, (inside.get(name) ?? 0) + 1);
      expect(inside.get(name)).toBe(1);
      await new Promise((resolve) => setImmediate(resolve));
      expect(inside.get(name)).toBe(1);
      inside.set(name, 0);
    });
  };
  const shared = ["x", "y"].map((end) => lockName() + end);
  await Promise.all(Array.from({ length: 60 }, (_, i) => visit(i % 2 === 0 ? locks : rivals, shared[i % 2] as string)));
  expect((await locks.query(shared[0])).held).toEqual([]);
});

describe("a worker thread", () => {
  test("renews a lease by its claim, and says no for one that is gone, or that has another fence", async () => {
    const [held, gone] = [claim(lockName()), claim(lockName())];
    const { fence } = await granted(backend, held);
    await granted(backend, gone);
    await backend.release(gone);
    const renewer = await openRenewer(structuredClone(backend.renewer?.data));
    const [first, second] = await renewer.renew([held, gone]);
    expect([first?.held, second?.held]).toEqual([true, false]);
    expect(await renewer.renew([held], [fence + 1n])).toMatchObject([{ held: false }]);
    expect(await renewer.renew([held], [fence])).toMatchObject([{ held: true }]);
    expect(await backend.release(held)).toBe("held");
    expect(await renewer.renew([held])).toMatchObject([{ held: false }]);
    await renewer.close();
  });

  test("of the package as it is shipped keeps a lease, which is released in the end", async () => {
    const shipped = (await import(join(ROOT, "dist/index.js"))) as typeof import("../../../src/index.ts");
    const locks = await shipped.connect(lab.url);
    const lease = await locks.acquire(lockName(), { ttl: "30s", renew: "thread" });
    lease.assertHeld();
    expect(await lease.release()).toBe("released");
    await locks.close();
  });
});

test("doctor says who leads, which version runs, what it complains of, and what is missing", async () => {
  const report = await examineEtcd({ url: lab.url } as Parameters<typeof examineEtcd>[0]);
  expect(Object.values(report.facts).join(" ")).toMatch(/leader \d+\.\d+\.\d+/);
  expect(report.findings.map(({ check, level }) => `${check}: ${level}`)).toEqual(
    expect.arrayContaining(["members: weak", "alarms: good", "access: weak"]),
  );
  const silent = await startProxy({ port: lab.servers[0]?.port ?? 0 });
  await silent.stop();
  await expect(
    examineEtcd({ url: `etcd://127.0.0.1:${silent.port}` } as Parameters<typeof examineEtcd>[0]),
  ).rejects.toMatchObject({ code: "ERR_LOCK_BACKEND", message: /no member can be reached/ });
});
