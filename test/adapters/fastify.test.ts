/** What only Fastify has: contexts, handlers that return nothing or the reply, hijacked replies, HEAD routes, and HTTP/2. */
import { once } from "node:events";
import { connect, type IncomingHttpHeaders, type OutgoingHttpHeaders } from "node:http2";
import { request as httpRequest } from "node:http";
import { Readable } from "node:stream";
import { setImmediate as turn } from "node:timers/promises";
import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from "fastify";
import { afterEach, expect, test } from "vitest";
import { idempotent, locked } from "../../src/adapters/fastify/index.ts";
import { outcomeName } from "../../src/adapters/http/names.ts";
import { memory } from "../../src/backends/memory/index.ts";
import { createLocks } from "../../src/core/locks.ts";
import { gate } from "../core/scripted.ts";

const locks = createLocks(memory());
let app: FastifyInstance;

afterEach(async () => {
  await app.close();
});

const scope = (): string => "ada";
const KEY = { "idempotency-key": "k" };

test("a plugin counts in its own context and inside of it, and is applied once to GET and its HEAD", async () => {
  app = Fastify();
  let asked = 0;
  await app.register(async (inner) => {
    await inner.register(
      locked(locks, () => {
        asked += 1;
        return "inner";
      }),
    );
    await inner.register(async (child) => {
      child.get("/child", async ({ lease }) => lease?.name);
    });
  });
  app.get("/outer", async ({ lease }) => lease?.name ?? "none");
  expect((await app.inject("/child")).body).toBe("inner");
  expect((await app.inject({ method: "HEAD", url: "/child" })).statusCode).toBe(200);
  expect(asked).toBe(2);
  expect((await app.inject("/outer")).body).toBe("none");
});

test.each([
  ["nothing", "nothing"],
  ["the reply", "reply"],
  ["the reply, from an async function", "async"],
])("a handler that returns %s has the lock until it sends, and its lock is free then", async (_what, how) => {
  app = Fastify();
  await app.register(
    idempotent(locks, {
      scope,
      required: false,
      keep: "1h",
      key: ({ headers }) => headers["idempotency-key"] && `${how}`,
    }),
  );
  await app.register(locked(locks, () => "a"));
  let held: boolean | undefined;
  let runs = 0;
  app.post("/", (_request, reply) => {
    runs += 1;
    if (how === "async") return (async () => reply.send(`${runs}`))();
    if (how === "reply") return reply.send(`${runs}`);
    void turn().then(async () => {
      held = await locks.isHeld("a");
      reply.send(`${runs}`);
    });
  });
  expect((await app.inject({ method: "POST", url: "/" })).body).toBe("1");
  if (how === "nothing") expect(held).toBe(true);
  await (await locks.acquire("a", { wait: "1m" })).release();
  for (const expected of ["2", "2"]) {
    expect((await app.inject({ method: "POST", url: "/", headers: KEY })).body).toBe(expected);
  }
});

test("a hijacked reply is done, and not kept", async () => {
  app = Fastify();
  await app.register(idempotent(locks, { scope, key: () => "hijacked" }));
  app.post("/", async (_request, reply) => {
    reply.hijack();
    reply.raw.end("raw");
  });
  expect((await app.inject({ method: "POST", url: "/" })).body).toBe("raw");
  const again = await app.inject({ method: "POST", url: "/" });
  expect([again.statusCode, again.json()]).toMatchObject([409, {}]);
});

test("a handler that Fastify no longer waits for has its key until it ends, and is not run again where it succeeded", async () => {
  app = Fastify();
  await app.register(idempotent(locks, { scope, key: ({ url }) => url }));
  const held = gate();
  let runs = 0;
  const handler = async ({ params }: FastifyRequest): Promise<string> => {
    runs += 1;
    await held.opened;
    if ((params as { end: string }).end === "fails") throw new Error("it fails");
    return "done";
  };
  app.post("/:end", handler);
  app.post("/:end", { handlerTimeout: 5, constraints: { host: "impatient" } }, handler);
  for (const url of ["/works", "/fails"]) {
    expect((await app.inject({ method: "POST", url, headers: { host: "impatient" } })).statusCode).toBe(503);
    const busy = await app.inject({ method: "POST", url });
    expect([busy.statusCode, busy.headers["retry-after"]]).toEqual([409, "1"]);
  }
  held.open();
  const stateOf = async (url: string): Promise<string> => (await locks.outcome(outcomeName("ada", url))).state;
  await expect.poll(() => stateOf("/works"), { timeout: 60_000 }).toBe("done");
  await expect.poll(() => stateOf("/fails"), { timeout: 60_000 }).toBe("none");
  const again = await app.inject({ method: "POST", url: "/works" });
  expect([again.statusCode, again.headers["retry-after"], runs]).toEqual([409, undefined, 2]);
  expect((await app.inject({ method: "POST", url: "/fails" })).statusCode).toBe(500);
  expect(runs).toBe(3);
});

test("a request without a body is not read: Fastify would take its end for a client that has gone", async () => {
  app = Fastify();
  await app.register(idempotent(locks, { scope, key: () => "unread" }));
  let isAborted: boolean | undefined;
  app.post("/", { handlerTimeout: 60_000 }, async ({ signal }) => {
    // Longer than it takes to read nothing.
    for (let i = 0; i < 20; i++) await turn();
    isAborted = signal.aborted;
    return "done";
  });
  const url = await app.listen({ port: 0, host: "127.0.0.1" });
  for (const replayed of [null, "true"]) {
    const { headers, status } = await fetch(url, { method: "POST" });
    expect([status, headers.get("idempotency-replayed"), isAborted]).toEqual([200, replayed, false]);
  }
});

test("a success of a handler that returns nothing is a 503 where the lock was lost", async () => {
  app = Fastify();
  await app.register(locked(locks, () => "b"));
  app.post("/", ({ lease }, reply) => {
    void locks
      .forceRelease("b", { fence: lease!.fence, reason: "test" })
      .then(() => reply.header("x-a", "1").send("fine"));
  });
  const { statusCode, headers } = await app.inject({ method: "POST", url: "/" });
  expect([statusCode, headers["x-a"], headers["retry-after"]]).toEqual([503, undefined, "1"]);
});

test("a body that the handler reads itself is refused: another one under the same key could not be seen", async () => {
  app = Fastify();
  app.addContentTypeParser("application/octet-stream", (_request, _payload, done) => done(null));
  await app.register(idempotent(locks, { scope }));
  app.post("/", async () => "done");
  const headers = { ...KEY, "content-type": "application/octet-stream" };
  const refused = await app.inject({ method: "POST", url: "/", headers, payload: Buffer.alloc(300_000) });
  expect([refused.statusCode, refused.body]).toEqual([500, expect.stringContaining("be read before its handler")]);
});

test.each<[string, number, (reply: FastifyReply) => void]>([
  ["a value", 201, (reply) => void reply.code(201).send({ a: 1 })],
  ["a redirect", 302, (reply) => void reply.redirect("/elsewhere")],
  ["an error", 500, (reply) => void reply.send(new Error("out of paper"))],
  ["a stream", 200, (reply) => void reply.send(Readable.from(["a", "b"]))],
])("a handler that sends %s before it returns does not keep its lock", async (_what, status, send) => {
  app = Fastify();
  await app.register(locked(locks, () => "c"));
  app.post("/", (_request, reply) => send(reply));
  for (let i = 0; i < 2; i++) {
    expect((await app.inject({ method: "POST", url: "/" })).statusCode).toBe(status);
    expect(await locks.isHeld("c")).toBe(false);
  }
});

test("a hijacked reply has its lock until it is ended", async () => {
  app = Fastify();
  await app.register(locked(locks, () => "d"));
  const [began, held] = [gate(), gate()];
  app.post("/", (_request, reply) => {
    reply.hijack();
    void held.opened.then(() => reply.raw.end("raw"));
    began.open();
  });
  const sent = app.inject({ method: "POST", url: "/" });
  await began.opened;
  for (let i = 0; i < 10; i++) await turn();
  expect(await locks.isHeld("d")).toBe(true);
  held.open();
  expect((await sent).body).toBe("raw");
  await (await locks.acquire("d", { wait: "1m" })).release();
});

test("a client that leaves a stream has its source destroyed, also one that has nothing more to say", async () => {
  app = Fastify();
  await app.register(locked(locks, () => "e"));
  const source = new Readable({ read: () => undefined });
  source.push("one");
  app.get("/", async () => source);
  const client = httpRequest(await app.listen({ port: 0, host: "127.0.0.1" })).on("error", () => undefined);
  client.end();
  const [response] = await once(client, "response");
  await once(response, "data");
  const closed = new Promise((resolve) => void source.once("close", resolve));
  client.destroy();
  await closed;
  await (await locks.acquire("e", { wait: "1m" })).release();
});

test("a replay of no body has no type, and another type of body is another request", async () => {
  app = Fastify();
  let key = "empty";
  await app.register(idempotent(locks, { scope, key: () => key }));
  app.post("/", async (request) => request.body);
  for (const replayed of [undefined, "true"]) {
    const { headers } = await app.inject({ method: "POST", url: "/" });
    expect([headers["content-type"], headers["idempotency-replayed"]]).toEqual([undefined, replayed]);
  }
  key = "typed";
  const send = async (type: string): Promise<number> =>
    (await app.inject({ method: "POST", url: "/", headers: { "content-type": type }, payload: '"a"' })).statusCode;
  expect([
    await send("application/json"),
    await send("text/plain"),
    await send("Application/JSON; charset=utf-8"),
  ]).toEqual([200, 422, 200]);
});

test("HTTP/2: another body under the same key is a 422 although no length says that there is one; and none is none", async () => {
  const http2 = Fastify({ http2: true });
  app = http2 as never;
  await http2.register(idempotent(locks, { scope }) as never);
  await http2.register(locked(locks, () => "f") as never);
  http2.post("/", async ({ body }) => ({ body }));
  const session = connect(await http2.listen({ port: 0, host: "127.0.0.1" }));
  const send = async (headers: OutgoingHttpHeaders, body?: string): Promise<unknown> => {
    const stream = session.request({ ":method": "POST", ...headers });
    stream.end(body);
    const [response] = (await once(stream, "response")) as [IncomingHttpHeaders];
    await stream.resume().toArray();
    return response[":status"];
  };
  const json = { "idempotency-key": "h2", "content-type": "application/json" };
  expect([await send(json, '{"a":1}'), await send(json, '{"a":2}'), await send(json, '{"a":1}')]).toEqual([
    200, 422, 200,
  ]);
  const none = { "idempotency-key": "none" };
  expect([await send(none), await send(none)]).toEqual([200, 200]);
  expect(await locks.isHeld("f")).toBe(false);
  session.destroy();
});

test.each([
  ["locked()", locked(locks, () => "grace", { grace: 0 })],
  ["idempotent()", idempotent(locks, { scope, key: () => "grace", grace: 0 })],
])(
  "%s takes its lease away from a handler that goes on after its grace, and the signal says so",
  async (_what, guard) => {
    app = Fastify();
    await app.register(guard);
    const [began, aborted] = [gate(), gate()];
    app.post("/", ({ lease }) => {
      lease!.signal.addEventListener("abort", () => aborted.open());
      began.open();
    });
    const url = await app.listen({ port: 0, host: "127.0.0.1" });
    const client = httpRequest(url, { method: "POST" }).on("error", () => undefined);
    client.end();
    await began.opened;
    client.destroy();
    await aborted.opened;
  },
);
