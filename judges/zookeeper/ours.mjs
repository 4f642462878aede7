// A process of Holdfast that takes turns on one lock of ZooKeeper: see ../take-turns.mjs.
import { connect } from "../../dist/index.js";
import { work } from "../worker.mjs";

const { url, path, ttlMs } = JSON.parse(process.argv[2]);
const locks = await connect(`${url}&session=${ttlMs}ms`);
await work(async (section) => {
  const lease = await locks.acquire(path, { wait: "1h" });
  const isHeld = await section("exclusive", lease.fence);
  const stayed = !lease.signal.aborted;
  await lease.release().catch(() => {});
  return isHeld && stayed;
});
await locks.close();
