// Transfers between accounts, in both directions at once: all locks or none, and no deadlock.
//
//   node examples/several.mjs
import { connect } from "holdfast";
import { admit, fenceFor, memoryMarks } from "holdfast/fence";
import { setTimeout as sleep } from "node:timers/promises";

const locks = await connect();
const marks = memoryMarks();
const balance = { 1: 100, 2: 100 };

async function transfer(from, to, amount) {
  // The order does not matter: they are always taken in the same one.
  await locks.run([`account:${from}`, `account:${to}`], async (lease) => {
    // Each lock has a fence of its own, and each guard wants the one of its lock.
    await admit(marks, fenceFor(lease, `account:${from}`));
    await admit(marks, fenceFor(lease, `account:${to}`));
    const seen = balance[from];
    await sleep(5);
    balance[from] = seen - amount;
    balance[to] += amount;
  });
}

await Promise.all([transfer(1, 2, 30), transfer(2, 1, 10), transfer(1, 2, 5), transfer(2, 1, 15)]);
console.log(`account 1: ${balance[1]}, account 2: ${balance[2]}, together: ${balance[1] + balance[2]}`);
await locks.close();
