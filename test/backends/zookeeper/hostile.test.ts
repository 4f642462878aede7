/** Servers that mean harm, or are none: what they say costs little, and is never taken for a lease. */
import { setTimeout as sleep } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { afterEach, describe, expect, test } from "vitest";
import { FrameSplitter } from "../../../src/backends/zookeeper/client/frames.ts";
import { OP } from "../../../src/backends/zookeeper/client/protocol.ts";
import { ZooKeeperClient, zookeeper, type ZooKeeperBackend } from "../../../src/backends/zookeeper/index.ts";
import { claim, eventually } from "./claims.ts";
import {
  answer,
  type Asked,
  type FakeOptions,
  type FakeServer,
  SESSION,
  startFake,
  welcome,
  writeStat,
} from "./fake-server.ts";

const opened: { abandon(): void }[] = [];

afterEach(() => {
  for (const client of opened.splice(0)) client.abandon();
});

function open(server: FakeServer, timeoutMs = 30_000): ZooKeeperClient {
  const client = new ZooKeeperClient({ servers: server.address, timeoutMs });
  opened.push(client);
  return client;
}

function openBackend(server: FakeServer): ZooKeeperBackend {
  const backend = zookeeper({ servers: server.address, session: "30s" });
  opened.push(backend.client);
  return backend;
}

const GARBAGE = Buffer.from("HTTP/1.1 400 Bad Request\r\n\r\n");
/** More than a client that pauses dials in this time, and a tenth of what one that does not pause dials. */
const LOOK_MS = 1500;
const DIALS_MOST = 25;

describe(
  "a server that sends invalid replies is not dialled again without a pause (S144, S179)",
  { concurrent: true },
  () => {
    const liars: Readonly<Record<string, FakeOptions>> = {
      "garbage after the handshake": { greeted: (socket) => void socket.write(GARBAGE) },
      "a hang-up after the handshake": { greeted: (socket) => void socket.end() },
      "an answer to nothing": { greeted: (socket) => void socket.write(answer(1)) },
      "a good answer, then garbage": {
        asked: ({ xid, socket }) => void socket.write(Buffer.concat([answer(xid), GARBAGE])),
      },
      "an expired session each time": { welcome: () => welcome(0, 0n) },
      "a session's time-out of a millisecond": { welcome: () => welcome(1) },
      "a session without a number": { welcome: () => welcome(30_000, 0n) },
      "a welcome of a megabyte": { welcome: () => welcome(30_000, SESSION, 1024 * 1024) },
    };
    for (const [what, options] of Object.entries(liars)) {
      test(what, async () => {
        await using server = await startFake(options);
        const client = open(server);
        const endMs = performance.now() + LOOK_MS;
        while (performance.now() < endMs) {
          void client.sync("/").catch(() => undefined);
          await sleep(20);
        }
        expect(server.connections).toBeGreaterThan(0);
        expect(server.connections).toBeLessThanOrEqual(DIALS_MOST);
      });
    }
  },
);

describe("a length that a server only announces takes no memory (S144, S179)", () => {
  test("a frame of 60 MB is refused at its length, before its bytes are read", async () => {
    const head = Buffer.alloc(1024);
    head.writeInt32BE(60 * 1024 * 1024);
    await using server = await startFake({
      welcome: () => welcome(600_000),
      greeted: (socket) => void socket.write(head),
    });
    const client = open(server, 600_000);
    const first = client.sync("/").catch((error: unknown) => error);
    // It would else wait for the rest, for a third of the session's time-out.
    await eventually("the client hung up", () => (server.sockets[0]?.closed === true ? true : undefined));
    client.abandon();
    expect(await first).toMatchObject({ name: "ZooKeeperError" });
  });

  test("a frame that comes byte by byte is kept as its bytes, not as its pieces", () => {
    setFlagsFromString("--expose-gc");
    const collect = runInNewContext("gc") as () => void;
    const used = (): number => {
      collect();
      const { heapUsed, external, arrayBuffers } = process.memoryUsage();
      return heapUsed + external + arrayBuffers;
    };
    const pieces = 200_000;
    const splitter = new FrameSplitter();
    const head = Buffer.alloc(4);
    head.writeInt32BE(2 * pieces);
    const frames: number[] = [];
    const before = used();
    splitter.push(head, () => frames.push(-1));
    for (let piece = 0; piece < pieces; piece++)
      splitter.push(Buffer.allocUnsafeSlow(1).fill(7), () => frames.push(-1));
    expect(used() - before).toBeLessThan(8 * 1024 * 1024);
    splitter.push(Buffer.alloc(pieces, 7), (bytes, start, end) => frames.push(bytes.subarray(start, end).length));
    expect(frames).toEqual([2 * pieces]);
  });
});

interface Story {
  /** The path of the node that was asked for: what is answered instead. */
  readonly path?: ((asked: string) => string) | undefined;
  readonly czxid?: bigint | undefined;
  readonly session?: bigint | undefined;
  readonly multi?: ((xid: number) => Buffer) | undefined;
}

const CONFIRMED = (xid: number): Buffer =>
  answer(xid, (writer) => void writer.int(OP.check).bool(false).int(0).int(-1).bool(true).int(-1));

/** Answers as a server does on which one node is made, but for what the story says. */
function answers(story: Story): FakeOptions {
  let node = "";
  return {
    asked: ({ xid, op, reader, socket }: Asked) => {
      if (op === OP.create2) {
        node = `${reader.string()}0000000000`;
        const [czxid, session] = [story.czxid ?? 9n, story.session ?? SESSION];
        socket.write(answer(xid, (writer) => writeStat(writer.string(story.path?.(node) ?? node), czxid, session)));
      } else if (op === OP.getChildren) {
        const shown = story.path?.(node) ?? node;
        socket.write(answer(xid, (writer) => void writer.strings([shown.slice(shown.lastIndexOf("/") + 1)])));
      } else {
        socket.write(op === OP.multi ? (story.multi ?? CONFIRMED)(xid) : answer(xid));
      }
    },
  };
}

describe("an answer that does not match its request is no lease, and confirms none (S175, S179)", () => {
  test("the unchanged answers of this server are a lease", async () => {
    await using server = await startFake(answers({}));
    const backend = openBackend(server);
    const one = claim("a");
    expect(await backend.attempt(one)).toMatchObject({ granted: true, fence: 9n });
    expect(await backend.renew([one])).toMatchObject([{ held: true }]);
  });

  const lies: Readonly<Record<string, Story>> = {
    "a node made in transaction 0": { czxid: 0n },
    "a node made in a negative transaction, which as a fence would be above the greatest": { czxid: -1n },
    "the path of another claim": { path: (asked) => asked.replace("_c_", "_d_") },
    "a path without a number": { path: (asked) => asked.slice(0, -10) },
    "another session's node": { session: 8n },
  };
  for (const [what, story] of Object.entries(lies)) {
    test(what, async () => {
      await using server = await startFake(answers(story));
      const backend = openBackend(server);
      await expect(backend.attempt(claim("a"))).rejects.toMatchObject({ code: "ERR_LOCK_BACKEND" });
    });
  }

  const confirmations: Readonly<Record<string, (xid: number) => Buffer>> = {
    "no results at all": (xid) => answer(xid, (writer) => void writer.int(-1).bool(true).int(-1)),
    "the result of something else": (xid) =>
      answer(xid, (writer) => void writer.int(OP.delete).bool(false).int(0).int(-1).bool(true).int(-1)),
    "an error that is none": (xid) =>
      answer(xid, (writer) => void writer.int(-1).bool(false).int(0).int(0).int(-1).bool(true).int(-1)),
    "more results than questions": (xid) =>
      answer(xid, (writer) => {
        for (let times = 0; times < 2; times++) writer.int(OP.check).bool(false).int(0);
        writer.int(-1).bool(true).int(-1);
      }),
  };
  for (const [what, confirmation] of Object.entries(confirmations)) {
    test(`to a renewal: ${what}`, async () => {
      await using server = await startFake(answers({ multi: confirmation }));
      const backend = openBackend(server);
      const one = claim("a");
      await backend.attempt(one);
      expect(await backend.renew([one])).toMatchObject([{ held: "unknown" }]);
    });
  }

  test("a reconnect to another session ends no lease, and confirms none", async () => {
    let session = SESSION;
    await using server = await startFake({ ...answers({}), welcome: () => welcome(30_000, session) });
    const backend = openBackend(server);
    const one = claim("a");
    await backend.attempt(one);
    session = 8n;
    server.sockets[0]?.destroy();
    while (server.connections < 3) await sleep(5);
    expect(backend.client.sessionId).toBe(SESSION);
    expect(backend.client.isConnected).toBe(false);
  });
});
