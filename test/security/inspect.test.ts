/** S178: printing an open backend, or what is made of it, prints no password: with a server at hand see test/backends/redis/open.test.ts. */
import { inspect } from "node:util";
import { expect, test } from "vitest";
import { openBackend } from "../../src/connect.ts";
import { createLocks } from "../../src/core/locks.ts";

const SECRET = "s3cr3t-Zq9";
const CLOSED = "127.0.0.1:1";

test.each([
  `zk://billing:${SECRET}@${CLOSED}/billing?acl=creator`,
  `redlock://billing:${SECRET}@${CLOSED},127.0.0.1:2,127.0.0.1:3`,
  `redlock://billing:${SECRET}@${CLOSED},127.0.0.1:2,127.0.0.1:3?client=redis`,
])("S178: %s", async (url) => {
  const backend = await openBackend(url);
  const locks = createLocks(backend, {});
  try {
    const failure: unknown = await locks.tryAcquire("x", { timeout: 500 }).catch((error: unknown) => error);
    for (const printed of [backend, locks, failure]) {
      expect(inspect(printed, { depth: 20, showHidden: true, getters: false })).not.toContain(SECRET);
      expect(JSON.stringify(printed) ?? "").not.toContain(SECRET);
    }
    expect(failure).toBeInstanceOf(Error);
  } finally {
    await locks.close({ force: true, grace: 0 }).catch(() => {});
  }
});
