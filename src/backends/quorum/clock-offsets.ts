/** Whose clock is off: leases end by the members' wall clocks, so a member whose clock is far from the others' does not vote. */
import type { Clock } from "../../contract/clock.ts";
import type { Seat } from "./member-link.ts";

/** Which seats' clocks are further than `maxMs` from the others'. Where their number is even, our own clock decides. */
export function clocksOff(seats: readonly Seat[], maxMs: number, clock: Clock): ReadonlySet<Seat> {
  if (agree(seats, maxMs)) return NONE;
  const known = seats.flatMap((seat) => (seat.offset === undefined ? [] : [{ seat, ...seat.offset }]));
  if (known.length < 2) return NONE;
  const middles = known.map(({ fromMs, toMs }) => (fromMs + toMs) / 2);
  if (middles.length % 2 === 0) middles.push(clock.wall() - clock.now());
  const median = middles.toSorted((a, b) => a - b)[(middles.length - 1) / 2]!;
  return new Set(
    known.filter(({ fromMs, toMs }) => fromMs > median + maxMs || toMs < median - maxMs).map(({ seat }) => seat),
  );
}

const NONE: ReadonlySet<Seat> = new Set();

/** True: all clocks are so close together that none can be far from the middle one. Nearly always, and cheaply found out. */
function agree(seats: readonly Seat[], maxMs: number): boolean {
  let leastMs = Infinity;
  let greatestMs = -Infinity;
  for (const { offset } of seats) {
    if (offset === undefined) continue;
    if (offset.fromMs < leastMs) leastMs = offset.fromMs;
    if (offset.toMs > greatestMs) greatestMs = offset.toMs;
  }
  return greatestMs - leastMs <= maxMs;
}
