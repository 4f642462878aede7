/**
 * The programs in the pages compile: against the built package and the real frameworks, as strict TypeScript, or, where they are JavaScript, as the
 * editor of one who copies them checks it. What a page takes for granted, such as the reader's own functions, is declared here.
 */
import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { expect, onTestFinished, test } from "vitest";
import { ROOT } from "./dist.ts";

const ANY = (...names: readonly string[]): string => names.map((name) => `declare const ${name}: any;`).join(" ");
const LOCKS = 'import type { Locks } from "holdfast"; declare const locks: Locks;';
const LEASE = 'declare const lease: import("holdfast").Lease;';
const POOL = 'declare const pool: import("pg").Pool;';
const CORE = 'import { connect, createLocks } from "holdfast"; import { memory } from "holdfast/memory";';
const TESTING = 'import { conformance, withoutDeclined } from "holdfast/testing";';
const README = ["", `${ANY("fn", "fence", "work")} declare const client: import("ioredis").Redis;`];
const START = ["", "", `${LOCKS} ${ANY("pay", "report", "load", "transfer", "schedule")}`, ""];
const STORY = ["", "", "", "", ""];
const EXPRESS = `declare const app: import("express").Express;
    declare global { namespace Express { interface Request { user: { readonly id: string } } } }`;

/** What is shown, and is no program that a reader has. */
const SHOWN = undefined;

/** For each program of a page, in their order: what it takes for granted. */
const GIVEN: Readonly<Record<string, readonly (string | typeof SHOWN)[]>> = {
  "README.md": README,
  "docs/README.md": [""],
  "docs/backends/etcd.md": [""],
  "docs/backends/file.md": ["", `import { file } from "holdfast/file"; ${ANY("child")}`],
  "docs/backends/postgres.md": [POOL, 'declare const client: import("pg").Client;'],
  "docs/backends/quorum.md": [""],
  "docs/backends/redis-plain.md": [
    'declare const client: import("ioredis").Redis;',
    `${CORE} import { quorum } from "holdfast/quorum"; import { redisPlain } from "holdfast/redis-plain"; ${ANY("c1", "c2", "c3")}`,
  ],
  "docs/backends/redis.md": [""],
  "docs/backends/redisson.md": ['declare const client: import("ioredis").Redis;'],
  "docs/backends/shedlock.md": [POOL],
  "docs/backends/zookeeper.md": ["", CORE],
  "docs/bullmq.md": [`${LOCKS} ${ANY("charge", "connection")}`],
  "docs/concepts.md": [`${LOCKS} ${ANY("work")}`],
  "docs/console.md": [ANY("userOf")],
  "docs/contention.md": [LOCKS, SHOWN],
  "docs/cron.md": [
    `${LOCKS} ${ANY("writeReport")} declare const slot: Date;`,
    `${LOCKS} ${ANY("report")}`,
    `${LOCKS} ${ANY("report")}`,
    `import { Injectable } from "@nestjs/common"; import { Cron } from "@nestjs/schedule"; ${LOCKS}
    import { OncePerSlot, runMissed, type SlotRun } from "holdfast/cron";`,
    `${LOCKS} ${ANY("refresh")}`,
  ],
  "docs/deadlocks.md": [`${CORE} import { LockDeadlockError } from "holdfast"; ${ANY("url", "transfer", "tryLater")}`],
  "docs/events.md": [ANY("log", "histogram")],
  "docs/fencing.md": [
    `${LOCKS} ${POOL}`,
    `${LOCKS} ${POOL}`,
    `${LOCKS} declare const redis: import("ioredis").Redis;`,
    `${LEASE} ${ANY("data")} declare const zookeeper: import("holdfast/zookeeper").ZooKeeperClient;`,
    `${LEASE} ${ANY("value")} declare const etcd: import("holdfast/etcd").EtcdClient;`,
    `${LOCKS} ${ANY("text")}`,
    `${LOCKS} ${ANY("body")}`,
    `${POOL} ${ANY("app", "handler")}`,
    `import { admittedFence, expressGuard } from "holdfast/fence/http"; import { withFence } from "holdfast/fence/postgres";
    ${POOL} declare const app: import("express").Express;`,
    `${ANY("text")} declare const marks: import("holdfast/fence").MarkStore;`,
  ],
  "docs/from-curator.md": [""],
  "docs/from-etcdctl.md": [""],
  "docs/from-redis-semaphore.md": [`${ANY("step")} declare const redisClient: import("ioredis").Redis;`],
  "docs/from-redisson.md": [ANY("pay"), ""],
  "docs/from-redlock.md": [`${ANY("something")} declare const [redisA, redisB, redisC]: import("ioredis").Redis[];`],
  "docs/from-shedlock.md": [POOL],
  "docs/http.md": [
    `${LOCKS} ${ANY("handler")} ${EXPRESS}`,
    `import type { FastifyRequest } from "fastify"; import { locked } from "holdfast/fastify"; ${LOCKS} ${ANY("change")}
    declare const app: import("fastify").FastifyInstance;`,
  ],
  "docs/lab.md": [
    `import { startProxy } from "${ROOT}/build/lab/proxy.js"; import { startRedis } from "${ROOT}/build/lab/servers/redis.js";`,
  ],
  "docs/nestjs.md": [
    `interface Order { readonly id: string; readonly tenant: string } interface Invoice { readonly id: string }
    ${ANY("write")}`,
    `import { Get } from "@nestjs/common"; import { HealthCheckService } from "@nestjs/terminus";
    import { LocksHealthIndicator } from "holdfast/nestjs"; class Health {`,
  ],
  "docs/nextjs.md": ["", ""],
  "docs/recipes/cron.md": [
    `${LOCKS} ${ANY("report")}`,
    `${LOCKS} ${ANY("report")} declare const slot: Date;`,
    `${LOCKS} ${ANY("report")}`,
  ],
  "docs/recipes/double-submit.md": [
    `${LOCKS} ${ANY("placeOrder")} declare const cartId: string;`,
    `${LOCKS} ${ANY("handler")} ${EXPRESS}`,
  ],
  "docs/recipes/job-queues.md": [
    `${LOCKS} ${ANY("charge", "connection")} interface Order { readonly customer: string }`,
    `${LOCKS} ${ANY("charge")}
    interface Message { readonly customer: string; retryLater(after: string): Promise<void> }`,
  ],
  "docs/recipes/leader.md": [`${LOCKS} ${ANY("planNextJobs")}`],
  "docs/recipes/limit-and-rate.md": [`${LOCKS} ${ANY("callAcme")}`, `${LOCKS} ${ANY("sendNext")}`],
  "docs/recipes/migrations.md": [`${LOCKS} ${ANY("migrate")}`],
  "docs/recipes/payments.md": [`${LOCKS} ${POOL} ${ANY("load", "gateway")} declare const id: string;`],
  "docs/recipes/serverless.md": [ANY("prepare", "save")],
  "docs/recipes/tenants.md": [
    `${LOCKS} ${ANY("bill")} declare const tenant: string; declare const invoice: string;`,
    `${LOCKS} ${ANY("exportAll", "nameOf")} declare const tenant: string;`,
  ],
  "docs/start.md": START,
  "docs/story.md": STORY,
  "docs/telemetry.md": [
    'import { instrument } from "holdfast/otel";',
    ANY("template"),
    `import { PeriodicExportingMetricReader } from "@opentelemetry/sdk-metrics"; ${ANY("template", "exporter")}`,
    `${ANY("template")} declare const app: import("express").Express;`,
    ANY("template"),
    ANY("logger"),
  ],
  "docs/testing.md": ["", TESTING, `${TESTING} ${ANY("backend", "context", "test")}`, SHOWN, CORE, CORE],
  "docs/verrou.md": [ANY("pay")],
  "docs/web-locks.md": [ANY("pay", "read", "work"), LOCKS],
  "docs/zh/README.md": README,
  "docs/zh/from-java.md": [ANY("pay"), "", ""],
  "docs/zh/start.md": START,
  "docs/zh/story.md": STORY,
};

/** What requests and jobs have besides: in JavaScript, nothing says so. */
const UNTYPED = /TS2339: Property '(?:params|customer)' does not exist/;

interface Program {
  readonly file: string;
  readonly text: string;
}

/** What is left out and the reader's own modules are there, a name that stands for several ways is one of its own each time, and an open class is closed. */
function completed(code: string, given: string): string {
  const names = new Map<string, number>();
  const text = code
    .replaceAll("{ … }", "{ return undefined as never; }")
    .replaceAll(/^…$/gm, "")
    .replaceAll(/(from |import\()"\.[^"]*"/g, '$1"yours"')
    .replaceAll(/^(const|await using) (\w+) =/gm, (_all, how: string, name: string) => {
      const times = (names.get(name) ?? 0) + 1;
      names.set(name, times);
      return `${how} ${name}${times === 1 ? "" : times} =`;
    });
  return `${given}\n${text}\n${given.endsWith("{") ? "}" : ""}\nexport {};\n`;
}

function programsOf(page: string): readonly Program[] {
  const given = GIVEN[page]!;
  const blocks = [...readFileSync(join(ROOT, page), "utf8").matchAll(/^```(js|ts)\n([\s\S]*?)^```$/gm)];
  expect(given.length, `the programs of ${page}`).toBe(blocks.length);
  return blocks.flatMap(([, language, code = ""], at) => {
    const before = given[at];
    // As TypeScript in any case, because what is given is declared in it.
    const file = `${language}/${page.replaceAll(/[/.]/g, "-")}-${at + 1}.ts`;
    return before === SHOWN ? [] : [{ file, text: completed(code, before) }];
  });
}

/** Programs that would be passed over: under another name of their language, or indented. */
const PASSED_OVER =
  /^```(?:typescript|javascript|[tj]sx|[mc][tj]s)\b|^[ >]+```[mc]?[tj]sx?\b|^[ >]+```(?:type|java)script\b/gm;

test("every page with a program is checked here", () => {
  const pages = [
    "README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "SUPPORT.md",
    "CHANGELOG.md",
    ...readdirSync(join(ROOT, "docs"), { recursive: true, encoding: "utf8" })
      // Made from the declarations when the site is built.
      .filter((file) => !file.startsWith("generated"))
      .map((file) => `docs/${file}`),
  ];
  const texts = pages
    .filter((page) => page.endsWith(".md"))
    .map((page) => [page, readFileSync(join(ROOT, page), "utf8")] as const);
  const withPrograms = texts.filter(([, text]) => /^```(js|ts)$/m.test(text)).map(([page]) => page);
  expect(withPrograms.toSorted()).toEqual(Object.keys(GIVEN).toSorted());
  expect(texts.flatMap(([page, text]) => (text.match(PASSED_OVER) ?? []).map((one) => `${page}: ${one}`))).toEqual([]);
  for (const one of ["```typescript\n", "a\n  ```ts\n", "> ```js\n", "```mts\n"]) expect(one).toMatch(PASSED_OVER);
});

test("they compile", async () => {
  const root = mkdtempSync(join(tmpdir(), "holdfast-docs-"));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
  mkdirSync(join(root, "node_modules"));
  for (const name of readdirSync(join(ROOT, "node_modules")))
    if (!name.startsWith(".")) symlinkSync(join(ROOT, "node_modules", name), join(root, "node_modules", name));
  symlinkSync(ROOT, join(root, "node_modules/holdfast"));
  for (const { file, text } of Object.keys(GIVEN).flatMap(programsOf)) {
    mkdirSync(dirname(join(root, file)), { recursive: true });
    writeFileSync(join(root, file), text);
  }
  writeFileSync(join(root, "yours.d.ts"), 'declare module "yours";');
  writeFileSync(join(root, "package.json"), '{ "type": "module" }');
  const compilerOptions = {
    target: "es2022",
    lib: ["esnext", "dom"],
    module: "nodenext",
    noEmit: true,
    skipLibCheck: true,
    types: ["node"],
    esModuleInterop: true,
    experimentalDecorators: true,
    emitDecoratorMetadata: true,
  };
  for (const [language, strict] of [
    ["ts", true],
    ["js", false],
  ] as const) {
    const config = { compilerOptions: { ...compilerOptions, strict }, include: [`${language}/*`, "yours.d.ts"] };
    writeFileSync(join(root, `${language}.json`), JSON.stringify(config));
    const tsc = join(ROOT, "node_modules/typescript/bin/tsc");
    const compiled = promisify(execFile)(process.execPath, [tsc, "-p", `${language}.json`], { cwd: root });
    const { stdout } = await compiled.catch((error: { readonly stdout: string }) => error);
    const errors = stdout.split("\n").filter((line) => line !== "");
    expect(errors.filter((line) => language === "ts" || !UNTYPED.test(line))).toEqual([]);
  }
});
