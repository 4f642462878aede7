/**
 * Random and mutated bytes for everything that reads from a ZooKeeper socket: frames, answers, node data, node names.
 * Seeded, so a failure can be repeated. In bounded time and memory, nothing becomes a lease, and only expected errors are thrown.
 */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Reader, Writer } from "../../../src/backends/zookeeper/client/codec.ts";
import { ZooKeeperMultiError } from "../../../src/backends/zookeeper/client/errors.ts";
import { FRAME_MAX_BYTES, FrameSplitter } from "../../../src/backends/zookeeper/client/frames.ts";
import * as operations from "../../../src/backends/zookeeper/client/operations.ts";
import { OP, readEvent } from "../../../src/backends/zookeeper/client/protocol.ts";
import { blockedBy, holdersOf, inOrder, overflow, parseContender } from "../../../src/backends/zookeeper/contenders.ts";
import { zookeeper } from "../../../src/backends/zookeeper/index.ts";
import { asPaths, escapedBelow } from "../../../src/backends/zookeeper/paths.ts";
import { isClaim, readClaim, readForced, writeClaim, writeForced } from "../../../src/backends/zookeeper/node-data.ts";
import { claim } from "./claims.ts";
import { answer, SESSION, startFake, welcome, writeStat } from "./fake-server.ts";

const SEED = 20_261_115;
const RUNS = { seed: SEED, numRuns: 2000 } as const;
const ACL = [{ scheme: "world", id: "anyone", perms: "r" }] as const;

const NODE = "/holdfast/a/_c_1-lock-";

/** Bytes as they should be, with some of them changed, cut off, doubled or put in between. */
function mutated(good: readonly Buffer[]): fc.Arbitrary<Buffer> {
  const change = fc.record({
    at: fc.nat(4096),
    kind: fc.constantFrom("set", "cut", "insert", "flip", "length"),
    bytes: fc.uint8Array({ minLength: 1, maxLength: 8 }),
  });
  return fc
    .tuple(fc.constantFrom(...good), fc.array(change, { minLength: 1, maxLength: 4 }))
    .map(([start, changes]) => {
      let bytes = Buffer.from(start);
      for (const { at, kind, bytes: added } of changes) {
        const index = bytes.length === 0 ? 0 : at % bytes.length;
        if (kind === "cut") bytes = bytes.subarray(0, index);
        else if (kind === "insert") bytes = Buffer.concat([bytes.subarray(0, index), added, bytes.subarray(index)]);
        else if (kind === "flip" && bytes.length > 0) bytes[index] = (bytes[index] as number) ^ (1 << (at % 8));
        else if (kind === "length" && bytes.length >= index + 4)
          bytes.writeInt32BE((at * 1_000_003 - 2 ** 30) | 0, index);
        else if (kind === "set" && bytes.length > 0) bytes[index] = added[0] as number;
      }
      return bytes;
    });
}

const random = fc.uint8Array({ maxLength: 400 }).map((bytes) => Buffer.from(bytes));
const anyOf = (good: readonly Buffer[]): fc.Arbitrary<Buffer> => fc.oneof(random, mutated(good), mutated(good));

function body(write: (writer: Writer) => void): Buffer {
  const writer = new Writer(256);
  write(writer);
  return writer.take();
}

describe("frames", () => {
  test("any bytes in any chunks give whole frames or a RangeError, and take no more memory than came", () => {
    const good = [welcome(), answer(1, (writer) => void writer.strings(["a", "b"])), answer(-2)];
    const pieces = fc.array(fc.integer({ min: 1, max: 50 }), { minLength: 1, maxLength: 20 });
    fc.assert(
      fc.property(anyOf(good), pieces, (stream, sizes) => {
        const splitter = new FrameSplitter();
        let read = 0;
        let at = 0;
        try {
          for (let turn = 0; at < stream.length; turn++) {
            const size = sizes[turn % sizes.length] as number;
            splitter.push(stream.subarray(at, at + size), (bytes, start, end) => {
              expect(end).toBeLessThanOrEqual(bytes.length);
              read += 4 + end - start;
            });
            at += size;
          }
        } catch (error) {
          expect(error).toBeInstanceOf(RangeError);
        }
        expect(read).toBeLessThanOrEqual(stream.length);
      }),
      RUNS,
    );
  });

  test("are the same, however the stream was cut", () => {
    fc.assert(
      fc.property(fc.array(random, { maxLength: 6 }), fc.integer({ min: 1, max: 70 }), (bodies, size) => {
        const stream = Buffer.concat(
          bodies.map((one) => new Writer().frame((writer) => one.forEach((byte) => writer.bool(byte === 1))).take()),
        );
        const split = (step: number): string[] => {
          const splitter = new FrameSplitter();
          const frames: string[] = [];
          for (let at = 0; at < stream.length; at += step) {
            splitter.push(stream.subarray(at, at + step), (bytes, start, end) =>
              frames.push(bytes.toString("hex", start, end)),
            );
          }
          return frames;
        };
        expect(split(size)).toEqual(split(stream.length + 1));
        expect(split(size)).toHaveLength(bodies.length);
      }),
      { ...RUNS, numRuns: 300 },
    );
  });
});

const CHECKS = [
  { op: "check", path: `${NODE}0000000000`, version: -1 },
  { op: "check", path: `${NODE}0000000001`, version: -1 },
] as const;
const SWAP = [
  { op: "delete", path: `${NODE}0000000000`, version: -1 },
  { op: "create", path: NODE, data: Buffer.alloc(0), mode: "ephemeralSequential" },
] as const;

/** Each operation, answers as they should be, and what an answer that is taken must be like. */
const ANSWERS: Readonly<
  Record<string, { operation: operations.Operation<unknown>; good: Buffer[]; check: (value: unknown) => void }>
> = {
  createOwn: {
    operation: operations.createEphemeral(NODE, Buffer.alloc(0), ACL),
    good: [body((writer) => writeStat(writer.string(`${NODE}0000000007`), 9n, SESSION))],
    check: (value) => {
      const { path, czxid } = value as operations.EphemeralCreated;
      expect(path).toMatch(/^\/holdfast\/a\/_c_1-lock--?\d{10}$/);
      expect(czxid > 0n && czxid < 2n ** 63n).toBe(true);
    },
  },
  create: {
    operation: operations.create("/a", Buffer.alloc(0), "persistent", ACL),
    good: [body((writer) => writeStat(writer.string("/a"), 9n, 0n))],
    check: (value) => {
      expect((value as operations.Created).path).toBe("/a");
      expect((value as operations.Created).stat.czxid > 0n).toBe(true);
    },
  },
  confirmation: {
    operation: operations.multi(CHECKS, ACL),
    good: [
      body(
        (writer) =>
          void writer.int(OP.check).bool(false).int(0).int(OP.check).bool(false).int(0).int(-1).bool(true).int(-1),
      ),
      body(
        (writer) =>
          void writer
            .int(-1)
            .bool(false)
            .int(0)
            .int(-101)
            .int(-1)
            .bool(false)
            .int(0)
            .int(-2)
            .int(-1)
            .bool(true)
            .int(-1),
      ),
    ],
    check: (value) => expect(value).toHaveLength(2),
  },
  swap: {
    operation: operations.multi(SWAP, ACL),
    good: [
      body(
        (writer) =>
          void writer
            .int(OP.delete)
            .bool(false)
            .int(0)
            .int(OP.create)
            .bool(false)
            .int(0)
            .string(`${NODE}0000000008`)
            .int(-1)
            .bool(true)
            .int(-1),
      ),
    ],
    check: (value) => {
      const [, created] = value as operations.MultiResult[];
      expect(created?.path).toMatch(/^\/holdfast\/a\/_c_1-lock--?\d{10}$/);
    },
  },
  getChildren: {
    operation: operations.getChildren("/a", false),
    good: [body((writer) => writeStat(writer.strings(["_c_1-lock-0000000001", "b"]), 9n, 0n))],
    check: (value) => expect(Array.isArray((value as operations.Children).children)).toBe(true),
  },
  getNames: {
    operation: operations.getNames("/a"),
    good: [body((writer) => void writer.strings(["a", "b", "c"]))],
    check: (value) => expect(Array.isArray(value)).toBe(true),
  },
  getData: {
    operation: operations.getData("/a", false),
    good: [body((writer) => writeStat(writer.buffer(Buffer.from("{}")), 9n, 0n))],
    check: (value) => expect(Buffer.isBuffer((value as operations.NodeData).data)).toBe(true),
  },
  exists: {
    operation: operations.exists("/a", false),
    good: [body((writer) => writeStat(writer, 9n, SESSION))],
    check: (value) => expect(typeof (value as { czxid: bigint }).czxid).toBe("bigint"),
  },
};

describe("answers", () => {
  for (const [name, { operation, good, check }] of Object.entries(ANSWERS)) {
    test(`${name}: an accepted answer matches its request, and everything else is a RangeError or a refusal`, () => {
      for (const one of good.slice(0, 1)) check(operation.read(new Reader(one), 9n));
      fc.assert(
        fc.property(anyOf(good), fc.bigInt(-1n, 2n ** 63n - 1n), (bytes, zxid) => {
          let value: unknown;
          try {
            value = operation.read(new Reader(bytes), zxid);
          } catch (error) {
            expect(error instanceof RangeError || error instanceof ZooKeeperMultiError).toBe(true);
            return;
          }
          check(value);
        }),
        RUNS,
      );
    });
  }

  test("events: a known kind with a path, nothing, or a RangeError", () => {
    const good = [body((writer) => void writer.int(2).int(3).string("/holdfast/a"))];
    fc.assert(
      fc.property(anyOf(good), (bytes) => {
        try {
          const event = readEvent(new Reader(bytes));
          expect(["created", "deleted", "changed", "children", undefined]).toContain(event?.type);
        } catch (error) {
          expect(error).toBeInstanceOf(RangeError);
        }
      }),
      RUNS,
    );
  });

  test("a list that announces two thousand million names costs nothing", () => {
    const lie = body((writer) => void writer.int(2 ** 31 - 1));
    expect(() => operations.getNames("/a").read(new Reader(lie), 1n)).toThrow(RangeError);
  });
});

describe("node data", () => {
  const one = claim("a", { holder: "web-1:7", meta: { why: "test" }, limit: 3 });
  const record = { fence: "9", by: "ops", reason: "stuck", atMs: 1 };
  const good = [writeClaim(one), writeForced([record], record)];

  test("any data of a node is shown as short, plain text, or not at all", () => {
    fc.assert(
      fc.property(anyOf(good), (data) => {
        const { holder, meta, limit, ttlMs } = readClaim(data);
        expect(holder.length).toBeGreaterThan(0);
        expect(holder.length).toBeLessThanOrEqual(200);
        expect(holder).not.toMatch(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/u);
        expect(Object.values(meta).every((text) => typeof text === "string")).toBe(true);
        expect(Number.isSafeInteger(limit) && limit >= 1).toBe(true);
        expect(ttlMs).toBeGreaterThan(0);
        isClaim(data);
        for (const { fence, by, reason } of readForced(data) ?? []) {
          expect(BigInt(fence) >= 0n).toBe(true);
          expect(by.length).toBeLessThanOrEqual(200);
          expect(reason.length).toBeLessThanOrEqual(2000);
        }
      }),
      RUNS,
    );
  });

  // A quadratic pattern would take longer than any test may.
  test("a huge one costs little (S179)", () => {
    const huge = Buffer.from(
      JSON.stringify({ holdfast: 1, holder: "x".repeat(400_000), meta: { a: "y".repeat(90_000) }, forced: [] }),
    );
    expect(readClaim(huge)).toMatchObject({ holder: "x".repeat(200), meta: {} });
    expect(readClaim(Buffer.alloc(FRAME_MAX_BYTES, "{")).holder).toHaveLength(200);
    const forced = { holdfast: 1, forced: Array.from({ length: 5000 }, () => record) };
    expect(readForced(Buffer.from(JSON.stringify(forced)))).toHaveLength(16);
  });
});

describe("node names", () => {
  const names = fc.array(
    fc.oneof(
      fc.string({ unit: "binary", maxLength: 60 }),
      fc
        .tuple(
          fc.string({ maxLength: 10 }),
          fc.constantFrom("-lock-", "__READ__", "__WRIT__", "__lock__", "__rlock__", "-lease-", "lock"),
          fc.oneof(
            fc.integer().map((number) => String(number).padStart(10, "0")),
            fc.constantFrom("9999999999", "-2147483648", "0000000000", ""),
          ),
        )
        .map((parts) => parts.join("")),
    ),
    { maxLength: 12 },
  );

  test("with any names of the children, no contender holds that another one blocks", () => {
    fc.assert(
      fc.property(names, (children) => {
        const order = inOrder(children);
        const holders = holdersOf(order);
        overflow(order);
        expect(order.length).toBeLessThanOrEqual(children.length);
        for (const [index, one] of order.entries()) {
          const isFree = blockedBy(order, index) === undefined;
          if (one.mode === "exclusive") expect(isFree).toBe(index === 0);
          if (isFree) expect(holders).toContain(one);
        }
        expect(holders.filter(({ mode }) => mode === "exclusive").length).toBeLessThanOrEqual(1);
        if (holders.some(({ mode }) => mode === "exclusive")) expect(holders).toHaveLength(1);
      }),
      RUNS,
    );
  });

  test("a child is a lock's name only if that name maps to it, and no name maps to two", () => {
    const paths = escapedBelow("/holdfast");
    fc.assert(
      fc.property(fc.string({ unit: "binary", maxLength: 60 }), (text) => {
        const read = paths.name("/holdfast", text);
        if (read !== undefined) expect(paths.path(read)).toBe(`/holdfast/${text}`);
        expect(paths.name("/holdfast", paths.path(text).slice("/holdfast/".length))).toBe(text);
        expect(typeof asPaths.name("/", text)).toBe("string");
      }),
      RUNS,
    );
  });

  test("a name of megabytes is read in linear time", () => {
    for (const part of ["lock-", "-lock-0", "__READ__", "_c_0", "%41", "0"]) {
      const long = part.repeat(Math.floor((2 * 1024 * 1024) / part.length));
      parseContender(long);
      expect(escapedBelow("/").name("/", long)?.length ?? 0).toBeLessThanOrEqual(long.length);
    }
  });
});

describe("a whole server of noise", () => {
  test("nothing that it sends becomes a lease, no error escapes, and close() ends", async () => {
    const draw = fc.sample(
      anyOf([welcome(), answer(1), answer(1, (writer) => writeStat(writer.string(`${NODE}0000000000`), 9n, SESSION))]),
      {
        seed: SEED,
        numRuns: 400,
      },
    );
    const escaped: unknown[] = [];
    const catchIt = (error: unknown): void => void escaped.push(error);
    process.on("uncaughtException", catchIt).on("unhandledRejection", catchIt);
    let next = 0;
    const noise = (): Buffer => draw[next++ % draw.length] as Buffer;
    try {
      await using server = await startFake({
        welcome: () => (next % 3 === 0 ? noise() : welcome()),
        greeted: (socket) => void socket.write(noise()),
        asked: ({ socket }) => void socket.write(noise()),
      });
      const backends = Array.from({ length: 8 }, () => zookeeper({ servers: server.address, session: "4s" }));
      const answers = await Promise.all(
        backends.map(async (backend) => {
          const one = claim("a");
          const said = await backend.attempt(one).catch(() => undefined);
          const renewals = await backend.renew([one]).catch(() => []);
          return { said, renewals };
        }),
      );
      for (const { said, renewals } of answers) {
        expect(said?.granted).not.toBe(true);
        expect(renewals.filter(({ held }) => held === true)).toEqual([]);
      }
      await Promise.all(backends.map((backend) => backend.close().catch(() => undefined)));
      expect(next).toBeGreaterThan(0);
    } finally {
      process.off("uncaughtException", catchIt).off("unhandledRejection", catchIt);
    }
    expect(escaped).toEqual([]);
  });
});
