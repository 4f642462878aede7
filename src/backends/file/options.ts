/** What a user may choose about a file backend. */
import type { Granted } from "../../contract/backend.ts";
import type { Clock } from "../../contract/clock.ts";

export interface FileOptions {
  /** An absolute path; all processes that share locks must name the same. @default a directory in the user's home */
  readonly dir?: string | undefined;
  /** How a waiter is woken: by sockets, by watching the directory, or not at all, which leaves polling. @default "socket" */
  readonly hints?: "socket" | "watch" | "poll" | undefined;
  /** True: leases outlive this process and end with their ttl only; another process can go on with them by claim id. @default false */
  readonly detached?: boolean | undefined;
  /**
   * @internal With `detached`: called when a lease is about to be bound to no process any more. Until it returns, the death of this process
   * frees the lock; so whatever makes the lease findable by others is written here. It must not throw. It is called again, with
   * another fence, where another process changed the lock at the same time.
   */
  readonly beforeDetached?: ((lease: Granted) => void) | undefined;
  /** For tests within one process. @default the system's clock */
  readonly clock?: Clock | undefined;
  /** @internal For tests: entries of an epoch. */
  readonly entriesMax?: number | undefined;
  /** @internal True in the worker thread that renews. */
  readonly renewsOnly?: boolean | undefined;
}
