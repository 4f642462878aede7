// A process of Holdfast that takes turns on one row of ShedLock's table: see ../take-turns.mjs.
import { connect } from "../../dist/index.js";
import { work } from "../worker.mjs";

const { port, name, ttlMs } = JSON.parse(process.argv[2]);
const locks = await connect(
  `postgres+shedlock://postgres:${process.env.HOLDFAST_LAB_PASSWORD}@127.0.0.1:${port}/postgres`,
);
await work(async (section) => {
  const lease = await locks.acquire(name, { ttl: ttlMs, wait: "1h" });
  const isHeld = await section();
  const stayed = !lease.signal.aborted;
  await lease.release().catch(() => {});
  return isHeld && stayed;
});
await locks.close();
