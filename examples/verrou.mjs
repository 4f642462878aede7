// Verrou, the locks of AdonisJS, over Holdfast: one line, and its locks have fences and say when they are lost.
//
//   node examples/verrou.mjs
import { Verrou } from "@verrou/core";
import { connect } from "holdfast";
import { holdfastStore } from "holdfast/verrou";
import { setTimeout as pause } from "node:timers/promises";

const [locks, theirLocks] = [await connect(), await connect()];
const driver = holdfastStore(locks);
const verrou = new Verrou({ default: "main", stores: { main: { driver } } });
const theirs = new Verrou({ default: "main", stores: { main: { driver: holdfastStore(theirLocks) } } });

const lock = verrou.createLock("invoice:42", "10s");
await lock.run(async () => {
  const { fence, signal } = driver.leaseOf(lock);
  console.log(`running, fence: ${typeof fence}, lost: ${signal.aborted}`);
  console.log(`another process gets it: ${await theirs.createLock("invoice:42").acquireImmediately()}`);
});

// A lock travels: another process releases it, and this one learns of it.
await lock.acquire();
const { signal } = driver.leaseOf(lock);
const travelled = JSON.parse(JSON.stringify(lock.serialize()));
await theirs.restoreLock(travelled).release();
while (!signal.aborted) await pause(10);
const { code, reason } = signal.reason;
console.log(`${code}: ${reason.replace(/by \S+:/, "by …:")}`);
console.log(`held: ${await lock.isLocked()}`);

await Promise.all([locks.close(), theirLocks.close()]);
