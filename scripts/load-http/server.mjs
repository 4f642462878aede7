// One server of the load on the HTTP adapters: it writes down when each run begins and ends.
import "reflect-metadata";
import { serve } from "@hono/node-server";
import { applyDecorators, Controller, Headers, HttpCode, Module, Param, Post } from "@nestjs/common";
import { NestFactory } from "@nestjs/core";
import express from "express";
import Fastify from "fastify";
import { Hono } from "hono";
import { appendFileSync } from "node:fs";
import { once } from "node:events";
import { setTimeout as pause } from "node:timers/promises";
import { connect } from "../../dist/index.js";
import * as onExpress from "../../dist/adapters/express/index.js";
import * as onFastify from "../../dist/adapters/fastify/index.js";
import * as onHono from "../../dist/adapters/hono/index.js";
import * as onNest from "../../dist/adapters/nestjs/index.js";

const [framework, url, log] = process.argv.slice(2);
const locks = await connect(url, { ttl: "4s" });

async function work(name, lease) {
  // As a careful handler does. What is stopped just after this begins with a fence that a guard refuses.
  lease.assertHeld();
  appendFileSync(log, `begin ${name} ${process.pid} ${lease.fence}\n`);
  // A few are slow enough to be hit by a kill.
  await pause(Math.random() < 0.1 ? 300 : Math.random() * 20);
  appendFileSync(log, `end ${name} ${process.pid} ${lease.fence} ${lease.remaining() > 0 ? "held" : "lost"}\n`);
}

const pay = async (key, lease) => {
  await work(`payment:${key}`, lease);
  return { key, fence: String(lease.fence) };
};

const start = {
  express: async () => {
    const app = express().use(express.json());
    const payOnce = onExpress.idempotent(locks, { scope: (request) => request.get("x-user"), keep: "1h", wait: "2s" });
    app.post("/payments", payOnce, async (request, response) => {
      response.status(201).json(await pay(request.get("idempotency-key"), request.lease));
    });
    app.post(
      "/orders/:id",
      onExpress.locked(locks, (request) => `order:${request.params.id}`),
      async (request, response) => {
        await work(request.lease.name, request.lease);
        response.send("done");
      },
    );
    const server = app.listen(0, "127.0.0.1");
    await once(server, "listening");
    return server;
  },
  fastify: async () => {
    const app = Fastify();
    await app.register(async (payments) => {
      await payments.register(
        onFastify.idempotent(locks, { scope: ({ headers }) => headers["x-user"], keep: "1h", wait: "2s" }),
      );
      payments.post("/payments", async (request, reply) => {
        reply.code(201);
        return await pay(request.headers["idempotency-key"], request.lease);
      });
    });
    await app.register(async (orders) => {
      await orders.register(onFastify.locked(locks, ({ params }) => `order:${params.id}`));
      orders.post("/orders/:id", async ({ lease }) => {
        await work(lease.name, lease);
        return "done";
      });
    });
    await app.listen({ port: 0, host: "127.0.0.1" });
    return app.server;
  },
  hono: async () => {
    const app = new Hono();
    const payOnce = onHono.idempotent(locks, { scope: (c) => c.req.header("x-user"), keep: "1h", wait: "2s" });
    app.post("/payments", payOnce, async (c) => c.json(await pay(c.req.header("idempotency-key"), c.var.lease), 201));
    app.post(
      "/orders/:id",
      onHono.locked(locks, (c) => `order:${c.req.param("id")}`),
      async (c) => {
        await work(c.var.lease.name, c.var.lease);
        return c.text("done");
      },
    );
    const server = serve({ fetch: app.fetch, port: 0, hostname: "127.0.0.1" });
    await once(server, "listening");
    return server;
  },
  nestjs: async () => {
    class Shop {
      async pay(key) {
        return await pay(key, onNest.currentLease());
      }
      async change() {
        const lease = onNest.currentLease();
        await work(lease.name, lease);
        return "done";
      }
    }
    const decorate = (method, parameter, ...decorators) => {
      const descriptor = Object.getOwnPropertyDescriptor(Shop.prototype, method);
      applyDecorators(...decorators)(Shop.prototype, method, descriptor);
      Object.defineProperty(Shop.prototype, method, descriptor);
      parameter(Shop.prototype, method, 0);
    };
    const once = onNest.Once("payment:{0}", { keep: "1h", wait: "2s" });
    decorate("pay", Headers("idempotency-key"), Post("payments"), once);
    decorate("change", Param("id"), Post("orders/:id"), HttpCode(200), onNest.Lock("order:{0}", { wait: 0 }));
    Controller()(Shop);
    class App {}
    Module({ imports: [onNest.LocksModule.forRoot({ locks })], controllers: [Shop] })(App);
    const app = await NestFactory.create(App, { logger: false });
    await app.listen(0, "127.0.0.1");
    return app.getHttpServer();
  },
}[framework];

const server = await start();
async function stop() {
  server.close();
  server.closeAllConnections();
  await locks.close();
  process.disconnect();
}

// Its process ends when it is done, so the promise is not needed.
process.once("message", () => void stop());
process.send(server.address().port);
