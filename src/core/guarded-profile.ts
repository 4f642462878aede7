/** Events are open to subscribers, who may have made of them what cannot be read. Then it is not counted, and no lock suffers. */
import type { Holding } from "../contract/backend.ts";
import type { AcquireEvent, HoldEvent } from "../contract/events.ts";
import type { Profile, ProfiledHold } from "./profile.ts";

export class GuardedProfile<P extends Profile> implements Profile {
  readonly profile: P;

  constructor(profile: P) {
    this.profile = profile;
  }

  contended(event: AcquireEvent, enteredMs: number, heldBy: readonly Holding[], isNews: boolean): void {
    try {
      this.profile.contended(event, enteredMs, heldBy, isNews);
    } catch {
      // Not counted.
    }
  }

  over(event: AcquireEvent): void {
    try {
      this.profile.over(event);
    } catch {
      // Not counted.
    }
  }

  began(event: HoldEvent, hold: ProfiledHold): void {
    try {
      this.profile.began(event, hold);
    } catch {
      // Not counted.
    }
  }

  ended(event: HoldEvent): void {
    try {
      this.profile.ended(event);
    } catch {
      // Not counted.
    }
  }

  lost(event: HoldEvent): void {
    try {
      this.profile.lost(event);
    } catch {
      // Not counted.
    }
  }
}
