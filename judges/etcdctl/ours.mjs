// A process of Holdfast that takes turns on one lock of etcd: see ../take-turns.mjs.
import { etcd } from "../../dist/backends/etcd/index.js";
import { createLocks } from "../../dist/index.js";
import { work } from "../worker.mjs";

const { endpoints, name, ttlMs } = JSON.parse(process.argv[2]);
const locks = createLocks(etcd({ endpoints, names: "paths" }));
await work(async (section) => {
  const lease = await locks.acquire(name, { ttl: Math.ceil(ttlMs / 1000) * 1000, wait: "1h" });
  const isHeld = await section("exclusive", lease.fence);
  const stayed = !lease.signal.aborted;
  await lease.release().catch(() => {});
  return isHeld && stayed;
});
await locks.close();
