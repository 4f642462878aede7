/** The etcd recipe of SECURITY.md on a real server: the role suffices, and one zone cannot touch another. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { writeFenced } from "../../src/fence/etcd/index.ts";
import { createLocks, openBackend } from "../../src/index.ts";
import { type EtcdLab, startEtcd } from "../../src/lab/servers/etcd.ts";
import { etcd, type EtcdBackend, EtcdClient } from "../../src/backends/etcd/index.ts";
import { acquire, claim, granted, refused } from "../backends/etcd/claims.ts";

const ZONES = ["billing", "search"] as const;
type Zone = (typeof ZONES)[number];

let lab: EtcdLab;
const opened: { close(): Promise<unknown> }[] = [];

/** The commands of SECURITY.md, for two zones. */
beforeAll(async () => {
  lab = await startEtcd();
  await lab.etcdctl("user", "add", "root:pw-root");
  await lab.etcdctl("user", "grant-role", "root", "root");
  for (const zone of ZONES) {
    await lab.etcdctl("role", "add", zone);
    await lab.etcdctl("role", "grant-permission", zone, "--prefix=true", "readwrite", `/${zone}/`);
    await lab.etcdctl("user", "add", `${zone}:pw-${zone}`);
    await lab.etcdctl("user", "grant-role", zone, zone);
  }
  await lab.etcdctl("auth", "enable");
});

afterAll(async () => {
  for (const one of opened) await one.close();
  await lab.stop();
});

async function open(user: Zone, base: Zone = user): Promise<EtcdBackend> {
  const backend = await openBackend(`etcd://${user}:pw-${user}@${lab.endpoints}?base=/${base}/locks`);
  opened.push(backend);
  return backend as EtcdBackend;
}

test("the zone's own user has all the rights that locks need (S179)", async () => {
  const [a, b] = [await open("billing"), await open("billing")];
  const [first, second] = [claim("invoice:1"), claim("invoice:1")];
  const { fence } = await granted(a, first);
  expect((await refused(b, second)).heldBy).toMatchObject([{ fence }]);
  expect(await a.renew([first])).toMatchObject([{ held: true }]);
  expect(await a.release(first)).toBe("held");
  const next = await acquire(b, second);
  expect(next.fence).toBeGreaterThan(fence);
  expect(await a.forceRelease("invoice:1", next.fence, "ops", "stuck")).toBe(true);
  expect((await a.query("")).forced).toMatchObject([{ by: "ops", reason: "stuck" }]);
  for (const one of [claim("catalog", { mode: "shared" }), claim("catalog", { mode: "shared" })]) await granted(a, one);
  for (const one of [claim("import", { limit: 2 }), claim("import", { limit: 2 })]) await granted(b, one);
  await refused(a, claim("import", { limit: 2 }));
  const brief = claim("brief", { minHoldMs: 1000 });
  await granted(a, brief);
  expect(await a.release(brief)).toBe("held");
  const held = createLocks(await open("billing"));
  await held.run(["x", "y"], async ({ fences }) => expect(fences.size).toBe(2));
  await held.close();
});

describe("one zone cannot touch another (S179)", () => {
  const thieves: Readonly<Record<string, () => Promise<EtcdBackend>>> = {
    "another zone's user": () => open("search", "billing"),
    "an anonymous client": async () => {
      const backend = etcd({ endpoints: lab.endpoints, base: "/billing/locks" });
      opened.push(backend);
      return backend;
    },
    "a user with a wrong password": async () => {
      const backend = etcd({
        endpoints: lab.endpoints,
        base: "/billing/locks",
        auth: { user: "billing", password: "hunter2" },
      });
      opened.push(backend);
      return backend;
    },
  };
  for (const [who, thief] of Object.entries(thieves)) {
    test(who, async () => {
      const owner = await open("billing");
      const one = claim(`mine of ${who}`);
      const { fence } = await granted(owner, one);
      const own = owner.leaseKey(one.name, fence);
      if (own === undefined) throw new Error("it has no key");
      const other = await thief();
      const refusal = { code: "ERR_LOCK_BACKEND", fatal: true, message: expect.not.stringContaining("hunter2") };
      await expect(other.attempt(claim(one.name))).rejects.toMatchObject(refusal);
      await expect(other.attempt(claim("another"))).rejects.toMatchObject(refusal);
      await expect(other.forceRelease(one.name, fence, "me", "mine now")).rejects.toMatchObject(refusal);
      await expect(other.query("")).rejects.toMatchObject(refusal);
      for (const operation of [
        { range: { key: own.key } },
        { remove: { key: own.key } },
        { put: { key: own.key, value: Buffer.from("x"), lease: 0n } },
      ]) {
        await expect(other.client.txn({ when: [], success: [operation] })).rejects.toMatchObject({ isRefusal: true });
      }
      // A lease's keys belong to the zone: a user that may not write them may not end it.
      const { kvs } = await owner.client.range({ key: own.key });
      await expect(other.client.revokeLease(kvs[0]?.lease ?? 0n)).rejects.toMatchObject({ isRefusal: true });
      expect(await owner.renew([one])).toMatchObject([{ held: true }]);
      await owner.release(one);
    });
  }
});

test("a guard's marks are the zone's own, and no other zone's (S179)", async () => {
  const clientOf = (zone: Zone): EtcdClient => {
    const client = new EtcdClient({ endpoints: lab.endpoints, auth: { user: zone, password: `pw-${zone}` } });
    opened.push(client);
    return client;
  };
  const [ours, theirs] = [clientOf("billing"), clientOf("search")];
  const marks = { marks: "/billing/fences" };
  await writeFenced(ours, { name: "invoice:1", fence: 34n }, [], marks);
  await expect(writeFenced(ours, { name: "invoice:1", fence: 33n }, [], marks)).rejects.toMatchObject({ current: 34n });
  for (const name of ["invoice:1", "invoice:2"]) {
    await expect(writeFenced(theirs, { name, fence: 99n }, [], marks)).rejects.toMatchObject({
      code: "PERMISSION_DENIED",
    });
  }
  await writeFenced(ours, { name: "invoice:1", fence: 35n }, [], marks);
});
