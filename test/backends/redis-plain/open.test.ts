/** URLs with a layout, and the rights that the layout needs. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { connect } from "../../../src/index.ts";
import { backendOf } from "../../../src/backends/all.ts";
import { openBackend } from "../../../src/backends/redis-plain/open.ts";
import { redisPlain } from "../../../src/backends/redis-plain/index.ts";
import { newClaim } from "../../../src/testing/claim.ts";
import { granted } from "../../../src/testing/attempts.ts";
import { ROOT } from "../../dist.ts";
import { type Lab, startLab } from "./lab.ts";

let lab: Lab;
beforeAll(async () => {
  lab = await startLab();
});
afterAll(() => lab[Symbol.asyncDispose]());

const claimOf = (name: string): ReturnType<typeof newClaim> => newClaim({ name, ttlMs: 60_000, queues: false });

describe("URLs", () => {
  test("layout=plain chooses the layout, and without it the locks are Holdfast's own", () => {
    expect(backendOf("redis://a/?layout=plain")).toBe("redis-plain");
    expect(backendOf("rediss+cluster://a,b?prefix=x&layout=plain")).toBe("redis-plain");
    expect(backendOf("redis://a/0")).toBe("redis");
    expect(backendOf("redlock://a,b,c?layout=plain")).toBe("quorum");
    expect(backendOf("redis://a?layout=other")).toBeUndefined();
  });

  test("connect() uses the key as it is named, with the prefix of the other library before it", async () => {
    const locks = await connect(`${lab.server.url}?layout=plain&prefix=mutex:`);
    await using lease = await locks.acquire("invoice");
    expect(await lab.raw.get("mutex:invoice")).toContain(String(lease.fence));
    await lease.release();
    expect(await lab.raw.exists("mutex:invoice")).toBe(0);
    await locks.close();
  });

  test.each([
    ["?layout=other", /`layout` in `url` to be plain/u],
    ["?layout=plain&failover=quarantine", /no `failover` in `url`: layout=plain knows nothing of it/u],
    ["?layout=plain&gpa=1s", /options of layout, gap, events, .* only, got "gpa"/u],
    ["?layout=plain&run=3", /no `run`/u],
    ["?layout=plain&events=maybe", /`events` in `url` to be true or false/u],
    ["?layout=plain&gap=long", /`gap`/u],
  ])("%s is refused", async (query, message) => {
    await expect(connect(lab.server.url + query)).rejects.toThrow(message);
  });

  test("a server that is not there is named, without the password", async () => {
    const error = await openBackend("redis://:secret@127.0.0.1:1?layout=plain").catch((cause: unknown) => cause);
    expect(error).toMatchObject({ backend: "redis-plain", fatal: false });
    expect(String(error)).toContain("127.0.0.1:1");
    expect(String(error)).not.toContain("secret");
  });
});

describe("rights", () => {
  const recipe = /```redis-acl plain\nACL SETUSER (.*)\n/u.exec(readFileSync(join(ROOT, "SECURITY.md"), "utf8"))?.[1];

  test("those in SECURITY.md suffice for all that the layout does, with events; and not for the keys of others", async () => {
    const [user = "", ...rights] = (recipe ?? "").split(" ").map((part) => part.replace("<password>", "secret"));
    await lab.raw.call("ACL", "SETUSER", user, ...rights);
    const client = new Redis({ host: lab.server.host, port: lab.server.port, username: user, password: "secret" });
    try {
      const backend = redisPlain(client, { prefix: "billing:", gap: 0 });
      const [first, second] = [claimOf("a"), { ...claimOf("a"), queues: true }];
      const { fence } = await granted(backend, first);
      await backend.attempt(second);
      await backend.watch(second, new AbortController().signal);
      await backend.attempt(second);
      const news = backend.watch(second, new AbortController().signal);
      expect(await backend.renew([first])).toEqual([{ held: true }]);
      expect((await backend.query("a")).held).toMatchObject([{ fence }]);
      expect(await backend.forceRelease("a", fence, "me", "why")).toBe(true);
      await news;
      expect((await backend.query("a")).forced).toMatchObject([{ fence }]);
      expect(await backend.renew([first])).toMatchObject([{ held: false, reason: { kind: "forced" } }]);
      await granted(backend, second);
      expect(await backend.release({ ...second, minHoldMs: 50 })).toBe("held");
      await backend.inspect("a");
      await backend.close();
      const other = redisPlain(client, { prefix: "other:" });
      await expect(other.attempt(claimOf("a"))).rejects.toThrow(/may not do this/u);
      await other.close();
    } finally {
      client.disconnect();
    }
  });
});
