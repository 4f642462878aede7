/** A process of the self-test: takes locks until it is killed, and reports when too many processes hold one. */
import { openSync, readdirSync, readlinkSync, symlinkSync, unlinkSync, writeSync } from "node:fs";
import { join } from "node:path";
import type { Lease } from "../../core/api.ts";
import { createLocks } from "../../core/locks.ts";
import { FileBackend } from "../../backends/file/backend.ts";
import { isRunning } from "../../backends/file/process-identity.ts";

const scratch = process.argv[2] ?? "";
const journal = openSync(join(scratch, "journal"), "a");
// Short epochs, so processes are also killed while they change them.
const backend = new FileBackend({ dir: join(scratch, "locks"), entriesMax: 6 });
const locks = createLocks(backend, { ttl: "20s", wait: "60s" });

process.on("disconnect", () => process.exit(0));

function note(line: string): void {
  writeSync(journal, `${line}\n`);
}

/** Leaves a mark while it holds the lock, and counts the marks of other running processes. */
async function visit(name: string, most: number, { fence }: Lease): Promise<void> {
  const mark = join(scratch, `${name}-${process.pid}`);
  symlinkSync(String(fence), mark);
  note(`${name} ${fence}`);
  count(name, most, fence);
  await new Promise((resolve) => setImmediate(resolve));
  count(name, most, fence);
  unlinkSync(mark);
}

function count(name: string, most: number, fence: bigint): void {
  const marks = readdirSync(scratch)
    .filter((mark) => mark.startsWith(`${name}-`))
    .filter((mark) => isRunningHolder(Number(mark.slice(name.length + 1)), join(scratch, mark)));
  if (marks.length > most)
    note(`fault ${marks.length} processes held "${name}" at once: ${marks.join(" ")} (fence ${fence})`);
}

/** The mark of a killed process is removed, because its pid may be used again. */
function isRunningHolder(pid: number, mark: string): boolean {
  if (pid === process.pid) return true;
  const before = target(mark);
  if (before === undefined) return false;
  if (isRunning(pid, "")) return target(mark) === before;
  try {
    unlinkSync(mark);
  } catch {
    // Another process did.
  }
  return false;
}

function target(mark: string): string | undefined {
  try {
    return readlinkSync(mark);
  } catch {
    return undefined;
  }
}

for (let round = 0; ; round++) {
  const exclusive = (round + process.pid) % 3 > 0;
  const lease = exclusive ? await locks.acquire("one") : await locks.acquire("two", { limit: 2 });
  await visit(exclusive ? "one" : "two", exclusive ? 1 : 2, lease);
  await lease.release();
  if (round === 0) process.send?.("working");
  // Idle locks are removed while other processes make them again.
  if (round % 20 === 19) await backend.clean(60_000);
}
