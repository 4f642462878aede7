/** What is wrong for every request is an error where the route is declared, in each framework. */
import { expect, test } from "vitest";
import * as onExpress from "../../src/adapters/express/index.ts";
import * as onFastify from "../../src/adapters/fastify/index.ts";
import * as onHono from "../../src/adapters/hono/index.ts";
import { memory } from "../../src/backends/memory/index.ts";
import { createLocks } from "../../src/core/locks.ts";

const locks = createLocks(memory());
const scope = (): string => "ada";
const key = (): string => "a";

/** By name: what it says of it. */
const LOCK: readonly (readonly [object, string])[] = [
  [{ ttl: "soon" }, "`ttl`"],
  [{ renew: 1 }, "`renew`"],
  [{ retryafter: "1s" }, "retryafter"],
  [{ retryAfter: "soon" }, "`retryAfter`"],
  [{ wait: -1 }, "`wait`"],
  [{ grace: -1 }, "`grace`"],
  [{ signal: AbortSignal.abort() }, "`signal`"],
];

const refused = (message: string): unknown =>
  expect.objectContaining({ code: "ERR_LOCK_ARGUMENT", message: expect.stringContaining(message) as unknown });

test.each(Object.entries({ express: onExpress, fastify: onFastify, hono: onHono }))("%s", (_name, adapter) => {
  const { locked, idempotent } = adapter as unknown as Record<string, (...args: readonly unknown[]) => unknown>;
  const [lock, once] = [locked!, idempotent!];
  expect(() => lock({}, key)).toThrow(refused("Expected locks"));
  expect(() => lock(locks, "a")).toThrow(refused("names the lock of a request"));
  for (const [options, message] of [...LOCK, [{ status: 503 }, "`status`"], [{ limit: 0 }, "`limit`"]] as const)
    expect(() => lock(locks, key, options), message).toThrow(refused(message));
  const others = [
    [{ scope: undefined }, "`scope`"],
    [{ scope: "ada" }, "`scope`"],
    [{ key: "k" }, "`key`"],
    [{ keep: "999ms" }, "`keep`"],
    [{ keep: "9000h" }, "`keep`"],
    [{ mode: "shared" }, "`mode`"],
    [{ limit: 2 }, "`limit`"],
  ] as const;
  expect(() => once({}, { scope })).toThrow(refused("Expected locks"));
  for (const [options, message] of [...LOCK, ...others])
    expect(() => once(locks, { scope, ...options }), message).toThrow(refused(message));
  expect(lock(locks, key, { ttl: "5s", mode: "shared", grace: Infinity })).toBeTypeOf("function");
  expect(once(locks, { scope, ttl: "5s", keep: "1s", grace: Infinity })).toBeTypeOf("function");
});
