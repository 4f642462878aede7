/**
 * The two clocks of this backend. Instants that other processes compare are milliseconds of the machine's monotonic
 * clock, which stands still while the machine sleeps, for everybody alike. The wall clock serves only where that one
 * cannot be compared (another boot, another time namespace), for ages shown to people, and as the floor of fences.
 */
import { type Clock, systemClock } from "../../contract/clock.ts";

export interface Moment {
  /** Monotonic, and the same in all processes of this boot. */
  machineMs(): number;
  /** The core's monotonic clock: what `fromMs` means. */
  localMs(): number;
  wallMs(): number;
}

/** With a clock of the caller's own the instants are only comparable within this process: for tests. */
export function momentOf(clock: Clock): Moment {
  const machineMs = clock === systemClock ? () => Number(process.hrtime.bigint()) / 1e6 : () => clock.now();
  return { machineMs, localMs: () => clock.now(), wallMs: () => clock.wall() };
}
