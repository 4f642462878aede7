/** Sentinels and servers that accept connections and say nothing, or nonsense: nobody waits for ever, and no socket is left. */
import { createServer, type Server } from "node:net";
import * as ioredis5 from "ioredis";
import * as ioredis6 from "ioredis6";
import * as redis6 from "redis";
import * as redis5 from "redis5";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type SentinelLab, startSentinels } from "../../src/lab/servers/sentinels.ts";
import { redis, type RedisClient } from "../../src/redis/index.ts";
import { type Opened, openIoredis } from "../../src/redis/open-ioredis.ts";
import { openNodeRedis } from "../../src/redis/open-node-redis.ts";
import { openBackend } from "../../src/redis/open.ts";
import { type Endpoint, parseUrl } from "../../src/redis/url.ts";
import { PASSWORD } from "../login.ts";
import { claimOf, Desk, eventually, granted, hurry, UNHURRIED } from "./lab.ts";

const opens: readonly (readonly [string, (endpoint: Endpoint) => Opened])[] = [
  ["ioredis 5", (endpoint) => openIoredis(ioredis5 as never, endpoint)],
  ["ioredis 6", (endpoint) => openIoredis(ioredis6 as never, endpoint)],
  ["node-redis 5", (endpoint) => openNodeRedis(redis5 as never, endpoint)],
  ["node-redis 6", (endpoint) => openNodeRedis(redis6 as never, endpoint)],
];

/** Accepts, and answers everything with what `says` makes of it; counts who is there. */
async function listening(desk: Desk, says: (asked: Buffer) => string | Buffer | undefined): Promise<Server> {
  const server = createServer((socket) => {
    socket.on("error", () => {});
    socket.on("data", (asked) => {
      const said = says(asked);
      if (said !== undefined) socket.write(said);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  desk.later(() => server.close());
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
        await using desk = new Desk();
        const server = await listening(desk, says);
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
    await using desk = new Desk();
    const server = await listening(desk, (asked) => asked);
    await expect(openBackend(`redis://127.0.0.1:${portOf(server)}?client=${client}`)).rejects.toMatchObject({
      name: "LockBackendError",
      message: expect.stringContaining("nothing usable answers") as string,
    });
    await eventually("nothing is left", async () => ((await connections(server)) === 0 ? true : undefined));
  });
});

describe.concurrent("sentinels that name a replica as the primary", () => {
  /** Answers every command: a sentinel and the replica that it names are one here. */
  const replies = (port: number, asked: string): string => {
    const commands = [...asked.matchAll(/\*\d+\r\n\$\d+\r\n(\w+)\r\n(?:\$\d+\r\n([\w-]+))?/gu)];
    return commands
      .map(([, command = "", what]) => {
        if (command.toLowerCase() === "info") return "$23\r\nrole:slave\r\nloading:0\r\n\r\n";
        if (command.toLowerCase() !== "sentinel") return "+OK\r\n";
        const text = String(port);
        if (what === "get-master-addr-by-name") return `*2\r\n$9\r\n127.0.0.1\r\n$${text.length}\r\n${text}\r\n`;
        return "*0\r\n";
      })
      .join("");
  };

  test.each(opens.slice(0, 2))("S147: are told of, with %s", async (_name, open) => {
    await using desk = new Desk();
    const server: Server = await listening(desk, (asked) => replies(portOf(server), asked.toString("latin1")));
    const opened = open(parseUrl(`redis+sentinel://127.0.0.1:${portOf(server)}/service`));
    desk.later(() => opened.close());
    const said: string[] = [];
    opened.onError((error) => void said.push(error.message));
    void opened.connect().catch(() => {});
    await eventually(
      "it is said",
      () => said.some((text) => /name a primary that says that it is a replica/u.test(text)) || undefined,
    );
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

  test.each(["ioredis", "redis"])("S147: a wrong password for the primary is said at once, with %s", async (client) => {
    await expect(openBackend(`${url("wrong")}&client=${client}`)).rejects.toMatchObject({
      fatal: true,
      message: expect.stringContaining("refused the password") as string,
    });
  });

  test("S164: one of three that hangs keeps nobody from connecting, nor from following a fail-over", async () => {
    await using desk = new Desk();
    const start = async ([name, open]: (typeof opens)[0]): Promise<readonly [string, ReturnType<typeof redis>]> => {
      const opened = open(parseUrl(url(PASSWORD)));
      desk.later(() => opened.close());
      await opened.connect();
      return [name, desk.own(redis(opened.client as RedisClient))];
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
