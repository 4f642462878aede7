// Three claimants take turns at one lock, and a sleeper learns that it has been replaced.
//
//   npm run demo
import { createLocks } from "holdfast";
import { admit, memoryMarks } from "holdfast/fence";
import { memory, memoryStore } from "holdfast/memory";
import { setTimeout as sleep } from "node:timers/promises";

// One store, three processes' worth of locks: swap memory() for redis() and they may be anywhere.
const store = memoryStore({ run: 1 });
const [ada, ben, cyd] = ["ada", "ben", "cyd"].map((holder) => createLocks(memory({ store }), { holder }));
const marks = memoryMarks();
const startedAt = performance.now();

function say(who, { fence }, what) {
  const ms = String(Math.round(performance.now() - startedAt)).padStart(5);
  console.log(`${ms} ms   ${who}   fence ${fence}   ${what}`);
}

async function turn(locks, who) {
  await locks.run("printer", async (lease) => {
    say(who, lease, "▶ prints");
    await sleep(120);
    await admit(marks, lease);
    say(who, lease, "■ done");
  });
}

console.log("Three claimants, one lock:\n");
await Promise.all([turn(ada, "ada"), turn(ben, "ben"), turn(cyd, "cyd")]);

console.log("\nNow ada falls asleep while she holds it, for longer than her ttl:\n");
const asleep = await ada.acquire("printer", { ttl: "150ms", renew: false });
say("ada", asleep, "▶ prints … zzz");
await turn(ben, "ben");
say("ada", asleep, "  wakes up, and goes on as if nothing had happened");
await admit(marks, asleep).catch(({ code, current }) => {
  say("ada", asleep, `✗ refused: ${code}, fence ${current} has been here`);
});

await Promise.all([ada, ben, cyd].map((locks) => locks.close()));
