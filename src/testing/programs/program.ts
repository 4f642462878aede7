/**
 * A small user program over the public API, as JSON: what processes do with locks, and what goes wrong meanwhile.
 * Every program means something, whatever was cut out of it: so it can be generated, and shrunk.
 */
import type { Fault, Operation } from "../faults.ts";

/** Locks whose name starts with "p" are pools of two; the others have one holder, or readers. */
export type LockNames = string | readonly string[];

export interface Options {
  readonly ttl?: number;
  readonly wait?: number;
  readonly mode?: "shared";
  readonly renew?: false;
  readonly maxHold?: number;
  readonly minHold?: number;
  readonly lockDelay?: number;
  readonly linger?: number;
  /** The number of one of the program's abort signals. */
  readonly signal?: number;
}

/** An event of the library, by the end of its channel's name. */
export type EventName =
  | "lost"
  | "renew"
  | "force-release"
  | "acquire:start"
  | "acquire:asyncEnd"
  | "hold:start"
  | "hold:end"
  | "hold:error";

export type Step =
  /** Runs the steps under the lock. `loose`: a failure fails those who wait for this step; else it is caught. */
  | {
      readonly do: "run";
      readonly lock: LockNames;
      readonly with?: Options;
      readonly steps: readonly Step[];
      readonly loose?: true;
    }
  /** Takes the lock, and puts the lease into the client's slot. */
  | {
      readonly do: "acquire" | "try";
      readonly lock: LockNames;
      readonly with?: Options;
      readonly slot?: number;
      readonly loose?: true;
    }
  /** Campaigns for leadership until its signal aborts or the locks are closed; the program does not wait for it. */
  | { readonly do: "elect"; readonly lock: string; readonly with?: Options; readonly steps: readonly Step[] }
  /** Ends the lease in the slot; without a slot, the lease of the innermost function. The program does not wait for it if `loose`. */
  | { readonly do: "release" | "dispose"; readonly slot?: number; readonly loose?: true }
  /** Renews the lease now, perhaps for another ttl. The program does not wait for it if `loose`. */
  | { readonly do: "extend"; readonly slot?: number; readonly ttl?: number; readonly loose?: true }
  /** Asks the lease whether it is held, so often. */
  | { readonly do: "check"; readonly slot?: number; readonly times?: number }
  /** Runs the steps when the lease's signal aborts. Without steps: only reads the signal. */
  | { readonly do: "listen"; readonly slot?: number; readonly steps: readonly Step[] }
  /** Runs the steps at the first such event in this client's process, inside the event. */
  | { readonly do: "on"; readonly event: EventName; readonly steps: readonly Step[] }
  /** Waits; stops the whole world (a blocked event loop); stops this process only; lets its machine sleep; steps its wall clock. */
  | { readonly do: "sleep" | "block" | "pause" | "suspend" | "wall"; readonly ms: number }
  | { readonly do: "throw" }
  | { readonly do: "abort"; readonly signal: number }
  /** Closes the client's locks. Waited for where that is possible: not inside a function that close() waits for. */
  | { readonly do: "close"; readonly force?: true; readonly grace?: number }
  /** Ends the lease on that lock by force. */
  | { readonly do: "force"; readonly lock: string }
  /** The connection was replaced: every lease should be looked at. */
  | { readonly do: "doubt" }
  /** All at once, as Promise.all() does: the first failure is the failure of all. */
  | { readonly do: "all"; readonly branches: readonly (readonly Step[])[]; readonly loose?: true }
  /** Starts something that the program does not wait for. */
  | { readonly do: "fork"; readonly steps: readonly Step[] };

export interface Thread {
  readonly client: number;
  readonly steps: readonly Step[];
}

/** What happens to the n-th call of an operation by that client; 1 is the first. */
export interface ProgramFault {
  readonly client: number;
  readonly operation: Operation;
  readonly nth: number;
  readonly fault: Fault;
}

export interface Program {
  /** Draws ids, jitter and lag. @default 1 */
  readonly seed?: number;
  /** How many fences a grant reserves. @default 64 */
  readonly run?: number;
  /** How long holds linger, for all calls that do not say otherwise. @default 0 */
  readonly linger?: number;
  /** What the backend lacks. */
  readonly without?: readonly ("swap" | "watch" | "listen")[];
  /** Every message takes up to this long, each way. @default 0 */
  readonly lagMs?: number;
  readonly faults?: readonly ProgramFault[];
  readonly threads: readonly Thread[];
}

/** What a program did wrong: a rule in a few words, and what happened. */
export interface Finding {
  readonly rule: Rule;
  readonly atMs: number;
  readonly message: string;
}

/** The rules, as docs/testing.md explains them. */
export type Rule =
  | "two holders"
  | "believed without the store"
  | "believed beyond the store"
  | "believed after the news"
  | "fence"
  | "entered a lease that is over"
  | "group without a part"
  | "lease handed out after close"
  | "work started after close"
  | "close under work"
  | "resolved though lost"
  | "lost though held"
  | "unknown without a reason"
  | "gave up too early"
  | "renewed after its release"
  | "warning"
  | "signal too late"
  | "started with an aborted signal"
  | "busy though free"
  | "kept though wanted"
  | "unexpected error"
  | "unhandled rejection"
  | "does not settle"
  | "busy loop"
  | "too many requests"
  | "unwanted claim"
  | "left after close"
  | "listener left";

export interface Verdict {
  readonly program: Program;
  /** The first comes first. Empty: all is well. */
  readonly findings: readonly Finding[];
  /** What happened, for people. */
  readonly log: readonly string[];
  readonly simulatedMs: number;
  readonly steps: number;
}
