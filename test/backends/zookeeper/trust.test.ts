/** Trust counts from before the request left, however late its answer comes. */
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Granted } from "../../../src/contract/backend.ts";
import { type Proxy, startProxy } from "../../../src/lab/proxy.ts";
import { startZooKeeper, type ZooKeeperLab } from "../../../src/lab/servers/zookeeper.ts";
import { zookeeper, type ZooKeeperBackend } from "../../../src/backends/zookeeper/index.ts";
import { claim, eventually, granted, refused } from "./claims.ts";

/** Numbers that the protocol gives to the two requests that list a node's children. */
const LISTS = [8, 12];

let lab: ZooKeeperLab;
let proxy: Proxy;
let backend: ZooKeeperBackend;

beforeAll(async () => {
  lab = await startZooKeeper();
  proxy = await startProxy({ port: (await lab.leader()).port });
  backend = zookeeper({ servers: `127.0.0.1:${proxy.port}`, session: "40s" });
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
  const one = claim("trust-1");
  // The paths are made before.
  await granted(backend, one);
  await backend.release(one);
  const asks: (() => Promise<unknown>)[] = [
    () => granted(backend, one),
    async () => (await backend.renew([one]))[0],
    () => granted(backend, one),
  ];
  for (const ask of asks) {
    proxy.hang("replies");
    const asked = ask();
    const sentMs = performance.now();
    const answer = (await late(asked)) as { readonly fromMs?: number };
    expect(answer.fromMs).toBeLessThanOrEqual(sentMs);
  }
});

test("of a grant after waiting: from before the read that found it", async () => {
  const other = zookeeper({ servers: lab.url.slice("zk://".length), session: "40s" });
  const [holder, waiter] = [claim("trust-2"), claim("trust-2")];
  await granted(other, holder);
  await refused(backend, waiter);
  const watching = backend.watch(waiter, AbortSignal.timeout(20_000));
  await backend.client.sync("/");
  let requests = 0;
  let sentMs = Infinity;
  // The first list after the watch fired is the read. Pings and the watches of other leases may come before it.
  proxy.onRequest = (bytes) => {
    if (!LISTS.includes(bytes.readInt32BE(8))) return undefined;
    if (requests++ === 0) {
      sentMs = performance.now();
      proxy.hang("replies");
    }
    return undefined;
  };
  await other.release(holder);
  await eventually("the read was sent", () => (requests > 0 ? true : undefined));
  const answer = await late(watching);
  expect(answer?.fromMs).toBeLessThanOrEqual(sentMs);
  await other.close();
});

test("S166: of an answer that comes when the lease has ended here, and its node is being deleted", async () => {
  const one = claim("trust-4", { ttlMs: 1000 });
  const first = await granted(backend, one);
  for (const ask of ["again", "renew"] as const) {
    const before = ask === "again" ? first : await granted(backend, one);
    const endMs = (before.fromMs ?? 0) + 1000;
    proxy.hang("replies");
    const asked = ask === "again" ? backend.attempt(one) : backend.renew([one]);
    // The ensemble says yes in time; the answer comes after the lease's end.
    await eventually("its time is over", () => (performance.now() > endMs + 50 ? true : undefined));
    await proxy.heal();
    const answer = await asked;
    if (ask === "renew") expect(answer).toMatchObject([{ held: false }]);
    else expect((answer as Granted).fence).not.toBe(before.fence);
  }
  await backend.release(one);
});
