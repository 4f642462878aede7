// The process in which lean tests run. It ends itself: what a broken program left open must not keep it.
//
//   node lean-run.mjs '{ "report": path, "without": pattern, "mostMs": { file: ms } }' file.test.js …
//
// Writes { times, red } to `report`.
import { writeFileSync } from "node:fs";
import { runFiles } from "./lean-vitest.mjs";

const [order, ...files] = process.argv.slice(2);
const { report, without, mostMs } = JSON.parse(order);
const outcome = await runFiles(files, { without: without === "" ? undefined : new RegExp(without), mostMs });
writeFileSync(report, JSON.stringify(outcome));
process.exit(outcome.red ? 1 : 0);
