/** The ZooKeeper recipe of SECURITY.md on a real server: the rights suffice, and one zone cannot touch another. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { writeFenced } from "../../src/fence/zookeeper/index.ts";
import { createLocks, openBackend } from "../../src/index.ts";
import { startZooKeeper, type ZooKeeperLab } from "../../src/lab/servers/zookeeper.ts";
import { zookeeper, type ZooKeeperBackend, ZooKeeperClient } from "../../src/backends/zookeeper/index.ts";
import { acquire, claim, granted, refused } from "../backends/zookeeper/claims.ts";

const ZONES = ["billing", "search"] as const;
type Zone = (typeof ZONES)[number];

let lab: ZooKeeperLab;
let servers: string;
const opened: { close(): Promise<unknown> }[] = [];

/** `addauth digest <zone>:<password>`, `create /<zone> "" auth::cdrwa`. */
beforeAll(async () => {
  lab = await startZooKeeper();
  servers = lab.url.slice("zk://".length);
  for (const zone of ZONES) {
    const client = new ZooKeeperClient({ servers, auth: { user: zone, password: `pw-${zone}` }, acl: "creator" });
    await client.create(`/${zone}`, Buffer.alloc(0), "persistent");
    await client.close();
  }
});

afterAll(async () => {
  for (const one of opened) await one.close();
  await lab.stop();
});

async function open(user: Zone, path: Zone = user): Promise<ZooKeeperBackend> {
  const backend = await openBackend(`zk://${user}:pw-${user}@${servers}/${path}?acl=creator&session=10s`);
  opened.push(backend);
  return backend as ZooKeeperBackend;
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
  const readers = [claim("catalog", { mode: "shared" }), claim("catalog", { mode: "shared" })];
  for (const one of readers) await granted(a, one);
  for (const one of [claim("import", { limit: 2 }), claim("import", { limit: 2 })]) await granted(b, one);
  await refused(a, claim("import", { limit: 2 }));
  const held = createLocks(await open("billing"));
  await held.run(["x", "y"], async ({ fences }) => expect(fences.size).toBe(2));
  await held.close();
});

describe("one zone cannot touch another (S179)", () => {
  const thieves: Readonly<Record<string, () => Promise<ZooKeeperBackend>>> = {
    "another zone's user": () => open("search", "billing"),
    "an anonymous client": async () => {
      const backend = zookeeper({ servers, chroot: "/billing", session: "10s" });
      opened.push(backend);
      return backend;
    },
  };
  for (const [who, thief] of Object.entries(thieves)) {
    test(who, async () => {
      const owner = await open("billing");
      const one = claim(`mine of ${who}`);
      const { fence } = await granted(owner, one);
      const node = owner.leaseNode(one.name, fence) as string;
      const other = await thief();
      const noAuth = { code: "ERR_LOCK_BACKEND", fatal: true, message: /NOAUTH/ };
      await expect(other.attempt(claim(one.name))).rejects.toMatchObject(noAuth);
      await expect(other.attempt(claim("another"))).rejects.toMatchObject(noAuth);
      await expect(other.forceRelease(one.name, fence, "me", "mine now")).rejects.toMatchObject(noAuth);
      await expect(other.query("")).rejects.toMatchObject(noAuth);
      await expect(other.client.delete(node)).rejects.toMatchObject({ code: "NOAUTH" });
      await expect(other.client.getData(node)).rejects.toMatchObject({ code: "NOAUTH" });
      await expect(other.client.setData(node, Buffer.alloc(0))).rejects.toMatchObject({ code: "NOAUTH" });
      expect(await owner.renew([one])).toMatchObject([{ held: true }]);
    });
  }
});

test("a guard's marks are the zone's own, and no other zone's (S179)", async () => {
  const clientOf = (zone: Zone): ZooKeeperClient => {
    const client = new ZooKeeperClient({ servers, auth: { user: zone, password: `pw-${zone}` }, acl: "creator" });
    opened.push(client);
    return client;
  };
  const [ours, theirs] = [clientOf("billing"), clientOf("search")];
  const marks = { marks: "/billing/fences" };
  await writeFenced(ours, { name: "invoice:1", fence: 34n }, [], marks);
  await expect(writeFenced(ours, { name: "invoice:1", fence: 33n }, [], marks)).rejects.toMatchObject({ current: 34n });
  for (const name of ["invoice:1", "invoice:2"]) {
    await expect(writeFenced(theirs, { name, fence: 99n }, [], marks)).rejects.toMatchObject({ code: "NOAUTH" });
  }
  await writeFenced(ours, { name: "invoice:1", fence: 35n }, [], marks);
});

test("a list of rights lets all clients read and no other client change (S179)", async () => {
  const acl = [
    { scheme: "auth", id: "", perms: "cdrwa" },
    { scheme: "world", id: "anyone", perms: "r" },
  ] as const;
  const owner = zookeeper({ servers, base: "/shown", acl, auth: { user: "billing", password: "pw-billing" } });
  const passer = zookeeper({ servers, base: "/shown" });
  opened.push(owner, passer);
  const one = claim("invoice:2");
  const { fence } = await granted(owner, one);
  expect((await passer.query("")).held).toMatchObject([{ name: "invoice:2", fence }]);
  await expect(passer.forceRelease(one.name, fence, "me", "x")).rejects.toMatchObject({ message: /NOAUTH/ });
  await expect(passer.attempt(claim(one.name))).rejects.toMatchObject({ message: /NOAUTH/ });
  expect(await owner.renew([one])).toMatchObject([{ held: true }]);
});
