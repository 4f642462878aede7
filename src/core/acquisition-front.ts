/** What an acquisition knows of whom it was made by. Methods, not functions of its own: thousands of locks keep them for as long as they are held. */
import type { Done, Grant } from "./grant.ts";
import type { Shown } from "./shown.ts";

export interface AcquisitionFront<Acquisition> {
  /** What became of it: a grant; an outcome instead; nothing, where it was refused for good or called off; or an error. */
  onEnded(acquisition: Acquisition, grant: Grant | Done | undefined, failed?: { readonly error: unknown }): void;
  /** A question leaves. */
  onAsked?(acquisition: Acquisition): void;
  /** Its question has come back, and it goes on without a grant. */
  onHeard?(acquisition: Acquisition): void;
  /** What its claim shows to people. Absent: always the same. */
  shownOf?(acquisition: Acquisition): Shown;
}
