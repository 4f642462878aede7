/** A process of the self-test: takes locks until it is killed, and notes whenever it is not alone where it should be. */
import { openSync, readdirSync, readlinkSync, symlinkSync, unlinkSync, writeSync } from "node:fs";
import { join } from "node:path";
import type { Lease } from "../../core/api.ts";
import { createLocks } from "../../core/locks.ts";
import { FileBackend } from "../../backends/file/backend.ts";
import { isRunning } from "../../backends/file/process-identity.ts";

const scratch = process.argv[2] ?? "";
const journal = openSync(join(scratch, "journal"), "a");
// Short epochs, so that processes are killed in the middle of changing them too.
const backend = new FileBackend({ dir: join(scratch, "locks"), entriesMax: 6 });
const locks = createLocks(backend, { ttl: "20s", wait: "60s" });

process.on("disconnect", () => process.exit(0));

function note(line: string): void {
  writeSync(journal, `${line}\n`);
}

/** Leaves a mark while inside, and counts the marks of others that live. */
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
  const inside = readdirSync(scratch)
    .filter((mark) => mark.startsWith(`${name}-`))
    .filter((mark) => lives(Number(mark.slice(name.length + 1)), join(scratch, mark)));
  if (inside.length > most)
    note(`fault ${inside.length} were inside "${name}" at once: ${inside.join(" ")} (fence ${fence})`);
}

/** The mark of a killed process stays; it is removed, so that its pid may come back. */
function lives(pid: number, mark: string): boolean {
  if (pid === process.pid) return true;
  const before = target(mark);
  if (before === undefined) return false;
  if (isRunning(pid, "")) return target(mark) === before;
  try {
    unlinkSync(mark);
  } catch {
    // Somebody else did.
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
  // Locks that seem idle are removed and made anew, under everybody's hands.
  if (round % 20 === 19) await backend.clean(60_000);
}
