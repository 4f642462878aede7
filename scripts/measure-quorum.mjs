/**
 * Measures a quorum of five real servers: acquire latency with all members well and with two of them hung, in one run and
 * in turns; and one hot lock under four processes with two loops each.
 * Usage: npm run build && node scripts/measure-quorum.mjs [seconds per slice]
 */
import { fork } from "node:child_process";
import { Redis } from "ioredis";
import { createLocks } from "../dist/index.js";
import { startRedis } from "../build/lab/servers/redis.js";
import { initMembers, quorum } from "../dist/backends/quorum/index.js";
import { redis } from "../dist/backends/redis/index.js";

const MEMBERS = 5;
const ROUNDS = 4;
const PROCESSES = 4;
const LOOPS = 2;
const HOT_MS = 4000;
const sliceMs = Number(process.argv[2] ?? 2) * 1000;

if (process.send === undefined) await measure();
else process.once("message", (ports) => void contend(ports));

function membersAt(ports) {
  return ports.map((port) =>
    redis(
      new Redis({ port, host: "127.0.0.1", password: process.env.HOLDFAST_LAB_PASSWORD, maxRetriesPerRequest: null }),
    ),
  );
}

async function measure() {
  const servers = await Promise.all(Array.from({ length: MEMBERS }, () => startRedis()));
  const ports = servers.map(({ port }) => port);
  try {
    const members = membersAt(ports);
    await initMembers(members);
    await latency(servers, createLocks(quorum(members)));
    await hotLock(ports);
  } finally {
    for (const server of servers) server.resume();
    await Promise.all(servers.map((server) => server.stop()));
  }
  process.exit(0);
}

async function latency(servers, locks) {
  const times = { well: { acquire: [], both: [] }, hung: { acquire: [], both: [] } };
  await slice(locks, 500);
  for (let round = 0; round < ROUNDS; round++) {
    add(times.well, await slice(locks, sliceMs));
    for (const server of servers.slice(0, 2)) server.pause();
    // The first cycles find out that two members hang; they count too.
    add(times.hung, await slice(locks, sliceMs));
    for (const server of servers.slice(0, 2)) server.resume();
    await slice(locks, 300);
  }
  console.log(`Five members, one loop, ms:           p50     p99  cycles`);
  for (const what of ["acquire", "both"]) {
    const [well, hung] = [quantiles(times.well[what]), quantiles(times.hung[what])];
    const label = what === "both" ? "acquire + release" : "acquire";
    console.log(`  ${label.padEnd(18)} all well    ${row(well)}`);
    console.log(`  ${label.padEnd(18)} two hung    ${row(hung)}`);
    console.log(`  ${label.padEnd(18)} ratio       ${row({ p50: hung.p50 / well.p50, p99: hung.p99 / well.p99 })}`);
  }
}

async function slice(locks, ms) {
  const result = { acquire: [], both: [] };
  const endMs = performance.now() + ms;
  while (performance.now() < endMs) {
    const startedMs = performance.now();
    const lease = await locks.acquire("latency", { ttl: "10s" });
    result.acquire.push(performance.now() - startedMs);
    await lease.release();
    result.both.push(performance.now() - startedMs);
  }
  return result;
}

function add(total, { acquire, both }) {
  total.acquire.push(...acquire);
  total.both.push(...both);
}

function quantiles(times) {
  const sorted = times.toSorted((a, b) => a - b);
  const at = (q) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q))];
  return { p50: at(0.5), p99: at(0.99), count: sorted.length };
}

function row({ p50, p99, count = "" }) {
  return `${p50.toFixed(2).padStart(7)} ${p99.toFixed(2).padStart(7)}  ${count}`;
}

async function hotLock(ports) {
  const children = Array.from({ length: PROCESSES }, () => fork(new URL(import.meta.url)));
  const reports = await Promise.all(
    children.map(
      (child) =>
        new Promise((resolve) => {
          child.once("message", resolve);
          child.send(ports);
        }),
    ),
  );
  for (const child of children) child.disconnect();
  const sections = reports.flat(2).toSorted((a, b) => a.enter - b.enter);
  const counts = reports.flat().map(({ length }) => length);
  const wrong = sections.filter((section, at) => {
    const before = sections[at - 1];
    return before !== undefined && (before.leave > section.enter || BigInt(before.fence) >= BigInt(section.fence));
  });
  const total = counts.reduce((sum, count) => sum + count, 0);
  const jain = total ** 2 / (counts.length * counts.reduce((sum, count) => sum + count ** 2, 0));
  const waits = quantiles(sections.map(({ waited }) => waited));
  console.log(`One hot lock, ${PROCESSES} processes x ${LOOPS} loops, ${HOT_MS / 1000} s:`);
  console.log(
    `  ${Math.round((total * 1000) / HOT_MS)} sections/s, wait p50 ${waits.p50.toFixed(2)} ms, p99 ${waits.p99.toFixed(1)} ms`,
  );
  console.log(
    `  Jain ${jain.toFixed(2)} over loops, ${counts.filter((count) => count === 0).length} starved, ${counts.join(" ")}`,
  );
  console.log(`  ${wrong.length} violations of exclusion or of the fences' order`);
}

/** One process's share. Times are the system's monotonic clock, so that the parent can put all in one order. */
async function contend(ports) {
  const locks = createLocks(quorum(membersAt(ports)));
  const endMs = performance.now() + HOT_MS;
  const loop = async () => {
    const sections = [];
    while (performance.now() < endMs) {
      const askedMs = performance.now();
      await locks.run("hot", { wait: "30s" }, async ({ fence }) => {
        const enter = Number(process.hrtime.bigint() / 1000n);
        await new Promise((resolve) => setImmediate(resolve));
        const leave = Number(process.hrtime.bigint() / 1000n);
        sections.push({ fence: String(fence), enter, leave, waited: performance.now() - askedMs });
      });
    }
    return sections;
  };
  const result = await Promise.all(Array.from({ length: LOOPS }, loop));
  await locks.close();
  process.send(result);
  process.once("disconnect", () => process.exit(0));
}
