// A process of Holdfast that takes turns on one lock of Redisson: see ../take-turns.mjs.
import { connect } from "../../dist/index.js";
import { work } from "../worker.mjs";

const { url, name, kind, ttlMs, readers } = JSON.parse(process.argv[2]);
const locks = await connect(url);
await work(async (section) => {
  const mode = kind === "read-write" && Math.random() < readers ? "shared" : "exclusive";
  const lease = await locks.acquire(name, { ttl: ttlMs, wait: "1h", mode });
  const isHeld = await section(mode, kind === "fenced" ? lease.fence : undefined);
  const stayed = !lease.signal.aborted;
  await lease.release().catch(() => {});
  return isHeld && stayed;
});
await locks.close();
