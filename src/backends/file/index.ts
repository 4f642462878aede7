/**
 * Locks between the processes of one machine: no server, no native module.
 *
 * For the command line: `backend.alsoAlive(pid)` keeps every lease of this backend alive while that process runs, even
 * when this one was killed or stopped. Register the process *before* it starts to work. `file({ detached: true })` makes
 * leases that outlive this process and end with their ttl: another process renews or releases them with the same claim.
 */
import { FileBackend } from "./backend.ts";
import type { FileOptions } from "./options.ts";

export type { FileBackend, FileOptions };

/** Makes a backend over a directory. All processes that name the same directory share its locks. */
export function file(options: FileOptions = {}): FileBackend {
  return new FileBackend(options);
}
