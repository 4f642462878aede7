/** Renewal from a worker thread, in a process whose main thread is blocked for real. */
import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { BUILD, DIST } from "../dist.ts";

const run = promisify(execFile);
const store = join(import.meta.dirname, "fixtures/shared-store.mjs");

/** Runs `body` in a process of its own, which has to end by itself, and returns what it prints as JSON. */
async function script(body: string): Promise<unknown> {
  const head = `import { createLocks } from "${DIST}/index.js"; import { sharedStore, block, nowMs } from "${store}";
    const { view, backend } = sharedStore(); const locks = createLocks(backend); const tell = (x) => console.log(JSON.stringify(x));
    const workers = []; process.on("worker", (worker) => workers.push(worker));
    const until = async (done) => { while (!done()) await new Promise((next) => setTimeout(next, 5)); };
    const failure = (promise) => promise.then(() => "none", (error) => error.code ?? error.message);`;
  const { stdout } = await run(process.execPath, ["--input-type=module", "-e", `${head} ${body}`], {
    // One that does not end by itself fails the test, and is not left behind.
    timeout: 180_000,
    killSignal: "SIGKILL",
  });
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

test("extended for another ttl, an answer that the thread gets to a question for the first one does not count", async () => {
  const result = await script(`
    const lease = await locks.acquire("a", { ttl: "2s", renew: "thread" });
    // The thread's next question gets no reply for a while.
    view[6] = nowMs() + 1500;
    const left = view[10];
    await until(() => view[10] > left);
    const extended = await lease.extend("1m");
    await until(() => view[8] >= view[6]);
    block(300);
    const beyond = lease.remaining() - (view[0] - nowMs());
    const count = view[10];
    // Its next one is for the new ttl: nothing is due for a while.
    block(2500);
    lease.assertHeld();
    tell({ extended: extended > 58_000, beyond: beyond > 0, asked: view[10] - count, result: await lease.release() });
    await locks.close();`);
  expect(result).toEqual({ extended: true, beyond: false, asked: 0, result: "released" });
});

test("extended for a shorter ttl, it takes nothing away before the thread's next renewal", async () => {
  const result = await script(`
    const kept = [];
    for (let count = 0; count < 20; count++) {
      const lease = await locks.acquire("a", { ttl: "10m", renew: "thread" });
      kept.push((await lease.extend("5m")) > 300_000 && lease.remaining() > 300_000);
      await lease.release();
    }
    tell(kept);
    await locks.close();`);
  expect(result).toEqual(Array(20).fill(true));
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

test("a thread that cannot reach the store is reported at once, and nothing is acquired", async () => {
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

test("S136: who has given up or closed before starts no thread", async () => {
  const result = await script(`
    const aborted = await failure(locks.acquire("a", { renew: "thread", signal: AbortSignal.abort(new Error("enough")) }));
    await locks.close();
    const closed = [
      await failure(locks.acquire("a", { renew: "thread" })),
      await failure(locks.tryAcquire("a", { renew: "thread" })),
      await failure(locks.run("a", { renew: "thread" }, () => {})),
    ];
    await new Promise((next) => setImmediate(next));
    tell({ aborted, closed, workers: workers.length, held: view[0] });`);
  const closed = ["ERR_LOCK_CLOSED", "ERR_LOCK_CLOSED", "ERR_LOCK_CLOSED"];
  expect(result).toEqual({ aborted: "enough", closed, workers: 0, held: 0 });
});

test("S136: while the thread starts, the wait, the signal and close() are heeded, and the process ends by itself", async () => {
  const result = await script(`
    view[5] = 1;
    const waited = await failure(locks.acquire("a", { renew: "thread", wait: 50 }));
    const tried = await failure(locks.tryAcquire("a", { renew: "thread", timeout: 50 }));
    const controller = new AbortController();
    const aborted = failure(locks.acquire("a", { renew: "thread", wait: Infinity, signal: controller.signal }));
    const office = failure(locks.elect("a", { renew: "thread" }, () => {}));
    const closed = failure(locks.acquire("a", { renew: "thread", wait: Infinity }));
    await until(() => workers.length > 0);
    controller.abort(new Error("enough"));
    const first = await aborted;
    await locks.close();
    tell({ waited, tried, first, closed: await closed, office: await office, workers: workers.length, held: view[0] });`);
  expect(result).toEqual({
    waited: "ERR_LOCK_BACKEND",
    tried: "ERR_LOCK_BACKEND",
    first: "enough",
    closed: "ERR_LOCK_CLOSED",
    office: "none",
    workers: 1,
    held: 0,
  });
});

test("S136: a thread that never gets ready keeps no process alive once no request waits for it", async () => {
  const result = await script(`
    view[5] = 1;
    tell({ waited: await failure(locks.acquire("a", { renew: "thread", wait: 50 })) });`);
  expect(result).toEqual({ waited: "ERR_LOCK_BACKEND" });
});

test("S136: the time that the start took comes off the wait", async () => {
  const result = await script(`
    view[5] = 1;
    backend.attempt = () => new Promise(() => {});
    const waiting = failure(locks.acquire("a", { renew: "thread", wait: 2000 }));
    setTimeout(() => (view[5] = 0), 1500);
    // Timers fire in the order in which they are due, however late: without it the acquire would end at 3500.
    const later = new Promise((resolve) => setTimeout(resolve, 3000, "later"));
    tell({ first: (await Promise.race([waiting, later])) !== "later" });
    process.exit();`);
  expect(result).toEqual({ first: true });
});

test("S136: a thread killed while it starts fails those who wait for it, and the next call has another", async () => {
  const result = await script(`
    view[5] = 1;
    const waiting = failure(locks.acquire("a", { renew: "thread", wait: Infinity }));
    await until(() => workers.length > 0);
    await workers[0].terminate();
    const code = await waiting;
    view[5] = 0;
    const lease = await locks.acquire("a", { renew: "thread" });
    tell({ code, workers: workers.length, result: await lease.release() });
    await locks.close();`);
  expect(result).toEqual({ code: "ERR_LOCK_BACKEND", workers: 2, result: "released" });
});

test("S136: a thread killed while the store is asked for the lock is replaced before the lease can pass", async () => {
  const result = await script(`
    const attempt = backend.attempt;
    backend.attempt = async (claim) => {
      await workers[0].terminate();
      return await attempt(claim);
    };
    const lease = await locks.acquire("a", { ttl: "9s", renew: "thread" });
    await until(() => view[1] > 0 || lease.signal.aborted);
    tell({ aborted: lease.signal.aborted, workers: workers.length, result: await lease.release() });
    await locks.close();`);
  expect(result).toEqual({ aborted: false, workers: 2, result: "released" });
});

/** A script whose timers of ten seconds, the time limit of a thread's start, fire when it says so. */
const LATE = `
  const starts = [];
  const clock = {
    now: () => performance.now(),
    wall: () => Date.now(),
    setTimer: (fn, ms) => (ms === 10_000 ? { start: starts.push(fn) } : setTimeout(fn, ms)),
    clearTimer: (timer) => (timer?.start === undefined ? clearTimeout(timer) : (starts[timer.start - 1] = undefined)),
  };
  const timed = createLocks(backend, { clock });`;

test("S136: a thread that cannot open the store in time is replaced, and those who wait for it get the error", async () => {
  const result = await script(`${LATE}
    view[5] = 1;
    const waiting = timed.acquire("a", { renew: "thread", wait: Infinity }).catch((error) => error.message);
    await until(() => view[11] === 1);
    starts[0]();
    const message = await waiting;
    view[5] = 0;
    const lease = await timed.acquire("a", { renew: "thread" });
    tell({ message, workers: workers.length, result: await lease.release(), left: starts.filter(Boolean).length });
    await timed.close();`);
  expect(result).toEqual({
    message: expect.stringContaining("it has not opened the store within 10 s"),
    workers: 2,
    result: "released",
    left: 0,
  });
});

test("S136: so is one that replaces another, while the leases can still be trusted", async () => {
  const result = await script(`${LATE}
    const lease = await timed.acquire("a", { ttl: "1h", renew: "thread" });
    [view[5], view[11]] = [1, 0];
    await workers[0].terminate();
    await until(() => view[11] === 1);
    starts[1]();
    await until(() => workers.length === 3);
    view[5] = 0;
    // In doubt, it is asked for as soon as there is a thread.
    view[3] = 5000;
    await until(() => lease.remaining() > 0);
    tell({ renewed: view[1] > 0, workers: workers.length, result: await lease.release() });
    await timed.close();`);
  expect(result).toEqual({ renewed: true, workers: 3, result: "released" });
});

test("S136: where no thread can live the loss is reported by the clock, and the process ends by itself", async () => {
  const result = await script(`
    process.on("worker", (worker) => workers.length > 1 && void worker.terminate());
    const lease = await locks.acquire("a", { ttl: 600, renew: "thread" });
    await workers[0].terminate();
    await until(() => lease.signal.aborted);
    tell({ reason: lease.signal.reason.name, remaining: lease.remaining(), result: await lease.release() });`);
  expect(result).toEqual({ reason: "LockLostError", remaining: 0, result: "lost" });
});

test("S136: a thread killed while it closes, and one that cannot close, do not hold close() up", async () => {
  const result = await script(`
    const lease = await locks.acquire("a", { renew: "thread" });
    const closing = locks.close();
    void workers[0].terminate();
    await closing;
    tell({ result: await lease.release(), again: await failure(locks.close()) });`);
  expect(result).toEqual({ result: "lost", again: "none" });
});

test("trust counts from when the thread's renewal left, however late its answer comes", async () => {
  const result = await script(`
    const lease = await locks.acquire("a", { ttl: "20s", renew: "thread" });
    // In doubt, it is renewed at once; and the answer is held back.
    view[6] = Infinity;
    view[3] = 5000;
    const doubted = lease.remaining() === 0;
    await until(() => view[7] > 0);
    await until(() => nowMs() > view[7] + 300);
    view[6] = 0;
    await until(() => lease.remaining() > 0);
    const sinceMs = nowMs() - view[7];
    tell({ doubted, early: lease.remaining() <= 20_000 * 0.99 - 2 - sinceMs + 1 });
    await lease.release();
    await locks.close();`);
  expect(result).toEqual({ doubted: true, early: true });
});

test("a yes that reaches the thread after the lease's time does not revive it", async () => {
  const result = await script(`
    view[6] = Infinity;
    const lease = await locks.acquire("a", { ttl: "3s", renew: "thread" });
    const endMs = nowMs() + 3000;
    // A renewal left in time, and was granted; its answer comes when the old trust is over and this thread does not look.
    while (view[7] === 0) await new Promise((next) => setTimeout(next, 5));
    view[6] = endMs;
    while (view[8] < endMs) block(20);
    block(100);
    let held = true;
    try { lease.assertHeld(); } catch { held = false; }
    tell({ held, remaining: lease.remaining(), result: await lease.release() });
    await locks.close();`);
  expect(result).toEqual({ held: false, remaining: 0, result: "lost" });
});

test("S136: a renewal that is never answered is asked for again in the thread too, while the lease is trusted", async () => {
  const result = await script(`
    const lease = await locks.acquire("a", { ttl: "7500ms", renew: "thread" });
    // In doubt, it is asked for at once; and that question is lost on the way.
    view[9] = 1;
    view[3] = 5000;
    const doubted = lease.remaining() === 0;
    // Not by looking at the lease, which would ask for it.
    const renewals = view[1];
    await until(() => view[1] > renewals || lease.signal.aborted);
    tell({ doubted, aborted: lease.signal.aborted, again: view[10] > 1, result: await lease.release() });
    await locks.close();`);
  expect(result).toEqual({ doubted: true, aborted: false, again: true, result: "released" });
});

test("S157: checking a lease in doubt many times asks its thread once", async () => {
  const result = await script(`
    const lease = await locks.acquire("a", { ttl: "60s", renew: "thread" });
    let messages = 0;
    const post = workers[0].postMessage.bind(workers[0]);
    workers[0].postMessage = (message) => {
      if ("renew" in message) messages++;
      post(message);
    };
    const look = () => {
      for (let i = 0; i < 1000; i++) {
        lease.remaining();
        try { lease.assertHeld(); } catch {}
      }
    };
    view[6] = Infinity;
    view[3] = 5000;
    look();
    await until(() => view[7] > 0);
    look();
    const [during, asked] = [messages, view[10]];
    view[6] = 0;
    await until(() => lease.remaining() > 0);
    // The next doubt is a question of its own.
    view[3] = 10_000;
    await until(() => lease.remaining() > 0);
    tell({ during, asked, after: messages > 1 && messages < 10, result: await lease.release() });
    await locks.close();`);
  expect(result).toEqual({ during: 1, asked: 1, after: true, result: "released" });
});

test("S136: a thread that dies with a doubt unanswered leaves it to the next, which asks at once", async () => {
  const result = await script(`
    // A third of it, which one without a doubt would wait, is longer than this process may take.
    const lease = await locks.acquire("a", { ttl: "2m", renew: "thread" });
    view[9] = 1;
    view[3] = 5000;
    lease.remaining();
    await until(() => view[10] === 1);
    await workers[0].terminate();
    // Not by looking at the lease, which would ask for it.
    await until(() => view[1] > 0);
    tell({ workers: workers.length, result: await lease.release() });
    await locks.close();`);
  expect(result).toEqual({ workers: 2, result: "released" });
});

test("S136: a try whose ttl is shorter than its thread takes to start gets the lock", async () => {
  const result = await script(`
    view[5] = 1;
    const first = locks.acquire("a", { renew: "thread", wait: "1m" });
    await until(() => view[11] === 1);
    const got = (promise) => promise.then((lease) => lease !== null, (error) => error.message);
    const options = { ttl: 300, renew: "thread" };
    const answers = [got(locks.tryAcquire("b", options)), got(locks.acquire("c", { ...options, wait: 0 }))];
    const sinceMs = nowMs();
    await until(() => nowMs() > sinceMs + 400);
    view[5] = 0;
    tell({ answers: await Promise.all(answers), result: await (await first).release() });
    await locks.close();`);
  expect(result).toEqual({ answers: [true, true], result: "released" });
});

test("S136: a renewal that fails in the thread is asked for again soon, not after a third of the ttl", async () => {
  const result = await script(`
    const lease = await locks.acquire("a", { ttl: "1h", renew: "thread" });
    view[12] = 1;
    // In doubt, it is asked for at once.
    view[3] = 5000;
    await until(() => lease.remaining() > 0);
    tell({ asked: view[10], failed: view[12] === 0, result: await lease.release() });
    await locks.close();`);
  expect(result).toEqual({ asked: 2, failed: true, result: "released" });
});

test("why its renewals fail is known here, for the error that a loss becomes, until one succeeds", async () => {
  const result = await script(`
    const { RenewThread } = await import("${BUILD}/core/renew-thread.js");
    const { systemClock: clock } = await import("${BUILD}/contract/clock.js");
    const thread = new RenewThread(backend, clock, () => {});
    const claim = { id: "1", name: "a", ttlMs: 3_600_000 };
    const hold = { claim, firstFence: 1n, ttlMs: claim.ttlMs, endAtMs: Infinity, fromMs: clock.now(), follow: () => {}, trouble: undefined };
    // Such a wait keeps the process alive; the thread does not.
    let isReady = false;
    void thread.ready().then(() => (isReady = true));
    await until(() => isReady);
    view[0] = nowMs() + claim.ttlMs;
    view[12] = Infinity;
    thread.keep(hold);
    const seen = [];
    for (const more of [1, 2]) {
      thread.renewNow(hold, true);
      await until(() => hold.trouble?.failures >= more);
      seen.push(hold.trouble.cause.message);
    }
    view[12] = 0;
    thread.renewNow(hold, true);
    await until(() => hold.trouble === undefined);
    tell(seen);
    await thread.close();`);
  expect(result).toEqual(["cut off", "cut off"]);
});
