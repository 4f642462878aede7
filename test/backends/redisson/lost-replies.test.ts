/** Replies that are lost on the way: the claim's id makes a repeated request safe, and an answer that may be wrong is none. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import * as scripts from "../../../src/backends/redisson/generated/scripts.ts";
import { fieldOf } from "../../../src/backends/redisson/keys.ts";
import { redisson, type RedissonBackend, type RedissonKind } from "../../../src/backends/redisson/index.ts";
import { type Proxy, startProxy } from "../../../src/lab/proxy.ts";
import { granted } from "../../../src/testing/attempts.ts";
import { loseReply } from "../redis/lose-reply.ts";
import { claimOf, type Lab, startLab } from "./lab.ts";

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

const REPEATS = {};
const NOT = { autoResendUnfulfilledCommands: false, maxRetriesPerRequest: 0, retryStrategy: () => 20 };

describe.each([
  ["a library that repeats commands", true, "lock", REPEATS],
  ["a library that repeats commands", true, "fenced", REPEATS],
  ["a library that repeats commands", true, "read-write", REPEATS],
  ["a library that does not", false, "lock", NOT],
  ["a library that does not", false, "fenced", NOT],
] as const)("through %s", (library, repeats, kind: RedissonKind, options) => {
  const mode = kind === "read-write" ? "shared" : "exclusive";
  const named = (name: string): ReturnType<typeof claimOf> => claimOf(`${name}, ${kind}, ${library}`, { mode });

  async function backend(): Promise<RedissonBackend> {
    const client = lab.client(proxy.port, options);
    await client.ping();
    return redisson(client, { kind });
  }

  test(`a grant whose reply was lost is found again by the claim's id, with its fence (${kind})`, async () => {
    const store = await backend();
    const claim = named("attempt");
    const lost = loseReply(proxy, scripts.attempt.sha);
    const first = await store.attempt(claim).catch(() => undefined);
    await lost;
    expect(await lab.raw.hget(claim.name, fieldOf(claim.id))).toBe("1");
    const { fence } = await granted(store, claim);
    // Where the client sent it again, the core must know: a copy may be on its way.
    if (first !== undefined) expect(first).toMatchObject({ granted: true, fence, sentTwice: true });
    if (kind === "fenced") expect(await lab.raw.get(`redisson_lock_token:{${claim.name}}`)).toBe("1");
    expect(await store.release(claim)).toBe("held");
    expect(await lab.raw.exists(claim.name)).toBe(0);
    await store.close();
  });

  test(`a release whose reply was lost is answered as the first was, or not at all (${kind})`, async () => {
    const store = await backend();
    const claim = named("release");
    await granted(store, claim);
    const lost = loseReply(proxy, scripts.release.sha);
    if (repeats) expect(await store.release(claim)).toBe("held");
    else await expect(store.release(claim)).rejects.toMatchObject({ fatal: false });
    await lost;
    expect(await lab.raw.exists(claim.name)).toBe(0);
    // A successor is not touched by another request.
    await lab.java.tryLock(claim.name);
    expect(await store.release(claim)).toBe("absent");
    expect(await lab.raw.hgetall(claim.name)).toEqual({ [lab.java.field()]: "1" });
    await store.close();
  });

  test(`a forced end whose reply was lost is never answered no (${kind})`, async () => {
    const store = await backend();
    const claim = named("force");
    const { fence } = await granted(store, claim);
    const lost = loseReply(proxy, scripts.force.sha);
    await expect(store.forceRelease(claim.name, fence, "me", "why")).rejects.toMatchObject({ fatal: false });
    await lost;
    expect(await store.renew([claim])).toMatchObject([{ held: false, reason: { kind: "forced", by: "me" } }]);
    await store.close();
  });
});
