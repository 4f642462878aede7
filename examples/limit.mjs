// At most three downloads at a time, however many want to.
//
//   node examples/limit.mjs
import { connect } from "holdfast";
import { setTimeout as sleep } from "node:timers/promises";

const locks = await connect();
let now = 0;
let most = 0;

async function download(file) {
  // All users of the lock give the same limit.
  await locks.run("downloads", { limit: 3 }, async () => {
    now += 1;
    most = Math.max(most, now);
    await sleep(30);
    now -= 1;
  });
  return file;
}

const files = await Promise.all(Array.from({ length: 10 }, (_, index) => download(`file-${index}`)));
console.log(`${files.length} files, never more than ${most} at a time`);
await locks.close();
