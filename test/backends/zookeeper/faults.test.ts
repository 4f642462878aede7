/** Real faults on a real ensemble: mutual exclusion holds when a server or client dies, freezes or is cut off. */
import { once } from "node:events";
import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import type { Granted } from "../../../src/contract/backend.ts";
import { createLocks } from "../../../src/index.ts";
import { type Proxy, startProxy } from "../../../src/lab/proxy.ts";
import { startZooKeeper, type ZooKeeperLab, type ZooKeeperServer } from "../../../src/lab/servers/zookeeper.ts";
import { Writer } from "../../../src/backends/zookeeper/client/codec.ts";
import { OP } from "../../../src/backends/zookeeper/client/protocol.ts";
import { zookeeper, type ZooKeeperBackend, type ZooKeeperOptions } from "../../../src/backends/zookeeper/index.ts";
import { acquire, claim, eventually, granted, refused } from "./claims.ts";

let lab: ZooKeeperLab;
let all: string;
/** The way from one server to another, while that one leads. */
const links = new Map<string, Proxy>();
const opened: { close(): Promise<unknown> }[] = [];
let locks = 0;

beforeAll(async () => {
  lab = await startZooKeeper({
    servers: 3,
    peerPort: async (from, to, port) => {
      const link = await startProxy({ port });
      links.set(`${from}→${to}`, link);
      return link.port;
    },
  });
  all = lab.url.slice("zk://".length);
});

afterEach(async () => {
  // Backends before the proxies that they speak through.
  for (const one of opened.splice(0).toReversed()) await one.close();
});

afterAll(async () => {
  await Promise.all([...links.values()].map((link) => link.stop()));
  await lab.stop();
});

function open(options: Partial<ZooKeeperOptions> = {}): ZooKeeperBackend {
  const backend = zookeeper({ servers: all, session: "2s", ...options });
  opened.push(backend);
  return backend;
}

async function proxyTo(server: ZooKeeperServer): Promise<Proxy> {
  const proxy = await startProxy({ port: server.port });
  opened.push({ close: () => proxy.stop() });
  return proxy;
}

/** A backend that reaches one server only, through a network that can fail. */
async function openBehind(
  server: ZooKeeperServer,
  session: "1s" | "2s" | "10s" = "2s",
): Promise<[ZooKeeperBackend, Proxy]> {
  const proxy = await proxyTo(server);
  return [open({ servers: `127.0.0.1:${proxy.port}`, session }), proxy];
}

function lockName(): string {
  return `faults-${++locks}`;
}

async function follower(): Promise<ZooKeeperServer> {
  const leader = await lab.leader();
  return lab.servers.find(({ id }) => id !== leader.id) as ZooKeeperServer;
}

/** Ends a session from another connection, with the id and the password from its handshake. */
async function endSession({ port }: ZooKeeperServer, welcome: Buffer, hasEnded: () => Promise<boolean>): Promise<void> {
  const [sessionId, password] = [welcome.readBigInt64BE(12), welcome.subarray(24, 40)];
  const hello = (writer: Writer): Writer =>
    writer.int(0).long(0n).int(4000).long(sessionId).buffer(password).bool(false);
  await eventually("the session is taken over and ended", async () => {
    const socket = connect(port, "127.0.0.1");
    socket.write(new Writer().frame(hello).take());
    socket.once("data", () => socket.write(new Writer().frame((writer) => writer.int(1).int(OP.closeSession)).take()));
    await once(socket, "close");
    // At times a server hangs up on the second connection of a session before it has done what was asked.
    return (await hasEnded()) ? true : undefined;
  });
}

describe("servers that fail", () => {
  // An election takes a second mostly, and at times a quarter of a minute.
  test(
    "kill -9 of the leader costs neither leases nor positions in the queue nor watches",
    { timeout: 180_000 },
    async () => {
      const pairs = await Promise.all(
        [1, 2, 3].map(async () => {
          // However long the others need to elect a leader: this is not about time.
          const [a, b] = [open({ session: "60s" }), open({ session: "60s" })];
          const [holder, waiter] = [claim(lockName(), { ttlMs: 60_000 }), claim(`faults-${locks}`)];
          const { fence } = await granted(a, holder);
          await refused(b, waiter);
          return {
            a,
            b,
            holder,
            waiter,
            fence,
            granted: acquire(b, waiter, 100_000).catch((error: unknown) => error),
            sessions: [a.client.sessionId, b.client.sessionId],
          };
        }),
      );
      const leader = await lab.leader();
      await leader.kill();
      try {
        await lab.leader();
        for (const { a, b, holder, fence, granted: later, sessions } of pairs) {
          const renewal = await eventually("the lease is confirmed", async () => {
            const [answer] = await a.renew([holder]);
            return answer?.held === "unknown" ? undefined : answer;
          });
          expect(renewal.held).toBe(true);
          expect((await granted(a, holder)).fence).toBe(fence);
          expect(await a.release(holder)).toBe("held");
          expect(((await later) as Granted).fence).toBeGreaterThan(fence);
          expect([a.client.sessionId, b.client.sessionId]).toEqual(sessions);
        }
      } finally {
        // The tests after this one need all three.
        await leader.restart();
      }
      await eventually("three servers serve", async () =>
        (await Promise.all(lab.servers.map((server) => server.role()))).includes(undefined) ? undefined : true,
      );
    },
  );

  test("a server that freezes under its client is left for another, with the same session and lease", async () => {
    const leader = await lab.leader();
    const followers = lab.servers.filter(({ id }) => id !== leader.id);
    const proxies = await Promise.all(followers.map(proxyTo));
    const backend = open({ servers: proxies.map(({ port }) => `127.0.0.1:${port}`).join(","), session: "8s" });
    const doubts: number[] = [];
    backend.listen({ lost: () => undefined, doubt: () => void doubts.push(performance.now()) });
    const holder = claim(lockName());
    const { fence } = await granted(backend, holder);
    const { sessionId } = backend.client;
    const frozen = followers[proxies.findIndex(({ connections }) => connections > 0)] as ZooKeeperServer;
    frozen.pause();
    try {
      await eventually("the client moved", () => (doubts.length > 0 ? true : undefined));
      expect(await granted(backend, holder)).toMatchObject({ fence });
      expect(backend.client.sessionId).toBe(sessionId);
    } finally {
      frozen.resume();
    }
  });

  test("a follower cut off from the leader: its holder stops believing before another gets in, though pings go on", async () => {
    const leader = await lab.leader();
    const cutOff = await follower();
    const link = links.get(`${cutOff.id}→${leader.id}`) as Proxy;
    // Shorter than the ten ticks after which a follower notices by itself.
    const held = createLocks(zookeeper({ servers: `127.0.0.1:${cutOff.port}`, session: "1s" }));
    opened.push(held);
    const name = lockName();
    const other = open({ servers: `127.0.0.1:${leader.port}` });
    const lease = await held.acquire(name);
    const waiter = claim(name);
    await refused(other, waiter);
    let lostMs = Infinity;
    lease.signal.addEventListener("abort", () => (lostMs = performance.now()));
    link.hang();
    try {
      const next = await acquire(other, waiter);
      const grantedMs = performance.now();
      expect(lostMs).toBeLessThan(grantedMs);
      expect(next.fence).toBeGreaterThan(lease.fence);
      expect(await cutOff.role()).toBe("follower");
    } finally {
      await link.heal();
    }
  });

  test("a follower cut off from the leader: a waiter there that seems to be first is not granted a lock that others hold", async () => {
    const leader = await lab.leader();
    const cutOff = await follower();
    const link = links.get(`${cutOff.id}→${leader.id}`) as Proxy;
    const waiting = open({ servers: `127.0.0.1:${cutOff.port}`, session: "1s" });
    const other = open({ servers: `127.0.0.1:${leader.port}` });
    const name = lockName();
    const [holder, waiter, next] = [claim(name), claim(name), claim(name)];
    await granted(other, holder);
    await refused(waiting, waiter);
    await other.release(holder);
    await waiting.client.sync("/");
    link.hang();
    try {
      // The ensemble ends the waiter's session, but its server shows its node as the first, and only, in the queue.
      await acquire(other, next);
      expect((await waiting.client.getChildren(`/holdfast/${name}`)).children).toHaveLength(1);
      const answer = await waiting.attempt(waiter).catch(() => ({ granted: "unknown" }));
      expect(answer.granted).not.toBe(true);
    } finally {
      await link.heal();
    }
  });
});

describe("networks that fail", () => {
  test("a short outage costs nothing, and every lease is renewed at once after it (S75)", async () => {
    const [backend, proxy] = await openBehind(await follower(), "10s");
    const held = createLocks(backend);
    opened.push(held);
    const lease = await held.acquire(lockName());
    // The watchdog would renew at 5000.
    await eventually("some time has passed", () => (lease.remaining() < 7000 ? true : undefined));
    proxy.cut();
    await eventually("trusted for a whole ttl again", () => (lease.remaining() > 7200 ? true : undefined));
    proxy.hang();
    await sleep(1500);
    await proxy.heal();
    await eventually("trusted for a whole ttl again", () => (lease.remaining() > 7200 ? true : undefined));
    expect(lease.signal.aborted).toBe(false);
    expect(await lease.release()).toBe("released");
  });

  test("a long outage: the holder learns of the loss before another gets in, and the session's end ends all its leases (S75)", async () => {
    const [backend, proxy] = await openBehind(await follower());
    const held = createLocks(backend);
    opened.push(held);
    const other = open();
    const [name, second] = [lockName(), lockName()];
    const leases = [await held.acquire(name), await held.acquire(second)];
    const waiter = claim(name);
    await refused(other, waiter);
    const lostMs: number[] = [];
    for (const { signal } of leases) signal.addEventListener("abort", () => lostMs.push(performance.now()));
    proxy.hang();
    await acquire(other, waiter);
    const grantedMs = performance.now();
    expect(lostMs).toHaveLength(2);
    for (const oneMs of lostMs) expect(oneMs).toBeLessThan(grantedMs);
    const { sessionId } = backend.client;
    await proxy.heal();
    await eventually("a new session", () => ([0n, sessionId].includes(backend.client.sessionId) ? undefined : true));
    for (const lease of leases) expect(await lease.release()).toBe("lost");
    await using again = await held.acquire(second);
    expect(again.fence).toBeGreaterThan((leases[1] as (typeof leases)[0]).fence);
  });

  test("an expired session reports every lease as lost at once, and answers no to renewals", async () => {
    const server = await follower();
    const proxy = await proxyTo(server);
    let welcome: Buffer | undefined;
    proxy.onReply = (chunk) => void (welcome ??= chunk);
    const backend = open({ servers: `127.0.0.1:${proxy.port}`, session: "4s" });
    const lost: { readonly id: string; readonly reason: unknown }[] = [];
    backend.listen({ lost: (id, reason) => void lost.push({ id, reason }), doubt: () => undefined });
    const claims = [claim(lockName()), claim(lockName()), claim(lockName(), { mode: "shared" })];
    for (const one of claims) await granted(backend, one);
    const seeing = open();
    await endSession(server, welcome as Buffer, async () => {
      const found = await Promise.all(claims.map(({ name }) => seeing.query(name)));
      return found.every(({ held }) => held.length === 0);
    });
    // The server still answers this client's pings; the first request to the leader shows it.
    for (const renewal of await backend.renew(claims)) expect(renewal.held).not.toBe(true);
    await eventually("all are reported", () => (lost.length >= claims.length ? true : undefined));
    expect(lost.map(({ id }) => id).toSorted()).toEqual(claims.map(({ id }) => id).toSorted());
    // Or the watch on the own node spoke first.
    for (const { reason } of lost) expect([{ kind: "session-ended" }, { kind: "removed" }]).toContainEqual(reason);
    for (const renewal of await backend.renew(claims)) expect(renewal.held).toBe(false);
    expect(await backend.release(claims[0] as (typeof claims)[0])).toBe("absent");
    expect((await acquire(backend, claims[1] as (typeof claims)[0])).granted).toBe(true);
  });

  test("a waiter whose session ended while it waited is not granted when its predecessor leaves (S71)", async () => {
    const [waiting, proxy] = await openBehind(await follower(), "1s");
    const [a, b] = [open(), open()];
    const name = lockName();
    const [holder, waiter, next] = [claim(name), claim(name), claim(name)];
    await granted(a, holder);
    await refused(waiting, waiter);
    const watching = waiting.watch(waiter, AbortSignal.timeout(15_000));
    proxy.hang();
    await eventually("the waiter's node is gone", async () =>
      (await a.query(name)).pending.length === 0 ? true : undefined,
    );
    await a.release(holder);
    await granted(b, next);
    await proxy.heal();
    expect(await watching).toBeUndefined();
    const answer = await eventually("an answer", () => waiting.attempt(waiter).catch(() => undefined));
    expect(answer).toMatchObject({ granted: false, position: 1 });
    await b.release(next);
    expect((await acquire(waiting, waiter)).granted).toBe(true);
  });

  test("a lost reply to create: the node is found again, and there is no second one (S76)", async () => {
    const [backend, proxy] = await openBehind(await follower());
    const seeing = open();
    const name = lockName();
    const [warm, lostReply] = [claim(name), claim(name)];
    await granted(backend, warm);
    await backend.release(warm);
    proxy.drop("replies");
    const attempt = backend.attempt(lostReply).catch((error: unknown) => error);
    const ghost = await eventually("the node was made", async () => (await seeing.query(name)).held[0]);
    await proxy.heal();
    proxy.cut();
    expect(await attempt).toMatchObject({ code: "ERR_LOCK_BACKEND", fatal: false });
    const { fence } = await acquire(backend, lostReply);
    expect(fence).toBe(ghost.fence);
    const { held, pending } = await seeing.query(name);
    expect([held.length, pending.length]).toEqual([1, 0]);
    await backend.release(lostReply);
    expect((await seeing.query(name)).held).toEqual([]);
  });

  test("a claim given up while the reply to its create was lost leaves no node in the queue (S76)", async () => {
    const [backend, proxy] = await openBehind(await follower());
    const seeing = open();
    const name = lockName();
    const [warm, lostReply] = [claim(name), claim(name)];
    await granted(backend, warm);
    await backend.release(warm);
    proxy.drop("replies");
    const attempt = backend.attempt(lostReply).catch(() => "unknown");
    await eventually("the node was made", async () => (await seeing.query(name)).held[0]);
    await proxy.heal();
    const release = backend.release(lostReply).catch(() => "unknown");
    proxy.cut();
    await Promise.all([attempt, release]);
    await eventually("nothing is left", async () => ((await seeing.query(name)).held.length === 0 ? true : undefined));
  });

  test("a lost reply to swap() leaves one node, with the right fence", async () => {
    const [backend, proxy] = await openBehind(await follower());
    const seeing = open();
    const name = lockName();
    const [first, second] = [claim(name), claim(name)];
    const before = await granted(backend, first);
    proxy.drop("replies");
    const swap = backend.swap(first, second).catch(() => "unknown");
    const holding = await eventually("the next holds", async () => {
      const [one] = (await seeing.query(name)).held;
      return one?.fence === before.fence ? undefined : one;
    });
    await proxy.heal();
    proxy.cut();
    expect(await swap).toBe("unknown");
    const answer = await eventually("an answer", () => backend.swap(first, second).catch(() => undefined));
    expect(answer).toMatchObject({ granted: true, fence: holding.fence });
    expect((await seeing.query(name)).held).toHaveLength(1);
  });

  test("a release whose request was lost is carried out after the reconnect, without another call", async () => {
    const [backend, proxy] = await openBehind(await follower());
    const seeing = open();
    const name = lockName();
    const holder = claim(name);
    await granted(backend, holder);
    proxy.drop("requests");
    const release = backend.release(holder).catch((error: unknown) => error);
    await sleep(50);
    expect((await seeing.query(name)).held).toHaveLength(1);
    await proxy.heal();
    proxy.cut();
    expect(await release).toMatchObject({ code: "ERR_LOCK_BACKEND" });
    await eventually("released", async () => ((await seeing.query(name)).held.length === 0 ? true : undefined));
  });

  test("a node of an earlier session is never taken for ours, even under the same claim (S74)", async () => {
    const [crashed, again] = [open({ session: "1s" }), open()];
    const one = claim(lockName());
    const before = await granted(crashed, one);
    crashed.client.abandon();
    await refused(again, one);
    const { fence } = await acquire(again, one);
    expect(fence).toBeGreaterThan(before.fence);
    expect((await again.query(one.name)).held.map((holding) => holding.fence)).toEqual([fence]);
  });

  test("nor is it found instead of ours when the reply to create was lost (S74, S76)", async () => {
    const crashed = open({ session: "20s" });
    const [again, proxy] = await openBehind(await follower());
    // Which node a list shows first is chance: so several.
    const claims = Array.from({ length: 6 }, () => claim(lockName()));
    for (const one of claims) await granted(crashed, one);
    crashed.client.abandon();
    await again.client.sync("/");
    const seeing = open();
    proxy.drop("replies");
    const attempts = claims.map((one) => again.attempt(one).catch(() => "unknown"));
    await eventually("all nodes were made", async () => {
      const { pending } = await seeing.query("faults-");
      return pending.length === claims.length ? true : undefined;
    });
    await proxy.heal();
    proxy.cut();
    await Promise.all(attempts);
    for (const one of claims) {
      const answer = await eventually("an answer", () => again.attempt(one).catch(() => undefined));
      expect(answer).toMatchObject({ granted: false, position: 1 });
    }
  });
});
