/**
 * Measures the file backend alone: uncontended acquire+release, hand-over after SIGKILL, and fairness of six processes.
 * Usage: npm run build && node scripts/measure-file.mjs [directory]
 */
import { fork } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createLocks } from "../dist/index.js";
import { file } from "../dist/backends/file/index.js";

const root = process.argv[2] ?? tmpdir();
const role = process.argv[3];
const quantile = (sorted, q) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q))];
const sortedNumbers = (numbers) => numbers.toSorted((a, b) => a - b);

const roles = {
  async hold(locks) {
    await locks.acquire("killed", { ttl: "30s" });
    process.send("held");
    await new Promise((resolve) => setTimeout(resolve, 60_000));
  },
  async contend(locks) {
    process.send("ready");
    await new Promise((resolve) => process.once("message", resolve));
    const waits = [];
    const before = process.cpuUsage();
    const endMs = performance.now() + 3000;
    while (performance.now() < endMs) {
      const askedMs = performance.now();
      await locks.run("shared by six", { wait: "30s" }, () => waits.push(performance.now() - askedMs));
    }
    const { user, system } = process.cpuUsage(before);
    process.send({ waits, cpuUs: user + system });
    await locks.close();
    process.disconnect();
  },
};

if (role !== undefined) await roles[role](createLocks(file({ dir: root })));
else await measure();

async function measure() {
  const dir = mkdtempSync(join(root, "holdfast-measure-"));
  try {
    console.log(
      JSON.stringify(
        { dir, ...(await uncontended(dir)), ...(await afterKill(dir)), ...(await fairness(dir)) },
        null,
        2,
      ),
    );
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

async function uncontended(dir) {
  const backend = file({ dir });
  const claim = (id) => ({
    id,
    name: "bare",
    mode: "exclusive",
    limit: 1,
    ttlMs: 30_000,
    lockDelayMs: 0,
    minHoldMs: 0,
    holder: "me",
    meta: {},
    queues: true,
  });
  const bare = [];
  for (let i = 0; i < 20_000; i++) {
    const one = claim(`claim${i}`);
    const fromMs = performance.now();
    await backend.attempt(one);
    await backend.release(one);
    bare.push((performance.now() - fromMs) * 1000);
  }
  const locks = createLocks(backend);
  const whole = [];
  for (let i = 0; i < 20_000; i++) {
    const fromMs = performance.now();
    const lease = await locks.acquire("uncontended");
    await lease.release();
    whole.push((performance.now() - fromMs) * 1000);
  }
  await locks.close();
  const [a, b] = [sortedNumbers(bare), sortedNumbers(whole)];
  return {
    backendUs: { p50: quantile(a, 0.5), p99: quantile(a, 0.99) },
    acquireReleaseUs: { p50: quantile(b, 0.5), p99: quantile(b, 0.99) },
  };
}

async function afterKill(dir) {
  const gapsMs = [];
  for (let i = 0; i < 20; i++) {
    const child = fork(import.meta.filename, [dir, "hold"]);
    await new Promise((resolve) => child.once("message", resolve));
    const locks = createLocks(file({ dir }));
    const waiting = locks.acquire("killed", { wait: "30s" });
    await new Promise((resolve) => setTimeout(resolve, 50));
    const killedMs = performance.now();
    child.kill("SIGKILL");
    await waiting;
    gapsMs.push(performance.now() - killedMs);
    await locks.close();
  }
  const sorted = sortedNumbers(gapsMs);
  return { afterKillMs: { p50: quantile(sorted, 0.5), max: sorted.at(-1) } };
}

async function fairness(dir) {
  const children = Array.from({ length: 6 }, () => fork(import.meta.filename, [dir, "contend"]));
  const gone = children.map((child) => new Promise((resolve) => child.once("exit", resolve)));
  await Promise.all(children.map((child) => new Promise((resolve) => child.once("message", resolve))));
  for (const child of children) child.send("go");
  const results = await Promise.all(children.map((child) => new Promise((resolve) => child.once("message", resolve))));
  await Promise.all(gone);
  const counts = results.map(({ waits }) => waits.length);
  const waits = sortedNumbers(results.flatMap((result) => result.waits));
  const total = counts.reduce((a, b) => a + b);
  const jain = total ** 2 / (counts.length * counts.reduce((a, b) => a + b * b, 0));
  const cpuUs = results.reduce((sum, result) => sum + result.cpuUs, 0) / total;
  const [medianMs, maxMs] = [quantile(waits, 0.5), waits.at(-1)];
  return { six: { perSecond: Math.round(total / 3), cpuUsPerLease: Math.round(cpuUs), jain, medianMs, maxMs, counts } };
}
