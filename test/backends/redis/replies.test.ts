/** Replies that never come: no second hold, no stuck waiter, no false answer. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Proxy, startProxy } from "../../../src/lab/proxy.ts";
import type { Claim, Released } from "../../../src/contract/backend.ts";
import { type RedisServer, startRedis } from "../../../src/lab/servers/redis.ts";
import { createLocks } from "../../../src/core/locks.ts";
import { redis } from "../../../src/backends/redis/index.ts";
import { claimOf, Clients, eventually, granted, refused, rivalOf } from "./lab.ts";

let server: RedisServer;
beforeAll(async () => {
  server = await startRedis();
});
afterAll(() => server.stop());

/** A backend whose connections go through a proxy, and one that does not. */
async function throughProxy(testClients: Clients): Promise<{ proxy: Proxy; port: number }> {
  const proxy = await startProxy({ port: server.port });
  testClients.later(() => proxy.stop());
  return { proxy, port: proxy.port };
}

/** Loses the reply to the next script call that mentions `text`, and cuts that connection. `then`: what happens in that instant. */
function loseReplyTo(proxy: Proxy, text: string, then?: () => void): Promise<void> {
  return new Promise((resolve) => {
    let connection: number | undefined;
    proxy.onRequest = (chunk, id) => {
      if (connection === undefined && chunk.includes(text)) connection = id;
      return undefined;
    };
    proxy.onReply = (_, id) => {
      if (id !== connection) return undefined;
      proxy.onRequest = undefined;
      proxy.onReply = undefined;
      then?.();
      resolve();
      return "reset";
    };
  });
}

describe.concurrent("lost replies", () => {
  test("S09: a lost reply to acquire makes one hold, freed by one release", async () => {
    await using testClients = new Clients();
    const { proxy, port } = await throughProxy(testClients);
    const [near, far] = [testClients.backend(server.port), testClients.backend(port)];
    await granted(far, claimOf());
    const claim = claimOf();
    const lost = loseReplyTo(proxy, claim.id);
    // The client asks again by itself, on a new connection, with the same claim.
    const { fence } = await granted(far, claim);
    await lost;
    const { held } = await near.query(claim.name);
    expect(held.map((holding) => holding.fence)).toEqual([fence]);
    expect(await far.release(claim)).toBe("held");
    await granted(near, rivalOf(claim));
  });

  test("S10: a lost reply to release is no “not yours”: the core reports released", async () => {
    await using testClients = new Clients();
    const { proxy, port } = await throughProxy(testClients);
    const options = { maxRetriesPerRequest: 0, autoResendUnfulfilledCommands: false };
    const locks = createLocks(testClients.backend(port, {}, options), { ttl: "60s" });
    testClients.later(() => locks.close());
    const name = claimOf().name;
    const lease = await locks.acquire(name);
    const lost = loseReplyTo(proxy, name);
    expect(await lease.release()).toBe("released");
    await lost;
    await granted(testClients.backend(server.port), claimOf({ name }));
  });

  test("S130: a release that the client sent again after its reply was lost is not reported as “not known”", async () => {
    await using testClients = new Clients();
    const { proxy, port } = await throughProxy(testClients);
    // It sends again by itself what it had no answer to.
    const backend = testClients.backend(port);
    const [claim, next, warm] = [claimOf(), claimOf(), claimOf()];
    // The server knows the scripts from here on: what is lost is the answer.
    await granted(backend, warm);
    await backend.swap(warm, rivalOf(warm, { id: claim.id }));
    await backend.release({ ...claim, name: warm.name });
    await granted(backend, claim);
    const lost = loseReplyTo(proxy, claim.id);
    await expect(backend.release(claim)).rejects.toMatchObject({ name: "LockBackendError", fatal: false });
    await lost;
    // Asked again on a good connection, the answer is certain.
    expect(await backend.release(claim)).toBe("absent");
    await granted(backend, next);
    const swapLost = loseReplyTo(proxy, next.id);
    expect((await backend.swap(next, rivalOf(next))).released).toBeUndefined();
    await swapLost;
  });

  test.each(["release", "swap"] as const)(
    "S130: nor as “queued”, where an attempt of the same claim came between the two: a %s",
    async (step) => {
      await using testClients = new Clients();
      const { proxy, port } = await throughProxy(testClients);
      const [backend, near] = [testClients.backend(port), testClients.backend(server.port)];
      const claim = claimOf();
      const [rival, next] = [rivalOf(claim), rivalOf(claim)];
      const leave = async (held: Claim): Promise<Released | undefined> =>
        step === "release" ? await backend.release(held) : (await backend.swap(held, next)).released;
      // The server knows the scripts from here on: what is lost is the answer.
      await granted(backend, claim);
      expect(await leave(claim)).toBe("held");
      await backend.release(next);
      await granted(backend, claim);
      const lost = loseReplyTo(proxy, claim.id, () => proxy.hang("requests"));
      const left = leave(claim).catch((error: unknown) => error);
      await lost;
      // Carried out; the client sends it again when it has a connection.
      if (step === "swap") await near.release(next);
      await granted(near, rival);
      expect((await refused(near, claim)).position).toBe(1);
      await proxy.heal();
      if (step === "swap") expect(await left).toBeUndefined();
      else expect(await left).toMatchObject({ name: "LockBackendError", fatal: false });
    },
  );

  test("S132: close() waits for releases under way, and says what may be left when no answer comes", async () => {
    await using testClients = new Clients();
    const { proxy, port } = await throughProxy(testClients);
    const near = testClients.backend(server.port);
    // Not the testClients's: closed once more, it would only say again what may be left.
    const [slow, silent] = [testClients.backend(port), redis(testClients.client(port))];
    const [a, b] = [claimOf(), claimOf()];
    await granted(slow, a);
    await granted(silent, b);
    proxy.hang("requests");
    const [releasing, unanswered] = [slow.release(a), silent.release(b).catch((error: unknown) => error)];
    const closing = slow.close();
    expect((await near.query(a.name)).held).toHaveLength(1);
    await proxy.heal();
    await closing;
    expect(await releasing).toBe("held");
    expect((await near.query(a.name)).held).toEqual([]);
    await unanswered;
    await granted(silent, b);
    proxy.hang("requests");
    const second = silent.release(b).catch((error: unknown) => error);
    await expect(silent.close()).rejects.toThrow(new RegExp(`may be left.*${b.name}`, "u"));
    await proxy.heal();
    await second;
  });

  test("S11: a lost reply to a renewal is neither yes nor no, and the next one tells", async () => {
    await using testClients = new Clients();
    const { proxy, port } = await throughProxy(testClients);
    const options = { maxRetriesPerRequest: 0, autoResendUnfulfilledCommands: false };
    const backend = testClients.backend(port, {}, options);
    const claim = claimOf();
    await granted(backend, claim);
    const lost = loseReplyTo(proxy, claim.id);
    const [unknown] = await backend.renew([claim]);
    await lost;
    expect(unknown?.held).toBe("unknown");
    const [again] = await eventually("a yes", async () => {
      const answers = await backend.renew([claim]);
      return answers[0]?.held === true ? answers : undefined;
    });
    expect(again?.held).toBe(true);
  });

  test("S12: a grant that comes after the caller stopped waiting is given back", async () => {
    await using testClients = new Clients();
    const { proxy, port } = await throughProxy(testClients);
    const locks = createLocks(testClients.backend(port), { ttl: "60s" });
    testClients.later(() => locks.close());
    const name = claimOf().name;
    await locks.run("warm", () => undefined);
    const near = testClients.backend(server.port);
    proxy.hang("replies");
    const acquiring = expect(locks.acquire(name, { wait: 500 })).rejects.toThrow();
    await eventually("the server granted it", async () => (await near.query(name)).held[0]);
    await acquiring;
    await proxy.heal();
    await eventually("nothing is left", async () => {
      const { held, pending } = await near.query(name);
      return held.length + pending.length === 0 ? true : undefined;
    });
  });

  test("S53, S09: a grant whose message and whose hand-over reply are lost is found by the next sign of life", async () => {
    await using testClients = new Clients();
    const { proxy, port } = await throughProxy(testClients);
    const [near, far] = [testClients.backend(server.port), testClients.backend(port)];
    const holder = claimOf({ ttlMs: 1500 });
    const waiter = rivalOf(holder);
    await granted(near, holder);
    await refused(far, waiter);
    proxy.onReply = (chunk) => (chunk.includes("granted ") ? "reset" : undefined);
    const watching = far.watch(waiter, AbortSignal.timeout(10_000));
    await near.release(holder);
    const news = await watching;
    const fence = news?.fence ?? (await granted(far, waiter)).fence;
    expect((await near.query(holder.name)).held.map((holding) => holding.fence)).toEqual([fence]);
  });
});
