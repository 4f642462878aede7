/**
 * One process of one contestant: `node worker.mjs <family> <contestant> <env as JSON>`. Takes an order per line.
 *
 * Orders: `cycles` (acquire and release, nothing inside), `sections` (a contended lock, everything logged), `gather`, `herd`
 * and `scatter` (many waiters), `hold`, `watch` and `drop` (leases kept alive), `take` (one lock, held until killed), `step` (what
 * the contestant brings along).
 */
import { writeFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { SectionLog } from "./sections.mjs";
import { spread } from "./stats.mjs";

const [, , family, contestantName, envJson] = process.argv;
// performance.now() counts from this process's start; all processes share the clock behind it.
const ORIGIN_MS = originMs();
const GRACE_MS = 5000;

function originMs() {
  let best = { tookNs: Infinity, origin: 0 };
  for (let i = 0; i < 200; i++) {
    const before = process.hrtime.bigint();
    const now = performance.now();
    const tookNs = Number(process.hrtime.bigint() - before);
    if (tookNs < best.tookNs) best = { tookNs, origin: (Number(before) + tookNs / 2) / 1e6 - now };
  }
  return best.origin;
}

function cpuUs() {
  const { user, system } = process.cpuUsage();
  return user + system;
}

/** Runs the loops until the time is over and tells what they cost. */
async function timed(order, loop) {
  const startMs = performance.now();
  const untilMs = startMs + order.seconds * 1000;
  const cpu = cpuUs();
  const counts = Array.from({ length: order.loops }, () => 0);
  const all = Promise.all(counts.map((_, index) => loop(index, untilMs, counts)));
  // A library that sleeps through its wake-up would stop the show: it is waited for a while, and goes on behind it.
  await Promise.race([all, new Promise((resolve) => setTimeout(resolve, order.seconds * 1000 + GRACE_MS).unref())]);
  const tookMs = performance.now() - startMs;
  return {
    cycles: counts.reduce((sum, count) => sum + count, 0),
    cpuUs: cpuUs() - cpu,
    seconds: tookMs / 1000,
    untilMs: untilMs + ORIGIN_MS,
  };
}

function turn() {
  return new Promise((resolve) => setImmediate(resolve));
}

/** Until that instant: asleep, as one waits for a database, and the last fraction of a millisecond by turns, because timers are coarse. */
async function work(untilMs) {
  const sleepMs = Math.floor(untilMs - performance.now());
  if (sleepMs > 0) await new Promise((resolve) => setTimeout(resolve, sleepMs));
  while (performance.now() < untilMs) await turn();
}

const orders = {
  /** Every loop has locks of its own, so none ever waits. */
  async cycles(one, order) {
    const waits = [];
    const cycle = one.cycle ?? (async (name) => one.release(await one.acquire(name)));
    const result = await timed(order, async (loop, untilMs, counts) => {
      const name = `${order.name}-${process.pid}-${loop}`;
      for (let nowMs = performance.now(); nowMs < untilMs;) {
        const startMs = nowMs;
        await cycle(name);
        nowMs = performance.now();
        if (order.times === true) waits.push(nowMs - startMs);
        counts[loop]++;
      }
    });
    return order.times === true ? { ...result, tookMs: spread(waits) } : result;
  },

  /** A cycle of each by turns, so that a ratio of their times means something on a machine that does other things, too. */
  async turns(one, order) {
    const took = Object.fromEntries(Object.keys(one.turns).map((name) => [name, []]));
    const untilMs = performance.now() + order.seconds * 1000;
    while (performance.now() < untilMs) {
      for (const [name, cycle] of Object.entries(one.turns)) {
        const startMs = performance.now();
        await cycle(`${order.name}-${name}`);
        took[name].push(performance.now() - startMs);
      }
    }
    return { took: Object.fromEntries(Object.entries(took).map(([name, times]) => [name, spread(times)])) };
  },

  /** Two ways by turns, in short slices: off, on, on, off, so that what changes slowly is in both. What each cost per cycle. */
  async switched(one, order) {
    const spent = { off: [], on: [] };
    const cost = async (way) => {
      const sliceEndMs = performance.now() + order.sliceMs;
      const cpu = cpuUs();
      let cycles = 0;
      for (; performance.now() < sliceEndMs; cycles++) await one[way](order.name);
      return (cpuUs() - cpu) / cycles;
    };
    const untilMs = performance.now() + order.seconds * 1000;
    while (performance.now() < untilMs) {
      const before = await cost("off");
      const on = await one.turnOn();
      const during = (await cost("on")) + (await cost("on"));
      await on.end();
      spent.off.push((before + (await cost("off"))) / 2);
      spent.on.push(during / 2);
    }
    return { offUs: spread(spent.off).p50, onUs: spread(spent.on).p50 };
  },

  /** All loops want one lock. A section is: acquired, one turn of the event loop (or work for `insideMs`), released. */
  async sections(one, order) {
    const log = new SectionLog();
    const waitingSinceMs = new Map();
    const result = await timed(order, async (loop, untilMs, counts) => {
      for (let nowMs = performance.now(); nowMs < untilMs; nowMs = performance.now()) {
        waitingSinceMs.set(loop, nowMs);
        const held = await one.acquire(order.name, { loop, untilMs, index: order.index });
        waitingSinceMs.delete(loop);
        if (held === undefined) break;
        const enteredMs = performance.now();
        await (order.insideMs === undefined ? turn() : work(enteredMs + order.insideMs));
        log.push(
          nowMs + ORIGIN_MS,
          enteredMs + ORIGIN_MS,
          performance.now() + ORIGIN_MS,
          loop,
          Number(one.fence?.(held) ?? 0),
        );
        await one.release(held);
        counts[loop]++;
        if (order.betweenMs !== undefined) await new Promise((resolve) => setTimeout(resolve, order.betweenMs));
      }
    });
    const nowMs = performance.now();
    result.stuckMs = [...waitingSinceMs.values()].map((sinceMs) => nowMs - sinceMs);
    writeFileSync(order.file, log.bytes);
    return result;
  },

  /** Lets waiters queue up; they go on taking turns until the order to scatter. */
  async gather(one, order) {
    await one.gather(order);
    return {};
  },

  /** Watches the herd for a while. */
  async herd(one, order) {
    const log = new SectionLog();
    let cycles = 0;
    const startMs = performance.now();
    const cpu = cpuUs();
    one.listen((askedMs, enteredMs, leftMs, loop, fence) => {
      cycles++;
      log.push(askedMs + ORIGIN_MS, enteredMs + ORIGIN_MS, leftMs + ORIGIN_MS, loop, fence);
    });
    await new Promise((resolve) => setTimeout(resolve, order.seconds * 1000));
    one.listen(undefined);
    const nowMs = performance.now();
    writeFileSync(order.file, log.bytes);
    return { cycles, cpuUs: cpuUs() - cpu, seconds: (nowMs - startMs) / 1000, untilMs: nowMs + ORIGIN_MS };
  },

  async scatter(one) {
    await one.scatter();
    return {};
  },

  async hold(one, order) {
    await one.hold(order);
    return {};
  },

  /** Nothing but renewals for a while. */
  async watch(one, order) {
    const cpu = cpuUs();
    const startMs = performance.now();
    await new Promise((resolve) => setTimeout(resolve, order.seconds * 1000));
    const seconds = (performance.now() - startMs) / 1000;
    return { cpuUs: cpuUs() - cpu, seconds };
  },

  async drop(one) {
    return { lost: await one.drop() };
  },

  /** A step that only this contestant knows. */
  async step(one, order) {
    return await one[order.step](order);
  },

  async letGo(one) {
    const leftMs = performance.now() + ORIGIN_MS;
    await one.release(taken);
    return { leftMs };
  },

  async take(one, order) {
    const askedMs = performance.now();
    const held = await one.acquire(order.name, { untilMs: Infinity });
    const enteredMs = performance.now();
    if (order.release === true) await one.release(held);
    else taken = held;
    return { enteredMs: enteredMs + ORIGIN_MS, tookMs: enteredMs - askedMs };
  },
};

let taken;

function answer(content) {
  process.stdout.write(`${JSON.stringify({ answer: content })}\n`);
}

// Some libraries reject in the background by default (a lock lost, a refresh that failed): that must not end the race.
process.on("unhandledRejection", (error) => process.stderr.write(`unhandled: ${error?.message ?? error}\n`));

const { contestants } = await import(`../contestants/${family}.mjs`);
const one = await contestants[contestantName].open(JSON.parse(envJson));
answer({});
for await (const line of createInterface({ input: process.stdin })) {
  const order = JSON.parse(line);
  try {
    answer(await orders[order.do](one, order));
  } catch (error) {
    answer({ error: error?.message ?? String(error) });
  }
}
process.exit(0);
