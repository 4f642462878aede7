// A file that only the latest holder can replace.
//
//   node examples/fence-file.mjs
import { connect } from "holdfast";
import { readFileFenced, writeFileFenced } from "holdfast/fence/file";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

const locks = await connect();
const folder = await mkdtemp(join(tmpdir(), "holdfast-example-"));
const report = join(folder, "report");

// This holder does not renew and is about to be paused: its lease runs out.
const paused = await locks.acquire("report", { ttl: "200ms", renew: false });

// So the next one gets the lock and writes.
await locks.run("report", (lease) => writeFileFenced(report, lease, "by the next holder"));

// Now the first one goes on as if nothing had happened.
await writeFileFenced(report, paused, "by the paused holder").catch((error) => console.log(`refused: ${error.code}`));

const { data } = await readFileFenced(report);
console.log(`the file was written ${data.toString()}`);
await rm(folder, { recursive: true });
await locks.close();
