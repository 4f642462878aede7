/** Names and keys: two names never share a lock, and what a key says is read back. */
import { inspect } from "node:util";
import "../../fixed-seed.ts";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { holdersOf, inOrder, obstacleOf } from "../../../src/backends/etcd/contenders.ts";
import { asPaths, below, escapedBelow, keyOf } from "../../../src/backends/etcd/keys.ts";
import { readClaim, readForced, readShown, writeClaim, writeForced } from "../../../src/backends/etcd/record.ts";
import { readOutcome } from "../../../src/backends/etcd/outcomes.ts";
import { OUTCOME_BYTES_MAX } from "../../../src/contract/claim.ts";
import { parseUrl } from "../../../src/backends/etcd/open.ts";
import { etcd } from "../../../src/backends/etcd/index.ts";
import { claim } from "./claims.ts";

const escaped = escapedBelow("/holdfast");
const paths = asPaths("/holdfast");
const name = fc.string({ unit: "grapheme", minLength: 1, maxLength: 40 });

describe("escaped names", () => {
  test("are read back, and no lock's keys are among another's", () => {
    fc.assert(
      fc.property(name, name, (a, b) => {
        const key = keyOf(escaped.prefix(a), claim(a), 255n);
        expect(escaped.parse(key)).toEqual({ name: a, kind: { mode: "exclusive", limit: 1 } });
        const { key: start, end } = below(escaped.prefix(b));
        const isBelow = Buffer.compare(key, start) >= 0 && Buffer.compare(key, end) < 0;
        expect(isBelow).toBe(a === b);
      }),
    );
  });

  test("that start with a text are in its range, and only those", () => {
    fc.assert(
      fc.property(name, name, (a, prefix) => {
        const { key, end } = escaped.range(prefix);
        const own = escaped.prefix(a);
        const isInside = Buffer.compare(own, key) >= 0 && Buffer.compare(own, end) < 0;
        if (a.startsWith(prefix)) expect(isInside).toBe(true);
      }),
    );
  });

  test("share the prefix with records of force releases, and are never taken for one", () => {
    fc.assert(
      fc.property(name, fc.bigInt({ min: 0n, max: 2n ** 63n - 1n }), (a, fence) => {
        const key = escaped.beside.forced(a, fence);
        expect(escaped.beside.parseForced(key)).toEqual({ name: a, fence });
        expect(escaped.parse(key)).toBeUndefined();
      }),
    );
  });

  test("are not read from keys that no name maps to", () => {
    for (const key of ["/other/a/1", "/holdfast/a", "/holdfast/%2f/1", "/holdfast/%/1", "/holdfas/a/1"]) {
      expect(escaped.parse(Buffer.from(key)), key).toBeUndefined();
    }
    expect(escaped.parse(Buffer.from([0x2f, 0xff, 0xfe]))).toBeUndefined();
  });
});

describe("paths", () => {
  test("are used unchanged, and read back with what they claim", () => {
    for (const [change, kind] of [
      [{}, { mode: "exclusive", limit: 1 }],
      [{ mode: "shared" }, { mode: "shared", limit: 1 }],
      [{ limit: 7 }, { mode: "exclusive", limit: 7 }],
    ] as const) {
      const key = keyOf(paths.prefix("locks/a"), claim("locks/a", change), 0xabcn);
      expect(key.toString()).toMatch(/^locks\/a\/(?:\+[a-z-]+\d*\/)?abc$/);
      expect(paths.parse(key)).toEqual({ name: "locks/a", kind });
    }
  });

  test("that would be taken for something else are refused", () => {
    for (const bad of ["a/+shared", "+limit-3", "a/", "/holdfast/%forced/x", "/holdfast"]) {
      expect(() => paths.prefix(bad), bad).toThrow(/cannot be a path/);
    }
    expect(paths.parse(Buffer.from("registry/pods/default"))).toBeUndefined();
  });
});

describe("the queue", () => {
  const kinds = ["", "+shared/", "+limit-2/", "+limit-3/"] as const;
  const kv = (at: number, part: string): Parameters<typeof inOrder>[1][number] => ({
    key: Buffer.from(`/p/${part}${at.toString(16)}`),
    createRevision: BigInt(at + 1),
    modRevision: BigInt(at + 1),
    version: 1n,
    value: Buffer.alloc(0),
    lease: 1n,
  });

  test("has holders that may hold together, and no other's turn comes before them", () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...kinds), { minLength: 1, maxLength: 12 }), (parts) => {
        const order = inOrder(Buffer.from("/p/"), parts.map((part, at) => kv(at, part)).toReversed());
        expect(order.map(({ createRevision }) => Number(createRevision))).toEqual(parts.map((_, at) => at + 1));
        const holders = holdersOf(order);
        expect(holders[0]).toBe(order[0]);
        const [{ kind }] = holders as [(typeof holders)[number]];
        // All of one kind, and no more than that allows.
        expect(holders.every((one) => one.kind.mode === kind.mode && one.kind.limit === kind.limit)).toBe(true);
        if (kind.mode === "exclusive") expect(holders.length).toBeLessThanOrEqual(kind.limit);
        for (const [index, one] of order.entries()) {
          const obstacle = obstacleOf(order, index);
          if (obstacle === undefined) continue;
          expect(obstacle.ahead.length).toBeGreaterThanOrEqual(obstacle.mustLeave);
          for (const { createRevision } of obstacle.ahead) expect(createRevision).toBeLessThan(one.createRevision);
        }
      }),
    );
  });

  test("counts no key that was not asked for", () => {
    expect(
      inOrder(Buffer.from("/p/"), [
        { ...kv(0, ""), key: Buffer.from("/q/0") },
        { ...kv(1, ""), key: Buffer.from("/p/") },
      ]),
    ).toEqual([]);
  });
});

describe("values", () => {
  test("of ours are read back", () => {
    const one = claim("a", { holder: "web-3:812", meta: { why: "x" }, minHoldMs: 5 });
    expect(readClaim(writeClaim(one))).toMatchObject({
      id: one.id,
      holder: "web-3:812",
      meta: { why: "x" },
      minHoldMs: 5,
      endedFence: undefined,
    });
    expect(readClaim(writeClaim(one, { endedFence: 2n ** 62n })).endedFence).toBe(2n ** 62n);
    expect(readForced(writeForced("ops", "stuck"))).toMatchObject({ by: "ops", reason: "stuck" });
  });

  test("of any program are short, plain text, or nothing (S179)", () => {
    fc.assert(
      fc.property(
        fc.oneof(
          fc.uint8Array({ maxLength: 2000 }),
          fc.json().map((text) => Buffer.from(text)),
        ),
        (bytes) => {
          const record = readClaim(Buffer.from(bytes));
          expect(record.holder.length).toBeLessThanOrEqual(800);
          expect(record.holder).not.toMatch(/[\p{Cc}\p{Cf}]/u);
          readForced(Buffer.from(bytes));
          readShown(Buffer.from(bytes));
          expect(readOutcome({ value: Buffer.from(bytes), lease: 1n })).toBeUndefined();
        },
      ),
    );
  });

  test("that are almost ours are read as what they are, or not at all (S179)", () => {
    const record = { holdfast: 1, id: "x", fence: "7", holder: "a", value: "done" };
    const local = { waiters: 1, users: 0, holds: [["a", "7"]], holdsMore: false };
    const whole = { ...record, by: "ops", reason: "stuck", atMs: 1, meta: { why: "x" }, local };
    const field = fc.constantFrom(...Object.keys(whole));
    fc.assert(
      fc.property(field, fc.jsonValue(), (name, wrong) => {
        const value = Buffer.from(JSON.stringify({ ...whole, [name]: wrong }));
        const kept = readOutcome({ value, lease: 1n });
        if (kept !== undefined) expect([typeof kept.value, typeof kept.fence]).toEqual(["string", "bigint"]);
        const shown = readShown(value)?.local;
        if (shown !== undefined) expect(Number.isSafeInteger(shown.waiters)).toBe(true);
        expect(Object.values(readClaim(value).meta).every((text) => typeof text === "string")).toBe(true);
      }),
    );
    const bytes = Buffer.from(JSON.stringify(record));
    expect(readOutcome({ value: bytes, lease: 1n })).toMatchObject({ value: "done", fence: 7n });
    expect(readOutcome({ value: bytes, lease: 0n }), "ours live with a lease").toBeUndefined();
    const huge = Buffer.from(JSON.stringify({ ...record, value: "x".repeat(OUTCOME_BYTES_MAX + 1) }));
    expect(readOutcome({ value: huge, lease: 1n })).toBeUndefined();
  });
});

describe("URLs", () => {
  test("name members, credentials and options", () => {
    expect(parseUrl("etcd://a:1,b,[::1]:3?base=/locks&names=paths")).toEqual({
      endpoints: "a:1,b,[::1]:3",
      base: "/locks",
      names: "paths",
    });
    expect(parseUrl("etcds://us%3Aer:p%40ss@a").auth).toEqual({ user: "us:er", password: "p@ss" });
    expect(parseUrl("ETCDS://a?servername=etcd.example").tls).toEqual({ servername: "etcd.example" });
  });

  test("that make no sense are refused without repeating a password", () => {
    for (const [url, why] of [
      ["etcd://", /look like/],
      ["etcd://a/path", /look like/],
      ["etcd://a?nonsense=1", /options of base/],
      ["etcd://:secret@a", /user:password/],
      ["etcd://user%zz:secret@a", /percent-encoded/],
      ["etcd://a?ca=/x", /etcds/],
      ["etcd://app:s3?secret@a", /"\?" is %3F/],
      ["etcd://app:s3?secret=1@a", /"\?" is %3F/],
    ] as const) {
      expect(() => parseUrl(url), url).toThrow(why);
      expect(() => parseUrl(url), url).not.toThrow(/secret/);
    }
  });

  test("S178: an open backend shows no password when it is printed or written as JSON", async () => {
    const backend = etcd({ endpoints: "127.0.0.1:1", auth: { user: "user", password: "hunter2" } });
    const shown = inspect(backend, { depth: 12, showHidden: true }) + JSON.stringify(backend);
    expect(shown).not.toContain("hunter2");
    expect(JSON.stringify(backend.renewer), "a worker thread needs it").toContain("hunter2");
    await backend.close();
  });

  test("and options that make no sense are refused at once", () => {
    const bad = [
      { endpoints: "a:0" },
      { endpoints: "" },
      { endpoints: "a", base: "/x/" },
      { endpoints: "a", base: "" },
      { endpoints: "a", names: "other" },
      { endpoints: "a", auth: { user: "x" } },
      {},
    ];
    for (const options of bad) expect(() => etcd(options as never), JSON.stringify(options)).toThrow(TypeError);
  });
});
