/** The client by itself, against a real server: what it asks, what it hears, and how it gets through. */
import { once } from "node:events";
import { createServer, connect, type AddressInfo, type Server, type Socket } from "node:net";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { type Proxy, startProxy } from "../../../src/lab/proxy.ts";
import { startZooKeeper, type ZooKeeperLab } from "../../../src/lab/servers/zookeeper.ts";
import {
  type Children,
  ZooKeeperClient,
  type ZooKeeperClientOptions,
  type WatchEvent,
} from "../../../src/backends/zookeeper/index.ts";
import { eventually } from "./claims.ts";

let lab: ZooKeeperLab;
let server: string;
let port: number;
const opened: { close(): unknown }[] = [];
let roots = 0;
const NOTHING = Buffer.alloc(0);

beforeAll(async () => {
  lab = await startZooKeeper();
  server = lab.url.slice("zk://".length);
  port = (await lab.leader()).port;
});

afterEach(async () => {
  for (const one of opened.splice(0).toReversed()) await one.close();
});

afterAll(() => lab.stop());

/** A client below a fresh chroot of its own. */
async function open(options: Partial<ZooKeeperClientOptions> = {}): Promise<ZooKeeperClient> {
  const client = new ZooKeeperClient({ servers: server, chroot: `/client-${++roots}`, timeoutMs: 10_000, ...options });
  opened.push(client);
  await client.makePath("/", "persistent");
  return client;
}

async function proxied(): Promise<Proxy> {
  const proxy = await startProxy({ port });
  opened.push({ close: () => proxy.stop() });
  return proxy;
}

function listen(accept: (socket: Socket) => void, host = "127.0.0.1"): Promise<number> {
  const listener: Server = createServer((socket) => accept(socket.on("error", () => undefined)));
  opened.push({ close: () => listener.close() });
  return new Promise((resolve, reject) => {
    listener.once("error", reject).listen(0, host, () => resolve((listener.address() as AddressInfo).port));
  });
}

describe("operations", () => {
  test("make, read, change, list and delete nodes, below the chroot", async () => {
    const client = await open();
    const made = await client.create("/n-", Buffer.from("one"), "ephemeralSequential");
    expect(made.path).toBe("/n-0000000000");
    expect(made.stat.ephemeralOwner).toBe(client.sessionId);
    expect((await client.getData(made.path)).data.toString()).toBe("one");
    const changed = await client.setData(made.path, Buffer.from("two"), 0);
    expect([changed.version, changed.czxid]).toEqual([1, made.stat.czxid]);
    expect((await client.getChildren("/")).children).toEqual(["n-0000000000"]);
    await client.sync("/");
    expect((await client.exists(made.path))?.dataLength).toBe(3);
    await client.delete(made.path, 1);
    expect(await client.exists(made.path)).toBeUndefined();
  });

  test("fail with ZooKeeper's own names for what is wrong", async () => {
    const client = await open();
    await client.create("/a", NOTHING, "persistent");
    await expect(client.create("/a", NOTHING, "persistent")).rejects.toMatchObject({ code: "NODEEXISTS" });
    await expect(client.getData("/none")).rejects.toMatchObject({ code: "NONODE" });
    await expect(client.setData("/a", NOTHING, 7)).rejects.toMatchObject({ code: "BADVERSION" });
    await client.create("/a/b", NOTHING, "ephemeral");
    await expect(client.delete("/a")).rejects.toMatchObject({ code: "NOTEMPTY" });
    await expect(client.create("/a/b/c", NOTHING, "persistent")).rejects.toMatchObject({
      code: "NOCHILDRENFOREPHEMERALS",
    });
    await expect(client.getData("a")).rejects.toBeInstanceOf(TypeError);
  });

  test("in a multi happen all or not at all, and the error says which part failed", async () => {
    const client = await open();
    const lock = await client.create("/lock-", NOTHING, "ephemeralSequential");
    await client.create("/data", Buffer.from("0"), "persistent");
    const write = (data: string, version: number) =>
      client.multi([
        { op: "check", path: lock.path, version },
        { op: "create", path: `/log-${data}`, data: NOTHING, mode: "persistent" },
        { op: "setData", path: "/data", data: Buffer.from(data), version: -1 },
      ]);
    const [, created, set] = await write("1", 0);
    expect(created?.path).toBe("/log-1");
    expect((await client.exists("/log-1"))?.czxid).toBe(created?.zxid);
    expect(set?.stat?.version).toBe(1);
    await expect(write("2", 5)).rejects.toMatchObject({
      code: "BADVERSION",
      errors: ["BADVERSION", "RUNTIMEINCONSISTENCY", "RUNTIMEINCONSISTENCY"],
    });
    await client.delete(lock.path);
    await expect(write("3", 0)).rejects.toMatchObject({ code: "NONODE" });
    expect((await client.getData("/data")).data.toString()).toBe("1");
  });

  test("sent together are answered in order, and leave in one write", async () => {
    const proxy = await proxied();
    const client = await open({ servers: `127.0.0.1:${proxy.port}` });
    let chunks = 0;
    proxy.onRequest = () => void chunks++;
    const answers = await Promise.all([
      client.create("/n-", NOTHING, "ephemeralSequential"),
      client.getChildren("/"),
      ...Array.from({ length: 50 }, () => client.create("/n-", NOTHING, "ephemeralSequential")),
      client.getChildren("/"),
    ]);
    expect((answers[1] as Children).children).toEqual(["n-0000000000"]);
    expect((answers[52] as Children).children).toHaveLength(51);
    expect(chunks).toBe(1);
  });

  test("make containers for a path, down from the root", async () => {
    const client = await open({ chroot: `/deep-${++roots}/er` });
    await Promise.all([client.makePath("/a/b/c"), client.makePath("/a/b/c"), client.makePath("/a/b")]);
    expect((await client.getChildren("/a/b")).children).toEqual(["c"]);
  });
});

describe("watches", () => {
  test("fire once when a node changes", async () => {
    const [client, other] = [await open(), await open({ chroot: `/client-${roots}` })];
    const heard: string[] = [];
    const hear = (event: WatchEvent): void => void heard.push(event.type);
    await client.exists("/a", hear);
    await other.create("/a", NOTHING, "persistent");
    await client.sync("/a");
    await client.getData("/a", hear);
    await client.getChildren("/a", hear);
    await other.setData("/a", Buffer.from("x"));
    await other.create("/a/b", NOTHING, "persistent");
    await other.setData("/a", Buffer.from("y"));
    await client.sync("/a");
    expect(heard).toEqual(["created", "changed", "children"]);
  });

  test("that were removed do not fire", async () => {
    const client = await open();
    const heard: WatchEvent[] = [];
    const hear = (event: WatchEvent): void => void heard.push(event);
    await client.exists("/a", hear);
    client.unwatch("/a", hear);
    await client.create("/a", NOTHING, "persistent");
    await client.sync("/a");
    expect(heard).toEqual([]);
  });

  test("survive a reconnect, however many, and fire for what happened meanwhile", async () => {
    const proxy = await proxied();
    const client = await open({ servers: `127.0.0.1:${proxy.port}`, timeoutMs: 60_000 });
    const other = await open({ chroot: `/client-${roots}`, timeoutMs: 60_000 });
    // Each name is long, so the list of all is larger than what a server takes in one request (1 MB).
    const names = Array.from({ length: 300 }, (_, at) => `/${"x".repeat(4000)}-${at}`);
    await Promise.all(names.map((name) => client.create(name, NOTHING, "ephemeral")));
    const heard = new Set<string>();
    await Promise.all(names.map((name) => client.getData(name, ({ path }) => void heard.add(path))));
    await proxy.refuse();
    proxy.cut();
    await Promise.all(names.slice(0, 100).map((name) => other.delete(name)));
    await proxy.heal();
    await eventually("events of the time without a connection", () => (heard.size === 100 ? true : undefined));
    await Promise.all(names.slice(100).map((name) => other.delete(name)));
    await eventually("events of the time after it", () => (heard.size === 300 ? true : undefined));
  });
});

describe("connecting", () => {
  test("a server that accepts and does not answer is left for another", async () => {
    const silent = await listen(() => undefined);
    for (let tries = 0; tries < 4; tries++) {
      const client = await open({ servers: `127.0.0.1:${silent},${server}`, timeoutMs: 2000 });
      expect((await client.getChildren("/")).children).toEqual([]);
    }
  });

  test("a connection cut at any byte of an answer is replaced, and goes on with the same session", async () => {
    let most = Infinity;
    const cutting = await listen((socket) => {
      const behind = connect(port, "127.0.0.1").on("error", () => undefined);
      let left = most;
      most = Infinity;
      socket.pipe(behind);
      behind.on("data", (chunk) => {
        socket.write(chunk.subarray(0, left));
        left -= chunk.length;
        if (left <= 0) socket.end();
      });
      behind.on("close", () => socket.destroy());
      socket.on("close", () => behind.destroy());
    });
    for (const bytes of [1, 3, 4, 5, 40, 41, 42, 45, 60, 61, 100, 130, 131]) {
      most = bytes;
      const client = await open({ servers: `127.0.0.1:${cutting}` }).catch(() => opened.at(-1) as ZooKeeperClient);
      // The chroot may not be there yet: what made it may have been cut off.
      const path = await eventually("an answer", () =>
        client
          .makePath("/", "persistent")
          .then(() => client.create("/n-", NOTHING, "ephemeralSequential"))
          .then(
            (made) => made.path,
            () => undefined,
          ),
      );
      expect((await client.exists(path))?.ephemeralOwner, `cut after ${bytes}`).toBe(client.sessionId);
    }
  });

  test("a server that sends an invalid reply is left, and the outcome of the requests is unknown", async () => {
    const liars = [Buffer.from("HTTP/1.1 400 Bad Request\r\n\r\n"), Buffer.alloc(64), Buffer.from([0, 0, 0, 2, 0, 0])];
    for (const lie of liars) {
      const lying = await listen((socket) => socket.write(lie));
      const client = new ZooKeeperClient({ servers: `127.0.0.1:${lying}`, timeoutMs: 1000 });
      opened.push(client);
      await expect(client.exists("/")).rejects.toMatchObject({ code: "CONNECTIONLOSS" });
    }
  });

  test("names are resolved again, so servers that moved are found with the same session", async () => {
    const sockets = new Set<Socket>();
    const forward = (socket: Socket): void => {
      sockets.add(socket);
      socket.pipe(connect(port, "127.0.0.1").on("error", () => undefined)).pipe(socket);
    };
    const before = createServer(forward);
    const after = createServer(forward);
    opened.push({ close: () => before.close() }, { close: () => after.close() });
    await once(before.listen(0, "127.0.0.1"), "listening");
    const at = (before.address() as AddressInfo).port;
    await once(after.listen(at, "127.0.0.2"), "listening");
    let address = "127.0.0.1";
    const client = await open({ servers: `zk.test:${at}`, resolve: async () => [address] });
    const { sessionId } = client;
    await client.create("/e", NOTHING, "ephemeral");
    address = "127.0.0.2";
    before.close();
    for (const socket of sockets) socket.destroy();
    const stat = await eventually("an answer", () => client.exists("/e").catch(() => undefined));
    expect([stat.ephemeralOwner, client.sessionId]).toEqual([sessionId, sessionId]);
  });

  test("IPv6 addresses are dialled", async () => {
    const six = await listen((socket) => {
      socket.pipe(connect(port, "127.0.0.1").on("error", () => undefined)).pipe(socket);
    }, "::1");
    const client = await open({ servers: `[::1]:${six}` });
    expect(client.sessionId).not.toBe(0n);
  });

  test("no server at all: requests fail in time, say why, and succeed once there is one", async () => {
    const proxy = await proxied();
    await proxy.refuse();
    const client = new ZooKeeperClient({ servers: `127.0.0.1:${proxy.port}`, timeoutMs: 1500 });
    opened.push(client);
    const error = await client.exists("/").catch((reason: unknown) => reason);
    expect(error).toMatchObject({ code: "CONNECTIONLOSS" });
    expect(String((error as Error).cause)).toMatch(/ECONNREFUSED/);
    await proxy.heal();
    const stat = await eventually("an answer", () => client.exists("/").catch(() => undefined));
    expect(stat?.czxid).toBe(0n);
  });
});

describe("rights", () => {
  const auth = { user: "bob", password: "hunter2" };

  test("a creator's nodes are its own: others are refused, and the same user is not", async () => {
    const client = await open({ auth, acl: "creator" });
    await client.create("/mine", Buffer.from("x"), "persistent");
    const chroot = `/client-${roots}`;
    const stranger = new ZooKeeperClient({ servers: server, chroot });
    const same = new ZooKeeperClient({ servers: server, chroot, auth });
    opened.push(stranger, same);
    await expect(stranger.getData("/mine")).rejects.toMatchObject({ code: "NOAUTH" });
    expect((await same.getData("/mine")).data.toString()).toBe("x");
  });

  test("to make a path's upper nodes are not needed where those exist", async () => {
    const creator = await open({ auth, acl: "creator" });
    const root = `/client-${roots}`;
    const generous = new ZooKeeperClient({ servers: server, auth });
    const stranger = new ZooKeeperClient({ servers: server, chroot: `${root}/open` });
    opened.push(generous, stranger);
    await creator.sync("/");
    await generous.create(`${root}/open`, NOTHING, "persistent");
    await stranger.makePath("/a/b");
    expect((await stranger.getChildren("/a")).children).toEqual(["b"]);
    const outside = new ZooKeeperClient({ servers: server, chroot: root });
    opened.push(outside);
    await expect(outside.makePath("/closed")).rejects.toMatchObject({ code: "NOAUTH" });
  });

  test("hold after a reconnect too", async () => {
    const proxy = await proxied();
    const client = await open({ servers: `127.0.0.1:${proxy.port}`, auth, acl: "creator" });
    await client.create("/mine", Buffer.from("x"), "persistent");
    proxy.cut();
    const node = await eventually("an answer", () => client.getData("/mine").catch(() => undefined));
    expect(node.data.toString()).toBe("x");
  });
});

describe("the end", () => {
  test("close() ends the session: its ephemeral nodes are gone at once, and later requests are refused", async () => {
    const [client, other] = [await open(), await open({ chroot: `/client-${roots}` })];
    await client.create("/e", NOTHING, "ephemeral");
    await client.close();
    await other.sync("/");
    expect(await other.exists("/e")).toBeUndefined();
    await expect(client.exists("/e")).rejects.toMatchObject({ code: "CLOSED" });
    await client.close();
  });

  test("linger() leaves the nodes for the requested time, though the session's time-out is another", async () => {
    const other = await open();
    const chroot = `/client-${roots}`;
    const lived = async (timeoutMs: number, ms: number): Promise<number> => {
      const client = await open({ chroot, timeoutMs });
      await client.create("/e", NOTHING, "ephemeral");
      const startMs = performance.now();
      await client.linger(ms);
      await eventually("the node is gone", async () => ((await other.exists("/e")) === undefined ? true : undefined));
      return performance.now() - startMs;
    };
    expect(await lived(60_000, 1500)).toBeGreaterThanOrEqual(1500);
    expect(await lived(1000, 2500)).toBeGreaterThanOrEqual(2500);
  });
});
