/** The clients that a URL makes, with libraries that are made up: which options they get, and what their errors and their end come to. */
import { EventEmitter } from "node:events";
import { describe, expect, test, vi } from "vitest";
import { type Opened, openIoredis } from "../../../src/backends/redis/clients/open-ioredis.ts";
import { openNodeRedis } from "../../../src/backends/redis/clients/open-node-redis.ts";
import { NO_PRIMARY } from "../../../src/backends/redis/errors.ts";
import { parseUrl } from "../../../src/backends/redis/url.ts";

const PAUSES = [0, 1, 2, 3, 4, 5, 6, 7, 8, 100];

/** Options with their functions called, so that they can be compared. */
function plain(options: unknown): unknown {
  if (Array.isArray(options)) return options.map(plain);
  if (typeof options === "function") {
    const call = options as (what: unknown) => unknown;
    return options.length === 1 && /error/u.test(String(options))
      ? ["READONLY You can't write", "OOM READONLY"].map((text) => call(new Error(text)))
      : PAUSES.map(call);
  }
  if (typeof options !== "object" || options === null || Buffer.isBuffer(options)) return options;
  return Object.fromEntries(Object.entries(options).map(([name, value]) => [name, plain(value)]));
}

/** An emitter as the client of a library is, which throws where no listener is there for its errors. */
class Fake extends EventEmitter {
  readonly given: readonly unknown[];
  isOpen = true;
  disconnects = 0;
  destroys: () => unknown = () => undefined;
  connects: () => Promise<void> = () => Promise.resolve();
  socketTimeoutTimer: NodeJS.Timeout | undefined;
  connector: Record<string, unknown> | undefined;
  duplicate: ((...args: unknown[]) => Fake) | undefined;

  constructor(...given: unknown[]) {
    super();
    this.given = given;
  }

  connect(): Promise<void> {
    return this.connects();
  }

  disconnect(): void {
    this.disconnects++;
  }

  destroy(): unknown {
    this.isOpen = false;
    return this.destroys();
  }
}

const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Which errors a client reports, and whether there is another host to try. */
function reported(opened: Opened): [string, boolean][] {
  const heard: [string, boolean][] = [];
  opened.onError((error, final) => heard.push([error.message, final]));
  return heard;
}

const DOUBLED = [50, 100, 200, 400, 800, 1000, 1000, 1000, 1000, 1000];

describe("ioredis", () => {
  const COMMON = {
    username: undefined,
    password: undefined,
    connectTimeout: 5000,
    socketTimeout: 10_000,
    keepAlive: 10_000,
    connectionName: "holdfast",
    maxRetriesPerRequest: null,
    retryStrategy: DOUBLED,
    reconnectOnError: [true, false],
  };

  function made(url: string, prepare: (client: Fake) => void = () => {}) {
    const kinds: string[] = [];
    const make = (kind: string) =>
      class extends Fake {
        constructor(...given: unknown[]) {
          super(...given);
          kinds.push(kind);
          prepare(this);
        }
      };
    const library = { Redis: make("Redis"), Cluster: make("Cluster") };
    const opened = openIoredis(library as never, parseUrl(url));
    const client = opened.client as Fake;
    return { opened, client, made: [kinds, plain(client.given)] };
  }

  test.each([
    ["redis://h:1/3", { ...COMMON, db: 3, lazyConnect: true, host: "h", port: 1 }],
    [
      "rediss://me:pw@h?servername=s",
      {
        ...COMMON,
        db: 0,
        lazyConnect: true,
        host: "h",
        port: 6379,
        username: "me",
        password: "pw",
        tls: { servername: "s" },
      },
    ],
    ["redis+unix:///s?db=2", { ...COMMON, db: 2, lazyConnect: true, path: "/s" }],
    [
      "redis+sentinel://me:pw@a,b:2/svc/4?sentinelUser=su&sentinelPassword=sp",
      {
        ...COMMON,
        db: 4,
        lazyConnect: true,
        username: "me",
        password: "pw",
        sentinels: [
          { host: "a", port: 26_379 },
          { host: "b", port: 2 },
        ],
        name: "svc",
        sentinelUsername: "su",
        sentinelPassword: "sp",
        failoverDetector: true,
        sentinelCommandTimeout: 2000,
      },
    ],
    [
      "rediss+sentinel://a/svc",
      {
        ...COMMON,
        db: 0,
        lazyConnect: true,
        tls: {},
        sentinels: [{ host: "a", port: 26_379 }],
        name: "svc",
        sentinelUsername: undefined,
        sentinelPassword: undefined,
        enableTLSForSentinelMode: true,
        sentinelTLS: {},
        failoverDetector: true,
        sentinelCommandTimeout: 2000,
      },
    ],
  ])("%s", (url, options) => {
    expect(made(url).made).toEqual([["Redis"], [options]]);
  });

  test("a Cluster tries again for ever, at its own pace, and asks no random node whether it is ready", () => {
    expect(made("rediss+cluster://me:pw@a:1,b:2").made).toEqual([
      ["Cluster"],
      [
        [
          { host: "a", port: 1 },
          { host: "b", port: 2 },
        ],
        {
          lazyConnect: true,
          clusterRetryStrategy: DOUBLED,
          retryDelayOnFailover: 50,
          retryDelayOnClusterDown: 100,
          retryDelayOnTryAgain: 50,
          slotsRefreshTimeout: 2000,
          enableReadyCheck: false,
          redisOptions: { ...COMMON, username: "me", password: "pw", tls: {} },
        },
      ],
    ]);
  });

  test("what is reported as closed was refused on a connection beside it, of a node or of a client that asks it", () => {
    const { opened, client } = made("redis+cluster://a");
    const heard = reported(opened);
    client.emit("error", new Error("Connection is closed."));
    const node = new Fake();
    const [beside, given] = [new Fake(), { a: 1 }];
    node.duplicate = vi.fn<(...args: unknown[]) => Fake>(() => beside);
    const duplicate = node.duplicate;
    client.emit("+node", node);
    expect(node.duplicate(given)).toBe(beside);
    expect(duplicate).toHaveBeenCalledExactlyOnceWith(given);
    beside.emit("error", new Error("WRONGPASS"));
    client.emit("error", new Error("Connection is closed."));
    client.emit("error", new Error("another"));
    expect(heard).toEqual([
      ["Connection is closed.", true],
      ["WRONGPASS", true],
      ["another", true],
    ]);
    // One that cannot be copied is left alone.
    client.emit("+node", new Fake());
  });

  test("the timer of a silent connection ends with it, also on the clients of a Cluster", () => {
    const { client } = made("redis+cluster://a");
    const [node, beside] = [new Fake(), new Fake()];
    node.duplicate = () => beside;
    client.emit("+node", node);
    node.duplicate();
    const cleared = vi.spyOn(globalThis, "clearTimeout");
    const timers = [client, node, beside].map((each) => (each.socketTimeoutTimer = setTimeout(() => {}, 0)));
    for (const each of [client, node, beside]) each.emit("close");
    for (const timer of timers) expect(cleared).toHaveBeenCalledWith(timer);
    expect([client, node, beside].map((each) => each.socketTimeoutTimer)).toEqual([undefined, undefined, undefined]);
    cleared.mockRestore();
  });

  test("a connection that has ended is not waited for, and one that has not is", () => {
    const seen: unknown[] = [];
    const [over, open] = [{ closed: true }, { closed: false }];
    for (const stream of [over, open, undefined]) {
      const { client } = made("redis://h", (one) => {
        const connector = { stream, disconnect: () => seen.push(connector.stream) };
        one.connector = connector;
      });
      (client.connector as { disconnect(): void }).disconnect();
    }
    expect(seen).toEqual([undefined, open, undefined]);
  });

  /** A client behind sentinels. */
  function behind() {
    const asked: Fake[] = [];
    const calls: string[] = [];
    let fits = true;
    let look: () => Promise<string> = () => Promise.resolve("stream");
    const all = made("redis+sentinel://a,b/svc", (client) => {
      client.connector = {
        check: () => fits,
        connect: (...args: unknown[]) => (calls.push(`connect ${args.join()}`), look()),
        disconnect: () => calls.push("disconnect"),
        connectToSentinel: (...args: unknown[]) => {
          asked.push(new Fake(...args));
          return asked.at(-1);
        },
      };
    });
    const connector = all.client.connector as {
      check(info: object): boolean;
      connect(...args: unknown[]): Promise<string>;
      disconnect(): void;
      connectToSentinel(...args: unknown[]): Fake;
    };
    return {
      ...all,
      connector,
      asked,
      calls,
      misfit: () => (fits = false),
      looksFor: (next: () => Promise<string>) => (look = next),
    };
  }

  test("sentinels that are down are no error by themselves, and say why where all have failed; close() ends what still asks them", async () => {
    const { opened, client, connector, asked } = behind();
    const heard = reported(opened);
    const [one, two, three] = [1, 2, 3].map((at) => connector.connectToSentinel(at)) as [Fake, Fake, Fake];
    expect(asked.map(({ given }) => given)).toEqual([[1], [2], [3]]);
    one.emit("error", new Error("ECONNREFUSED"));
    expect(heard).toEqual([]);
    client.emit("error", new Error("Connection is closed."));
    expect(heard).toEqual([["ECONNREFUSED", true]]);
    two.emit("end");
    const timer = (three.socketTimeoutTimer = setTimeout(() => {}, 0));
    three.emit("close");
    expect([three.socketTimeoutTimer, timer.hasRef()]).toEqual([undefined, true]);
    await opened.close();
    expect([one, two, three, client].map(({ disconnects }) => disconnects)).toEqual([1, 0, 1, 1]);
    // One that comes later ends at once, because all is over.
    expect(connector.connectToSentinel(4).disconnects).toBe(1);
  });

  test("a fail-over that is announced while the primary is looked for does not end the client, and close() does", async () => {
    const { opened, connector, calls, looksFor } = behind();
    let found!: (stream: string) => void;
    looksFor(() => new Promise((resolve) => (found = resolve)));
    const looking = connector.connect(1, 2);
    connector.disconnect();
    expect(calls).toEqual(["connect 1,2"]);
    found("it");
    expect(await looking).toBe("it");
    connector.disconnect();
    expect(calls).toEqual(["connect 1,2", "disconnect"]);
    looksFor(() => Promise.reject(new Error("none")));
    await expect(connector.connect()).rejects.toThrow("none");
    connector.disconnect();
    looksFor(() => new Promise(() => {}));
    void connector.connect();
    connector.disconnect();
    await opened.close();
    connector.disconnect();
    expect(calls).toEqual(["connect 1,2", "disconnect", "connect ", "disconnect", "connect ", "disconnect"]);
  });

  test("a primary that is none is said each time, and is no reason to give up; only what fails otherwise ends the opening", async () => {
    const { opened, client, connector, misfit } = behind();
    const heard = reported(opened);
    expect([connector.check({ role: "master" }), heard]).toEqual([true, []]);
    client.connects = () => Promise.reject(new Error("Connection is closed."));
    await expect(opened.connect()).rejects.toThrow("Connection is closed.");
    misfit();
    expect(connector.check({ role: "slave" })).toBe(false);
    expect(heard).toEqual([[NO_PRIMARY, false]]);
    let state = "opening";
    void opened.connect().then(
      () => (state = "open"),
      () => (state = "failed"),
    );
    await settled();
    expect(state).toBe("opening");
    client.emit("ready");
    await settled();
    expect(state).toBe("open");
    const given = opened.connect().catch((error: unknown) => error);
    await opened.close();
    expect(await given).toMatchObject({ message: "Connection is closed." });
  });

  test("one whose connector is another is opened and closed all the same", async () => {
    for (const connector of [undefined, { disconnect: () => {} }]) {
      const { opened, client } = made("redis+sentinel://a/svc", (one) => (one.connector = connector));
      await opened.connect();
      await opened.close();
      expect(client.disconnects).toBe(1);
    }
  });
});

describe("node-redis", () => {
  const retries = DOUBLED;
  const SOCKET = { connectTimeout: 5000, reconnectStrategy: retries };
  const OWN = { database: 0, name: "holdfast", RESP: 2 };

  function made(url: string) {
    const kinds: string[] = [];
    const make = (kind: string) => (options: object) => (kinds.push(kind), new Fake(options));
    const library = {
      createClient: make("client"),
      createSentinel: make("sentinel"),
      createCluster: make("cluster"),
    };
    const opened = openNodeRedis(library as never, parseUrl(url));
    const client = opened.client as Fake;
    return { opened, client, made: [kinds, plain(client.given)] };
  }

  test.each([
    ["redis://h:1/3", "client", { ...OWN, database: 3, socket: { ...SOCKET, host: "h", port: 1 } }],
    [
      "rediss://me:pw@h?servername=s",
      "client",
      {
        ...OWN,
        username: "me",
        password: "pw",
        socket: { ...SOCKET, tls: true, servername: "s", host: "h", port: 6379 },
      },
    ],
    ["redis+unix:///s?db=2", "client", { ...OWN, database: 2, socket: { ...SOCKET, path: "/s" } }],
    [
      "redis+sentinel://me:pw@a,b:2/svc/4?sentinelUser=su&sentinelPassword=sp",
      "sentinel",
      {
        name: "svc",
        sentinelRootNodes: [
          { host: "a", port: 26_379 },
          { host: "b", port: 2 },
        ],
        nodeClientOptions: {
          ...OWN,
          database: 4,
          username: "me",
          password: "pw",
          socket: { ...SOCKET, socketTimeout: 10_000 },
          pingInterval: 3333,
        },
        sentinelClientOptions: {
          username: "su",
          password: "sp",
          socket: { ...SOCKET, socketTimeout: 2000 },
          pingInterval: 666,
        },
        passthroughClientErrorEvents: true,
        RESP: 2,
      },
    ],
    [
      "rediss+cluster://me:pw@a:1,b:2",
      "cluster",
      {
        rootNodes: [
          { socket: { host: "a", port: 1, tls: true, socketTimeout: 2000 } },
          { socket: { host: "b", port: 2, tls: true, socketTimeout: 2000 } },
        ],
        defaults: { username: "me", password: "pw", RESP: 2, socket: { ...SOCKET, tls: true } },
        minimizeConnections: true,
        RESP: 2,
      },
    ],
  ])("%s", (url, kind, options) => {
    expect(made(url).made).toEqual([[kind], [options]]);
  });

  test("an error is the last word where there is no other host, or where no host helps", () => {
    const refused = new Error("Master Client (a:1): WRONGPASS", { cause: new Error("WRONGPASS no") });
    const reports: unknown[] = [
      new Error("ECONNREFUSED"),
      "closed",
      refused,
      new Error("Master Client (a:1): ECONNRESET", { cause: new Error("ECONNRESET") }),
      new Error("Master Client (a:1): WRONGPASS", { cause: "WRONGPASS" }),
      new Error("Sentinel Client (a:1): WRONGPASS", { cause: new Error("WRONGPASS no") }),
      { message: "Master Client", cause: new Error("WRONGPASS no") },
    ];
    const words = (isLast: boolean): unknown => [
      ["ECONNREFUSED", isLast],
      ["closed", isLast],
      ["WRONGPASS no", true],
      ["Master Client (a:1): ECONNRESET", isLast],
      ["Master Client (a:1): WRONGPASS", isLast],
      ["Sentinel Client (a:1): WRONGPASS", isLast],
      ["[object Object]", isLast],
    ];
    for (const [url, isLast] of [
      ["redis://h", true],
      ["redis+unix:///s", true],
      ["redis+sentinel://a/svc", true],
      ["redis+sentinel://a,b/svc", false],
      ["redis+cluster://a,b", false],
    ] as const) {
      const { opened, client } = made(url);
      const [heard, also] = [reported(opened), reported(opened)];
      for (const report of reports) client.emit("error", report);
      expect([heard, also]).toEqual([words(isLast), words(isLast)]);
    }
  });

  test("close() ends what is open, waits a second for it at most, and nothing is tried again then", async () => {
    const { opened, client } = made("redis://h");
    await opened.connect();
    client.destroys = () => Promise.reject(new Error("not open"));
    await opened.close();
    expect(client.isOpen).toBe(false);
    client.destroys = () => {
      throw new Error("closed twice");
    };
    await opened.close();
    const again = (client.given[0] as { socket: { reconnectStrategy(times: number): unknown } }).socket;
    expect(again.reconnectStrategy(1)).toBe(false);
    const { opened: slow, client: one } = made("redis://h");
    let gone!: () => void;
    one.destroys = () => new Promise<void>((resolve) => (gone = resolve));
    let isClosed = false;
    const closing = slow.close().then(() => (isClosed = true));
    await settled();
    expect(isClosed).toBe(false);
    gone();
    await closing;
  });
});
