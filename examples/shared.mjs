// Readers together, a writer alone.
//
//   node examples/shared.mjs
import { connect } from "holdfast";
import { setTimeout as sleep } from "node:timers/promises";

const locks = await connect();
let catalog = "spring";
let reading = 0;

async function read(who) {
  await locks.run("catalog", { mode: "shared" }, async () => {
    reading += 1;
    await sleep(50);
    console.log(`${who} reads "${catalog}" together with ${reading - 1} others`);
    await sleep(50);
    reading -= 1;
  });
}

async function write(season) {
  await locks.run("catalog", async ({ fence }) => {
    catalog = season;
    console.log(`writes "${season}" while ${reading} read, fence ${fence}`);
  });
}

await Promise.all([read("ada"), read("ben"), read("cyd")]);
await Promise.all([write("summer"), read("ada"), read("ben")]);
await locks.close();
