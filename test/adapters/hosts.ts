/** The same application in each framework: one handler, behind `locked()` or `idempotent()`, on a real server. */
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { setImmediate as turn } from "node:timers/promises";
import { serve } from "@hono/node-server";
import express5 from "express";
// @ts-expect-error It has no types of its own: those of version 5 are used.
import express4 from "express4";
import Fastify, { type FastifyRequest } from "fastify";
import { Hono } from "hono";
import type { ContentfulStatusCode } from "hono/utils/http-status";
import * as onExpress from "../../src/adapters/express/index.ts";
import * as onFastify from "../../src/adapters/fastify/index.ts";
import * as onHono from "../../src/adapters/hono/index.ts";
import type { IdempotentOptions } from "../../src/adapters/http/idempotency.ts";
import type { LockedOptions } from "../../src/adapters/http/lock-request.ts";
import type { Lease, Locks } from "../../src/core/api.ts";

export interface Given {
  readonly lease: Lease | undefined;
  readonly body: unknown;
}

export interface Result {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Buffer;
  /** In the place of a body: its parts, each sent when it is there. */
  readonly parts?: AsyncIterable<string>;
}

/** An error as the error handlers of frameworks read it. */
interface Failure {
  readonly message: string;
  readonly status?: number;
  readonly headers?: Record<string, string>;
}

export type Handle = (given: Given) => Promise<Result>;

export interface App {
  readonly locks: Locks;
  readonly handle: Handle;
  readonly locked?: LockedOptions;
  /** The scope is the header `x-user`, the key's default. */
  readonly idempotent?: Omit<IdempotentOptions<never>, "scope" | "key">;
  /** A header that is set before the adapter, as CORS does it. */
  readonly early?: Readonly<Record<string, string>>;
}

export interface Host {
  readonly url: string;
  readonly sockets: readonly Socket[];
  close(): Promise<void>;
}

export type Start = (app: App) => Promise<Host>;

async function listening(server: Server, close: () => Promise<unknown>): Promise<Host> {
  const sockets: Socket[] = [];
  server.on("connection", (socket) => void sockets.push(socket));
  if (!server.listening) await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    sockets,
    close: async () => {
      for (const socket of sockets) socket.destroy();
      await close();
    },
  };
}

function closing(server: Server): () => Promise<unknown> {
  return () => new Promise((resolve) => server.close(resolve));
}

/** Both versions have the same types, as far as they are used here. */
const expressHost =
  (make: () => express5.Express, json: () => express5.RequestHandler): Start =>
  async ({ locks, handle, locked, idempotent, early }) => {
    const app = make();
    app.disable("etag");
    app.use((_request, response, next) => {
      if (early !== undefined) response.set(early);
      next();
    });
    app.use(json());
    const scope = (request: express5.Request): string => request.get("x-user") ?? "";
    if (idempotent !== undefined) app.use(onExpress.idempotent<express5.Request>(locks, { ...idempotent, scope }));
    const answer: express5.RequestHandler = async (request, response, next) => {
      try {
        const {
          status = 200,
          headers = {},
          body = "",
          parts,
        } = await handle({ lease: request.lease, body: request.body });
        response.status(status).set(headers);
        if (parts === undefined) return void response.send(body);
        for await (const part of parts) response.write(part);
        response.end();
      } catch (error) {
        next(error);
      }
    };
    const guards =
      locked === undefined
        ? []
        : [onExpress.locked<express5.Request>(locks, ({ params }) => `order:${String(params["id"])}`, locked)];
    app.all("/orders/:id", ...guards, answer);
    app.use(((error: Failure, _request, response, _next) => {
      response
        .status(error.status ?? 500)
        .set(error.headers ?? {})
        .send(error.message);
    }) satisfies express5.ErrorRequestHandler);
    const server = createServer(app).listen(0, "127.0.0.1");
    return listening(server, closing(server));
  };

const fastifyHost: Start = async ({ locks, handle, locked, idempotent, early }) => {
  const app = Fastify({ forceCloseConnections: true });
  app.addHook("onRequest", async (_request, reply) => void reply.headers({ ...early }));
  await app.register(async (orders) => {
    if (idempotent !== undefined) {
      const scope = ({ headers }: FastifyRequest): string => [headers["x-user"] ?? ""].flat().join();
      await orders.register(onFastify.idempotent(locks, { ...idempotent, scope }));
    }
    if (locked !== undefined) {
      await orders.register(onFastify.locked(locks, ({ params }) => `order:${(params as { id: string }).id}`, locked));
    }
    orders.all("/orders/:id", async (request, reply) => {
      const {
        status = 200,
        headers = {},
        body = "",
        parts,
      } = await handle({
        lease: request.lease ?? undefined,
        body: request.body,
      });
      reply.code(status).headers({ ...headers });
      return parts === undefined ? body : streamOf(parts);
    });
  });
  await app.listen({ port: 0, host: "127.0.0.1" });
  return listening(app.server, () => app.close());
};

const honoHost: Start = async ({ locks, handle, locked, idempotent, early }) => {
  const app = new Hono<onHono.Leased>();
  app.use(async (c, next) => {
    for (const [name, value] of Object.entries(early ?? {})) c.header(name, value);
    await next();
  });
  if (idempotent !== undefined) {
    app.use(onHono.idempotent(locks, { ...idempotent, scope: (c) => c.req.header("x-user") ?? "" }));
  }
  if (locked !== undefined)
    app.use(
      "/orders/:id",
      onHono.locked(locks, (c) => `order:${c.req.param("id")}`, locked),
    );
  app.all("/orders/:id", async (c) => {
    const text = await c.req.text();
    const {
      status = 200,
      headers = {},
      body = "",
      parts,
    } = await handle({
      lease: c.get("lease"),
      body: text === "" ? undefined : JSON.parse(text),
    });
    const whole = status === 204 ? null : (body as string);
    const sent = parts === undefined ? whole : streamOf(parts);
    return c.body(sent as string, status as ContentfulStatusCode, { ...headers });
  });
  app.onError((error: Failure & Error, c) => c.text(error.message, (error.status ?? 500) as 500, error.headers));
  const server = serve({ fetch: app.fetch, port: 0, hostname: "127.0.0.1" }) as Server;
  return listening(server, closing(server));
};

function streamOf(parts: AsyncIterable<string>): ReadableStream<Uint8Array> {
  const each = parts[Symbol.asyncIterator]();
  return new ReadableStream({
    pull: async (controller) => {
      // As a source of its own would: not in the turn in which it is asked.
      await turn();
      const { done, value } = await each.next();
      if (done === true) controller.close();
      else controller.enqueue(Buffer.from(value));
    },
  });
}

export const HOSTS: Readonly<Record<string, Start>> = {
  "express 5": expressHost(express5, () => express5.json()),
  "express 4": expressHost(express4 as typeof express5, () => (express4 as typeof express5).json()),
  fastify: fastifyHost,
  hono: honoHost,
};
