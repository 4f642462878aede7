/** What every part that talks to the store needs: the store itself, time, and chance. */
import type { Backend } from "./backend.ts";
import type { Chance } from "./chance.ts";
import type { Clock } from "./clock.ts";

export interface Surroundings {
  readonly backend: Backend;
  readonly clock: Clock;
  readonly chance: Chance;
}
