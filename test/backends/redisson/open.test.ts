/** URLs with the layout, names, and the rights that it needs. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { connect } from "../../../src/index.ts";
import { backendOf } from "../../../src/backends/all.ts";
import { openBackend, openRenewer } from "../../../src/backends/redisson/open.ts";
import { redisson } from "../../../src/backends/redisson/index.ts";
import { examineRedisson } from "../../../src/cli/doctor/redisson.ts";
import { granted } from "../../../src/testing/attempts.ts";
import { ROOT } from "../../dist.ts";
import { claimOf, type Lab, startLab, waits } from "./lab.ts";

let lab: Lab;
beforeAll(async () => {
  lab = await startLab();
});
afterAll(() => lab[Symbol.asyncDispose]());

describe("URLs", () => {
  test("layout=redisson chooses the layout, also with TLS, Sentinel and Cluster", () => {
    for (const scheme of ["redis", "rediss", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster"]) {
      expect(backendOf(`${scheme}://a/?prefix=x&layout=redisson`)).toBe("redisson");
    }
    expect(backendOf("redis://a/0")).toBe("redis");
  });

  test("connect() uses the key as it is named, with the prefix before it, and the kind", async () => {
    const locks = await connect(`${lab.server.url}?layout=redisson&kind=fenced&prefix=app:&gap=0&watchdog=10s`);
    await using lease = await locks.acquire("invoice");
    expect(await lab.raw.get("redisson_lock_token:{app:invoice}")).toBe(String(lease.fence));
    expect(await lab.java.tryLock("app:invoice")).toBe(false);
    await lease.release();
    expect(await lab.raw.exists("app:invoice")).toBe(0);
    await locks.close();
  });

  test("what a worker thread needs to renew a lease comes from the same URL", async () => {
    const url = `${lab.server.url}?layout=redisson&kind=read-write`;
    const backend = await openBackend(url);
    const claim = claimOf("threaded", { mode: "shared" });
    const { fence } = await granted(backend, claim);
    await lab.raw.pexpire("threaded", 5000);
    const renewer = await openRenewer(backend.renewer?.data);
    expect(await renewer.renew([claim], [fence])).toEqual([{ held: true }]);
    expect(await lab.raw.pttl("threaded")).toBeGreaterThan(5000);
    await Promise.all([renewer.close(), backend.close()]);
    await expect(openRenewer(5)).rejects.toThrow(/a Redis URL/u);
  });

  test.each([
    ["?layout=redisson&failover=quarantine", /no `failover` in `url`: layout=redisson knows nothing of it/u],
    ["?layout=redisson&kind=semaphore", /`kind` to be lock, read-write or fenced/u],
    ["?layout=redisson&watchdog=long", /`watchdog`/u],
    ["?layout=redisson&gap=long", /`gap`/u],
  ])("%s is refused", async (query, message) => {
    await expect(connect(lab.server.url + query)).rejects.toThrow(message);
  });

  test("a server that is not there is named, without the password", async () => {
    const error = await openBackend("redis://:secret@127.0.0.1:1?layout=redisson").catch((cause: unknown) => cause);
    expect(error).toMatchObject({ backend: "redisson", fatal: false });
    expect(String(error)).toContain("127.0.0.1:1");
    expect(String(error)).not.toContain("secret");
  });
});

describe("names", () => {
  test("and their companions are those of Redisson, with and without braces", async () => {
    await lab.raw.flushall();
    const backend = lab.backend({ kind: "fenced" });
    for (const name of ["plain", "order:{42}:lock", "a{b"]) await granted(backend, claimOf(name));
    expect((await lab.raw.keys("*")).toSorted()).toEqual(
      [
        ["plain", "{plain}:holdfast", "redisson_lock_token:{plain}"],
        ["order:{42}:lock", "order:{42}:lock::holdfast", "redisson_lock_token:order:{42}:lock"],
        ["a{b", "a{b::holdfast", "redisson_lock_token:a{b"],
      ]
        .flat()
        .toSorted(),
    );
  });

  test("a client that puts a prefix before keys by itself is refused: Redisson has names inside of keys", () => {
    expect(() => redisson(lab.client(undefined, { keyPrefix: "app:" }))).toThrow(/`prefix`/u);
    expect(() => redisson(lab.raw, { prefix: 5 as never })).toThrow(/`prefix` to be a text/u);
    expect(() => redisson(lab.raw, { kind: "x" as never })).toThrow(/`kind` to be/u);
  });
});

test("the doctor says what holds beside Java, and what does not", async () => {
  const url = `${lab.server.url}?layout=redisson`;
  const report = await examineRedisson({ url, selfTest: false, init: false, say: () => undefined });
  expect(report).toMatchObject({ backend: "redisson", facts: { role: "master" } });
  expect(report.limits.join()).toContain("RReadWriteLock");
});

describe("rights", () => {
  const recipe = /```redis-acl redisson\nACL SETUSER (.*)\n/u.exec(
    readFileSync(join(ROOT, "SECURITY.md"), "utf8"),
  )?.[1];

  test("those in SECURITY.md suffice for all that the layout does, and not for the keys of others", async () => {
    const [user = "", ...rights] = (recipe ?? "").split(" ").map((part) => part.replace("<password>", "secret"));
    await lab.raw.call("ACL", "SETUSER", user, ...rights);
    const client = new Redis({ host: lab.server.host, port: lab.server.port, username: user, password: "secret" });
    try {
      for (const kind of ["lock", "read-write", "fenced"] as const) {
        const backend = redisson(client, { prefix: "billing:", kind });
        const mode = kind === "read-write" ? "shared" : "exclusive";
        const [first, second] = [claimOf(kind, { mode }), claimOf(kind, { queues: true })];
        const { fence } = await granted(backend, first);
        await waits(backend, second);
        const news = backend.watch(second, new AbortController().signal);
        expect(await backend.renew([first])).toEqual([{ held: true }]);
        expect((await backend.query(kind)).held).toMatchObject([{ fence }]);
        expect(await backend.forceRelease(kind, fence, "me", "why")).toBe(true);
        await news;
        expect((await backend.query(kind)).forced).toMatchObject([{ fence }]);
        expect(await backend.renew([first])).toMatchObject([{ held: false, reason: { kind: "forced" } }]);
        await granted(backend, second);
        expect(await backend.release({ ...second, minHoldMs: 50 })).toBe("held");
        await backend.inspect(kind);
        await backend.close();
      }
      const other = redisson(client, { prefix: "other:" });
      await expect(other.attempt(claimOf("a"))).rejects.toThrow(/may not do this/u);
      await other.close();
    } finally {
      client.disconnect();
    }
  });
});
