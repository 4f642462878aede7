/** Whose clock is off: leases end by the members' wall clocks, so a member whose clock is far from the others' does not vote. */
import type { Clock } from "../../contract/clock.ts";

/** The member's wall clock minus our monotonic clock lies between these. */
export interface Offset {
  readonly fromMs: number;
  readonly toMs: number;
}

/** What is known of a member's clock. */
interface HasClock {
  readonly offset: Offset | undefined;
}

/** Which members' clocks are further than `maxMs` from the others'. Where their number is even, our own clock decides. */
export function clocksOff<M extends HasClock>(members: readonly M[], maxMs: number, clock: Clock): ReadonlySet<M> {
  if (agree(members, maxMs)) return NONE;
  const known = members.flatMap((member) => (member.offset === undefined ? [] : [{ member, ...member.offset }]));
  if (known.length < 2) return NONE;
  const middles = known.map(({ fromMs, toMs }) => (fromMs + toMs) / 2);
  if (middles.length % 2 === 0) middles.push(clock.wall() - clock.now());
  const median = middles.toSorted((a, b) => a - b)[(middles.length - 1) / 2]!;
  return new Set(
    known.filter(({ fromMs, toMs }) => fromMs > median + maxMs || toMs < median - maxMs).map(({ member }) => member),
  );
}

const NONE: ReadonlySet<never> = new Set();

/** True: all clocks are so close together that none can be far from the middle one. Nearly always, and cheaply found out. */
function agree(members: readonly HasClock[], maxMs: number): boolean {
  let leastMs = Infinity;
  let greatestMs = -Infinity;
  for (const { offset } of members) {
    if (offset === undefined) continue;
    if (offset.fromMs < leastMs) leastMs = offset.fromMs;
    if (offset.toMs > greatestMs) greatestMs = offset.toMs;
  }
  return greatestMs - leastMs <= maxMs;
}
