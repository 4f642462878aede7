/** Mounted under a path of an app: in Node's http, Express, Fastify and Nest, each with its own way to read bodies. */
import "reflect-metadata";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { Module } from "@nestjs/common";
import { NestFactory } from "@nestjs/core";
import express5 from "express";
// @ts-expect-error It has no types of its own: those of version 5 are used.
import express4 from "express4";
import Fastify from "fastify";
import { expect, onTestFinished, test } from "vitest";
import { createConsole } from "../../src/console/create.ts";
import type { ConsoleOptions } from "../../src/console/options.ts";
import type { Locks } from "../../src/core/api.ts";
import { ask, serve, Stage, Watcher } from "./stage.ts";

const OPTIONS: ConsoleOptions = {
  authorize: ({ headers }) => (headers["x-user"] as string) ?? null,
  allowRelease: true,
  audit: () => {},
};

type Mount = (locks: Locks) => Promise<string>;

function opened(locks: Locks, options: Partial<ConsoleOptions> = {}): ReturnType<typeof createConsole> {
  const page = createConsole(locks, { ...OPTIONS, ...options });
  onTestFinished(() => page.close());
  return page;
}

const express =
  (make: typeof express5, hasParser: boolean): Mount =>
  async (locks) => {
    const app = make();
    if (hasParser) app.use(make.json());
    app.use("/admin/locks", opened(locks));
    return await serve(app as never);
  };

const MOUNTS: Readonly<Record<string, Mount>> = {
  "node:http": async (locks) => {
    const page = opened(locks, { path: "/admin/locks" });
    return await serve((request: IncomingMessage, response: ServerResponse) => {
      if (request.url?.startsWith("/admin/locks") === true) page(request, response);
      else response.writeHead(404).end("the app's own");
    });
  },
  "Express 5": express(express5, false),
  "Express 5 with a parser of JSON before it": express(express5, true),
  "Express 4": express(express4 as typeof express5, true),
  Fastify: async (locks) => {
    const page = opened(locks, { path: "/admin/locks" });
    const app = Fastify({ forceCloseConnections: true });
    const handle = (
      request: { raw: IncomingMessage; body?: unknown },
      reply: { raw: ServerResponse; hijack(): unknown },
    ): void => {
      reply.hijack();
      page(Object.assign(request.raw, { body: request.body }), reply.raw);
    };
    app.all("/admin/locks", handle);
    app.all("/admin/locks/*", handle);
    await app.listen({ port: 0, host: "127.0.0.1" });
    onTestFinished(() => app.close());
    return `http://127.0.0.1:${(app.server.address() as AddressInfo).port}`;
  },
  Nest: async (locks) => {
    class AppModule {}
    Module({})(AppModule);
    const app = await NestFactory.create(AppModule, { logger: false });
    app.use("/admin/locks", opened(locks));
    await app.listen(0, "127.0.0.1");
    onTestFinished(() => {
      (app.getHttpServer() as { closeAllConnections(): void }).closeAllConnections();
      return app.close();
    });
    return `http://127.0.0.1:${(app.getHttpServer() as { address(): AddressInfo }).address().port}`;
  },
};

test.each(Object.entries(MOUNTS))("%s: the page, its files, the stream and a release", async (_, mount) => {
  const stage = new Stage();
  const origin = await mount(stage.locks);
  const base = `${origin}/admin/locks`;
  const headers = { "x-user": "ada" };
  const bare = await ask(base, { headers });
  expect([bare.status, new URL(String(bare.headers.location), base).pathname]).toEqual([308, "/admin/locks/"]);
  const page = await ask(`${base}/`, { headers });
  expect([page.status, page.headers["content-type"]]).toEqual([200, "text/html; charset=utf-8"]);
  for (const [, file] of page.text.matchAll(/(?:href|src)="(console\.\w+)"/g))
    expect((await ask(`${base}/${file}`)).status).toBe(200);
  expect(page.text).not.toMatch(/(?:href|src)="(?:\/|https?:)/);
  expect((await ask(`${base}/`)).status).toBe(403);
  expect((await ask(`${base}/hello`)).status).toBe(403);
  const lease = await stage.other("web:1").acquire("a");
  const watcher = await Watcher.open(origin, { path: "/admin/locks/events", headers });
  await watcher.hears("rows", ({ rows }) => rows.some(({ name }) => name === "a"));
  const { csrf } = (await ask(`${base}/hello`, { headers })).json() as { csrf: string };
  const body = JSON.stringify({ name: "a", fence: String(lease.fence), reason: "stuck" });
  const answer = await ask(`${base}/release`, {
    method: "POST",
    body,
    headers: { ...headers, "x-holdfast-csrf": csrf },
  });
  expect([answer.status, answer.json()]).toEqual([200, { done: true, by: "ada" }]);
  expect((await ask(`${origin}/elsewhere`)).status).toBe(404);
});
