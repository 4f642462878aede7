import "../../fixed-seed.ts";
import fc from "fast-check";
import { expect, test } from "vitest";
import { createClient } from "redis";
import { Cluster, Redis as Redis5 } from "ioredis";
import { Redis as Redis6 } from "ioredis6";
import { namesOf } from "../../../src/backends/redis/keys.ts";
import { redis } from "../../../src/backends/redis/index.ts";

const names = namesOf("holdfast", true);

test("any name can be read back from its key, and two names never share one", () => {
  const anything = fc.oneof(
    fc.string({ unit: "binary" }),
    fc.string({ unit: fc.nat(0xffff).map((n) => String.fromCharCode(n)) }),
  );
  fc.assert(
    fc.property(anything, anything, (a, b) => {
      // As it comes back from a server: through UTF-8.
      const wire = Buffer.from(names.lock(a), "utf8").toString("utf8");
      expect(names.nameOf(wire)).toBe(a);
      if (a !== b) expect(names.lock(a)).not.toBe(names.lock(b));
    }),
  );
});

test("a lock and its marker share a hash tag, and the tags are spread", () => {
  const tag = (key: string): string | undefined => /\{([^}]+)\}/u.exec(key)?.[1];
  const tags = new Set<string | undefined>();
  for (let i = 0; i < 5000; i++) {
    const key = names.lock(`lock {${i}} }{`);
    expect(tag(names.marker(key))).toBe(tag(key));
    expect(names.markers()).toContain(names.marker(key));
    tags.add(tag(key));
  }
  expect(tags.size).toBe(256);
});

test("keys of others are not taken for locks", () => {
  for (const key of ["holdfast", "holdfast:{a7}", "other:{a7}:x", "holdfast:{a7b}:x", "holdfast:inbox:x"]) {
    expect(names.nameOf(key)).toBeUndefined();
  }
});

test("accepts the clients of both libraries by their types, and refuses anything else", async () => {
  const options = { lazyConnect: true };
  const clients = [new Redis5(options), new Redis6(options), createClient()] as const;
  // Each call must compile without a cast.
  for (const backend of [redis(clients[0]), redis(clients[1]), redis(clients[2])]) await backend.close();
  const cluster = new Cluster([], options);
  await redis(cluster).close();
  for (const wrong of [null, undefined, {}, "redis://localhost", { sendCommand: 1 }]) {
    expect(() => redis(wrong as never)).toThrow(/ioredis \(5 or 6\) or node-redis \(6\.2\.1 or later\)/u);
  }
});
