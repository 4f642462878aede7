/** Sentinels and servers that accept connections and say nothing, or nonsense: no caller waits for ever, and no socket is left. */
import { createServer, type Server } from "node:net";
import * as ioredis5 from "ioredis";
import * as ioredis6 from "ioredis6";
import * as redis6 from "redis";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { type SentinelLab, startSentinels } from "../../../src/lab/servers/sentinels.ts";
import { redis, type RedisClient } from "../../../src/backends/redis/index.ts";
import { type Opened, openIoredis } from "../../../src/backends/redis/clients/open-ioredis.ts";
import { openNodeRedis } from "../../../src/backends/redis/clients/open-node-redis.ts";
import { openBackend } from "../../../src/backends/redis/open.ts";
import { NO_PRIMARY } from "../../../src/backends/redis/errors.ts";
import { type Endpoint, parseUrl } from "../../../src/backends/redis/url.ts";
import { PASSWORD } from "../../login.ts";
import { claimOf, Clients, eventually, granted, hurry, UNHURRIED } from "./lab.ts";

const opens: readonly (readonly [string, (endpoint: Endpoint) => Opened])[] = [
  ["ioredis 5", (endpoint) => openIoredis(ioredis5 as never, endpoint)],
  ["ioredis 6", (endpoint) => openIoredis(ioredis6 as never, endpoint)],
  ["node-redis 6", (endpoint) => openNodeRedis(redis6 as never, endpoint)],
];

/** Accepts, and answers everything with what `says` makes of it; counts who is there. */
async function listening(testClients: Clients, says: (asked: Buffer) => string | Buffer | undefined): Promise<Server> {
  const server = createServer((socket) => {
    socket.on("error", () => {});
    socket.on("data", (asked) => {
      const said = says(asked);
      if (said !== undefined) socket.write(said);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  testClients.later(() => server.close());
  return server;
}

const portOf = (server: Server): number => (server.address() as { port: number }).port;
const connections = (server: Server): Promise<number> =>
  new Promise((resolve, reject) => server.getConnections((error, count) => (error ? reject(error) : resolve(count))));

describe.concurrent("S164: behind a sentinel that", () => {
  const kinds = [
    ["says nothing", (): undefined => undefined],
    ["answers nonsense", (): string => "nonsense\r\n"],
    ["repeats what it hears", (asked: Buffer): Buffer => asked],
  ] as const;
  for (const [name, open] of opens) {
    for (const [kind, says] of kinds) {
      test(`${kind}, closing settles and leaves no socket, with ${name}`, async () => {
        await using testClients = new Clients();
        const server = await listening(testClients, says);
        const opened = open(parseUrl(`redis+sentinel://127.0.0.1:${portOf(server)}/service`));
        let settled = false;
        const connecting = opened.connect().catch(() => {});
        await eventually("it is asked", async () => ((await connections(server)) > 0 ? true : undefined));
        await opened.close();
        void connecting.then(() => (settled = true));
        await eventually("nothing is left", async () => ((await connections(server)) === 0 ? true : undefined));
        // What was tried again would show here.
        await eventually("it has given up", () => settled || undefined);
        expect(await connections(server)).toBe(0);
      });
    }
  }
});

describe.concurrent("a server that repeats what it hears", () => {
  test.each(["ioredis", "redis"])("S164: is not taken for Redis, with %s", async (client) => {
    await using testClients = new Clients();
    const server = await listening(testClients, (asked) => asked);
    await expect(openBackend(`redis://127.0.0.1:${portOf(server)}?client=${client}`)).rejects.toMatchObject({
      name: "LockBackendError",
      message: expect.stringContaining("nothing usable answers") as string,
    });
    await eventually("nothing is left", async () => ((await connections(server)) === 0 ? true : undefined));
  });
});

/** Answers every command, as a sentinel that names this port as the primary's. It says of itself that it is a replica. */
function replies(port: number, asked: Buffer): string {
  const commands = [...asked.toString("latin1").matchAll(/\*\d+\r\n\$\d+\r\n(\w+)\r\n(?:\$\d+\r\n([\w-]+))?/gu)];
  const many = (...words: string[]): string =>
    `*${words.length}\r\n${words.map((word) => `$${word.length}\r\n${word}\r\n`).join("")}`;
  return commands
    .map(([, command = "", what = ""]) => {
      if (command.toLowerCase() === "info") return "$23\r\nrole:slave\r\nloading:0\r\n\r\n";
      if (command.toLowerCase() !== "sentinel") return "+OK\r\n";
      if (what === "get-master-addr-by-name") return many("127.0.0.1", String(port));
      if (what.toLowerCase() === "master") return many("ip", "127.0.0.1", "port", String(port), "flags", "master");
      return "*0\r\n";
    })
    .join("");
}

describe.concurrent("sentinels that name a replica as the primary", () => {
  test.each(opens.slice(0, 2))("S147: are reported, with %s", async (_name, open) => {
    await using testClients = new Clients();
    const server: Server = await listening(testClients, (asked) => replies(portOf(server), asked));
    const opened = open(parseUrl(`redis+sentinel://127.0.0.1:${portOf(server)}/service`));
    testClients.later(() => opened.close());
    const said: string[] = [];
    opened.onError((error) => void said.push(error.message));
    const connecting = opened.connect().then(
      () => "connected",
      () => "failed",
    );
    await eventually("it is said", () => said.some((text) => text === NO_PRIMARY) || undefined);
    // It goes on asking, so nothing is final before the caller ends it.
    await opened.close();
    expect(await connecting).toBe("failed");
  });
});

describe("real sentinels", () => {
  let lab: SentinelLab;
  beforeAll(async () => {
    lab = await startSentinels(UNHURRIED);
  });
  afterAll(() => lab.stop());

  const url = (password: string, { sentinels, service } = lab): string => {
    const hosts = sentinels.map(({ port }) => `127.0.0.1:${port}`).join(",");
    return `redis+sentinel://:${password}@${hosts}/${service}?sentinelPassword=${PASSWORD}`;
  };

  test.each(opens.slice(0, 2))(
    "S147: one behind another that names a replica is asked, with %s",
    async (_name, open) => {
      await using testClients = new Clients();
      const wrong: Server = await listening(testClients, (asked) => replies(portOf(wrong), asked));
      const right = await listening(testClients, (asked) => replies(lab.primary.port, asked));
      const hosts = [wrong, right].map((server) => `127.0.0.1:${portOf(server)}`).join(",");
      const opened = open(parseUrl(`redis+sentinel://:${PASSWORD}@${hosts}/service`));
      testClients.later(() => opened.close());
      await opened.connect();
      await granted(testClients.own(redis(opened.client as RedisClient)), claimOf());
    },
  );

  test("S147: node-redis, which believes every sentinel, gets the error that the primary is none", async () => {
    await using testClients = new Clients();
    const wrong = await listening(testClients, (asked) => replies(lab.replicas[0]!.port, asked));
    const there = `redis+sentinel://:${PASSWORD}@127.0.0.1:${portOf(wrong)}/service?client=redis`;
    await expect(openBackend(there)).rejects.toMatchObject({
      fatal: false,
      message: expect.stringContaining(NO_PRIMARY) as string,
    });
  });

  test.each(["ioredis", "redis"])(
    "S147: a Redis in the place of a sentinel is said to be none, with %s",
    async (client) => {
      const { port } = lab.primary;
      const wrong = `redis+sentinel://:${PASSWORD}@127.0.0.1:${port}/service?sentinelPassword=${PASSWORD}&client=${client}`;
      await expect(openBackend(wrong)).rejects.toMatchObject({
        fatal: true,
        message: expect.stringContaining("no sentinel") as string,
      });
    },
  );

  test.each(["ioredis", "redis"])("S147: a wrong password for the primary is said at once, with %s", async (client) => {
    await expect(openBackend(`${url("wrong")}&client=${client}`)).rejects.toMatchObject({
      fatal: true,
      message: expect.stringContaining("refused the password") as string,
    });
  });

  test("S164: one of three that hangs keeps no client from connecting, nor from following a fail-over", async () => {
    await using testClients = new Clients();
    const start = async ([name, open]: (typeof opens)[0]): Promise<readonly [string, ReturnType<typeof redis>]> => {
      const opened = open(parseUrl(url(PASSWORD)));
      testClients.later(() => opened.close());
      await opened.connect();
      return [name, testClients.own(redis(opened.client as RedisClient))];
    };
    const before = await Promise.all(opens.map(start));
    const [hung, other] = lab.sentinels as [SentinelLab["primary"], SentinelLab["primary"]];
    hung.pause();
    try {
      const all = [...before, ...(await Promise.all(opens.map(start)))];
      for (const [, backend] of all) await granted(backend, claimOf());
      const address = (): Promise<string> => other.cli("SENTINEL", "get-master-addr-by-name", lab.service);
      const old = await address();
      await lab.primary.kill();
      await hurry({ ...lab, sentinels: lab.sentinels.slice(1) });
      await eventually("another is primary", async () => ((await address()) === old ? undefined : true));
      for (const [name, backend] of all) {
        await eventually(`${name} has found it`, () =>
          backend.attempt(claimOf()).then(
            (answer) => answer.granted || undefined,
            () => undefined,
          ),
        );
      }
    } finally {
      hung.resume();
    }
  });

  test("S164: a primary that hangs keeps no close() waiting", async () => {
    await using own = await startSentinels({ downAfterMs: 60_000 });
    own.primary.pause();
    try {
      await Promise.all(
        opens.map(async ([, open]) => {
          const opened = open(parseUrl(url(PASSWORD, own)));
          const connecting = opened.connect().catch(() => {});
          await opened.close();
          await connecting;
        }),
      );
    } finally {
      own.primary.resume();
    }
  });
});

describe("after a connect() that failed", () => {
  const absent = [
    "redis+sentinel://127.0.0.1:1/service",
    "redis+cluster://127.0.0.1:1,127.0.0.1:2",
    "redis://127.0.0.1:1",
  ];
  const libraries = ["ioredis", "redis"];
  const all = absent.flatMap((url) => libraries.map((client) => `${url}?client=${client}`));
  test.each(all)("S147: no timer keeps the process, and the words are not the library's own (%s)", async (url) => {
    const timers = new Set<NodeJS.Timeout>();
    const fired: number[] = [];
    const [set, clear] = [globalThis.setTimeout, globalThis.clearTimeout];
    vi.stubGlobal("setTimeout", (call: (...args: unknown[]) => void, ms = 0, ...args: unknown[]) => {
      const timer = set(() => {
        if (timers.delete(timer) && timer.hasRef()) fired.push(ms);
        call(...args);
      }, ms);
      // Short pauses come to their end.
      if (ms >= 2000) timers.add(timer);
      return timer;
    });
    vi.stubGlobal("clearTimeout", (timer: NodeJS.Timeout) => {
      timers.delete(timer);
      clear(timer);
    });
    try {
      const error = await openBackend(url).catch((known: unknown) => known as Error);
      expect((error as Error).message).toMatch(/nothing usable answers \((connect ECONNREFUSED|All the root nodes)/u);
      await eventually("all have ended", () => [...timers].every((timer) => !timer.hasRef()) || undefined);
      expect(fired, "timers that a caller had to wait for").toEqual([]);
    } finally {
      vi.unstubAllGlobals();
    }
  });
});
