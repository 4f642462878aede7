// A job that is due every second in three pods, and that one of them runs each time: with croner.
//
//   node examples/once-per-slot.mjs
import { Cron } from "croner";
import { connect } from "holdfast";
import { withCroner } from "holdfast/cron";

// HOLDFAST_URL says where the locks are; without it, they are on this machine.
const pods = await Promise.all(["pod-a", "pod-b", "pod-c"].map((holder) => connect({ holder })));
const runs = [];
let enough;
const done = new Promise((resolve) => (enough = resolve));

const jobs = await Promise.all(
  pods.map(async (locks) => {
    const job = new Cron("* * * * * *");
    // A name of its own for each run of this example: what was done is kept.
    await withCroner(locks, `report-${process.pid}`, job, { overlap: "queue" }, async ({ slot, fence, signal }) => {
      signal.throwIfAborted();
      runs.push({ slot: slot.toISOString(), fence });
      if (runs.length === 3) enough();
    });
    return job;
  }),
);

await done;
for (const job of jobs) job.stop();
await Promise.all(pods.map((locks) => locks.close()));
const slots = new Set(runs.map(({ slot }) => slot));
console.log(`${runs.length} runs of ${slots.size} slots by ${pods.length} pods`);
console.log(
  "fences rise from run to run:",
  runs.every(({ fence }, at) => at === 0 || fence > runs[at - 1].fence),
);
