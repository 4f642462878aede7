// A nightly job that every pod starts and one runs.
//
//   node examples/cron.mjs
import { connect } from "holdfast";

// HOLDFAST_URL says where the locks are; without it, they are on this machine.
const pods = await Promise.all(["pod-a", "pod-b", "pod-c"].map((holder) => connect({ holder })));

async function nightly(locks, pod) {
  // minHold keeps the lock taken for a while after a quick run, for pods whose clock is a little late.
  const lease = await locks.tryAcquire("nightly-report", { minHold: "1s" });
  if (lease === null) return console.log(`${pod}: another pod does it`);
  try {
    console.log(`${pod}: running the report, fence ${lease.fence}`);
  } finally {
    await lease.release();
  }
}

await Promise.all(pods.map((locks, index) => nightly(locks, `pod-${"abc"[index]}`)));
await Promise.all(pods.map((locks) => locks.close()));
