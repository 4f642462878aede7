/** What only Express has: bodies of any parser, responses by the means of `node:http`, and requests that wait behind another one. */
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { pipeline, Readable } from "node:stream";
import express, { type RequestHandler } from "express";
import { afterEach, expect, test } from "vitest";
import { idempotent, locked } from "../../src/adapters/express/index.ts";
import { outcomeName } from "../../src/adapters/http/names.ts";
import { memory } from "../../src/backends/memory/index.ts";
import { createLocks } from "../../src/core/locks.ts";
import { gate } from "../core/scripted.ts";

const locks = createLocks(memory());
let server: Server;

afterEach(async () => {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
});

async function listen(...handlers: readonly RequestHandler[]): Promise<string> {
  const app = express().use(...handlers);
  app.use(((error: Error, _request, response, _next) => {
    response.status(500).send(error.message);
  }) satisfies express.ErrorRequestHandler);
  server = createServer(app).listen(0, "127.0.0.1");
  await once(server, "listening");
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

function post(url: string, key: string, body: string, type = "application/json"): Promise<Response> {
  return fetch(url, { method: "POST", headers: { "idempotency-key": key, "content-type": type }, body });
}

const scope = (): string => "ada";
const ok: RequestHandler = (_request, response) => void response.status(201).end("done");

test.each([
  ["a number that JSON has not, and null", '{"a":1e400}', '{"a":null}', "application/json"],
  ["another place of it", '{"a":[1e400,null]}', '{"a":[null,1e400]}', "application/json"],
  ["0 with another sign", "[0]", "[-0]", "application/json"],
  ["a form that is parsed to the same", '{"a":"1"}', "a=1", "application/x-www-form-urlencoded"],
  ["a text with the same JSON", '{"a":"1"}', '{"a":"1"}', "text/plain"],
])("%s is another request", async (_what, first, second, type) => {
  const url = await listen(express.json(), express.urlencoded(), express.text(), idempotent(locks, { scope }), ok);
  expect((await post(url, _what, first)).status).toBe(201);
  expect((await post(url, _what, second, type)).status).toBe(422);
  expect((await post(url, _what, first)).headers.get("idempotency-replayed")).toBe("true");
});

test("a parsed body of which JSON does not say all, or that was read by someone else, is refused", async () => {
  const reviver = (_key: string, value: unknown): unknown =>
    typeof value === "string" ? new Map([[value, 1]]) : value;
  const drain: RequestHandler = (request, _response, next) => {
    if (request.readableEnded) return next();
    // As Express 4 has it, and a middleware that puts the body into a file.
    request.body = {};
    request.resume().once("end", () => next());
  };
  const url = await listen(express.json({ reviver }), drain, idempotent(locks, { scope }), ok);
  const map = await post(url, "map", '{"a":"b"}');
  expect([map.status, await map.text()]).toEqual([500, expect.stringContaining("plain JSON")]);
  const drained = await post(url, "drained", "<a/>", "application/xml");
  expect([drained.status, await drained.text()]).toEqual([500, expect.stringContaining("to be known to idempotent()")]);
  expect((await post(url, "empty", "{}")).status).toBe(201);
});

test("writeHead() with a list keeps each cookie, and a status as text is one", async () => {
  const url = await listen(idempotent(locks, { scope }), (_request, response) => {
    response.statusMessage = "Made";
    response.writeHead("201" as never, ["set-cookie", "a=1", "x-a", "1", "set-cookie", "b=2"] as never).end("done");
  });
  const [first, again] = [await post(url, "list", ""), await post(url, "list", "")];
  expect([first.status, first.headers.getSetCookie(), first.headers.get("x-a")]).toEqual([201, ["a=1", "b=2"], "1"]);
  expect([again.status, again.headers.getSetCookie(), again.headers.get("x-a")]).toEqual([201, [], "1"]);
  expect(again.headers.get("idempotency-replayed")).toBe("true");
});

test("writeHead() without a message has its headers, wherever they stand", async () => {
  const url = await listen(idempotent(locks, { scope }), (_request, response) => {
    response.writeHead(201, undefined, { "x-a": "1" }).end("done");
  });
  for (const replayed of [null, "true"]) {
    const { status, headers } = await post(url, "no message", "");
    expect([status, headers.get("x-a"), headers.get("idempotency-replayed")]).toEqual([201, "1", replayed]);
  }
});

test("a handler that destroys its response has ended it: its lock and its key are free", async () => {
  let runs = 0;
  const guards = [idempotent(locks, { scope, grace: Infinity }), locked(locks, () => "destroyed", { grace: Infinity })];
  const url = await listen(...guards, (_request, response) => {
    runs += 1;
    if (runs === 1) return void response.destroy();
    if (runs === 3) return void response.end("done");
    const source = Readable.from(
      (async function* () {
        yield "a part";
        throw new Error("it fails");
      })(),
    );
    pipeline(source, response, () => undefined);
  });
  await expect(post(url, "destroyed", "")).rejects.toThrow();
  // By then it may not have heard that the connection is closed.
  const isHeld = (): Promise<boolean> => locks.isHeld(outcomeName("ada", "destroyed"));
  await expect.poll(isHeld, { timeout: 60_000 }).toBe(false);
  const sent = post(url, "destroyed", "").then((response) => response.text());
  await expect(sent).rejects.toThrow();
  await expect.poll(isHeld, { timeout: 60_000 }).toBe(false);
  expect((await post(url, "destroyed", "")).status).toBe(200);
  expect(runs).toBe(3);
});

test("a head that cannot be sent is the handler's error, and is not kept", async () => {
  let runs = 0;
  const url = await listen(idempotent(locks, { scope }), (_request, response) => {
    runs += 1;
    if (runs === 1) response.statusCode = 99;
    if (runs === 2) response.statusMessage = "a\nb";
    response.end("done");
  });
  const first = await post(url, "head", "");
  expect([first.status, await first.text()]).toEqual([500, "Invalid status code: 99"]);
  // Express answers by itself: the error handler of the app has the same message on its response.
  expect((await post(url, "head", "")).status).toBe(500);
  expect((await post(url, "head", "")).status).toBe(200);
  expect(runs).toBe(3);
});

test("a request that waits behind another one of its connection learns that this was closed", async () => {
  const [began, held] = [gate(), gate()];
  const url = await listen(
    locked(locks, (request) => request.url!, { grace: 0 }),
    async (request, response) => {
      if (request.url === "/first") await held.opened;
      else return began.open();
      response.end();
    },
  );
  const client = connect(Number(new URL(url).port), "127.0.0.1");
  const requests = ["/first", "/second"].map((path) => `POST ${path} HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n`);
  client.write(requests.join(""));
  await began.opened;
  client.destroy();
  // Its handler ends nothing, and its response was never the one of the connection.
  await (await locks.acquire("/second", { wait: "1m" })).release();
  held.open();
});

test.each([
  ["locked()", locked(locks, () => "grace", { grace: 0 })],
  ["idempotent()", idempotent(locks, { scope, key: () => "grace", grace: 0 })],
])(
  "%s takes its lease away from a handler that goes on after its grace, and the signal says so",
  async (_what, guard) => {
    const [began, aborted] = [gate(), gate()];
    const url = await listen(guard, ({ lease }) => {
      lease!.signal.addEventListener("abort", () => aborted.open());
      began.open();
    });
    const client = connect(Number(new URL(url).port), "127.0.0.1");
    client.write("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n");
    await began.opened;
    client.destroy();
    await aborted.opened;
  },
);
