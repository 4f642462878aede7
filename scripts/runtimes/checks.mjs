// One check by its name, in a process of its own, which must end by itself. HOLDFAST_URL: files; REDIS_URL: a Redis.
import assert from "node:assert/strict";
import { setTimeout as pause } from "node:timers/promises";
import { closeOnSignals, connect, createLocks, subscribe } from "holdfast";
import { memory } from "holdfast/memory";

const [which] = process.argv.slice(2);
const say = () => console.log(`${which}: ok`);

const checks = {
  /** By URL, over each store; events reach their subscribers; a lost lease aborts its signal. */
  connect: async () => {
    // The timers of leases keep no process alive, not even one that waits for them.
    const keep = setInterval(() => undefined, 1000);
    const held = [];
    const stop = subscribe("hold:start", ({ name }) => held.push(name));
    for (const url of [undefined, process.env.REDIS_URL, "memory:"]) {
      const locks = await (url === undefined ? connect() : connect(url));
      const fence = await locks.run("a", async (lease) => {
        assert.equal(await locks.isHeld("a"), true);
        return lease.fence;
      });
      assert.equal(typeof fence, "bigint");
      // Re-entry needs the context of the function across awaits.
      await locks.run("a", async () => await locks.run("a", { wait: 0 }, async () => await pause(1)));
      const lease = await locks.acquire("b", { ttl: "1s", renew: false });
      await new Promise((resolve) => lease.signal.addEventListener("abort", resolve));
      assert.throws(() => lease.assertHeld(), { code: "ERR_LOCK_LOST" });
      await locks.close();
    }
    stop();
    clearInterval(keep);
    assert.ok(held.filter((name) => name === "a").length >= 6, String(held));
    say();
  },

  /** A worker thread renews while the event loop is blocked for several ttls. */
  thread: async () => {
    for (const url of [process.env.HOLDFAST_URL, process.env.REDIS_URL]) {
      const locks = await connect(url);
      const lease = await locks.acquire("a", { ttl: "8s", renew: "thread", wait: "60s" });
      const end = performance.now() + 20_000;
      while (performance.now() < end);
      lease.assertHeld();
      assert.equal(await lease.release(), "released");
      await locks.close();
    }
    say();
  },

  once: async () => {
    const locks = await connect(process.env.REDIS_URL);
    const name = `once:${process.pid}:${process.hrtime.bigint()}`;
    let runs = 0;
    const work = () => locks.once(name, { keep: "10s" }, async () => (runs += 1));
    const all = await Promise.all([work(), work(), work()]);
    assert.deepEqual([runs, all.map(({ value }) => value)], [1, [1, 1, 1]]);
    await locks.close();
    say();
  },

  "no-clock": async () => {
    const refusal = { code: "ERR_LOCK_ARGUMENT", message: /clock that all processes .*--allow-ffi/ };
    await assert.rejects(connect(process.env.HOLDFAST_URL), refusal);
    const locks = await connect(process.env.REDIS_URL);
    await assert.rejects(locks.acquire("a", { renew: "thread" }), refusal);
    assert.equal(await locks.run("a", { wait: 0 }, async () => "free"), "free");
    await locks.close();
    say();
  },

  /** The younger of two processes: holds a lock, renewed, until it is asked to let go. */
  younger: async () => {
    const locks = await connect();
    await locks.run("a", { ttl: "8s" }, async (lease) => {
      console.log("held");
      await new Promise((resolve) => process.stdin.once("data", resolve));
      lease.assertHeld();
    });
    await locks.close();
    process.stdin.destroy();
    say();
  },

  /** The older of the two: when it is asked, the lock must be held, and when it waits, it gets the lock with a greater fence. */
  older: async () => {
    const locks = await connect();
    await locks.run("b", async () => undefined);
    console.log("ready");
    await new Promise((resolve) => process.stdin.once("data", resolve));
    const { held } = await locks.inspect("a");
    assert.equal(held.length, 1, "it is held");
    assert.ok(held[0].remainingMs > 0 && held[0].remainingMs <= 20_000, `for a sane time: ${held[0].remainingMs}`);
    assert.equal(await locks.tryAcquire("a"), null, "it is not granted to another process");
    console.log("waits");
    await locks.run("a", { wait: "60s" }, async ({ fence }) => assert.ok(fence > held[0].fence));
    await locks.close();
    process.stdin.destroy();
    say();
  },

  "ends-closed": async () => {
    for (const url of [process.env.HOLDFAST_URL, process.env.REDIS_URL]) {
      const locks = await connect(url);
      await locks.run("a", async () => undefined);
      await locks.close();
    }
    say();
  },

  /** A lease that is still held, renewed by timers, keeps no process alive. */
  "ends-held": async () => {
    for (const locks of [createLocks(memory()), await connect(process.env.HOLDFAST_URL)]) await locks.acquire("a");
    say();
  },

  /** Asks itself to stop: the work ends, the lease is released, and the process ends by the signal. */
  signals: async () => {
    const locks = await connect();
    closeOnSignals(locks, { grace: "30s" });
    const keep = setInterval(() => undefined, 1000);
    await locks.run("a", async ({ signal }) => {
      process.kill(process.pid, "SIGTERM");
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
      say();
    });
    clearInterval(keep);
    // It ends by the signal, and not because nothing is left to do.
    await pause(60_000);
  },
};

await checks[which]();
