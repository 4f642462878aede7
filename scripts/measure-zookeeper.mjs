/**
 * Client CPU per lock cycle on ZooKeeper: ours against node-zookeeper-client, in one run, in turns.
 *
 *     npm run build && node scripts/measure-zookeeper.mjs [--loops 64] [--rounds 5] [--slice 2000] [--peer <folder>]
 *
 * A cycle is what a lock needs when no other claim wants it: an ephemeral sequential node, one read of the queue, and the
 * node's removal. Wall-clock figures depend on the servers and on what else runs; CPU per cycle and its ratio count.
 * The peer is installed into a temporary folder, unless `--peer` names one that has it.
 */
import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { createLocks } from "../dist/index.js";
import { startZooKeeper } from "../build/lab/servers/zookeeper.js";
import { zookeeper, ZooKeeperClient } from "../dist/backends/zookeeper/index.js";

const { values } = parseArgs({
  options: {
    loops: { type: "string", default: "64" },
    rounds: { type: "string", default: "5" },
    slice: { type: "string", default: "2000" },
    peer: { type: "string" },
  },
});
const [loops, rounds, sliceMs] = [Number(values.loops), Number(values.rounds), Number(values.slice)];
const CLAIM = {
  mode: "exclusive",
  limit: 1,
  ttlMs: 30_000,
  lockDelayMs: 0,
  minHoldMs: 0,
  holder: "h:1",
  meta: {},
  queues: true,
};
const PEER = "node-zookeeper-client@1.1.3";

const folder = values.peer ?? mkdtempSync(join(tmpdir(), "holdfast-peer-"));
if (values.peer === undefined) execFileSync("npm", ["install", "--silent", "--prefix", folder, PEER]);
const lab = await startZooKeeper({ tickMs: 2000 });
try {
  const contestants = await openAll(lab.url.slice("zk://".length));
  const results = await measure(contestants);
  print(results);
  await Promise.all(contestants.map(({ close }) => close()));
} finally {
  await lab.stop();
  if (values.peer === undefined) rmSync(folder, { recursive: true });
}

async function openAll(servers) {
  const locks = createLocks(zookeeper({ servers }));
  const backend = zookeeper({ servers });
  const client = new ZooKeeperClient({ servers });
  const peer = await openPeer(servers);
  await Promise.all([...Array(loops).keys()].map((loop) => client.makePath(`/raw/${loop}`, "persistent")));
  return [
    {
      name: "holdfast: locks.run()",
      cycle: (loop) => locks.run(`lock-${loop}`, () => undefined),
      close: () => locks.close(),
    },
    {
      name: "holdfast: the backend alone",
      cycle: async (loop) => {
        const claim = { ...CLAIM, id: randomBytes(16).toString("base64url"), name: `lock-${loop}` };
        await backend.attempt(claim);
        await backend.release(claim);
      },
      close: () => backend.close(),
    },
    {
      name: "holdfast: the client alone",
      cycle: async (loop) => {
        const path = `/raw/${loop}`;
        const [made] = await Promise.all([
          client.create(`${path}/lock-`, Buffer.alloc(0), "ephemeralSequential"),
          client.getChildren(path),
        ]);
        await client.delete(made.path);
      },
      close: () => client.close(),
    },
    { name: PEER, cycle: (loop) => peer.cycle(`/raw/${loop}`), close: () => peer.close() },
  ];
}

/** node-zookeeper-client's own recipe: create, getChildren, remove. */
function openPeer(servers) {
  const library = createRequire(join(folder, "index.js"))("node-zookeeper-client");
  const client = library.createClient(servers, { sessionTimeout: 40_000 });
  const call = (method, ...args) =>
    new Promise((resolve, reject) => {
      client[method](...args, (error, value) => (error ? reject(error) : resolve(value)));
    });
  return new Promise((resolve) => {
    client.once("connected", () =>
      resolve({
        cycle: async (path) => {
          const made = await call("create", `${path}/lock-`, library.CreateMode.EPHEMERAL_SEQUENTIAL);
          await call("getChildren", path);
          await call("remove", made);
        },
        close: async () => client.close(),
      }),
    );
    client.connect();
  });
}

async function measure(contestants) {
  const slices = new Map(contestants.map(({ name }) => [name, []]));
  // The first round warms up.
  for (let round = 0; round <= rounds; round++) {
    for (const { name, cycle } of contestants) {
      const slice = await runSlice(cycle);
      if (round > 0) slices.get(name).push(slice);
    }
  }
  return slices;
}

async function runSlice(cycle) {
  let cycles = 0;
  const cpu = process.cpuUsage();
  const startMs = performance.now();
  const loop = async (number) => {
    while (performance.now() - startMs < sliceMs) {
      await cycle(number);
      cycles++;
    }
  };
  await Promise.all([...Array(loops).keys()].map(loop));
  const { user, system } = process.cpuUsage(cpu);
  return { cpuUs: (user + system) / cycles, perSecond: (cycles * 1000) / (performance.now() - startMs) };
}

function print(slices) {
  const median = (numbers) => numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)];
  const rows = [...slices].map(([name, list]) => ({
    name,
    "CPU µs per cycle (median)": Math.round(median(list.map(({ cpuUs }) => cpuUs))),
    "best slice": Math.round(Math.min(...list.map(({ cpuUs }) => cpuUs))),
    "cycles/s (median)": Math.round(median(list.map(({ perSecond }) => perSecond))),
  }));
  console.log(`${loops} loops, one lock each, ${rounds} rounds of ${sliceMs} ms, Node ${process.version}`);
  console.table(rows);
}
