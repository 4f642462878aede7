/** Renewal from a worker thread, in a process whose main thread is blocked for real. */
import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { DIST } from "../dist.ts";

const run = promisify(execFile);
const store = join(import.meta.dirname, "fixtures/shared-store.mjs");

/** Runs `body` in a process of its own and returns what it prints as JSON. */
async function script(body: string): Promise<unknown> {
  const head = `import { createLocks } from "${DIST}/index.js"; import { sharedStore, block } from "${store}";
    const { view, backend } = sharedStore(); const locks = createLocks(backend); const tell = (x) => console.log(JSON.stringify(x));`;
  const { stdout } = await run(process.execPath, ["--input-type=module", "-e", `${head} ${body}`]);
  return JSON.parse(stdout);
}

test("with the main thread blocked for three times the ttl the lease is still held, and known to be", async () => {
  const result = await script(`
    const lease = await locks.acquire("a", { ttl: 400, renew: "thread" });
    await new Promise((resolve) => setTimeout(resolve, 200));
    block(1200);
    let held = true;
    try { lease.assertHeld(); } catch { held = false; }
    tell({ held, remaining: lease.remaining() > 0, renewed: view[1] >= 3, aborted: lease.signal.aborted, result: await lease.release() });
    await locks.close();`);
  expect(result).toEqual({ held: true, remaining: true, renewed: true, aborted: false, result: "released" });
});

test("the same without the thread loses it: the test can fail", async () => {
  const result = await script(`
    const lease = await locks.acquire("a", { ttl: 400 });
    block(1200);
    let held = true;
    try { lease.assertHeld(); } catch { held = false; }
    tell({ held });`);
  expect(result).toEqual({ held: false });
});

test("a thread that learns that the lease is gone tells it", async () => {
  const result = await script(`
    const lease = await locks.acquire("a", { ttl: 400, renew: "thread" });
    view[2] = 1;
    const alive = setInterval(() => {}, 1000);
    await new Promise((resolve) => lease.signal.addEventListener("abort", resolve));
    clearInterval(alive);
    tell({ reason: lease.signal.reason.reason });
    await locks.close();`);
  expect(result).toMatchObject({ reason: "the store no longer knows the lease" });
});

test("nothing is renewed after the release, and the thread does not keep the process alive", async () => {
  const result = await script(`
    const lease = await locks.acquire("a", { ttl: 300, renew: "thread" });
    await new Promise((resolve) => setTimeout(resolve, 400));
    await lease.release();
    const before = view[1];
    await new Promise((resolve) => setTimeout(resolve, 400));
    tell({ renewedBefore: before > 0, renewedAfter: view[1] - before });`);
  expect(result).toEqual({ renewedBefore: true, renewedAfter: 0 });
});

test("maxHold ends it in the thread too", async () => {
  const result = await script(`
    const lease = await locks.acquire("a", { ttl: 200, maxHold: 500, renew: "thread" });
    block(900);
    const count = view[1];
    block(300);
    let held = true;
    try { lease.assertHeld(); } catch { held = false; }
    tell({ held, renewedLater: view[1] - count });`);
  expect(result).toEqual({ held: false, renewedLater: 0 });
});

test("a thread that cannot reach the store is told at once, and nothing is acquired", async () => {
  const result = await script(`
    backend.renewer = { module: "file:///nowhere.mjs", data: null };
    const error = await locks.acquire("a", { renew: "thread" }).catch((error) => error);
    tell({ code: error.code, held: view[0] });`);
  expect(result).toEqual({ code: "ERR_LOCK_BACKEND", held: 0 });
});

test("S136: a wall clock that steps ahead leaves the lease in doubt only until the thread's next renewal", async () => {
  const result = await script(`
    const lease = await locks.acquire("a", { ttl: "2s", renew: "thread" });
    const before = lease.remaining() > 0;
    view[3] = 5000;
    const doubted = lease.remaining() === 0;
    const renewals = view[1];
    while (view[1] < renewals + 2) await new Promise((next) => setTimeout(next, 20));
    tell({ before, doubted, after: lease.remaining() > 0, result: await lease.release() });
    await locks.close();`);
  expect(result).toEqual({ before: true, doubted: true, after: true, result: "released" });
});

test("S136: a thread that dies is replaced while its leases can still be trusted", async () => {
  const result = await script(`
    const lease = await locks.acquire("a", { ttl: "4s", renew: "thread" });
    view[4] = 1;
    while (view[4] === 1) await new Promise((next) => setTimeout(next, 20));
    const renewals = view[1];
    while (view[1] < renewals + 3) await new Promise((next) => setTimeout(next, 20));
    tell({ aborted: lease.signal.aborted, held: lease.remaining() > 0, result: await lease.release() });
    await locks.close();`);
  expect(result).toEqual({ aborted: false, held: true, result: "released" });
});
