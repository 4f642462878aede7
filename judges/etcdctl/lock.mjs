// A process that takes turns on one lock by `etcdctl lock`, which holds it until it is interrupted: see ../take-turns.mjs.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { work } from "../worker.mjs";

const { etcdctl, endpoints, name, ttlMs } = JSON.parse(process.argv[2]);
const env = { ...process.env, ETCDCTL_API: "3" };
const args = ["--endpoints", String(endpoints), "lock", name, `--ttl=${Math.ceil(ttlMs / 1000)}`];

await work(async (section) => {
  const child = spawn(etcdctl, args, { env, stdio: ["ignore", "pipe", "ignore"] });
  const exit = once(child, "exit");
  // It prints its key when it holds the lock.
  const isHeld = await Promise.race([once(child.stdout, "data").then(() => true), exit.then(() => false)]);
  if (!isHeld) throw new Error("etcdctl ended without the lock");
  await section();
  const stayed = child.exitCode === null;
  child.kill("SIGINT");
  await exit;
  return stayed;
});
