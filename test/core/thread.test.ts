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
  const head = `import { createLocks } from "${DIST}/index.js"; import { sharedStore, block, nowMs } from "${store}";
    const { view, backend } = sharedStore(); const locks = createLocks(backend); const tell = (x) => console.log(JSON.stringify(x));`;
  const { stdout } = await run(process.execPath, ["--input-type=module", "-e", `${head} ${body}`]);
  return JSON.parse(stdout);
}

test("with the main thread blocked for longer than the ttl the lease is still held, and known to be", async () => {
  const result = await script(`
    const lease = await locks.acquire("a", { ttl: "3s", renew: "thread" });
    const untilMs = nowMs() + 3500;
    while (nowMs() < untilMs || view[1] < 3) block(50);
    let held = true;
    try { lease.assertHeld(); } catch { held = false; }
    tell({ held, remaining: lease.remaining() > 0, aborted: lease.signal.aborted, result: await lease.release() });
    await locks.close();`);
  expect(result).toEqual({ held: true, remaining: true, aborted: false, result: "released" });
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
    const lease = await locks.acquire("a", { ttl: "20s", renew: "thread" });
    view[2] = 1;
    // In doubt, it is asked for at once.
    view[3] = 5000;
    lease.remaining();
    const alive = setInterval(() => {}, 1000);
    await new Promise((resolve) => lease.signal.addEventListener("abort", resolve));
    clearInterval(alive);
    tell({ reason: lease.signal.reason.reason });
    await locks.close();`);
  expect(result).toMatchObject({ reason: "the store no longer knows the lease" });
});

test("nothing is renewed after the release, and the thread does not keep the process alive", async () => {
  const result = await script(`
    const lease = await locks.acquire("a", { ttl: "3s", renew: "thread" });
    while (view[1] === 0) await new Promise((next) => setTimeout(next, 20));
    const answer = await lease.release();
    const before = view[1];
    // The next would leave after a third of the ttl.
    await new Promise((resolve) => setTimeout(resolve, 1100));
    tell({ answer, renewedAfter: view[1] - before });`);
  expect(result).toEqual({ answer: "released", renewedAfter: 0 });
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

test("trust counts from when the thread's renewal left, however late its answer comes", async () => {
  const result = await script(`
    const until = async (look) => { while (!look()) await new Promise((next) => setTimeout(next, 5)); };
    const lease = await locks.acquire("a", { ttl: "20s", renew: "thread" });
    // In doubt, it is renewed at once; and the answer is held back.
    view[5] = Infinity;
    view[3] = 5000;
    const doubted = lease.remaining() === 0;
    await until(() => view[6] > 0);
    await until(() => nowMs() > view[6] + 300);
    view[5] = 0;
    await until(() => lease.remaining() > 0);
    const sinceMs = nowMs() - view[6];
    tell({ doubted, early: lease.remaining() <= 20_000 * 0.99 - 2 - sinceMs + 1 });
    await lease.release();
    await locks.close();`);
  expect(result).toEqual({ doubted: true, early: true });
});

test("a yes that reaches the thread after the lease's time does not revive it", async () => {
  const result = await script(`
    view[5] = Infinity;
    const lease = await locks.acquire("a", { ttl: "3s", renew: "thread" });
    const endMs = nowMs() + 3000;
    // A renewal left in time, and was granted; its answer comes when the old trust is over and this thread does not look.
    while (view[6] === 0) await new Promise((next) => setTimeout(next, 5));
    view[5] = endMs;
    while (view[7] < endMs) block(20);
    block(100);
    let held = true;
    try { lease.assertHeld(); } catch { held = false; }
    tell({ held, remaining: lease.remaining(), result: await lease.release() });
    await locks.close();`);
  expect(result).toEqual({ held: false, remaining: 0, result: "lost" });
});
