/** As users have it: TypeScript with Nest's decorators, compiled; minified, where no name of a class or of a parameter is left; and stopped by a signal. */
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { rolldown } from "rolldown";
import { afterAll, beforeAll, expect, test } from "vitest";
import { connect } from "../../src/connect.ts";
import { eventually } from "../../src/testing/eventually.ts";
import { ROOT } from "../dist.ts";

const run = promisify(execFile);
const EXAMPLE = join(ROOT, "examples/nestjs");
/** Inside of the package, so that it finds itself by its name. */
const OUT = join(EXAMPLE, "dist");
const PRINTED =
  /^charging 100, fence is a bigint, lost: false\n201 \{"paid":100\}\n201 \{"paid":100\}\nheld: true; another request gets 409\n$/;

beforeAll(async () => {
  await run(process.execPath, [join(ROOT, "node_modules/typescript/bin/tsc"), "-p", EXAMPLE, "--outDir", OUT]);
});

afterAll(() => rmSync(OUT, { recursive: true, force: true }));

const printedBy = async (program: string): Promise<string> => {
  const env = { PATH: process.env["PATH"] ?? "", HOLDFAST_URL: "memory:" };
  const { stdout, stderr } = await run(process.execPath, [program], { cwd: ROOT, env, timeout: 120_000 });
  expect(stderr).toBe("");
  return stdout;
};

test("the example compiles under strict settings, and runs", async () => {
  expect(await printedBy(join(OUT, "main.js"))).toMatch(PRINTED);
});

test("minified it runs the same", async () => {
  const bundle = await rolldown({
    input: join(OUT, "main.js"),
    platform: "node",
    external: (id) => !id.startsWith(".") && !id.startsWith("/") && !id.startsWith("holdfast"),
    logLevel: "silent",
  });
  const minified = join(OUT, "minified/main.js");
  await bundle.write({ dir: join(OUT, "minified"), format: "esm", minify: { mangle: true, compress: true } });
  await bundle.close();
  const text = readFileSync(minified, "utf8");
  expect(text).not.toMatch(/class Invoices|make\(order\)|class LocksModule/);
  expect(await printedBy(minified)).toMatch(PRINTED);
});

const WORKER = `
import "reflect-metadata";
import { applyDecorators, Injectable, Module } from "@nestjs/common";
import { NestFactory } from "@nestjs/core";
import { currentLease, Lock, LocksModule } from "holdfast/nestjs";
class Work {
  async job() {
    const { signal } = currentLease();
    console.log("ready");
    await new Promise((resolve) => signal.addEventListener("abort", resolve));
    console.log("asked to stop, held:", currentLease().remaining() > 0);
  }
}
const descriptor = Object.getOwnPropertyDescriptor(Work.prototype, "job");
applyDecorators(Lock("job"))(Work.prototype, "job", descriptor);
Object.defineProperty(Work.prototype, "job", descriptor);
Injectable()(Work);
class App {}
Module({ imports: [LocksModule.forRoot({ grace: "30s" })], providers: [Work] })(App);
const app = await NestFactory.createApplicationContext(App, { logger: ["error", "warn"] });
app.enableShutdownHooks(["SIGTERM"]);
setInterval(() => {}, 1000);
await app.get(Work).job();
console.log("released");
`;

test("SIGTERM: the method is asked to stop, its lease is released, and the process ends by the signal", async () => {
  const dir = mkdtempSync(join(tmpdir(), "holdfast-nestjs-"));
  const url = `file:${dir}`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", WORKER], {
    cwd: ROOT,
    env: { PATH: process.env["PATH"] ?? "", HOLDFAST_URL: url },
    stdio: ["ignore", "pipe", "inherit"],
  });
  try {
    let printed = "";
    child.stdout.on("data", (data: Buffer) => (printed += String(data)));
    const closed = once(child, "close");
    await eventually("it works", () => printed.startsWith("ready") || undefined);
    const locks = await connect(url);
    expect(await locks.isHeld("job")).toBe(true);
    child.kill("SIGTERM");
    expect(await closed).toEqual([null, "SIGTERM"]);
    expect(printed).toBe("ready\nasked to stop, held: true\nreleased\n");
    expect(await locks.isHeld("job")).toBe(false);
    await locks.close();
  } finally {
    child.kill("SIGKILL");
    rmSync(dir, { recursive: true, force: true });
  }
});
