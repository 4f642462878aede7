/** The client against servers that answer in every way they may, and in ways they may not. */
import "../../fixed-seed.ts";
import fc from "fast-check";
import { createServer } from "node:net";
import { afterEach, describe, expect, test } from "vitest";
import { CallWindow } from "../../../src/backends/etcd/client/call-window.ts";
import { MalformedError, Reader, Writer } from "../../../src/backends/etcd/client/codec.ts";
import { EtcdClient } from "../../../src/backends/etcd/index.ts";
import { toError } from "../../../src/backends/etcd/client/errors.ts";
import { toLockError } from "../../../src/backends/etcd/errors.ts";
import { Deframer, toFrame } from "../../../src/backends/etcd/client/frames.ts";
import { readRange, readTxn } from "../../../src/backends/etcd/client/kv-messages.ts";
import { readGrant, readLease, readTimeToLive } from "../../../src/backends/etcd/client/lease-messages.ts";
import { readAlarms, readMembers, readStatus, readToken } from "../../../src/backends/etcd/client/cluster-messages.ts";
import { readWatch } from "../../../src/backends/etcd/client/watch-messages.ts";
import { eventually } from "./claims.ts";
import { type Answer, fakeServer, type FakeServer, leaseAnswer, rangeAnswer, txnAnswer } from "./fake-server.ts";

const KEY = Buffer.from("k");
const opened: { close(): Promise<unknown> }[] = [];
const servers: FakeServer[] = [];

afterEach(async () => {
  await Promise.all(opened.splice(0).map((one) => one.close()));
  await Promise.all(servers.splice(0).map((server) => server.stop()));
});

async function serve(...args: Parameters<typeof fakeServer>): Promise<FakeServer> {
  const server = await fakeServer(...args);
  servers.push(server);
  return server;
}

function clientOf(endpoints: string, change: Partial<ConstructorParameters<typeof EtcdClient>[0]> = {}): EtcdClient {
  const client = new EtcdClient({ endpoints, ...change });
  opened.push(client);
  return client;
}

describe("an answer", () => {
  test("is read, with its status in the trailers", async () => {
    const { endpoint } = await serve(() => rangeAnswer([{ key: "k", create: 5n, mod: 6n, value: "v" }], 2n, 9n));
    const client = clientOf(endpoint);
    const { kvs, header } = await client.range({ key: KEY });
    expect(kvs).toMatchObject([{ createRevision: 5n, modRevision: 6n, lease: 1n }]);
    expect(kvs[0]?.value.toString()).toBe("v");
    expect([header.revision, client.revision]).toEqual([9n, 9n]);
  });

  test.each([
    ["in the headers only", false],
    ["in the trailers", true],
  ])("that is a refusal says so: its status is %s", async (_, inTrailers) => {
    const { endpoint } = await serve(() => ({ status: 7, reason: "etcdserver: permission%20denied", inTrailers }));
    await expect(clientOf(endpoint).range({ key: KEY })).rejects.toMatchObject({
      code: "PERMISSION_DENIED",
      isRefusal: true,
      message: "etcdserver: permission denied (PERMISSION_DENIED)",
    });
  });

  test.each([
    [14, "UNAVAILABLE"],
    // etcd finds that its database is full after it has written to it.
    [8, "RESOURCE_EXHAUSTED"],
    [4, "DEADLINE_EXCEEDED"],
    [13, "INTERNAL"],
    [2, "UNKNOWN"],
    [99, "UNKNOWN"],
  ])("with the status %i leaves it unknown what happened", async (status, code) => {
    const { endpoint } = await serve(() => ({ status, reason: "x" }));
    await expect(clientOf(endpoint).txn({ when: [], success: [] })).rejects.toMatchObject({ code, isRefusal: false });
  });

  const lies: Readonly<Record<string, Answer>> = {
    "of another HTTP status": { raw: Buffer.alloc(0), http: 404 },
    "of another type": { raw: Buffer.from("<html>"), type: "text/html" },
    "that is empty": { raw: Buffer.alloc(0) },
    "that is compressed": { raw: Buffer.from([1, 0, 0, 0, 0]) },
    "whose length is longer than the answer": { raw: Buffer.from([0, 0, 0, 0, 9, 1]) },
    "of 4 GB, by its length": { raw: Buffer.from([0, 255, 255, 255, 255, 0]) },
    "of two messages": { raw: Buffer.concat([toFrame(rangeAnswer([])), toFrame(rangeAnswer([]))]) },
    "of garbage": { raw: toFrame(Buffer.from([0xff, 0xff, 0xff, 0xff, 0xff, 0xff])) },
    "with a key that cannot exist": rangeAnswer([{ key: "", create: 1n }]),
    "with a key that was changed before it was created": rangeAnswer([{ key: "k", create: 5n, mod: 4n }]),
  };
  test.each(Object.entries(lies))("%s is not believed", async (_, answer) => {
    const { endpoint } = await serve(() => answer);
    await expect(clientOf(endpoint).range({ key: KEY })).rejects.toMatchObject({
      name: "EtcdError",
      code: "UNAVAILABLE",
      isRefusal: false,
    });
  });

  test("to a transaction has as many parts as it had operations", async () => {
    const { endpoint } = await serve(() => txnAnswer(true, [[]]));
    const range = { range: { key: KEY } };
    await expect(clientOf(endpoint).txn({ when: [], success: [range, range] })).rejects.toMatchObject({
      isRefusal: false,
    });
  });

  test("that is longer than any true one is not read: it would fill the memory", async () => {
    const times = (part: Buffer, count: number): Buffer => Buffer.alloc(part.length * count, part);
    const answers = times(new Writer().message(3, () => undefined).take(), 1_000_000);
    expect(() => readTxn(answers, 3)).toThrow(/more answers than the 3 operations/);
    const key = new Writer().message(2, (kv) => kv.text(1, "k").int(2, 1).int(3, 1).int(4, 1)).take();
    const keys = times(key, 130_000);
    const range = new Writer().message(3, (part) => part.bytes(1, keys)).take();
    expect(() => readTxn(times(range, 2), 2)).toThrow(/more than 250000 keys/);
    const event = new Writer().message(11, (part) => part.message(2, (kv) => kv.text(1, "k"))).take();
    expect(() => readWatch(times(event, 100_001))).toThrow(/more than 100000 changes/);

    const head = Buffer.alloc(5);
    head.writeUInt32BE(2 ** 21, 1);
    const { endpoint } = await serve(() => ({ raw: head }));
    await expect(clientOf(endpoint).grantLease(9)).rejects.toThrow(/a message of 2097152 bytes/);
  });

  test("of a member of another cluster is an error for good", async () => {
    let clusterId = 7n;
    const { endpoint } = await serve(() => txnAnswer(true, [], 2n, 1n, clusterId));
    const client = clientOf(endpoint);
    await client.txn({ when: [], success: [] });
    clusterId = 8n;
    await expect(client.txn({ when: [], success: [] })).rejects.toMatchObject({
      code: "DATA_LOSS",
      message: /two clusters, 7 and 8/,
    });
  });

  test("that does not come in time: the call ends, and a silent member is left for another", async () => {
    const silent = await serve(() => "never");
    const good = await serve(() => rangeAnswer([]));
    const client = clientOf(`${silent.endpoint},${good.endpoint}`);
    // One of the two is dialled first, at random; the silent one is left when it did not answer.
    await eventually("an answer", () => client.range({ key: KEY }, 300).catch(() => undefined));
    expect(silent.calls.length).toBeLessThanOrEqual(1);
    await client.range({ key: KEY });
  });
});

describe("a member", () => {
  test("without a leader refuses, and the same call goes to another", async () => {
    const lost = await serve(() => ({ status: 14, reason: "etcdserver: no leader" }));
    const good = await serve(() => rangeAnswer([]));
    const client = clientOf(`${lost.endpoint},${good.endpoint}`);
    for (let i = 0; i < 5; i++) await client.range({ key: KEY });
    expect(lost.calls.length).toBeLessThanOrEqual(1);
  });

  test("that says goodbye (GOAWAY) is left without a failed call", async () => {
    const server = await serve(() => rangeAnswer([]));
    const client = clientOf(server.endpoint);
    await client.range({ key: KEY });
    for (let i = 0; i < 3; i++) {
      const [session] = server.sessions;
      session?.goaway();
      session?.close();
      await client.range({ key: KEY });
    }
  });

  test("that always hangs up is not dialled hundreds of times a second, and all is well once it serves", async () => {
    let dials = 0;
    const rude = createServer((socket) => {
      dials++;
      socket.destroy();
    });
    await new Promise<void>((resolve) => rude.listen(0, "127.0.0.1", resolve));
    const { port } = rude.address() as { port: number };
    const client = clientOf(`127.0.0.1:${port}`);
    await expect(client.range({ key: KEY })).rejects.toMatchObject({ message: /no member can be reached/ });
    expect(dials).toBeLessThan(30);
    await new Promise((resolve) => rude.close(resolve));
  });

  test("that is not there: calls fail in time and say why; after close() they are refused", async () => {
    const server = await fakeServer(() => "never");
    await server.stop();
    const client = clientOf(server.endpoint);
    await expect(client.range({ key: KEY })).rejects.toMatchObject({ isRefusal: true, message: /ECONNREFUSED/ });
    await client.close();
    await expect(client.range({ key: KEY })).rejects.toMatchObject({ code: "CLOSED", isRefusal: true });
  });
});

describe("many calls at once", () => {
  test("are not all sent at once: a member would answer most of them too late", async () => {
    const server = await serve(() => "never");
    const client = clientOf(server.endpoint);
    const calls = Array.from({ length: 200 }, () => client.range({ key: KEY }, 300));
    await expect(Promise.race(calls)).rejects.toMatchObject({ name: "EtcdError" });
    expect(server.calls.length).toBeLessThanOrEqual(128);
    await Promise.allSettled(calls);
  });

  test("wait for as long as others are answered, and what keeps something goes first, then what ends something", async () => {
    const window = new CallWindow();
    for (let i = 0; i < 128; i++) expect(window.enter("keep", 1)).toBeUndefined();
    const passed: string[] = [];
    const turns = (["begin", "end", "keep"] as const).map(async (rank) => {
      expect(await window.enter(rank, 60_000)).toBe(true);
      passed.push(rank);
    });
    for (let i = 0; i < turns.length; i++) window.leave(true);
    await Promise.all(turns);
    expect(passed).toEqual(["keep", "end", "begin"]);
    expect(await window.enter("keep", 1), "none is answered").toBe(false);
    const last = window.enter("keep", 60_000);
    window.close();
    expect(await last, "its connection was left").toBe(false);
    expect(await window.enter("keep", 60_000)).toBe(false);
    for (let i = 0; i < 128; i++) window.leave(true);
    expect(window.enter("begin", 1)).toBeUndefined();
  });

  test("that a member keeps waiting are not in the way of those to the next member", async () => {
    // Cut off from the others, the first one that is dialled answers no transaction, but it talks.
    let first: FakeServer | undefined;
    const answer = (method: string, server: FakeServer | undefined): Answer => {
      if (method === "Lease/LeaseKeepAlive") return leaseAnswer(1n, 9, 2n);
      return method === "KV/Txn" && (first ??= server) === server ? "never" : rangeAnswer([]);
    };
    const two: FakeServer[] = [];
    for (const at of [0, 1]) two.push(await serve((method) => answer(method, two[at])));
    const sent = (server: FakeServer | undefined): number =>
      server?.calls.filter((method) => method === "KV/Txn").length ?? 0;

    const client = clientOf(two.map(({ endpoint }) => endpoint).join(","));
    const stuck = Array.from({ length: 200 }, () =>
      client.txn({ when: [], success: [] }, 600_000).catch(() => "failed"),
    );
    await eventually("a full window", () => sent(first) === 128 || undefined);
    const talk = setInterval(() => void client.keepAlive(1n).catch(() => undefined), 10);
    // Behind them, this one finds that nothing is answered.
    await client.range({ key: KEY }, 300).catch(() => undefined);
    await client.range({ key: KEY }, 60_000);
    const other = two.find((server) => server !== first);
    await eventually("those that waited were sent to the other", () => sent(other) === 200 - 128 || undefined);
    expect(sent(first)).toBe(128);
    clearInterval(talk);
    await client.close();
    await Promise.all(stuck);
  });
});

describe("a user's token", () => {
  const token = (text: string): Buffer => new Writer().text(2, text).take();

  test("is fetched once, goes with every call, and is replaced when it is stale", async () => {
    let current = 1;
    const seen: unknown[] = [];
    const server = await serve((method, _message, metadata) => {
      if (method === "Auth/Authenticate") return token(`token-${current}`);
      seen.push(metadata["token"]);
      if (metadata["token"] !== `token-${current}`) return { status: 16, reason: "etcdserver: invalid auth token" };
      return rangeAnswer([]);
    });
    const client = clientOf(server.endpoint, { auth: { user: "u", password: "p" } });
    await Promise.all([client.range({ key: KEY }), client.range({ key: KEY })]);
    expect(server.calls.filter((call) => call === "Auth/Authenticate")).toHaveLength(1);
    current = 2;
    await client.range({ key: KEY });
    expect(seen).toEqual(["token-1", "token-1", "token-1", "token-2"]);
  });

  test("is asked for when the cluster begins to want one; and one that a change of roles has outrun is no end", async () => {
    let isEnabled = false;
    const server = await serve((method, _message, metadata) => {
      if (method === "Auth/Authenticate") {
        return isEnabled ? token("t") : { status: 9, reason: "etcdserver: authentication is not enabled" };
      }
      if (isEnabled && metadata["token"] !== "t") return { status: 3, reason: "etcdserver: user name is empty" };
      return rangeAnswer([]);
    });
    const client = clientOf(server.endpoint, { auth: { user: "u", password: "p" } });
    await client.range({ key: KEY });
    isEnabled = true;
    await client.range({ key: KEY });
    // Without a user it is for good.
    const without = clientOf(server.endpoint).range({ key: KEY });
    const refusal: unknown = await without.catch((error: unknown) => toLockError("a", "e", error));
    expect(refusal).toMatchObject({ fatal: true, message: expect.stringContaining("user name is empty") as unknown });
    const outrun = toError("3", "etcdserver: revision of auth store is old");
    expect(toLockError("a", "e", outrun)).toMatchObject({ fatal: false });
  });

  test("that ends is replaced once for all the calls that had it: a member takes long for each", async () => {
    let current = 1;
    const server = await serve((method, _message, metadata) => {
      if (method === "Auth/Authenticate") return token(`token-${current}`);
      if (metadata["token"] !== `token-${current}`) return { status: 16, reason: "etcdserver: invalid auth token" };
      return rangeAnswer([]);
    });
    const client = clientOf(server.endpoint, { auth: { user: "u", password: "p" } });
    await client.range({ key: KEY });
    current = 2;
    await Promise.all(Array.from({ length: 30 }, () => client.range({ key: KEY })));
    expect(server.calls.filter((call) => call === "Auth/Authenticate")).toHaveLength(2);
  });

  test("that comes too late for a call: that is not sent, which is certain, and not sent with no time to be answered", async () => {
    const { endpoint, calls } = await serve((method) => {
      if (method !== "Auth/Authenticate") return rangeAnswer([]);
      // The time of the second call passes.
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 60);
      return token("t");
    });
    const client = clientOf(endpoint, { auth: { user: "app", password: "p" } });
    await eventually("a connection", () => client.isConnected || undefined);
    const [patient, hasty] = [client.range({ key: KEY }, 60_000), client.range({ key: KEY }, 30)];
    await expect(hasty).rejects.toMatchObject({ isRefusal: true, message: /no time was left/ });
    await patient;
    expect(calls).toEqual(["Auth/Authenticate", "KV/Range"]);
  });

  test("has time of its own: calls with less do not end its being asked for, and the next finds it", async () => {
    let giveToken = (): void => {};
    const asked = new Promise<void>((resolve) => {
      giveToken = resolve;
    });
    const { endpoint, calls } = await serve(async (method) => {
      if (method !== "Auth/Authenticate") return rangeAnswer([]);
      await asked;
      return token("t");
    });
    const client = clientOf(endpoint, { auth: { user: "app", password: "p" } });
    await eventually("a connection", () => client.isConnected || undefined);
    for (let i = 0; i < 3; i++) await expect(client.range({ key: KEY }, 30)).rejects.toMatchObject({ isRefusal: true });
    giveToken();
    await client.range({ key: KEY });
    expect(calls).toEqual(["Auth/Authenticate", "KV/Range"]);
  });

  test("that is refused again is not asked for without end; nor is a wrong password, which is not repeated", async () => {
    const stale = await serve((method) =>
      method === "Auth/Authenticate" ? token("t") : { status: 16, reason: "etcdserver: invalid auth token" },
    );
    await expect(
      clientOf(stale.endpoint, { auth: { user: "u", password: "p" } }).range({ key: KEY }),
    ).rejects.toMatchObject({ code: "UNAUTHENTICATED" });
    expect(stale.calls).toHaveLength(4);
    const wrong = await serve(() => ({
      status: 3,
      reason: "etcdserver: authentication failed, invalid user ID or password",
    }));
    const failed = clientOf(wrong.endpoint, { auth: { user: "u", password: "hunter2" } }).range({ key: KEY });
    await expect(failed).rejects.toMatchObject({
      code: "INVALID_ARGUMENT",
      message: expect.not.stringContaining("hunter2"),
    });
  });

  test("is not needed where the cluster has no users", async () => {
    const server = await serve((method) =>
      method === "Auth/Authenticate"
        ? { status: 9, reason: "etcdserver: authentication is not enabled" }
        : rangeAnswer([]),
    );
    await clientOf(server.endpoint, { auth: { user: "u", password: "p" } }).range({ key: KEY });
  });
});

describe("keep-alives", () => {
  test("of many leases share a stream, and each gets its own answer", async () => {
    const server = await serve((_, message) => {
      const reader = new Reader(message);
      reader.next();
      const id = reader.int();
      return leaseAnswer(id, Number(id), 2n);
    });
    const client = clientOf(server.endpoint);
    const answers = await Promise.all([3n, 1n, 2n, 3n].map((id) => client.keepAlive(id)));
    expect(answers.map(({ ttl }) => ttl)).toEqual([3, 1, 2, 3]);
  });

  test("that are answered too late are never taken for answers to later ones", async () => {
    let answers = false;
    const server = await serve(() => (answers ? leaseAnswer(5n, 9, 2n) : "never"));
    const client = clientOf(server.endpoint);
    await expect(client.keepAlive(5n, 200)).rejects.toMatchObject({ code: "DEADLINE_EXCEEDED" });
    answers = true;
    expect((await client.keepAlive(5n)).ttl).toBe(9);
  });
});

describe("any bytes", () => {
  const readers = {
    readRange,
    readTxn: (bytes: Uint8Array) => readTxn(bytes, 3),
    readGrant,
    readLease,
    readTimeToLive,
    readAlarms,
    readMembers,
    readStatus,
    readToken,
    readWatch,
  };
  test.each(Object.entries(readers))(
    "%s reads them, or refuses them as malformed, in time and memory of their length",
    (_, read) => {
      fc.assert(
        fc.property(fc.oneof(fc.uint8Array({ maxLength: 300 }), almostMessage()), (bytes) => {
          try {
            read(bytes);
          } catch (error) {
            expect(error).toBeInstanceOf(MalformedError);
          }
        }),
      );
    },
  );

  test("come out of the frames whole, however the stream was cut", () => {
    fc.assert(
      fc.property(
        fc.array(fc.uint8Array({ maxLength: 40 }), { maxLength: 6 }),
        fc.infiniteStream(fc.integer({ min: 1, max: 9 })),
        (messages, sizes) => {
          const bytes = Buffer.concat(messages.map((message) => toFrame(message)));
          const deframer = new Deframer(1000);
          const found: Buffer[] = [];
          for (let at = 0; at < bytes.length;) {
            const { value: size } = sizes.next();
            deframer.push(bytes.subarray(at, at + size), (message) => found.push(Buffer.from(message)));
            at += size;
          }
          expect(found.map((one) => one.toString("hex"))).toEqual(
            messages.map((one) => Buffer.from(one).toString("hex")),
          );
          expect(deframer.isInside).toBe(false);
        },
      ),
    );
  });

  test("written by us are read back: numbers of every size", () => {
    fc.assert(
      fc.property(
        fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
        fc.uint8Array({ maxLength: 300 }),
        (number, bytes) => {
          const reader = new Reader(
            new Writer(4)
              .always(1, number)
              .message(2, (part) => part.bytes(7, bytes))
              .take(),
          );
          expect(reader.next() && reader.int()).toBe(number);
          expect(reader.next() && reader.field).toBe(2);
          const inner = reader.message();
          if (bytes.length > 0) expect(inner.next() && Buffer.from(inner.bytes())).toEqual(Buffer.from(bytes));
          expect([inner.next(), reader.next()]).toEqual([false, false]);
        },
      ),
    );
  });
});

/** Fields with small numbers and any contents: deeper into the readers than random bytes come. */
function almostMessage(): fc.Arbitrary<Uint8Array> {
  const field = fc.integer({ min: 1, max: 13 });
  const part = fc.oneof(
    fc.tuple(field, fc.bigInt({ min: -(2n ** 63n), max: 2n ** 64n - 1n })),
    fc.tuple(field, fc.uint8Array({ maxLength: 30 })),
  );
  const flat = fc.array(part, { maxLength: 6 }).map((parts) => {
    const writer = new Writer();
    for (const [at, value] of parts) {
      if (typeof value === "bigint") writer.always(at, value);
      else writer.bytes(at, value);
    }
    return writer.take();
  });
  return fc.tuple(flat, field, flat).map(([a, at, b]) => Buffer.concat([a, new Writer().bytes(at, b).take()]));
}
