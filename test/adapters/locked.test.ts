/** `locked()` in each framework: one request at a time under a lock, and each learns when it was lost. */
import { once } from "node:events";
import { request as httpRequest } from "node:http";
import { setImmediate as turn } from "node:timers/promises";
import { Hono } from "hono";
import { afterEach, describe, expect, test } from "vitest";
import { idempotent, locked } from "../../src/adapters/hono/index.ts";
import { memory } from "../../src/backends/memory/index.ts";
import type { Duration } from "../../src/contract/duration.ts";
import { LockTimeoutError } from "../../src/contract/errors.ts";
import type { Lease, Locks } from "../../src/core/api.ts";
import { createLocks } from "../../src/core/locks.ts";
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

describe.each(Object.entries(HOSTS))("locked() in %s", (_name, start) => {
  const host = async (app: App): Promise<Host> => {
    const started = await start(app);
    closers.push(() => started.close());
    return started;
  };
  const post = (url: string, id = "7"): Promise<Response> => fetch(`${url}/orders/${id}`, { method: "POST" });

  test.each([
    [undefined, 409],
    [423, 423],
  ] as const)(
    "a busy lock is answered at once, with status %s as %i and Retry-After; another lock is free",
    async (status, expected) => {
      const [locks, held] = [someLocks(), gate()];
      const began = gate();
      const { url } = await host({
        locks,
        locked: { retryAfter: "3s", ...(status === undefined ? {} : { status }) },
        early: { "access-control-allow-origin": "*" },
        handle: async ({ lease }) => {
          began.open();
          if (lease?.name === "order:7") await held.opened;
          return { body: `${lease?.name} ${typeof lease?.fence}` };
        },
      });
      const first = post(url);
      await began.opened;
      const second = await post(url);
      expect(second.status).toBe(expected);
      expect(second.headers.get("retry-after")).toBe("3");
      expect(second.headers.get("content-type")).toContain("application/problem+json");
      expect(second.headers.get("access-control-allow-origin")).toBe("*");
      const said = await second.text();
      expect(JSON.parse(said)).toMatchObject({ status: expected, code: "ERR_LOCK_TIMEOUT" });
      expect(said).not.toContain("order:7");
      expect(await (await post(url, "8")).text()).toBe("order:8 bigint");
      held.open();
      expect(await (await first).text()).toBe("order:7 bigint");
    },
  );

  test("a client that has the answer finds the lock free, and `wait` queues", async () => {
    const locks = someLocks();
    const { url } = await host({ locks, locked: {}, handle: async () => ({ body: "done" }) });
    for (let i = 0; i < 20; i++) {
      const response = await post(url);
      expect([response.status, await response.text()]).toEqual([200, "done"]);
      expect(await locks.isHeld("order:7")).toBe(false);
    }
    let [now, most] = [0, 0];
    const queue = await host({
      locks,
      locked: { wait: "1m" },
      handle: async () => {
        most = Math.max(most, ++now);
        await turn();
        now -= 1;
        return { status: 201 };
      },
    });
    const all = await Promise.all(Array.from({ length: 8 }, () => post(queue.url)));
    expect(all.map(({ status }) => status)).toEqual(Array(8).fill(201));
    expect(most).toBe(1);
  });

  test("a handler may lock the same name again", async () => {
    const locks = someLocks();
    const { url } = await host({
      locks,
      locked: {},
      handle: async ({ lease }) => ({
        body: await locks.run("order:7", { wait: 0 }, ({ fence }) => String(fence === lease?.fence)),
      }),
    });
    expect(await (await post(url)).text()).toBe("true");
  });

  test("a handler whose client has gone works under the lock until its end", async () => {
    const [locks, held, began] = [someLocks(), gate(), gate()];
    let lease: Lease | undefined;
    const { url, sockets } = await host({
      locks,
      locked: { grace: Infinity },
      handle: async (given) => {
        lease = given.lease;
        began.open();
        await held.opened;
        return { body: "not heard" };
      },
    });
    const client = httpRequest(`${url}/orders/7`, { method: "POST" }).on("error", () => undefined);
    client.end();
    await began.opened;
    const closed = once(sockets[0]!, "close");
    client.destroy();
    await closed;
    for (let i = 0; i < 10; i++) await turn();
    expect(await locks.tryAcquire("order:7")).toBeNull();
    expect(lease?.remaining()).toBeGreaterThan(0);
    held.open();
    await (await locks.acquire("order:7", { wait: "1m" })).release();
  });

  test("a success after the lock was lost is a 503, and the signal has said it; an error stays what it is", async () => {
    const locks = someLocks();
    const lose = async ({ lease }: { lease: Lease | undefined }): Promise<string> => {
      await locks.forceRelease("order:7", { fence: lease!.fence, reason: "test" });
      return lease!.signal.aborted ? "aborted" : "not aborted";
    };
    const said: string[] = [];
    const results: Result[] = [
      { status: 201, headers: { "x-order": "7" }, body: "created" },
      { status: 404, body: "gone" },
    ];
    const { url } = await host({
      locks,
      locked: {},
      early: { "x-early": "yes" },
      handle: async (given) => {
        said.push(await lose(given));
        return results.shift()!;
      },
    });
    const [lost, notFound] = [await post(url), await post(url)];
    expect(said).toEqual(["aborted", "aborted"]);
    expect(lost.status).toBe(503);
    expect(lost.headers.get("retry-after")).toBe("1");
    expect([lost.headers.get("x-order"), lost.headers.get("x-early")]).toEqual([null, "yes"]);
    expect(await lost.json()).toMatchObject({ code: "ERR_LOCK_LOST" });
    expect([notFound.status, await notFound.text()]).toEqual([404, "gone"]);
  });

  test("a stream is sent as it comes, and its lock is held to its end; cut off where it was lost", async () => {
    const locks = someLocks();
    let next = gate();
    let lease: Lease | undefined;
    const { url } = await host({
      locks,
      locked: {},
      handle: async (given) => {
        lease = given.lease;
        const wait = next;
        return {
          parts: (async function* () {
            yield "one";
            await wait.opened;
            yield "two";
          })(),
        };
      },
    });
    const response = await post(url);
    const reader = response.body!.getReader();
    expect(Buffer.from((await reader.read()).value!).toString()).toBe("one");
    expect(await locks.isHeld("order:7")).toBe(true);
    next.open();
    expect(Buffer.from((await reader.read()).value!).toString()).toBe("two");
    expect((await reader.read()).done).toBe(true);
    expect(await locks.isHeld("order:7")).toBe(false);

    next = gate();
    const cut = await post(url);
    await locks.forceRelease("order:7", { fence: lease!.fence, reason: "test" });
    next.open();
    await expect(cut.text()).rejects.toThrow();
  });

  test("a client that leaves a stream does not keep its lock", async () => {
    const locks = someLocks();
    const never = gate();
    closers.push(async () => never.open());
    const { url } = await host({
      locks,
      locked: { grace: 0 },
      handle: async () => ({
        parts: (async function* () {
          yield "one";
          await never.opened;
        })(),
      }),
    });
    const controller = new AbortController();
    const response = await fetch(`${url}/orders/7`, { method: "POST", signal: controller.signal });
    await response.body!.getReader().read();
    controller.abort();
    await (await locks.acquire("order:7", { wait: "1m" })).release();
  });

  test("a client that leaves before its stream begins does not keep its lock", async () => {
    const [locks, began, ready, never] = [someLocks(), gate(), gate(), gate()];
    closers.push(async () => never.open());
    const { url, sockets } = await host({
      locks,
      locked: { grace: 0 },
      handle: async () => {
        began.open();
        await ready.opened;
        return {
          parts: (async function* () {
            yield "one";
            await never.opened;
          })(),
        };
      },
    });
    const client = httpRequest(`${url}/orders/7`, { method: "POST" }).on("error", () => undefined);
    client.end();
    await began.opened;
    const closed = once(sockets[0]!, "close");
    client.destroy();
    await closed;
    ready.open();
    await (await locks.acquire("order:7", { wait: "1m" })).release();
  });

  test("what fails in a handler, and a store that cannot be asked, reach the error handler of the app", async () => {
    const locks = createLocks(memory());
    const { url } = await host({
      locks,
      locked: {},
      handle: async () => {
        throw new Error("out of paper");
      },
    });
    const failed = await post(url);
    expect(failed.status).toBe(500);
    expect(await failed.text()).toContain("out of paper");
    expect(await locks.isHeld("order:7")).toBe(false);
    await locks.close();
    const closed = await post(url);
    expect([closed.status, closed.headers.get("retry-after")]).toEqual([503, "1"]);
    const said = await closed.text();
    expect(said).toContain("The locks could not be asked, and nothing was done.");
    // Its cause has them, for the log.
    expect(said).not.toMatch(/order:7|memory/);
  });
});

test.each<[Duration | undefined, number | undefined, string]>([
  [undefined, undefined, "1"],
  ["1ms", undefined, "1"],
  ["1500ms", undefined, "2"],
  ["3s", 1200, "3"],
  ["3s", 7200, "8"],
])(
  "Retry-After: of %s, with a quarantine of %s ms, it is %s s, and never 0",
  async (retryAfter, quarantineMs, said) => {
    // No store in this process has a quarantine.
    const locks: Locks = Object.assign(Object.create(someLocks()) as Locks, {
      tryRun: async () => ({ ran: false, heldBy: [], quarantineMs }),
      run: async () => Promise.reject(new LockTimeoutError("a", 0, undefined, quarantineMs)),
      once: async () => Promise.reject(new LockTimeoutError("a", 0, undefined, quarantineMs)),
    });
    for (const guard of [
      locked(locks, () => "a", { retryAfter }),
      locked(locks, () => "a", { retryAfter, wait: "1s" }),
      idempotent(locks, { scope: () => "ada", key: () => "k", retryAfter }),
    ]) {
      const app = new Hono().post("/", guard, (c) => c.text("done"));
      const busy = await app.request("/", { method: "POST" });
      expect([busy.status, busy.headers.get("retry-after")]).toEqual([409, said]);
    }
  },
);
