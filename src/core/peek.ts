/** What tests see of a lease without touching it: `signal`, `remaining()` and `assertHeld()` may have effects of their own. */

/** What `peek()` sees of a lease. */
export interface Peeked {
  readonly name: string;
  readonly fence: bigint;
  /** `held`: assertHeld() would pass. `doubt`: the machine may have slept, and the store has not confirmed it since. */
  readonly state: "held" | "doubt" | "released" | "lost";
  /** When belief ends unless a renewal comes, by the monotonic clock of its process. */
  readonly trustedUntilMs: number;
}

/** What every lease of the core can do besides its public part. It changes nothing, and sends nothing. */
export interface Peekable {
  /** One entry for each lock. */
  peek(): readonly Peeked[];
}
