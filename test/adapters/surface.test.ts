/** The public names of the adapters, under version control; and their types, as users compile them. */
import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { expect, onTestFinished, test } from "vitest";
import * as onBullmq from "../../src/adapters/bullmq/index.ts";
import * as onCron from "../../src/adapters/cron/index.ts";
import * as onExpress from "../../src/adapters/express/index.ts";
import * as onFastify from "../../src/adapters/fastify/index.ts";
import * as onHono from "../../src/adapters/hono/index.ts";
import * as onNest from "../../src/adapters/nestjs/index.ts";
import { assertSupported, FRAMEWORKS } from "../../src/adapters/supported.ts";
import { installedVersion, whyUnsupported } from "../../src/contract/peer-version.ts";
import { ROOT } from "../dist.ts";

const run = promisify(execFile);

test("each adapter exports these names and no others", () => {
  for (const adapter of [onExpress, onFastify, onHono]) {
    expect(Object.keys(adapter).toSorted()).toEqual(["idempotent", "locked"]);
  }
  expect(Object.keys(onBullmq)).toEqual(["lockedProcessor"]);
  const names = ["OncePerSlot", "everySlot", "runCoordinator", "runMissed", "runSlot", "withCroner"];
  expect(Object.keys(onCron).toSorted()).toEqual(names);
  expect(Object.keys(onNest).toSorted()).toEqual([
    "InjectLocks",
    "Lock",
    "LocksHealthIndicator",
    "LocksModule",
    "Once",
    "attachLocks",
    "currentLease",
    "getLocksToken",
  ]);
});

test("an app with any version of a framework can install the core: an adapter says when it is loaded which ones it supports", () => {
  const { peerDependencies } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as {
    readonly peerDependencies: Readonly<Record<string, string>>;
  };
  const root = mkdtempSync(join(tmpdir(), "holdfast-peers-"));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
  const from = pathToFileURL(join(root, "adapter.js")).href;
  for (const [framework, oldest] of Object.entries(FRAMEWORKS) as [keyof typeof FRAMEWORKS, readonly string[]][]) {
    expect(peerDependencies[framework]).toBe("*");
    expect(whyUnsupported(framework, installedVersion(framework, import.meta.url), oldest)).toBeUndefined();
    expect(installedVersion(framework, import.meta.url)).toMatch(/^\d+\.\d+\.\d+/);
    const home = join(root, "node_modules", framework);
    mkdirSync(home, { recursive: true });
    // As Hono has it: package.json is not among what it exports.
    const install = (version: string): void =>
      writeFileSync(join(home, "package.json"), JSON.stringify({ version, exports: { ".": "./index.js" } }));
    writeFileSync(join(home, "index.js"), "");
    install("1.2.3");
    expect(installedVersion(framework, from)).toBe("1.2.3");
  }
  const message = "express 1.2.3 is installed, but Holdfast supports ^4.22.0 and ^5.0.0: npm install express@5";
  expect(() => assertSupported("express", from)).toThrow(message);
  expect(() => assertSupported("express", "file:///nowhere/a.js")).not.toThrow();
});

const PROGRAM = `
import express = require("express");
import Fastify from "fastify";
import { Hono } from "hono";
import { closeOnSignals, connect, createLocks, LockLostError, type GroupLease, type Lease, type Locks } from "holdfast";
import { memory } from "holdfast/memory";
import * as onExpress from "holdfast/express";
import * as onFastify from "holdfast/fastify";
import * as onHono from "holdfast/hono";
import { Queue, Worker } from "bullmq";
import { Cron } from "croner";
import { schedule } from "node-cron";
import { Cron as CronAt } from "@nestjs/schedule";
import { everySlot, OncePerSlot, runCoordinator, runMissed, runSlot, withCroner, type SlotRun } from "holdfast/cron";
import { lockedProcessor } from "holdfast/bullmq";

export async function core(): Promise<void> {
  const locks: Locks = await connect("memory:");
  createLocks(memory()) satisfies Locks;
  const { value, replayed, fence, at } = await locks.once("a", { keep: "24h", wait: "30s" }, async () => 7);
  [value satisfies number, replayed satisfies boolean, fence satisfies bigint, at satisfies Date];
  const turn = await locks.tryRun("a", { ttl: "5s" }, async (lease) => lease.fence);
  if (turn.ran) turn.value satisfies bigint;
  else turn.heldBy.map(({ holder }) => holder satisfies string);
  await locks.run(["a", "b"], async (lease) => {
    lease satisfies GroupLease;
    lease.fenceOf("a") satisfies bigint;
    // @ts-expect-error Several locks have several fences.
    lease.fence;
  });
  const lease: Lease = await locks.acquire("a");
  (await lease.extend("10s")) satisfies number;
  lease.wanted satisfies AbortSignal;
  const outcome = await locks.outcome<number>("a");
  if (outcome.state === "done") await locks.forget("a", { fence: outcome.fence });
  await locks.elect("leader", { ttl: "5s" }, async ({ signal }) => signal.throwIfAborted());
  closeOnSignals(locks, { signals: ["SIGTERM"], grace: "5s" });
  if (new Error() instanceof LockLostError) return;
  // @ts-expect-error How long it is kept must be said.
  await locks.once("a", {}, async () => 1);
}

class Reports {
  constructor(readonly locks: Locks) {}

  @CronAt("0 3 * * *", { name: "report" })
  @OncePerSlot<Reports>({ name: "report", locks: ({ locks }) => locks, missed: "last" })
  async report({ slot, fence, signal }: SlotRun): Promise<void> {
    signal.throwIfAborted();
    console.log(slot.toISOString(), fence satisfies bigint);
  }

  async onApplicationBootstrap(): Promise<void> {
    await runMissed(this, "report");
  }
}

export async function jobs(locks: Locks): Promise<void> {
  new Reports(locks);
  const coordinator = runCoordinator(locks, { overlap: "queue" });
  schedule("0 3 * * *", async (context) => coordinator.runOf(context)?.signal.throwIfAborted(), {
    name: "report",
    distributed: true,
    runCoordinator: coordinator,
  });
  await withCroner(locks, "report", new Cron("0 3 * * *"), { missed: { run: "all", within: "6h" } }, ({ slot }) => slot);
  await everySlot(locks, "report", { every: "5m", onError: console.error }, async ({ fence }) => fence).stop();
  const result = await runSlot(locks, "report", new Date(), { onFailure: "retry" }, () => 7);
  if (result.ran) result.value satisfies number;
  else result.why satisfies "done" | "failed" | "running" | "overlap";
  // @ts-expect-error Where errors go must be said.
  everySlot(locks, "report", { every: "5m" }, () => 1);

  interface Order { readonly id: string; readonly customer: string }
  const connection = { host: "127.0.0.1", port: 6379 };
  new Queue<Order, number>("orders", { connection });
  new Worker<Order, number>(
    "orders",
    lockedProcessor<Order, number>(locks, { key: (job) => job.data.customer, limit: 2, order: true }, async (job, token, signal, lease) => {
      signal.throwIfAborted();
      return job.data.id.length + token.length + Number(lease?.fence satisfies bigint | undefined);
    }),
    { connection },
  );
  // Without types: those of the worker.
  new Worker<Order, number>("orders", lockedProcessor(locks, { key: (job) => job.data.customer }, async (job) => job.data.id.length), { connection });
  // @ts-expect-error The key is required.
  lockedProcessor(locks, {}, async () => 1);
}
import { Injectable, Module, applyDecorators } from "@nestjs/common";
import { InjectLocks, Lock, LocksModule, Once, currentLease } from "holdfast/nestjs";

@Injectable()
export class Orders {
  constructor(@InjectLocks("reports") readonly reports: Locks) {}
  @Lock("order:{0.id}", { wait: "5s", store: "reports" })
  async change(order: { readonly id: string }): Promise<bigint> {
    return currentLease().fence + BigInt(order.id);
  }
  @Once((order: { readonly id: string }) => order.id, { keep: "24h" })
  async make(order: { readonly id: string }, times: number): Promise<string> {
    return order.id.repeat(times);
  }
  @applyDecorators(Lock("a") as MethodDecorator)
  async composed(): Promise<void> {}
  // @ts-expect-error What it returns would be a promise.
  @Lock("a")
  sync(): number {
    return 1;
  }
  // @ts-expect-error The key is made of another argument.
  @Lock((id: number) => String(id))
  async other(id: string): Promise<string> {
    return id;
  }
}

@Module({
  imports: [
    LocksModule.forRoot({ url: "memory:", grace: "5s" }),
    LocksModule.forRootAsync({ name: "reports", useFactory: async () => ({ url: "memory:" }) }),
  ],
  providers: [Orders],
})
export class App {}

export async function use(locks: Locks): Promise<void> {
  const app = express();
  app.post("/:id", onExpress.idempotent(locks, { scope: (request) => String(request.headers["x-user"]), keep: "24h" }));
  app.put("/:id", onExpress.locked<express.Request>(locks, (request) => String(request.params["id"]), { status: 423 }), (request, response) => {
    const lease: Lease | undefined = request.lease;
    response.send(String(lease?.fence));
  });
  // @ts-expect-error The scope is required.
  onExpress.idempotent(locks, { keep: "24h" });

  const fastify = Fastify();
  await fastify.register(onFastify.locked(locks, (request) => request.url, { wait: "2s" }));
  await fastify.register(onFastify.idempotent(locks, { scope: (request) => request.ip }));
  fastify.get("/", async (request) => String(request.lease?.fence satisfies bigint | undefined));
  // @ts-expect-error The scope is required.
  onFastify.idempotent(locks, {});

  const hono = new Hono();
  hono.post("/:id", onHono.idempotent(locks, { scope: (c) => c.req.header("x-user") ?? "" }), (c) => c.text("ok"));
  hono.put("/:id", onHono.locked(locks, (c) => c.req.path), (c) => c.text(String(c.var.lease.fence satisfies bigint)));
  // @ts-expect-error The scope is required.
  onHono.idempotent(locks, {});
}
`;

test("their types, and those of the core, are right for strict users: NodeNext as ESM and as CommonJS, and for bundlers", async () => {
  const root = mkdtempSync(join(tmpdir(), "holdfast-types-"));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
  mkdirSync(join(root, "node_modules/@types"), { recursive: true });
  mkdirSync(join(root, "node_modules/@nestjs"), { recursive: true });
  symlinkSync(ROOT, join(root, "node_modules/holdfast"));
  const jobs = ["bullmq", "croner", "node-cron", "@nestjs/schedule", "@nestjs/common", "@nestjs/core", "rxjs"];
  for (const name of ["express", "fastify", "hono", "@types/express", "@types/node", ...jobs]) {
    symlinkSync(join(ROOT, "node_modules", name), join(root, "node_modules", name));
  }
  const asEsm = PROGRAM.replace('import express = require("express")', 'import express from "express"');
  writeFileSync(join(root, "esm.mts"), asEsm);
  writeFileSync(join(root, "cjs.cts"), PROGRAM);
  writeFileSync(join(root, "bundled.ts"), asEsm);
  const options = [
    "--noEmit",
    "--strict",
    "--target",
    "es2022",
    "--skipLibCheck",
    "--types",
    "node",
    "--exactOptionalPropertyTypes",
    "--experimentalDecorators",
    "--emitDecoratorMetadata",
  ];
  const tsc = join(ROOT, "node_modules/typescript/bin/tsc");
  const compile = async (...args: readonly string[]): Promise<string> =>
    (await run(process.execPath, [tsc, ...options, ...args], { cwd: root }).catch((error: { stdout: string }) => error))
      .stdout;
  expect(await compile("--module", "nodenext", "esm.mts", "cjs.cts")).toBe("");
  expect(await compile("--module", "esnext", "--moduleResolution", "bundler", "--esModuleInterop", "bundled.ts")).toBe(
    "",
  );
});

test("they are there for import and for require()", async () => {
  const names = "[...Object.keys(a), ...Object.keys(b), ...Object.keys(c)].join()";
  const program = `const a = require("holdfast/express"), b = require("holdfast/fastify"), c = require("holdfast/hono"); console.log(${names})`;
  const { stdout } = await run(process.execPath, ["-e", program], { cwd: ROOT });
  expect(
    stdout
      .trim()
      .split(",")
      .filter((name) => name !== "__esModule"),
  ).toEqual(Array(3).fill(["idempotent", "locked"]).flat());
  const jobs =
    'console.log(typeof require("holdfast/cron").runSlot, typeof require("holdfast/bullmq").lockedProcessor)';
  expect((await run(process.execPath, ["-e", jobs], { cwd: ROOT })).stdout.trim()).toBe("function function");
});
