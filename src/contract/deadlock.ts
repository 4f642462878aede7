/** A deadlock, as it is reported: callers each of whom waits for a lock that another of them holds. */
import type { HeldLock, Meta, Mode } from "./claim.ts";

/** One of the callers in a deadlock. */
export interface DeadlockMember {
  /** Its process, for people: `host:pid`. */
  readonly holder: string;
  /** The lock that it waits for. */
  readonly waitsFor: string;
  readonly mode: Mode;
  /** The locks that it holds, and that others of them wait for. Empty: it is in the way because it is ahead in the queue. */
  readonly holds: readonly Omit<HeldLock, "yields">[];
  /** For how long its process has waited. Absent: it waits behind a lease of its own process, and the store does not know. */
  readonly waitingMs?: number | undefined;
  /** Of the claim that waits. Absent: it waits behind a lease of its own process. */
  readonly id?: string | undefined;
  readonly meta: Meta;
}

/** Callers each of whom waits for a lock that another of them holds. */
export interface Deadlock {
  /** Each waits for the next, and the last for the first; where more than one circle goes through them, the others follow. */
  readonly members: readonly DeadlockMember[];
  /** Who holds what and waits for what, in words. */
  readonly description: string;
}
