/**
 * What the adapters make of a client library, with clients that are made up: which of several nodes is asked, what a connection of
 * our own does when it cannot be opened or is refused, and what is left when a node goes.
 */
import { EventEmitter } from "node:events";
import { describe, expect, test, vi } from "vitest";
import type { Connection, OwnConnection, OwnConnectionEvents } from "../../../src/backends/redis/connection.ts";
import { connectionOf } from "../../../src/backends/redis/clients/choose.ts";
import { identify } from "../../../src/backends/redis/query.ts";
import { Replicator } from "../../../src/backends/redis/durability.ts";
import { Subscriber } from "../../../src/backends/redis/subscriber.ts";

const SILENT: OwnConnectionEvents = { message: () => {}, ended: () => {} };
const REPLY_ERROR = Object.assign(new Error("WRONGTYPE no"), { name: "ReplyError" });
/** Everything is in slot 0, which is all that is asked of it here. */
const everySlot = (address: string): readonly (readonly string[])[] => Array.from({ length: 16_384 }, () => [address]);

/** A connection of our own, as ioredis makes one. */
class OwnIoredis extends EventEmitter {
  status = "ready";
  disconnected = 0;
  readonly stream: { unref: () => void } = { unref: vi.fn<() => void>() };
  connects: () => Promise<void> = () => Promise.resolve();
  answers: (name: string) => Promise<unknown> = () => Promise.resolve("OK");

  connect(): Promise<void> {
    return this.connects();
  }

  call(name: string): Promise<unknown> {
    return this.answers(name);
  }

  disconnect(): void {
    this.disconnected++;
    this.status = "end";
    this.emit("close");
  }
}

class Ioredis extends EventEmitter {
  status = "ready";
  readonly isCluster: boolean = false;
  readonly options: object;
  readonly asked: string[] = [];
  readonly own: OwnIoredis = new OwnIoredis();
  duplicatedTo: object | undefined;

  constructor(options: object = {}) {
    super();
    this.options = options;
  }

  pipeline(): void {}

  evalsha(sha: string): Promise<unknown> {
    this.asked.push(sha);
    return Promise.resolve(sha);
  }

  call(name: string): Promise<unknown> {
    this.asked.push(name);
    return Promise.resolve(name);
  }

  duplicate(where: object): OwnIoredis {
    this.duplicatedTo = where;
    return this.own;
  }
}

class IoredisCluster extends Ioredis {
  override readonly isCluster: boolean = true;
  readonly slots: readonly (readonly string[])[];
  #nodes: Ioredis[];

  constructor(...nodes: Ioredis[]) {
    super();
    this.#nodes = nodes;
    this.slots = everySlot("b:2");
  }

  nodes(): Ioredis[] {
    return this.#nodes;
  }
}

const node = (host: string, port: number): Ioredis => new Ioredis({ host, port });

describe("ioredis", () => {
  test("in a Cluster, a script with several keys goes straight to the node that has them, and nodes are known by host and port", async () => {
    const [a, b] = [node("a", 1), node("b", 2)];
    const cluster = new IoredisCluster(a, b);
    const connection = connectionOf(cluster);
    await connection.evalsha("two", ["k1", "k2"], []);
    expect([cluster.asked, a.asked, b.asked]).toEqual([[], [], ["two"]]);
    await connection.evalsha("one", ["k1"], []);
    expect(cluster.asked).toEqual(["one"]);
    expect((await connection.primaries()).map(({ address }) => address)).toEqual(["a:1", "b:2"]);
    expect(connection.nodeOf("k1")).toBe("b:2");
  });

  test("a connection of our own leads to the node that is named, known or not", async () => {
    const [a, b] = [node("a", 1), node("b", 2)];
    const connection = connectionOf(new IoredisCluster(a, b));
    await connection.openOwn("b:2", SILENT);
    expect([a.duplicatedTo, b.duplicatedTo]).toEqual([undefined, expect.objectContaining({ keyPrefix: "" })]);
    expect(b.duplicatedTo).not.toHaveProperty("host");
    await connectionOf(new IoredisCluster(a)).openOwn("::1:7", SILENT);
    expect(a.duplicatedTo).toMatchObject({ host: "::1", port: 7 });
  });

  test("a node that goes is watched no more, and counts as a broken connection; one that comes is watched", () => {
    const [a, b] = [node("a", 1), node("b", 2)];
    const cluster = new IoredisCluster(a);
    const connection = connectionOf(cluster);
    let back = 0;
    const stop = connection.onReconnect(() => back++);
    const watching = a.eventNames().length;
    expect(watching).toBeGreaterThan(0);
    cluster.emit("+node", b);
    expect([back, b.eventNames().length]).toEqual([1, watching]);
    b.emit("ready");
    expect(back).toBe(2);
    cluster.emit("-node", a);
    expect([a.eventNames(), connection.breaks()]).toEqual([[], 1]);
    b.emit("close");
    expect(connection.breaks()).toBe(2);
    stop();
    expect([b.eventNames(), cluster.eventNames()]).toEqual([[], []]);
  });

  test("a connection of our own that cannot be opened rejects, and is given up", async () => {
    const client = node("a", 1);
    client.own.connects = () => Promise.reject(new Error("ECONNREFUSED"));
    await expect(connectionOf(client).openOwn("", SILENT)).rejects.toThrow("ECONNREFUSED");
    expect(client.own.disconnected).toBe(1);
  });

  test("on it a refusal is an answer, and anything else says that it is over", async () => {
    const client = node("a", 1);
    const ended = vi.fn<() => void>();
    const own = await connectionOf(client).openOwn("", { message: () => {}, ended });
    expect(client.own.stream.unref).toHaveBeenCalledOnce();
    client.own.answers = (name) => (name === "bad" ? Promise.reject(REPLY_ERROR) : Promise.resolve(name));
    expect(await own.send([["good"], ["bad"], ["better"]])).toEqual(["good", REPLY_ERROR, "better"]);
    client.own.answers = () => Promise.reject(new Error("Connection is closed."));
    await expect(own.send([["good"]])).rejects.toThrow("Connection is closed.");
    expect(own.isOpen).toBe(true);
    own.close();
    client.own.emit("close");
    expect([own.isOpen, ended.mock.calls.length]).toEqual([false, 1]);
  });
});

/** A connection of our own, as node-redis makes one. */
class OwnNodeRedis extends EventEmitter {
  isOpen = true;
  readonly unref: () => void = vi.fn<() => void>();
  connects: () => Promise<void> = () => Promise.resolve();
  answers: (name: string) => Promise<unknown> = (name) => Promise.resolve(name);

  connect(): Promise<void> {
    return this.connects();
  }

  sendCommand([name]: readonly string[]): Promise<unknown> {
    return this.answers(name as string);
  }

  destroy(): void {
    this.isOpen = false;
  }
}

class NodeRedis extends EventEmitter {
  readonly isOpen = true;
  readonly isReady = true;
  readonly _keyPrefix = undefined;
  readonly options: object = { socket: { host: "a" } };
  readonly own: OwnNodeRedis = new OwnNodeRedis();

  sendCommand(): Promise<unknown> {
    return Promise.resolve("OK");
  }

  duplicate(): OwnNodeRedis {
    return this.own;
  }

  destroy(): void {}
  multi(): void {}
  withCommandOptions(): void {}
}

describe("node-redis", () => {
  test("behind sentinels, what is sent once has broken nothing, and what is sent again has", async () => {
    let times = 1;
    const sentinel = Object.assign(new NodeRedis(), {
      getSentinelNode: () => undefined,
      async _execute(_: boolean, work: (primary: NodeRedis) => Promise<unknown>): Promise<unknown> {
        for (let i = 1; i < times; i++) await work(new NodeRedis());
        return work(new NodeRedis());
      },
    });
    const connection = connectionOf(sentinel);
    expect(connection.topology).toBe("sentinel");
    expect(await connection.evalsha("sha", ["k"], [])).toBe("OK");
    expect(await connection.evalsha("sha", ["k"], [])).toBe("OK");
    expect(connection.breaks()).toBe(0);
    times = 3;
    expect(await connection.evalsha("sha", ["k"], [])).toBe("OK");
    expect(connection.breaks()).toBe(2);
  });

  test("a connection of our own keeps no process alive, answers refusals, and is over at its first error", async () => {
    const client = new NodeRedis();
    const ended = vi.fn<() => void>();
    const own = await connectionOf(client).openOwn("", { message: () => {}, ended });
    expect(client.own.unref).toHaveBeenCalledOnce();
    client.own.answers = (name) => (name === "bad" ? Promise.reject(REPLY_ERROR) : Promise.resolve(name));
    expect(await own.send([["good"], ["bad"]])).toEqual(["good", REPLY_ERROR]);
    client.own.emit("error", new Error("ECONNRESET"));
    client.own.emit("end");
    expect([own.isOpen, client.own.isOpen, ended.mock.calls.length]).toEqual([false, false, 1]);
    await expect(own.send([["bad"]])).rejects.toBe(REPLY_ERROR);
  });

  test("one that cannot be opened rejects, and is given up", async () => {
    const client = new NodeRedis();
    client.own.connects = () => Promise.reject(new Error("ECONNREFUSED"));
    await expect(connectionOf(client).openOwn("", SILENT)).rejects.toThrow("ECONNREFUSED");
    expect(client.own.isOpen).toBe(false);
  });
});

/** Lines to a server that were opened, and what it says to each command. */
function serverWith(answer: (command: readonly string[]) => unknown): {
  connection: Connection;
  lines: OwnConnection[];
} {
  const lines: OwnConnection[] = [];
  const openOwn = (): Promise<OwnConnection> => {
    let isOpen = true;
    const line: OwnConnection = {
      get isOpen() {
        return isOpen;
      },
      send: async (commands) => commands.map(answer),
      subscribe: async () => {},
      subscribeSharded: async () => {},
      unsubscribe: async () => {},
      close: () => (isOpen = false),
    };
    lines.push(line);
    return Promise.resolve(line);
  };
  const connection = { topology: "standalone", keyPrefix: "", nodeOf: () => "", onReconnect: () => () => {}, openOwn };
  return { connection: connection as unknown as Connection, lines };
}

describe("scripts that wait for replicas", () => {
  const script = { sha: "sha", source: "return 1" } as never;

  test("where the server has become a replica the next one is asked on a new connection; after another refusal on the same", async () => {
    let refusal = "OOM command not allowed";
    const { connection, lines } = serverWith(([name]) => (name === "WAIT" ? 1 : new Error(refusal)));
    const replicator = new Replicator(connection, { replicas: 1, waitMs: 10 });
    await expect(replicator.run(script, ["k"], [])).rejects.toThrow("OOM");
    await expect(replicator.run(script, ["k"], [])).rejects.toThrow("OOM");
    expect(lines.map(({ isOpen }) => isOpen)).toEqual([true]);
    refusal = "READONLY You can't write against a read only replica.";
    await expect(replicator.run(script, ["k"], [])).rejects.toThrow("READONLY");
    expect(lines.map(({ isOpen }) => isOpen)).toEqual([false]);
    await expect(replicator.run(script, ["k"], [])).rejects.toThrow("READONLY");
    expect(lines).toHaveLength(2);
    replicator.close();
  });
});

/** Timers that fire on demand, while `work` runs. */
async function withTimers(work: (timers: readonly { ms: number; fire: () => void }[]) => Promise<void>): Promise<void> {
  const timers: { ms: number; fire: () => void }[] = [];
  const later = (fire: () => void, ms: number): object => {
    timers.push({ ms, fire });
    const timer: object = { ref: () => timer, unref: () => timer };
    return timer;
  };
  const [set, clear] = [vi.spyOn(globalThis, "setTimeout"), vi.spyOn(globalThis, "clearTimeout")];
  set.mockImplementation(later as never);
  clear.mockImplementation(() => {});
  try {
    await work(timers);
  } finally {
    set.mockRestore();
    clear.mockRestore();
  }
}

test("a connection that opens after no caller waits for it any more is closed, and one that opened in time is not", () =>
  withTimers(async (timers) => {
    const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
    const { connection, lines } = serverWith(() => "PONG");
    const dials: (() => void)[] = [];
    const slow: Connection = {
      ...connection,
      openOwn: async (to, events) => {
        await new Promise<void>((resolve) => dials.push(resolve));
        return connection.openOwn(to, events);
      },
    };
    const subscriber = new Subscriber(
      slow,
      () => {},
      () => {},
    );
    const refused = expect(subscriber.add("news")).rejects.toThrow("was not open within 5 s");
    expect(timers.map(({ ms }) => ms)).toEqual([5000]);
    timers[0]!.fire();
    await refused;
    dials[0]!();
    await settled();
    expect(lines.map(({ isOpen }) => isOpen)).toEqual([false]);
    // It tries again by itself.
    timers[1]!.fire();
    expect(dials).toHaveLength(2);
    dials[1]!();
    await settled();
    expect(lines.map(({ isOpen }) => isOpen)).toEqual([false, true]);
    subscriber.close();
    expect(lines.map(({ isOpen }) => isOpen)).toEqual([false, false]);
  }));

describe("who a server is", () => {
  const INFO = "redis_version:7.2.0\r\nrun_id:abc\r\nrole:master\r\nconnected_slaves:3\r\n";
  const serverSaying = (settings: unknown): Connection =>
    ({
      primaries: () => {
        const command = async ([name]: readonly string[]): Promise<unknown> =>
          name === "INFO" ? INFO : name === "TIME" ? ["1", "0"] : settings;
        return Promise.resolve([{ address: "", command }]);
      },
      keyPrefix: "",
    }) as unknown as Connection;

  test.each([
    ["as pairs in a row", ["min-replicas-to-write", "2"], 2],
    ["as a map", new Map([["min-replicas-to-write", "2"]]), 2],
    ["as an object", { "min-replicas-to-write": "2" }, 2],
    ["not at all", null, undefined],
    ["in no known way", "none", undefined],
  ])("is reported with its settings %s", async (_, settings, minReplicas) => {
    expect(await identify(serverSaying(settings))).toMatchObject({
      version: "7.2.0",
      runId: "abc",
      role: "master",
      replicas: 3,
      minReplicas,
    });
  });
});

test("a URL in the place of a client is refused with the call that takes one, and is not repeated", () => {
  expect(() => connectionOf("redis://:secret@localhost")).toThrow(/got a text\. To open a URL use connect\(url\)$/u);
});
