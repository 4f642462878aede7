/** What is going on now: acquires that are not over and leases that are held, each in its group from its start to its end. */
import type { AcquireEvent, HoldEvent } from "../contract/events.ts";
import type { Group, Groups } from "./groups.ts";
import type { Listeners } from "./telemetry.ts";

export interface Ends<S> {
  acquireEnd(group: Group<S>, event: AcquireEvent): void;
  holdEnd(group: Group<S>, event: HoldEvent): void;
}

/** What began before these listeners is not counted. Its group is that of its start: a template may not always say the same. */
export function goingOn<S>(groups: Groups<S>, ends: Ends<S>): Listeners {
  const acquires = new Map<AcquireEvent, Group<S>>();
  const holds = new Map<HoldEvent, Group<S>>();
  return {
    acquireStart(event) {
      const group = groups.of(event);
      group.waiting++;
      acquires.set(event, group);
    },
    acquireEnd(event) {
      const group = acquires.get(event);
      if (group === undefined) return;
      acquires.delete(event);
      group.waiting--;
      ends.acquireEnd(group, event);
    },
    holdStart(event) {
      const group = groups.of(event);
      group.held++;
      holds.set(event, group);
    },
    holdEnd(event) {
      const group = holds.get(event);
      if (group === undefined) return;
      holds.delete(event);
      group.held--;
      ends.holdEnd(group, event);
    },
  };
}
