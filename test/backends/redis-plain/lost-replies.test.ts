/** Replies that are lost on the way: the claim's id makes a repeated request safe, and an answer that may be wrong is none. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import * as scripts from "../../../src/backends/redis-plain/generated/scripts.ts";
import { type Proxy, startProxy } from "../../../src/lab/proxy.ts";
import { newClaim } from "../../../src/testing/claim.ts";
import { granted } from "../../../src/testing/attempts.ts";
import { type Lab, startLab } from "./lab.ts";
import { loseReply } from "../redis/lose-reply.ts";

let lab: Lab;
let proxy: Proxy;
beforeAll(async () => {
  lab = await startLab();
  proxy = await startProxy({ port: lab.server.port });
  // So that the server knows them, and a request is one message.
  for (const { source } of Object.values(scripts)) await lab.raw.script("LOAD", source);
});
afterAll(async () => {
  await proxy.stop();
  await lab[Symbol.asyncDispose]();
});

describe.each([
  ["a library that repeats commands", {}],
  [
    "a library that does not",
    { autoResendUnfulfilledCommands: false, maxRetriesPerRequest: 0, retryStrategy: () => 20 },
  ],
])("through %s", (_, options) => {
  const claimOf = (name: string): ReturnType<typeof newClaim> =>
    newClaim({ name: `${name} ${JSON.stringify(options)}`, ttlMs: 60_000, queues: false });

  async function backend(): Promise<ReturnType<Lab["backend"]>> {
    const { redisPlain } = await import("../../../src/backends/redis-plain/index.ts");
    const client = lab.client(proxy.port, options);
    await client.ping();
    return redisPlain(client, { gap: 0 });
  }

  test("a grant whose reply was lost is found again by the claim's id, with its fence", async () => {
    const store = await backend();
    const claim = claimOf("attempt");
    const lost = loseReply(proxy, scripts.attempt.sha);
    const first = await store.attempt(claim).catch(() => undefined);
    await lost;
    const value = await lab.raw.get(claim.name);
    expect(value).toContain(claim.id);
    const { fence } = await granted(store, claim);
    // Where the client sent it again, the core must know: a copy may be on its way.
    if (first !== undefined) expect(first).toMatchObject({ granted: true, fence, sentTwice: true });
    expect(value).toContain(String(fence));
    await store.close();
  });

  test('a release whose reply was lost is never answered "absent": that would call a good lease lost', async () => {
    const store = await backend();
    const claim = claimOf("release");
    await granted(store, claim);
    const lost = loseReply(proxy, scripts.release.sha);
    await expect(store.release(claim)).rejects.toMatchObject({ fatal: false });
    await lost;
    expect(await lab.raw.exists(claim.name)).toBe(0);
    // A successor is not touched by the second request.
    await lab.raw.set(claim.name, "theirs", "PX", 60_000);
    expect(await store.release(claim)).toBe("absent");
    expect(await lab.raw.get(claim.name)).toBe("theirs");
    await store.close();
  });

  test("a forced end whose reply was lost is never answered no", async () => {
    const store = await backend();
    const claim = claimOf("force");
    const { fence } = await granted(store, claim);
    const lost = loseReply(proxy, scripts.force.sha);
    await expect(store.forceRelease(claim.name, fence, "me", "why")).rejects.toMatchObject({ fatal: false });
    await lost;
    expect(await store.renew([claim])).toMatchObject([{ held: false, reason: { kind: "forced", by: "me" } }]);
    await store.close();
  });
});
