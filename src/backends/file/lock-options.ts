/** What every lock of a backend is given: where it is, how its processes are reached, and the lease files of this process. */
import type { LeaseFiles } from "./lease-files.ts";
import type { LivenessOptions } from "./liveness.ts";
import type { LogOptions } from "./log.ts";
import type { FactsCache } from "./queue.ts";
import type { LeaseFacts } from "./records.ts";

export interface LockOptions extends LivenessOptions, LogOptions {
  readonly leaseFiles: LeaseFiles;
  readonly facts: FactsCache;
  /** Wakes the process of that lease file, to check its claim. `others`: it was handed its lock; do others wait for that? */
  wake(facts: LeaseFacts, others?: boolean): void;
  /** The same for many at once. */
  wakeAll(facts: readonly LeaseFacts[]): void;
  /** Tells the process of that lease file that its lease is wanted. `directory`: the lock's. */
  want(facts: LeaseFacts, directory: string): void;
}
