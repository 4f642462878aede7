/** close(): it leaves nothing in the ensemble, never hangs, and names what it could not remove. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Proxy, startProxy } from "../../../src/lab/proxy.ts";
import { startZooKeeper, type ZooKeeperLab } from "../../../src/lab/servers/zookeeper.ts";
import { zookeeper, type ZooKeeperBackend } from "../../../src/backends/zookeeper/index.ts";
import { claim, eventually, granted, refused } from "./claims.ts";

let lab: ZooKeeperLab;
let observer: ZooKeeperBackend;
const proxies: Proxy[] = [];
let locks = 0;

beforeAll(async () => {
  lab = await startZooKeeper();
  observer = zookeeper({ servers: lab.url.slice("zk://".length), session: "40s" });
});

afterAll(async () => {
  await observer.close();
  await Promise.all(proxies.map((proxy) => proxy.stop()));
  await lab.stop();
});

async function open(): Promise<[ZooKeeperBackend, Proxy]> {
  const { port } = await lab.leader();
  const proxy = await startProxy({ port });
  proxies.push(proxy);
  return [zookeeper({ servers: `127.0.0.1:${proxy.port}`, session: "40s" }), proxy];
}

function lockName(): string {
  // None is the beginning of another.
  return `close-${++locks}.`;
}

async function leftOf(name: string): Promise<number> {
  const { held, pending } = await observer.query(name);
  return held.length + pending.length;
}

describe("close()", { concurrent: true }, () => {
  test("in an outage rejects in time, and names what may stay (S132)", async () => {
    const [backend, proxy] = await open();
    const [held, queued] = [lockName(), lockName()];
    await granted(observer, claim(queued));
    await granted(backend, claim(held));
    await refused(backend, claim(queued));
    proxy.hang();
    const error = await backend.close().then(
      () => "closed",
      (reason: unknown) => reason,
    );
    expect(error).toMatchObject({ code: "ERR_LOCK_BACKEND", backend: "zookeeper" });
    expect(String(error)).toContain(JSON.stringify(held));
    expect(String(error)).toContain(JSON.stringify(queued));
    expect(String(error)).toContain("40000 ms");
    await expect(backend.attempt(claim(held))).rejects.toMatchObject({ fatal: true });
  });

  test("in an outage resolves where nothing of ours is in the store", async () => {
    const [backend, proxy] = await open();
    const one = claim(lockName());
    await granted(backend, one);
    await backend.release(one);
    proxy.hang();
    await backend.close();
    expect(await leftOf(one.name)).toBe(0);
  });

  test("names a release that was not answered (S132)", async () => {
    const [backend, proxy] = await open();
    const one = claim(lockName());
    await granted(backend, one);
    proxy.hang();
    const release = backend.release(one).catch(() => "unknown");
    await expect(backend.close()).rejects.toThrow(one.name);
    expect(await release).toBe("unknown");
  });

  test("ends attempts, releases and waiters that are under way too", async () => {
    const [backend] = await open();
    const names = [lockName(), lockName(), lockName()];
    await granted(observer, claim(names[1] as string));
    const held = claim(names[0] as string);
    await granted(backend, held);
    const under = [
      backend.release(held),
      backend.attempt(claim(names[1] as string)),
      backend.attempt(claim(names[2] as string, { limit: 3 })),
    ];
    const outcomes = Promise.allSettled(under);
    await backend.close();
    await outcomes;
    expect(await leftOf(names[0] as string)).toBe(0);
    expect(await leftOf(names[1] as string)).toBe(1);
    expect(await leftOf(names[2] as string)).toBe(0);
  });

  test("whose answer was lost retries, and resolves when the nodes are certainly gone (S132)", async () => {
    const [backend, proxy] = await open();
    const one = claim(lockName());
    await granted(backend, one);
    let isLost = false;
    proxy.onReply = () => {
      if (isLost) return undefined;
      isLost = true;
      return "reset";
    };
    await backend.close();
    expect(isLost).toBe(true);
    expect(await leftOf(one.name)).toBe(0);
  });

  test("in an outage, with something that minHold keeps, rejects in time too (S132)", async () => {
    const [backend, proxy] = await open();
    const [brief, other] = [claim(lockName(), { minHoldMs: 30_000 }), claim(lockName())];
    await granted(backend, brief);
    await granted(backend, other);
    await backend.release(brief);
    proxy.hang();
    const error = await backend.close().then(
      () => "closed",
      (reason: unknown) => reason,
    );
    expect(error).toMatchObject({ code: "ERR_LOCK_BACKEND", lock: other.name });
  });

  test("with something that minHold keeps waits for an attempt that is under way, and removes its node", async () => {
    const [backend, proxy] = await open();
    const [brief, late] = [claim(lockName(), { minHoldMs: 20_000 }), claim(lockName())];
    await granted(backend, late);
    await backend.release(late);
    await granted(backend, brief);
    await backend.release(brief);
    proxy.hang("replies");
    const attempt = backend.attempt(late).catch(() => "unknown");
    await eventually("its node was made", async () => ((await leftOf(late.name)) === 1 ? true : undefined));
    const closed = backend.close();
    await proxy.heal();
    await closed;
    await attempt;
    expect(await leftOf(late.name)).toBe(0);
    expect(await leftOf(brief.name)).toBe(1);
  });
});
