/** Programs as their documentation shows them compile against the old library's types and against ours, with every strict option. */
import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, onTestFinished, test } from "vitest";
import { ROOT } from "../dist.ts";

const run = promisify(execFile);

/** All that redlock 5 documents and types. */
const REDLOCK = `
import Client from "ioredis";
import Redlock, { ExecutionError, Lock, ResourceLockedError } from "redlock";
import type { ClientExecutionResult, ExecutionResult, ExecutionStats, RedlockAbortSignal, Settings } from "redlock";

declare function something(): Promise<void>;
const redisA = new Client.default({ host: "a.redis.example.com" });
const redisB = new Client.default({ host: "b.redis.example.com" });

const all: Settings = {
  driftFactor: 0.01,
  retryCount: 10,
  retryDelay: 200,
  retryJitter: 200,
  automaticExtensionThreshold: 500,
};
const redlock: Redlock = new Redlock([redisA, redisB], all);
new Redlock(new Set([redisA]), { retryCount: -1 }, { acquireScript: (script: string) => script, releaseScript: "" });

redlock.on("error", (error) => {
  if (error instanceof ResourceLockedError) return;
  console.error(error);
});

const value: number = await redlock.using(["a", "b"], 5000, async (signal: RedlockAbortSignal) => {
  await something();
  if (signal.aborted) throw signal.error;
  signal.addEventListener("abort", () => undefined);
  return 1;
});
const text: string = await redlock.using(["a"], 5000, { retryCount: 5 }, async (signal) => String(signal.error?.message) + value);

let lock: Lock = await redlock.acquire(["a"], 5000, { retryCount: 0 });
try {
  lock = await lock.extend(5000);
  lock = await redlock.extend(lock, 5000, { driftFactor: 0.02 });
  const left: number = lock.expiration - Date.now();
  lock.expiration = 0;
  const facts: [Redlock, string[], string, string, number] = [lock.redlock, lock.resources, lock.value, text, left];
  const copy = new Lock(redlock, facts[1], facts[2], lock.attempts, left);
  await copy.release();
} catch (error) {
  if (error instanceof ExecutionError) {
    const attempts: readonly Promise<ExecutionStats>[] = error.attempts;
    for (const { membershipSize, quorumSize, votesFor, votesAgainst } of await Promise.all(attempts)) {
      const reasons: Error[] = [...votesAgainst.values()];
      console.log(membershipSize, quorumSize, votesFor.size, reasons, votesFor.has(redisA));
    }
  }
} finally {
  const result: ExecutionResult = await redlock.release(lock, { retryCount: 0 });
  console.log(result.attempts.length, redlock.settings.retryCount, redlock.clients.size, redlock.scripts.acquireScript.hash);
}
const vote = (result: ClientExecutionResult): number | Error => (result.vote === "for" ? result.value : result.error);
console.log(vote, new ResourceLockedError("x").message, new ExecutionError("x", []).attempts);
await redlock.quit();
`;

/** All that redis-semaphore 5 documents and types. */
const REDIS_SEMAPHORE = `
import Redis from "ioredis";
import { defaultTimeoutOptions, LostLockError, MultiSemaphore, Mutex } from "redis-semaphore";
import { RedlockMultiSemaphore, RedlockMutex, RedlockSemaphore, Semaphore, TimeoutError } from "redis-semaphore";
import type { LockLostCallback, LockOptions, TimeoutOptions } from "redis-semaphore";

const redisClient = new Redis.default();
const redisClients = [new Redis.default(6377), new Redis.default(6378), new Redis.default(6379)];
const lost: LockLostCallback = function (error: LostLockError) {
  console.error(error.message, this.isAcquired, this.identifier);
};
const timeouts: TimeoutOptions = { lockTimeout: 120000, acquireTimeout: 10, retryInterval: 1, refreshInterval: 15000 };
const options: LockOptions = { ...timeouts, acquireAttemptsLimit: 1, onLockLost: lost, identifierSuffix: "a" };

const mutex = new Mutex(redisClient, "lockingResource", options);
const lockAcquired: boolean = await mutex.tryAcquire();
if (lockAcquired) {
  try {
    while (mutex.isAcquired) console.log("critical");
  } finally {
    mutex.stopRefresh();
    await mutex.release();
  }
}
await new Mutex(redisClient, "lockingResource", { onLockLost(error) { console.error(error); } }).acquire();
const handler = new Mutex(redisClient, "lockingResource", { identifier: mutex.identifier, acquiredExternally: true });
await handler.acquire(AbortSignal.timeout(1000)).catch((error: unknown) => {
  if (!(error instanceof TimeoutError)) throw error;
});
new Mutex(redisClient, "lockingResource", { externallyAcquiredIdentifier: "id" });
const locks: { acquire(): Promise<void>; tryAcquire(signal?: AbortSignal): Promise<boolean>; release(): Promise<void> }[] = [
  new Semaphore(redisClient, "lockingResource", 5),
  new MultiSemaphore(redisClient, "lockingResource", 5, 2),
  new RedlockMutex(redisClients, "lockingResource"),
  new RedlockSemaphore(redisClients, "lockingResource", 5, { lockTimeout: 1000 }),
  new RedlockMultiSemaphore(redisClients, "lockingResource", 5, 2),
];
for (const lock of locks) await lock.release();
const milliseconds: number = defaultTimeoutOptions.lockTimeout + defaultTimeoutOptions.acquireAttemptsLimit;
class Named extends Mutex {
  get fullKey(): string {
    return this._kind + this._key + this._identifier;
  }
  protected override async _refresh(): Promise<boolean> {
    return await super._refresh();
  }
}
console.log(milliseconds, new Named(redisClient, "a").fullKey);
`;

test.each([
  ["node_modules/redlock/dist/index.d.ts", "redlock", REDLOCK],
  ["dist/drop-ins/redlock/index.d.ts", "redlock", REDLOCK],
  ["node_modules/redis-semaphore/lib/index.d.ts", "redis-semaphore", REDIS_SEMAPHORE],
  ["dist/drop-ins/redis-semaphore/index.d.ts", "redis-semaphore", REDIS_SEMAPHORE],
])("against %s", async (types, library, program) => {
  const root = mkdtempSync(join(tmpdir(), "holdfast-types-"));
  onTestFinished(() => rmSync(root, { recursive: true }));
  mkdirSync(join(root, "node_modules"));
  for (const name of ["ioredis", "@types"])
    symlinkSync(join(ROOT, "node_modules", name), join(root, "node_modules", name));
  const compilerOptions = {
    noEmit: true,
    strict: true,
    noUncheckedIndexedAccess: true,
    exactOptionalPropertyTypes: true,
    noImplicitOverride: true,
    noUnusedLocals: true,
    skipLibCheck: true,
    target: "es2022",
    module: "nodenext",
    types: ["node"],
    paths: { [library]: [join(ROOT, types)] },
  };
  writeFileSync(join(root, "tsconfig.json"), JSON.stringify({ compilerOptions, files: ["program.mts"] }));
  writeFileSync(join(root, "program.mts"), program);
  const tsc = join(ROOT, "node_modules/typescript/bin/tsc");
  const compiled = run(process.execPath, [tsc, "-p", root]).catch((error: { stdout: string }) => error);
  expect((await compiled).stdout).toBe("");
});

test("they are there for import and for require(), with their default export", async () => {
  const program =
    'console.log(typeof require("holdfast/redlock").default, Object.keys(require("holdfast/redis-semaphore")).length)';
  const { stdout } = await run(process.execPath, ["-e", program], { cwd: ROOT });
  expect(stdout).toMatch(/^function (?:9|10)\n$/);
});
