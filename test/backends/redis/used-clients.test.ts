/**
 * What is asked of a client that the user brought, with clients that are made up: how each kind sends scripts and commands, where a
 * connection of our own leads and how it is made, and what counts as down, broken and back.
 */
import { EventEmitter } from "node:events";
import { describe, expect, test } from "vitest";
import type { Connection, OwnConnectionEvents } from "../../../src/backends/redis/connection.ts";
import { connectionOf } from "../../../src/backends/redis/clients/choose.ts";
import { gatherer, type Gathered, type Stream } from "../../../src/backends/redis/clients/gather.ts";
import { type Emitter, listen } from "../../../src/backends/redis/clients/listeners.ts";
import { slotOf } from "../../../src/backends/redis/keys.ts";

type Call = readonly unknown[];

/** A connection of our own, and what was heard and asked of it. */
class Own extends EventEmitter {
  status = "connect";
  isOpen = true;
  readonly calls: Call[] = [];
  #note =
    (what: string) =>
    (...args: unknown[]): Promise<unknown> => {
      this.calls.push([what, ...args.filter((arg) => typeof arg !== "function")]);
      return Promise.resolve("OK");
    };
  readonly connect = this.#note("connect");
  readonly call = this.#note("call");
  readonly sendCommand = this.#note("sendCommand");
  readonly subscribe = this.#note("subscribe");
  readonly unsubscribe = this.#note("unsubscribe");
  readonly ssubscribe = this.#note("ssubscribe");
  readonly sunsubscribe = this.#note("sunsubscribe");
  readonly sSubscribe = this.#note("ssubscribe");
  readonly sUnsubscribe = this.#note("sunsubscribe");
  readonly disconnect = this.#note("disconnect");
  readonly destroy = this.#note("destroy");
  readonly unref = this.#note("unref");
}

/** Every other member of a client is a call that is noted. */
class Client extends EventEmitter {
  readonly calls: Call[] = [];
  readonly own: Own = new Own();
  reply: unknown = "OK";
  made: unknown;
  protected answer(...call: Call): Promise<unknown> {
    this.calls.push(call);
    return this.reply instanceof Error ? Promise.reject(this.reply) : Promise.resolve(this.reply);
  }
  duplicate(options: unknown): Own {
    this.made = options;
    return this.own;
  }
}

function events(): OwnConnectionEvents & { readonly heard: Call[] } {
  const heard: Call[] = [];
  return { heard, message: (...words) => heard.push(words), ended: () => heard.push(["ended"]) };
}

class Ioredis extends Client {
  status = "connecting";
  readonly isCluster: boolean = false;
  readonly options: Record<string, unknown>;
  constructor(options: Record<string, unknown> = {}) {
    super();
    this.options = options;
  }
  pipeline(): void {}
  evalsha(...args: unknown[]): Promise<unknown> {
    return this.answer("evalsha", ...args);
  }
  eval(...args: unknown[]): Promise<unknown> {
    return this.answer("eval", ...args);
  }
  call(...args: unknown[]): Promise<unknown> {
    return this.answer("call", ...args);
  }
}

class IoredisCluster extends Ioredis {
  override readonly isCluster: boolean = true;
  readonly slots: (readonly string[] | undefined)[] = [];
  known: Ioredis[] = [];
  readonly roles: unknown[] = [];
  nodes(role?: string): Ioredis[] {
    this.roles.push(role);
    return this.known;
  }
}

/** Where the numbers of a reply have become texts. */
const TEXTS = ["1", ["-12", "123456789012", ["5"]], "1234567890123", "a1", "1.5", null, 7];
const NUMBERS = [1, [-12, 123_456_789_012, [5]], "1234567890123", "a1", "1.5", null, 7];

/** All ways to run a script. */
async function runAll(connection: Connection): Promise<unknown[]> {
  return [
    await connection.evalsha("sha", ["k"], ["a", "b"]),
    await connection.evalshaOn("sha", "k", undefined, "a", undefined),
    await connection.evalshaOn("sha", "k", undefined, "a", "b"),
    await connection.evalshaOn("sha", "k", "k2", "a", undefined),
    await connection.evalshaOn("sha", "k", "k2", "a", "b"),
    await connection.eval("return 1", ["k", "k2"], ["a"]),
  ];
}

describe("ioredis", () => {
  test("sends scripts with their keys counted, and gives back what the server said", async () => {
    const client = new Ioredis();
    client.reply = TEXTS;
    expect(await runAll(connectionOf(client))).toEqual(Array(6).fill(TEXTS));
    expect(client.calls).toEqual([
      ["evalsha", "sha", 1, "k", "a", "b"],
      ["evalsha", "sha", "1", "k", "a"],
      ["evalsha", "sha", "1", "k", "a", "b"],
      ["evalsha", "sha", "2", "k", "k2", "a"],
      ["evalsha", "sha", "2", "k", "k2", "a", "b"],
      ["eval", "return 1", 2, "k", "k2", "a"],
    ]);
  });

  test.each([{ stringNumbers: true }, { redisOptions: { stringNumbers: true } }])(
    "reads short numbers that the client made texts of, with %j",
    async (options) => {
      const client = new Ioredis(options);
      client.reply = TEXTS;
      const connection = connectionOf(client);
      expect(await runAll(connection)).toEqual(Array(6).fill(NUMBERS));
      expect([connection.topology, connection.keyPrefix, connection.nodeOf("k")]).toEqual(["standalone", "", ""]);
    },
  );

  test.each([
    [{}, "standalone", ""],
    [{ sentinels: [] }, "standalone", ""],
    [{ sentinels: [{}], keyPrefix: "a:", redisOptions: { keyPrefix: "b:" } }, "sentinel", "a:"],
    [{ redisOptions: { keyPrefix: "b:" } }, "standalone", "b:"],
  ])("knows by the options %j that it is %s, and its prefix", (options, topology, prefix) => {
    expect(connectionOf(new Ioredis(options))).toMatchObject({ topology, keyPrefix: prefix });
  });

  test("asks its one server by its own commands", async () => {
    const client = new Ioredis({ host: "h", port: 1 });
    const [primary, more] = await connectionOf(client).primaries();
    expect([primary!.address, more]).toEqual(["", undefined]);
    await primary!.command(["SCRIPT", "LOAD", "x"]);
    expect(client.calls).toEqual([["call", "SCRIPT", "LOAD", "x"]]);
  });

  test("is down once it was connected and is not, is back with each later connection, and broken with each end", () => {
    const client = new Ioredis();
    const connection = connectionOf(client);
    let back = 0;
    const stop = connection.onReconnect(() => back++);
    expect(connection.isDown()).toBe(false);
    client.emit("ready");
    expect([back, connection.breaks()]).toEqual([0, 0]);
    client.status = "ready";
    expect(connection.isDown()).toBe(false);
    client.status = "reconnecting";
    client.emit("close");
    expect([connection.isDown(), connection.breaks(), back]).toEqual([true, 1, 0]);
    client.emit("ready");
    client.emit("ready");
    expect([connection.breaks(), back]).toEqual([1, 2]);
    stop();
    expect(client.eventNames()).toEqual([]);
    // One that is connected already: its next connection is another one.
    client.status = "ready";
    connection.onReconnect(() => back++);
    client.emit("ready");
    expect(back).toBe(3);
  });

  test("copies itself for a connection of our own, with one socket, no tries of its own and no limits but ours", async () => {
    const client = new Ioredis({ host: "h" });
    const heard = events();
    client.own.on("error", () => {});
    const own = await connectionOf(client).openOwn("", heard);
    const { sentinelRetryStrategy, ...made } = client.made as Record<string, unknown>;
    expect((sentinelRetryStrategy as () => unknown)()).toBe(null);
    expect(made).toEqual({
      keyPrefix: "",
      stringNumbers: false,
      lazyConnect: true,
      enableOfflineQueue: true,
      enableAutoPipelining: false,
      readOnly: false,
      autoResubscribe: false,
      autoResendUnfulfilledCommands: false,
      maxRetriesPerRequest: null,
      retryStrategy: null,
      sentinelCommandTimeout: 2000,
      reconnectOnError: null,
      failoverDetector: false,
      commandTimeout: undefined,
      socketTimeout: undefined,
      blockingTimeout: undefined,
      connectionName: "holdfast",
    });
    expect(client.own.listenerCount("error")).toBe(2);
    expect(own.isOpen).toBe(false);
    client.own.status = "ready";
    expect(own.isOpen).toBe(true);
    client.own.emit("message", "c", "text");
    client.own.emit("smessage", "s", "text");
    await own.subscribe(["a", "b"]);
    await own.subscribeSharded("a");
    await own.unsubscribe("a");
    await own.unsubscribe("b", true);
    expect(await own.send([["PING"], ["SET", "k"]])).toEqual(["OK", "OK"]);
    client.own.emit("close");
    expect(own.isOpen).toBe(false);
    own.close();
    expect(heard.heard).toEqual([["c", "text"], ["s", "text"], ["ended"]]);
    expect(client.own.calls).toEqual([
      ["connect"],
      ["subscribe", "a", "b"],
      ["ssubscribe", "a"],
      ["unsubscribe", "a"],
      ["unsubscribe", "b"],
      ["sunsubscribe", "b"],
      ["call", "PING"],
      ["call", "SET", "k"],
      ["disconnect"],
    ]);
  });
});

describe("ioredis in a Cluster", () => {
  function cluster(keyPrefix?: string) {
    const client = new IoredisCluster(keyPrefix === undefined ? {} : { keyPrefix });
    const [a, b] = [new Ioredis({ host: "a", port: 1, ...client.options }), new Ioredis({ host: "b", port: 2 })];
    client.known = [a, b];
    client.slots[slotOf(`${keyPrefix ?? ""}k1`)] = ["a:1", "b:2"];
    return { client, a, b, connection: connectionOf(client) };
  }

  test("a script with several keys goes to the node itself, with the prefix that only the Cluster would put there", async () => {
    for (const prefix of [undefined, "app:"]) {
      const { client, a, connection } = cluster(prefix);
      expect([connection.nodeOf("k1"), connection.nodeOf("other")]).toEqual(["a:1", ""]);
      await connection.evalsha("sha", ["k1", "k2"], ["x"]);
      // A node that has the prefix puts it there by itself.
      expect([a.calls, client.calls]).toEqual([[["evalsha", "sha", 2, "k1", "k2", "x"]], []]);
      Object.assign(a.options, { keyPrefix: undefined });
      await connection.evalsha("sha", ["k1", "k2"], ["x"]);
      const full = ["k1", "k2"].map((key) => `${prefix ?? ""}${key}`);
      expect(a.calls[1]).toEqual(["evalsha", "sha", 2, ...full, "x"]);
      // Where the slot is, the client does not know: it may find out.
      await connection.evalsha("sha", ["other", "k2"], ["x"]);
      expect(client.calls).toEqual([["evalsha", "sha", 2, "other", "k2", "x"]]);
    }
  });

  test("what the node refuses goes the way of the Cluster, except where the caller can do better", async () => {
    const { client, a, connection } = cluster();
    for (const [text, again] of [
      ["TRYAGAIN half moved", 0],
      ["NOSCRIPT none", 0],
      ["MOVED 5 b:2", 1],
      ["a NOSCRIPT", 1],
    ] as const) {
      client.calls.length = 0;
      a.reply = new Error(text);
      const answer = await connection.evalsha("sha", ["k1", "k2"], []).catch((error: unknown) => error);
      expect([client.calls.length, answer]).toEqual([again, again === 1 ? "OK" : a.reply]);
    }
  });

  test("each primary is asked for itself", async () => {
    const { client, a, b, connection } = cluster();
    const primaries = await connection.primaries();
    expect([primaries.map(({ address }) => address), client.roles]).toEqual([["a:1", "b:2"], ["master"]]);
    await primaries[1]!.command(["INFO"]);
    expect([a.calls, b.calls]).toEqual([[], [["call", "INFO"]]]);
  });

  test("a connection of our own is a copy of the node's, and of any primary's where none is named or known", async () => {
    const { client, a, b, connection } = cluster();
    await connection.openOwn("b:2", events());
    expect([a.made, client.calls, client.roles.at(-1)]).toEqual([undefined, [], undefined]);
    expect(b.made).toMatchObject({ connectionName: "holdfast" });
    expect(b.made).not.toHaveProperty("port");
    client.known = [a];
    await connection.openOwn("", events());
    expect(client.roles.at(-1)).toBe("master");
    expect(a.made).not.toHaveProperty("port");
    await connection.openOwn("c:7", events());
    expect(a.made).toMatchObject({ host: "c", port: 7 });
  });

  test("a Cluster that has not been used yet is asked first, and one without nodes has none", async () => {
    const { client, connection } = cluster();
    client.known = [];
    await expect(connection.openOwn("", events())).rejects.toThrow("no node of the cluster is known");
    expect(client.calls).toEqual([["call", "PING"]]);
  });

  test("a node that is there twice is watched once", () => {
    const { client, a, connection } = cluster();
    let back = 0;
    const stop = connection.onReconnect(() => back++);
    client.emit("+node", a);
    expect(back).toBe(1);
    a.emit("ready");
    a.emit("ready");
    expect(back).toBe(2);
    client.emit("-node", new Ioredis());
    expect(connection.breaks()).toBe(1);
    stop();
    expect([a.eventNames(), client.eventNames()]).toEqual([[], []]);
  });
});

class NodeRedis extends Client {
  readonly isOpen = true;
  isReady = false;
  readonly _keyPrefix = undefined;
  readonly options = { socket: { host: "h", socketTimeout: 5, reconnectStrategy: 5 } };
  sendCommand(...args: unknown[]): Promise<unknown> {
    return this.answer(...args);
  }
  destroy(): void {}
  multi(): void {}
  withCommandOptions(): void {}
}

class NodeRedisCluster extends NodeRedis {
  masters: { readonly address: string }[] = [{ address: "a:1" }, { address: "b:2" }];
  readonly slots: ({ readonly master: { readonly address: string } } | undefined)[] = [];
  readonly clients = new Map(["a:1", "b:2"].map((address) => [address, new NodeRedis()]));
  nodeClient({ address }: { readonly address: string }): NodeRedis {
    return this.clients.get(address)!;
  }
}

class NodeRedisSentinel extends NodeRedis {
  readonly primary: NodeRedis = new NodeRedis();
  getSentinelNode(): void {}
  _execute<T>(readOnly: boolean, work: (primary: NodeRedis) => Promise<T>): Promise<T> {
    this.calls.push(["_execute", readOnly]);
    return work(this.primary);
  }
}

describe("node-redis", () => {
  const PLAIN = { typeMapping: {} };
  const SCRIPTS = [
    ["EVALSHA", "sha", "1", "k", "a", "b"],
    ["EVALSHA", "sha", "1", "k", "a"],
    ["EVALSHA", "sha", "1", "k", "a", "b"],
    ["EVALSHA", "sha", "2", "k", "k2", "a"],
    ["EVALSHA", "sha", "2", "k", "k2", "a", "b"],
    ["EVAL", "return 1", "2", "k", "k2", "a"],
  ];

  test("sends scripts and commands as each kind wants them, and never to a replica", async () => {
    const one = new NodeRedis();
    expect(await runAll(connectionOf(one))).toEqual(Array(6).fill("OK"));
    expect(one.calls).toEqual(SCRIPTS.map((args) => [args, PLAIN]));
    const cluster = new NodeRedisCluster();
    expect(await runAll(connectionOf(cluster))).toEqual(Array(6).fill("OK"));
    expect(cluster.calls).toEqual(SCRIPTS.map((args) => ["k", false, args, PLAIN]));
    const sentinel = new NodeRedisSentinel();
    expect(await runAll(connectionOf(sentinel))).toEqual(Array(6).fill("OK"));
    expect(sentinel.primary.calls).toEqual(SCRIPTS.map((args) => [args, PLAIN]));
    expect(sentinel.calls).toEqual(Array(6).fill(["_execute", false]));
    expect([one, cluster, sentinel].map((client) => connectionOf(client).topology)).toEqual([
      "standalone",
      "cluster",
      "sentinel",
    ]);
  });

  test("asks its one server, or each primary of a Cluster for itself", async () => {
    const one = new NodeRedis();
    const [only, more] = await connectionOf(one).primaries();
    expect([only!.address, more]).toEqual(["", undefined]);
    await only!.command(["INFO"]);
    expect(one.calls).toEqual([[["INFO"], PLAIN]]);
    const cluster = new NodeRedisCluster();
    cluster.slots[slotOf("k")] = { master: { address: "b:2" } };
    const connection = connectionOf(cluster);
    const primaries = await connection.primaries();
    expect(primaries.map(({ address }) => address)).toEqual(["a:1", "b:2"]);
    await primaries[1]!.command(["INFO"]);
    expect([cluster.clients.get("a:1")!.calls, cluster.clients.get("b:2")!.calls]).toEqual([[], [[["INFO"], PLAIN]]]);
    expect([connection.nodeOf("k"), connection.nodeOf("other"), connectionOf(one).nodeOf("k")]).toEqual([
      "b:2",
      "",
      "",
    ]);
  });

  test.each([
    ["ready", new NodeRedis()],
    ["topology-change", new NodeRedisSentinel()],
    ["node-ready", new NodeRedisCluster()],
  ])("is down once it was ready and is not, and back as its kind says it (%s)", (event, client) => {
    const connection = connectionOf(client);
    let back = 0;
    const stop = connection.onReconnect(() => back++);
    for (const each of ["ready", "topology-change", "node-ready"]) client.emit(each);
    expect([client.eventNames(), back, connection.isDown()]).toEqual([[event], 1, false]);
    client.isReady = true;
    expect(connection.isDown()).toBe(false);
    client.isReady = false;
    expect([connection.isDown(), connection.breaks()]).toEqual([true, 0]);
    stop();
    expect(client.eventNames()).toEqual([]);
  });

  test("copies itself for a connection of our own, with one socket, no tries of its own and no limits but ours", async () => {
    const client = new NodeRedis();
    const heard = events();
    const own = await connectionOf(client).openOwn("", heard);
    expect(client.made).toEqual({
      name: "holdfast",
      disableOfflineQueue: false,
      commandsQueueMaxLength: undefined,
      pingInterval: undefined,
      clientSideCache: undefined,
      commandOptions: PLAIN,
      socket: { host: "h", reconnectStrategy: false, socketTimeout: undefined },
    });
    await own.subscribe(["a", "b"]);
    await own.subscribeSharded("a");
    await own.unsubscribe("a");
    await own.unsubscribe("b", true);
    expect(await own.send([["PING"], ["SET", "k"]])).toEqual(["OK", "OK"]);
    expect(own.isOpen).toBe(true);
    own.close();
    own.close();
    expect([own.isOpen, heard.heard]).toEqual([false, [["ended"]]]);
    expect(client.own.calls).toEqual([
      ["connect"],
      ["unref"],
      ["subscribe", ["a", "b"]],
      ["ssubscribe", "a"],
      ["unsubscribe", "a"],
      ["unsubscribe", "b"],
      ["sunsubscribe", "b"],
      ["sendCommand", ["PING"]],
      ["sendCommand", ["SET", "k"]],
      ["destroy"],
    ]);
  });

  test("what is heard on it comes with its channel, and what is refused when it has ended is no answer", async () => {
    const client = new NodeRedis();
    const heard = events();
    let listener: ((text: string, channel: string) => void) | undefined;
    const hears = (_: unknown, given: (text: string, channel: string) => void): Promise<unknown> => {
      listener = given;
      return Promise.resolve();
    };
    const refused = new Error("no");
    Object.assign(client.own, { subscribe: hears, sSubscribe: hears, sendCommand: () => Promise.reject(refused) });
    const own = await connectionOf(client).openOwn("", heard);
    await own.subscribe(["a"]);
    listener!("text", "a");
    await own.subscribeSharded("s");
    listener!("more", "s");
    expect(heard.heard).toEqual([
      ["a", "text"],
      ["s", "more"],
    ]);
    expect(await own.send([["GET"]])).toEqual([refused]);
    client.own.isOpen = false;
    await expect(own.send([["GET"]])).rejects.toBe(refused);
    own.close();
    expect(client.own.calls.some(([what]) => what === "destroy")).toBe(false);
  });

  test("behind sentinels it is a copy of the primary's, and in a Cluster of the node's, or of any where none is known", async () => {
    const sentinel = new NodeRedisSentinel();
    await connectionOf(sentinel).openOwn("", events());
    expect([sentinel.calls, sentinel.primary.made]).toEqual([
      [["_execute", false]],
      expect.objectContaining({ name: "holdfast" }),
    ]);
    const cluster = new NodeRedisCluster();
    const [a, b] = ["a:1", "b:2"].map((address) => cluster.clients.get(address)!) as [NodeRedis, NodeRedis];
    const connection = connectionOf(cluster);
    const socketOf = (client: NodeRedis): unknown => (client.made as { socket?: object } | undefined)?.socket;
    await connection.openOwn("b:2", events());
    const same = { host: "h", reconnectStrategy: false, socketTimeout: undefined };
    expect([socketOf(a), socketOf(b)]).toEqual([undefined, same]);
    cluster.masters = [{ address: "a:1" }];
    await connection.openOwn("", events());
    expect(socketOf(a)).toEqual(same);
    await connection.openOwn("::1:7", events());
    expect(socketOf(a)).toEqual({ ...same, host: "::1", port: 7 });
    cluster.masters = [];
    await expect(connection.openOwn("", events())).rejects.toThrow("no node of the cluster is known");
  });
});

describe("what is no client of ours is refused, and why", () => {
  const named = { sendCommand: () => {}, isOpen: true, on: () => {} };
  test.each([
    [null, "ioredis (5 or 6) or node-redis"],
    [5, "ioredis (5 or 6) or node-redis"],
    [{ ...named, isOpen: 1 }, "ioredis (5 or 6) or node-redis"],
    [{ status: "ready", evalsha: () => {} }, "ioredis (5 or 6) or node-redis"],
    [{ status: "ready", pipeline: () => {} }, "ioredis (5 or 6) or node-redis"],
    [{ status: 5, pipeline: () => {}, evalsha: () => {} }, "ioredis (5 or 6) or node-redis"],
    [{ execute: () => {}, totalClients: 1 }, "got a pool (createClientPool)"],
    [{ mode: "subscriber" }, "got one in subscriber mode"],
    [{ isPubSubActive: true, options: { RESP: 2 } }, "got one in subscriber mode"],
  ])("%#", (client, why) => {
    expect(() => connectionOf(client)).toThrow(why);
  });

  test("a client that may subscribe and run commands at once is none of these", () => {
    for (const change of [{ isPubSubActive: true }, { isPubSubActive: true, options: { RESP: 3 } }, { mode: "normal" }])
      expect(connectionOf(Object.assign(new NodeRedis(), change)).topology).toBe("standalone");
    const pool = { execute: () => {}, totalClients: "1" };
    expect(() => connectionOf(pool)).not.toThrow("pool");
  });
});

test("one listener is on a client, however many listen; each hears each event, and the last one takes it off", () => {
  const emitter = new EventEmitter();
  const client = emitter as typeof emitter & Emitter;
  const heard: string[] = [];
  const same = (what: unknown): void => void heard.push(String(what));
  const stops = [listen(client, "a", same), listen(client, "a", same), listen(client, "b", same)];
  expect([client.listenerCount("a"), client.listenerCount("b")]).toEqual([1, 1]);
  client.emit("a", "x");
  expect(heard).toEqual(["x", "x"]);
  stops[0]!();
  stops[0]!();
  client.emit("a", "y");
  expect(heard).toEqual(["x", "x", "y"]);
  stops[1]!();
  expect([client.listenerCount("a"), client.listenerCount("b")]).toEqual([0, 1]);
  const again = listen(client, "a", same);
  // One that has stopped takes nothing off that another put there.
  stops[1]!();
  client.emit("a", "z");
  expect([heard.at(-1), client.listenerCount("a")]).toEqual(["z", 1]);
  again();
  stops[2]!();
  expect(client.eventNames()).toEqual([]);
});

describe("commands of one turn go together", () => {
  /** Which of 40 commands of one turn were sent by which write. */
  function client(change: Partial<Gathered> = {}) {
    const done: string[] = [];
    let corked = 0;
    const stream: Stream = {
      get writableCorked() {
        return corked;
      },
      cork: () => (corked++, void done.push("cork")),
      uncork: () => (corked--, void done.push("uncork")),
    };
    return { done, gathered: { status: "ready", commandQueue: { length: 1 }, stream, ...change } satisfies Gathered };
  }
  const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

  test("sixteen at most, while another is under way, and the next turn anew", async () => {
    const { done, gathered } = client();
    const gather = gatherer(gathered);
    for (let i = 0; i < 16; i++) gather();
    expect(done).toEqual(["cork"]);
    gather();
    expect(done).toEqual(["cork", "uncork", "cork"]);
    await turn();
    expect(done).toEqual(["cork", "uncork", "cork", "uncork"]);
    for (let i = 0; i < 16; i++) gather();
    await turn();
    expect(done.slice(4)).toEqual(["cork", "uncork"]);
  });

  test.each([
    ["no other is under way", { commandQueue: { length: 0 } }],
    ["it is not known whether one is", { commandQueue: undefined }],
    ["there is no connection", { stream: undefined }],
    ["its stream cannot", { stream: { uncork: () => {} } }],
    ["others hold it back", { stream: { writableCorked: 1, cork: () => expect.fail(), uncork: () => expect.fail() } }],
  ])("not where %s", async (_, change) => {
    const { done, gathered } = client(change as Partial<Gathered>);
    const gather = gatherer(gathered);
    gather();
    gather();
    await turn();
    expect(done).toEqual([]);
  });

  test("a stream that took the place of another within the turn waits for nothing", async () => {
    const { done, gathered } = client();
    const gather = gatherer(gathered);
    gather();
    const other = client();
    Object.assign(gathered, { stream: other.gathered.stream });
    gather();
    await turn();
    expect([done, other.done]).toEqual([["cork", "uncork"], []]);
  });
});
