/** `idempotent()` in each framework: a request is done once, and no request gets what was made for another. */
import { once } from "node:events";
import { request as httpRequest } from "node:http";
import { afterEach, describe, expect, test } from "vitest";
import { memory, memoryStore } from "../../src/backends/memory/index.ts";
import type { Locks } from "../../src/core/api.ts";
import { createLocks } from "../../src/core/locks.ts";
import { outcomeName } from "../../src/adapters/http/names.ts";
import { faulty } from "../../src/testing/faulty.ts";
import { gate } from "../core/scripted.ts";
import { type App, type Host, HOSTS, type Result } from "./hosts.ts";

const closers: (() => Promise<unknown>)[] = [];

afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close();
});

function someLocks(): Locks {
  const locks = createLocks(memory());
  closers.push(() => locks.close());
  return locks;
}

interface Sent {
  readonly key?: string | undefined;
  readonly user?: string;
  readonly body?: unknown;
  readonly method?: string;
  readonly path?: string;
}

function send(
  url: string,
  { key = "k1", user = "ada", body = { n: 1 }, method = "POST", path = "/orders/7" }: Sent = {},
): Promise<Response> {
  const headers: Record<string, string> = { "x-user": user, "content-type": "application/json" };
  if (key !== "") headers["idempotency-key"] = key;
  return fetch(`${url}${path}`, { method, headers, ...(method === "GET" ? {} : { body: JSON.stringify(body) }) });
}

describe.each(Object.entries(HOSTS))("idempotent() in %s", (_name, start) => {
  const host = async (app: Omit<App, "idempotent"> & Partial<App>): Promise<Host> => {
    const started = await start({ idempotent: {}, ...app });
    closers.push(() => started.close());
    return started;
  };
  /** Counts its runs, and answers with their number unless a result is given. */
  const counting = (results: readonly Result[] = []): { runs: number; handle: App["handle"] } => {
    const self = {
      runs: 0,
      handle: async (): Promise<Result> => {
        const given = results[self.runs];
        self.runs += 1;
        return (
          given ?? { status: 201, headers: { "content-type": "text/plain; charset=utf-8" }, body: `run ${self.runs}` }
        );
      },
    };
    return self;
  };

  test("the next request gets status, body and safe headers, and says that it is a replay; the handler has the body", async () => {
    const bodies: unknown[] = [];
    const { url } = await host({
      locks: someLocks(),
      early: { "x-request-id": "one" },
      handle: async ({ lease, body }) => {
        bodies.push(body);
        const headers = {
          "content-type": "application/json",
          location: "/orders/7",
          "set-cookie": "session=ada",
          "x-fence": String(lease?.fence),
          connection: "X-Hop, close",
          "x-hop": "of this connection",
        };
        return { status: 201, headers, body: '{"é":"1"}' };
      },
    });
    const first = await send(url);
    expect([first.status, await first.text(), first.headers.get("set-cookie")]).toEqual([
      201,
      '{"é":"1"}',
      "session=ada",
    ]);
    expect(first.headers.get("idempotency-replayed")).toBeNull();
    expect(first.headers.get("x-hop")).toBe("of this connection");
    const again = await send(url);
    expect(again.headers.get("x-hop")).toBeNull();
    expect([again.status, await again.text(), again.headers.get("set-cookie")]).toEqual([201, '{"é":"1"}', null]);
    for (const name of ["location", "x-fence", "x-request-id"])
      expect(again.headers.get(name)).toBe(first.headers.get(name));
    expect(again.headers.get("content-type")).toContain("application/json");
    expect(again.headers.get("idempotency-replayed")).toBe("true");
    expect(bodies).toEqual([{ n: 1 }]);
  });

  test("another user, another key, and a safe method are requests of their own", async () => {
    const counter = counting();
    const { url } = await host({ locks: someLocks(), handle: counter.handle });
    const bodies = [];
    for (const sent of [
      {},
      { user: "ben" },
      { key: "k2" },
      { method: "GET", key: "" },
      { method: "GET", key: "k1" },
      {},
    ]) {
      bodies.push(await (await send(url, sent)).text());
    }
    expect(bodies).toEqual(["run 1", "run 2", "run 3", "run 4", "run 5", "run 1"]);
  });

  test("another body, path or method under the same key is a 422; no key, or one that is none, a 400; no user, an error", async () => {
    const counter = counting();
    const { url } = await host({ locks: someLocks(), handle: counter.handle });
    expect((await send(url)).status).toBe(201);
    for (const other of [{ body: { n: 2 } }, { path: "/orders/8" }, { path: "/orders/7?x=1" }, { method: "PUT" }]) {
      const refused = await send(url, other);
      expect([refused.status, await refused.json()]).toMatchObject([422, { code: "ERR_IDEMPOTENCY_KEY_REUSED" }]);
    }
    for (const key of ["", " ", "x".repeat(256)]) expect((await send(url, { key })).status).toBe(400);
    const anonymous = await send(url, { user: "" });
    expect(anonymous.status).toBe(500);
    expect(await anonymous.text()).toContain("whose request it is");
    expect(counter.runs).toBe(1);
    const free = await host({ locks: someLocks(), handle: counter.handle, idempotent: { required: false } });
    expect(await (await send(free.url, { key: "" })).text()).toBe("run 2");
    expect(await (await send(free.url, { key: "" })).text()).toBe("run 3");
  });

  test("while it runs, the same key is a 409 with Retry-After; with `wait` it gets the response", async () => {
    const [locks, began, held] = [someLocks(), gate(), gate()];
    const handle = async (): Promise<Result> => {
      began.open();
      await held.opened;
      return { body: "once" };
    };
    const [{ url }, waits] = [
      await host({ locks, handle, idempotent: { retryAfter: 2500 } }),
      await host({ locks, handle, idempotent: { wait: "1m" } }),
    ];
    const first = send(url);
    await began.opened;
    const second = await send(url);
    expect([second.status, second.headers.get("retry-after")]).toEqual([409, "3"]);
    const third = send(waits.url);
    held.open();
    expect(await Promise.all([first, third].map(async (sent) => (await sent).text()))).toEqual(["once", "once"]);
    expect((await third).headers.get("idempotency-replayed")).toBe("true");
  });

  test("5xx, and what says to try again, is delivered and not kept; other errors are", async () => {
    const results: Result[] = [
      { status: 500, body: "broken" },
      { status: 503, body: "down" },
      { status: 429, body: "slow" },
      { status: 401, headers: { "www-authenticate": "Bearer" }, body: "who?" },
      { status: 400, headers: { "retry-after": "1" }, body: "later" },
      { status: 404, body: "none" },
    ];
    const counter = counting(results);
    const { url } = await host({ locks: someLocks(), handle: counter.handle });
    for (const { status, body } of [...results, results[5]!, results[5]!]) {
      const response = await send(url);
      expect([response.status, await response.text()]).toEqual([status, body]);
    }
    expect(counter.runs).toBe(6);
  });

  test("a handler that throws is not kept, and neither is a busy lock behind it", async () => {
    const locks = someLocks();
    let runs = 0;
    const { url } = await host({
      locks,
      locked: {},
      handle: async () => {
        runs += 1;
        if (runs === 1) throw new Error("out of paper");
        return { body: "done" };
      },
    });
    expect((await send(url)).status).toBe(500);
    const lease = await locks.acquire("order:7");
    expect((await send(url)).status).toBe(409);
    await lease.release();
    const [third, fourth] = [await send(url), await send(url)];
    expect([third.status, await third.text(), await fourth.text(), runs]).toEqual([200, "done", "done", 2]);
  });

  test("a stream or too long a body is sent, and not done again: the next request learns it", async () => {
    const rest = gate();
    const counter = counting([
      {
        parts: (async function* () {
          yield "a";
          await rest.opened;
          yield "b";
        })(),
      },
      { body: "x".repeat(70_000) },
      { status: 200, headers: { "content-type": "application/octet-stream" }, body: Buffer.from([0, 255, 128]) },
      { status: 204 },
    ]);
    const locks = someLocks();
    const { url } = await host({ locks, handle: counter.handle });
    const streamed = await send(url, { key: "stream" });
    rest.open();
    expect(await streamed.text()).toBe("ab");
    const name = outcomeName("ada", "stream");
    // Where its end is not held back, it is kept a little later.
    await expect.poll(async () => (await locks.outcome(name)).state, { timeout: 60_000 }).toBe("done");
    const large = await send(url, { key: "large" });
    expect((await large.text()).length).toBe(70_000);
    for (const key of ["stream", "large"]) {
      const again = await send(url, { key });
      expect([again.status, again.headers.get("retry-after"), await again.json()]).toMatchObject([
        409,
        null,
        { code: "ERR_LOCK_OUTCOME" },
      ]);
    }
    for (const replayed of [null, "true"]) {
      const bytes = await send(url, { key: "bytes" });
      expect([...new Uint8Array(await bytes.arrayBuffer())]).toEqual([0, 255, 128]);
      expect(bytes.headers.get("idempotency-replayed")).toBe(replayed);
    }
    for (const replayed of [null, "true"]) {
      const empty = await send(url, { key: "empty" });
      expect([empty.status, await empty.text(), empty.headers.get("idempotency-replayed")]).toEqual([
        204,
        "",
        replayed,
      ]);
    }
    expect(counter.runs).toBe(4);
  });

  test("what a client that has gone asked for is done once, and kept for its next try", async () => {
    const [locks, began, held] = [someLocks(), gate(), gate()];
    let runs = 0;
    const { url, sockets } = await host({
      locks,
      idempotent: { grace: Infinity },
      handle: async () => {
        runs += 1;
        began.open();
        await held.opened;
        return { body: "done" };
      },
    });
    const headers = { "x-user": "ada", "idempotency-key": "k1", "content-type": "application/json" };
    const client = httpRequest(`${url}/orders/7`, { method: "POST", headers }).on("error", () => undefined);
    client.end(JSON.stringify({ n: 1 }));
    await began.opened;
    const closed = once(sockets[0]!, "close");
    client.destroy();
    await closed;
    expect((await send(url)).status).toBe(409);
    held.open();
    const state = async (): Promise<string> => (await locks.outcome(outcomeName("ada", "k1"))).state;
    await expect.poll(state, { timeout: 60_000 }).toBe("done");
    const again = await send(url);
    expect([again.status, await again.text(), runs]).toEqual([200, "done", 1]);
  });

  test("a response whose lease was lost meanwhile is a 503, and not kept", async () => {
    const locks = someLocks();
    let runs = 0;
    const { url } = await host({
      locks,
      handle: async ({ lease }) => {
        runs += 1;
        if (runs === 1) await locks.forceRelease(lease!.name, { fence: lease!.fence, reason: "test" });
        return { body: `run ${runs}` };
      },
    });
    const [lost, next] = [await send(url), await send(url)];
    expect([lost.status, await lost.json()]).toMatchObject([503, { code: "ERR_LOCK_LOST" }]);
    expect([next.status, await next.text()]).toEqual([200, "run 2"]);
  });

  // What else is not believed: record.test.ts.
  test.each([
    [
      "a header that would be two",
      { v: 1, fingerprint: "x", status: 200, headers: [["x", "1\r\nset-cookie: a=b"]], text: "" },
    ],
    ["nothing", undefined],
  ])("an outcome that is %s is not believed, and nothing runs", async (_what, value) => {
    const [locks, counter] = [someLocks(), counting()];
    await locks.once(outcomeName("ada", "k1"), { keep: "1h" }, () => value);
    const { url } = await host({ locks, handle: counter.handle });
    const response = await send(url);
    expect([response.status, await response.json(), counter.runs]).toMatchObject([
      409,
      { code: "ERR_LOCK_OUTCOME" },
      0,
    ]);
  });

  test("a response whose lease was held is sent, also where the store does not say whether it is kept", async () => {
    const backend = faulty(memory());
    const locks = createLocks(backend);
    closers.push(() => locks.close());
    const { url } = await host({
      locks,
      idempotent: { ttl: "1s" },
      handle: async () => {
        backend.faults.always("release", { fault: "request-lost" });
        return { status: 201, body: "done" };
      },
    });
    const sent = await send(url);
    expect([sent.status, await sent.text()]).toEqual([201, "done"]);
    backend.faults.heal();
  });

  test("keys, scopes and bodies cannot be read in the store's names", async () => {
    const store = memoryStore();
    const locks = createLocks(memory({ store }));
    closers.push(() => locks.close());
    const [began, held] = [gate(), gate()];
    const { url } = await host({
      locks,
      handle: async ({ lease }) => {
        began.open();
        await held.opened;
        return { body: lease!.name };
      },
    });
    const sent = send(url, { key: "secret-key", user: "ada@example.org" });
    await began.opened;
    const names = (await locks.query()).held.map(({ name }) => name);
    expect(names).toEqual([expect.stringMatching(/^idempotency:[\w-]{43}$/)]);
    held.open();
    await sent;
  });
});
