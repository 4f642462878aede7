/**
 * The core's own bars, measured: sections per second on one hot lock, what 100,000 held leases cost, and the size.
 * Usage: npm run build && node scripts/measure-core.mjs [--json]
 */
import { createLocks } from "../dist/index.js";
import { memory } from "../dist/backends/memory/index.js";

const LOOPS = 32;
const SLICE_MS = 500;
const ROUNDS = 5;
const MINUTE_MS = 60_000;

/** One slice of 32 loops on one lock, an empty section each. Checks exclusion and fences as it goes. */
async function slice(locks, name) {
  let inside = 0;
  let last = 0n;
  let sections = 0;
  const endAtMs = performance.now() + SLICE_MS;
  const loop = async () => {
    while (performance.now() < endAtMs) {
      const lease = await locks.acquire(name);
      if (++inside !== 1 || lease.fence <= last)
        throw new Error(`violation: ${inside} inside, fence ${lease.fence} after ${last}`);
      last = lease.fence;
      sections++;
      inside--;
      await lease.release();
    }
  };
  await Promise.all(Array.from({ length: LOOPS }, loop));
  return (sections * 1000) / SLICE_MS;
}

/** A memory backend that answers as a store over a network would: in a later turn of the event loop, with one fence a grant. */
function overARoundTrip() {
  const backend = memory({ run: 1 });
  const later =
    (verb) =>
    async (...args) => {
      await new Promise((resolve) => setImmediate(resolve));
      return await backend[verb](...args);
    };
  return {
    name: "round trip",
    attempt: later("attempt"),
    release: later("release"),
    renew: later("renew"),
    watch: (claim, signal) => backend.watch(claim, signal),
    query: (prefix) => backend.query(prefix),
    forceRelease: (...args) => backend.forceRelease(...args),
    close: () => backend.close(),
  };
}

async function hotLock() {
  const inMemory = createLocks(memory());
  const perSection = createLocks(overARoundTrip());
  const rates = { handOver: [], roundTrip: [] };
  for (let round = 0; round < ROUNDS; round++) {
    rates.handOver.push(await slice(inMemory, "hot"));
    rates.roundTrip.push(await slice(perSection, "hot"));
  }
  await Promise.all([inMemory.close(), perSection.close()]);
  const median = (list) => list.toSorted((a, b) => a - b)[list.length >> 1];
  return { handOver: Math.round(median(rates.handOver)), roundTrip: Math.round(median(rates.roundTrip)) };
}

/**
 * What renewing 100,000 leases at a ttl of 30 s costs, in percent of a core. The first minute is shown separately: in it the
 * garbage collector tidies up behind 100,000 acquisitions, once.
 */
async function heldLeases() {
  const locks = createLocks(memory());
  for (let index = 0; index < 100_000; index++) await locks.acquire(`lock ${index}`);
  const firstMinutePercent = await percentOfACore();
  const percent = await percentOfACore();
  const lost = 100_000 - (await locks.query("lock ")).held.length;
  return { percentOfACore: percent, firstMinutePercent, lost };
}

async function percentOfACore() {
  const before = process.cpuUsage();
  // The process must live while only renewals, which never keep it alive, go on.
  await new Promise((resolve) => setTimeout(resolve, MINUTE_MS));
  const { user, system } = process.cpuUsage(before);
  return Number(((user + system) / 10 / MINUTE_MS).toFixed(2));
}

const hot = await hotLock();
const held = await heldLeases();
const result = { hot: { ...hot, ratio: Number((hot.handOver / hot.roundTrip).toFixed(1)) }, held };
if (process.argv.includes("--json")) console.log(JSON.stringify(result));
else {
  console.log(
    `hot lock, ${LOOPS} loops: ${hot.handOver} sections/s in memory, ${hot.roundTrip}/s over one round trip each (${result.hot.ratio}×)`,
  );
  console.log(
    `100,000 leases held at ttl 30 s: ${held.percentOfACore} % of a core (${held.firstMinutePercent} % in the first minute), ${held.lost} lost`,
  );
}
process.exit(0);
