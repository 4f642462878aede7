import { createHash } from "node:crypto";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import express from "express";
import "../fixed-seed.ts";
import fc from "fast-check";
import Fastify, { type FastifyRequest } from "fastify";
import pg from "pg";
import { Redis } from "ioredis";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";

import { LockLostError } from "../../src/contract/errors.ts";
import { fileMarks } from "../../src/fence/file/index.ts";
import { admittedFence, expressGuard, fastifyGuard, fencedFetch, fetchGuard } from "../../src/fence/http/index.ts";
import { fenceFor, FenceRejectedError, type MarkStore, MAX_FENCE, memoryMarks } from "../../src/fence/index.ts";
import { migrateFences, postgresMarks, withFence } from "../../src/fence/postgres/index.ts";
import { fenceKey, redisMarks } from "../../src/fence/redis/index.ts";
import { type PostgresServer, startPostgres } from "../../src/lab/servers/postgres.ts";
import { type RedisServer, startRedis } from "../../src/lab/servers/redis.ts";
import { rejectionsOf } from "./rejections.ts";
import { greatest, race, writers } from "./writers.ts";

const BEYOND_DOUBLES = 2n ** 53n + 1n;
const closers: (() => unknown)[] = [];

afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});

const at = (fence: bigint, name = "invoice:42"): { name: string; fence: bigint } => ({ name, fence });

/** A server with `PUT /invoices/:id`, guarded by lock "invoice:<id>"; it answers with the fence that it was let in with. */
type Host = (marks: MarkStore, ceiling?: bigint) => Promise<string>;

async function listen(server: Server): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  closers.push(() => new Promise((resolve) => server.close(resolve)));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const hosts: Record<string, Host> = {
  express: (marks, ceiling) => {
    const app = express();
    const guard = expressGuard<express.Request<{ id: string }>>({
      marks,
      ceiling,
      lock: ({ params }) => `invoice:${params.id}`,
    });
    app.put("/invoices/:id", guard, (request, response) => {
      response.send(String(admittedFence(request).fence));
    });
    app.use(((error: Error, _request, response, _next) => {
      response.status(500).send(error.message);
    }) satisfies express.ErrorRequestHandler);
    return listen(createServer(app));
  },
  fastify: async (marks, ceiling) => {
    const app = Fastify();
    const guard = fastifyGuard<FastifyRequest<{ Params: { id: string } }>>({
      marks,
      ceiling,
      lock: ({ params }) => `invoice:${params.id}`,
    });
    app.put<{ Params: { id: string } }>("/invoices/:id", { preHandler: guard }, async (request) =>
      String(admittedFence(request).fence),
    );
    await app.listen({ host: "127.0.0.1", port: 0 });
    closers.push(() => app.close());
    return `http://127.0.0.1:${(app.server.address() as AddressInfo).port}`;
  },
  "a fetch-style handler": (marks, ceiling) => {
    const lock = ({ url }: Request): string => `invoice:${new URL(url).pathname.split("/")[2]}`;
    const handler = fetchGuard({ marks, lock, ceiling }, (_request, { fence }) => new Response(String(fence)));
    const serve = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
      const headers = new Headers();
      for (const [name, value] of Object.entries(request.headers)) headers.set(name, String(value));
      const asked = new Request(`http://127.0.0.1${request.url}`, { method: request.method ?? "GET", headers });
      const answer = await handler(asked).catch((error: Error) => new Response(error.message, { status: 500 }));
      response.writeHead(answer.status, Object.fromEntries(answer.headers)).end(await answer.text());
    };
    return listen(createServer((request, response) => void serve(request, response)));
  },
};

describe.each(Object.keys(hosts))("the guard in front of %s", (name) => {
  const open = (marks: MarkStore = memoryMarks(), ceiling?: bigint): Promise<string> =>
    (hosts[name] as Host)(marks, ceiling);
  const put = (url: string, header?: string): Promise<Response> =>
    fetch(`${url}/invoices/42`, { method: "PUT", headers: header === undefined ? {} : { "Fencing-Token": header } });

  test("admits a rising fence and an equal one, and answers a lower one with 412 and the current fence", async () => {
    const url = await open();
    expect(await (await put(url, "invoice%3A42=34")).text()).toBe("34");
    expect(await (await put(url, "invoice%3A42=34")).text()).toBe("34");
    const refused = await put(url, "invoice%3A42=33");
    expect(refused.status).toBe(412);
    expect(refused.headers.get("fencing-token")).toBe("invoice%3A42=34");
    expect(refused.headers.get("content-type")).toContain("application/problem+json");
    expect(await refused.json()).toMatchObject({
      status: 412,
      code: "ERR_FENCE_REJECTED",
      lock: "invoice:42",
      current: "34",
      offered: "33",
    });
    expect((await put(url, "invoice%3A42=35")).status).toBe(200);
  });

  test("answers a malformed header with 400", async () => {
    const url = await open();
    for (const header of ["34", "invoice%3A42=", "invoice%3A42=-1", "invoice%3A42=1e9", "%zz=1", "a=1,a=1"]) {
      expect((await put(url, header)).status).toBe(400);
    }
  });

  test("answers a missing header, or one about other locks only, with 428", async () => {
    const url = await open();
    expect((await put(url)).status).toBe(428);
    const other = await put(url, "invoice%3A43=34");
    expect(other.status).toBe(428);
    expect(await other.json()).toMatchObject({ detail: expect.stringContaining('"invoice:42"') });
  });

  test("lets nothing through when the marks cannot be reached", async () => {
    const url = await open({ advance: () => Promise.reject(new Error("no route")) });
    const answer = await put(url, "invoice%3A42=34");
    expect(answer.status).toBe(500);
    expect(await answer.text()).toContain("no route");
  });

  test("is not closed by one huge fence: what no lease can have by now leaves no mark (S175)", async () => {
    const url = await open();
    const tomorrow = BigInt(Date.now() + 25 * 3_600_000) * 1000n;
    for (const huge of [MAX_FENCE, 2n ** 62n, tomorrow]) {
      const answer = await put(url, `invoice%3A42=${huge}`);
      expect(answer.status).toBe(400);
      expect(await answer.json()).toMatchObject({ title: "Implausible fence" });
    }
    // As Redis, quorums and files count, on a machine whose clock is an hour ahead; and as ZooKeeper does.
    const clockAhead = BigInt(Date.now() + 3_600_000) * 1000n;
    const election = (100_000n << 32n) + 5n;
    for (const fence of [election, clockAhead]) expect((await put(url, `invoice%3A42=${fence}`)).status).toBe(200);
  });

  test("speaks with fencedFetch, exactly above 2^53, which throws the refusal", async () => {
    const url = await open(memoryMarks(), MAX_FENCE);
    const send = (fence: bigint): Promise<Response> => fencedFetch(at(fence))(`${url}/invoices/42`, { method: "PUT" });
    expect(await (await send(BEYOND_DOUBLES)).text()).toBe("9007199254740993");
    const events = await rejectionsOf(async () => {
      const error: unknown = await send(BEYOND_DOUBLES - 1n).catch((reason: unknown) => reason);
      expect(error).toBeInstanceOf(FenceRejectedError);
      expect(error).toMatchObject({ lock: "invoice:42", current: BEYOND_DOUBLES, offered: BEYOND_DOUBLES - 1n });
    });
    expect(events).toEqual([
      { guard: "http", name: "invoice:42", current: BEYOND_DOUBLES, offered: BEYOND_DOUBLES - 1n },
    ]);
  });
});

describe("a guard over several locks", () => {
  test("wants the fence of each, and refuses when one is old", async () => {
    const lock = ["account:1", "account:2"];
    const handler = fetchGuard({ marks: memoryMarks(), lock }, (request, fenced) => {
      expect(() => admittedFence({})).toThrow(TypeError);
      expect(fenceFor(admittedFence(request), "account:2")).toEqual(at(9n, "account:2"));
      expect(() => fenced.fence).toThrow(/several/);
      return new Response(fenced.name);
    });
    const send = (...fences: [string, bigint][]): Promise<Response> => {
      const lease = { name: "", fence: 0n, fences: new Map(fences) };
      return fencedFetch(lease, (input, init) => handler(new Request(input, init)))("http://x/", { method: "PUT" });
    };
    expect(await (await send(["account:1", 3n], ["account:2", 9n])).text()).toBe("account:1, account:2");
    expect((await send(["account:1", 3n])).status).toBe(428);
    await expect(send(["account:1", 4n], ["account:2", 8n])).rejects.toMatchObject({ lock: "account:2", current: 9n });
    await expect(
      fetchGuard({ marks: memoryMarks(), lock: [] }, () => new Response())(new Request("http://x/")),
    ).rejects.toThrow(TypeError);
  });
});

describe("fencedFetch", () => {
  test("keeps the request's own headers, of a Request too, and adds the fence", async () => {
    const seen: Headers[] = [];
    const send = fencedFetch(at(7n), async (_input, init) => {
      seen.push(new Headers(init?.headers));
      return new Response();
    });
    await send("http://x/", { headers: { a: "1" } });
    await send(new Request("http://x/", { headers: { a: "2" } }));
    expect(seen.map((headers) => Object.fromEntries(headers))).toEqual([
      { a: "1", "fencing-token": "invoice%3A42=7" },
      { a: "2", "fencing-token": "invoice%3A42=7" },
    ]);
  });

  test("sends nothing once the lease has ended", async () => {
    let sent = 0;
    const lease = {
      ...at(7n),
      assertHeld: () => {
        throw new LockLostError("invoice:42", 7n, "the test says so");
      },
    };
    const send = fencedFetch(lease, async () => new Response(String(sent++)));
    await expect(send("http://x/")).rejects.toBeInstanceOf(LockLostError);
    expect(sent).toBe(0);
  });

  test("gives back a 412 that is not about fences, or not about a greater one", async () => {
    const answers = [
      {},
      { "fencing-token": "invoice%3A42=6" },
      { "fencing-token": "other=99" },
      { "fencing-token": "?" },
    ];
    for (const headers of answers) {
      const send = fencedFetch(at(7n), async () => new Response("changed", { status: 412, headers }));
      expect(await (await send("http://x/")).text()).toBe("changed");
    }
  });
});

describe("the marks behind a guard", () => {
  let postgres: PostgresServer;
  let redis: RedisServer;
  let pool: pg.Pool;
  let client: Redis;
  let folder: string;

  beforeAll(async () => {
    [postgres, redis] = await Promise.all([
      startPostgres(),
      startRedis({ args: ["--appendonly", "yes", "--appendfsync", "always"] }),
    ]);
    pool = new pg.Pool({ connectionString: postgres.url, max: 5 });
    pool.on("error", () => {}); // A restart ends idle connections.
    client = new Redis(redis.url).on("error", () => {});
    folder = await mkdtemp(join(tmpdir(), "holdfast-marks-"));
    await migrateFences(pool);
  });

  afterAll(async () => {
    client?.disconnect();
    await pool?.end();
    await Promise.all([postgres?.stop(), redis?.stop()]);
    await rm(folder, { recursive: true });
  });

  const stores: Record<string, () => MarkStore> = {
    file: () => fileMarks(folder),
    redis: () => redisMarks(client),
    postgres: () => postgresMarks(pool),
  };

  const admits = async (marks: MarkStore, fenced: { name: string; fence: bigint }): Promise<number> => {
    const handler = fetchGuard({ marks, lock: fenced.name }, () => new Response());
    const header = { "fencing-token": `${encodeURIComponent(fenced.name)}=${fenced.fence}` };
    return (await handler(new Request("http://x/", { headers: header }))).status;
  };

  test.each(Object.keys(stores))("survive a restart of guard and store: %s", async (name) => {
    const open = stores[name] as () => MarkStore;
    expect(await admits(open(), at(34n))).toBe(200);
    await Promise.all([postgres.restart(), redis.restart()]);
    expect(await admits(open(), at(33n))).toBe(412);
    expect(await admits(open(), at(34n))).toBe(200);
  });

  const resets: Record<string, (lock: string) => Promise<unknown>> = {
    file: (lock) => rm(join(folder, createHash("sha256").update(lock).digest("hex")), { recursive: true }),
    redis: (lock) => client.del(fenceKey(lock)),
    postgres: (lock) => pool.query("delete from holdfast.fence_mark where lock = $1", [lock]),
  };

  test.each(Object.keys(stores))(
    "closed by a huge fence are opened by the reset of the docs: %s (S175)",
    async (name) => {
      const marks = (stores[name] as () => MarkStore)();
      const lock = "closed:{1}";
      await marks.advance(lock, MAX_FENCE);
      expect(await admits(marks, at(34n, lock))).toBe(412);
      await resets[name]?.(lock);
      expect(await admits(marks, at(34n, lock))).toBe(200);
      expect(await admits(marks, at(33n, lock))).toBe(412);
    },
  );

  test.each([...Object.keys(stores), "memory"])("never admit an older fence after a newer one: %s", async (name) => {
    const marks = stores[name]?.() ?? memoryMarks();
    let run = 0;
    await fc.assert(
      fc.asyncProperty(writers, async (all) => {
        const lock = `run:${run++}`;
        let highest = 0n;
        const accepted = await race(all, async ({ fence }) => {
          const highestBefore = highest;
          const current = await marks.advance(lock, fence);
          if (current > fence) throw new FenceRejectedError(lock, current, fence);
          // Whatever had been admitted before this one was asked for is not greater.
          expect(fence >= highestBefore).toBe(true);
          highest = fence > highest ? fence : highest;
        });
        expect(greatest(accepted)).toBe(greatest(all.map(({ fence }) => fence)));
      }),
      { numRuns: 15 },
    );
  });

  test('with "in-transaction" the handler checks where it writes, and its refusal becomes the answer', async () => {
    await pool.query("create table invoice (id int primary key, total int); insert into invoice values (42, 0)");
    const lock = "in-transaction";
    const write = (request: Request): Promise<Response> =>
      withFence(pool, fenceFor(admittedFence(request), lock), async (transaction) => {
        await transaction.query("update invoice set total = total + 1");
        return new Response();
      });
    const handler = fetchGuard({ marks: "in-transaction", lock }, write);
    const send = (fence: bigint): Promise<Response> =>
      fencedFetch(at(fence, lock), (input, init) => handler(new Request(input, init)))("http://x/", { method: "PUT" });
    expect((await send(34n)).status).toBe(200);
    await expect(send(33n)).rejects.toMatchObject({ current: 34n, offered: 33n });
    expect((await pool.query("select total from invoice")).rows).toEqual([{ total: 1 }]);
  });

  test("a refusal thrown by an Express or Fastify handler is answered as 412 by the framework itself", async () => {
    const app = Fastify();
    app.put("/", () => Promise.reject(new FenceRejectedError("a", 34n, 33n)));
    await app.listen({ host: "127.0.0.1", port: 0 });
    closers.push(() => app.close());
    const other = express().put("/", () => Promise.reject(new FenceRejectedError("a", 34n, 33n)));
    other.set("env", "test"); // Keeps Express from printing the error.
    const urls = [`http://127.0.0.1:${(app.server.address() as AddressInfo).port}`, await listen(createServer(other))];
    for (const url of urls) {
      await expect(fencedFetch(at(33n, "a"))(url, { method: "PUT" })).rejects.toMatchObject({ current: 34n });
    }
  });
});
