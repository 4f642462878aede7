/** What the core tells a contention profile, while there is one: see contention.ts. */
import type { Claim, Holding, Meta } from "../contract/backend.ts";
import type { AcquireEvent, HoldEvent } from "../contract/events.ts";

export interface Profile {
  /** A call has to wait. Called again with each word of the store on who is in its way: `isNews`. */
  contended(event: AcquireEvent, enteredMs: number, heldBy: readonly Holding[], isNews: boolean): void;
  /** The call is over, whatever came of it. */
  over(event: AcquireEvent): void;
  began(event: HoldEvent, hold: ProfiledHold): void;
  /** Its release begins. */
  ended(event: HoldEvent): void;
  /** It was lost: before its release, or found out by that. */
  lost(event: HoldEvent): void;
}

/** What is known of the lease in the store, besides the event. */
export interface ProfiledHold {
  readonly meta: Meta;
  readonly firstFence: bigint;
  readonly claim: Pick<Claim, "holder" | "limit" | "minHoldMs" | "lockDelayMs">;
}

/** Where the core looks for a profile. */
export interface ProfileSlot {
  profile: Profile | undefined;
}
