/**
 * Tells the store at once which locks are held by those who wait here. Mostly that has its time: it goes out with the next question or
 * renewal. But other processes look for deadlocks in it: what is no longer true must not stand there, and what makes a deadlock should.
 */
import type { Claim } from "../contract/claim.ts";
import type { Hold } from "./hold.ts";
import type { Watchdog } from "./watchdog.ts";

/** A claim on its way through the store. */
interface Shown {
  readonly claim: Claim;
  refresh(): void;
}

interface Publisher {
  publish(onlyLess: boolean): void;
}

const due = new Set<Publisher>();

/** Some of those who waited do no longer. Once for all that leave in one turn: each time the whole line is read. */
export function publishLess(queue: Publisher): void {
  if (due.size === 0)
    queueMicrotask(() => {
      for (const one of due) {
        due.delete(one);
        one.publish(true);
      }
    });
  due.add(queue);
}

/** `onlyLess`: one of those who waited does no longer. Where none was known to hold anything, there is nothing to take back. */
export function publish(claims: readonly Shown[], holds: readonly Hold[], watchdog: Watchdog, onlyLess: boolean): void {
  for (const acquisition of claims) if (!onlyLess || saysMuch(acquisition)) acquisition.refresh();
  for (const hold of holds) {
    // What the store has from the time when its claim waited is believed by none.
    if (onlyLess && (!saysMuch(hold) || hold.claim.local?.users === 0)) continue;
    if (hold.toRenew().changed === true) watchdog.confirm(hold, true);
  }
}

function saysMuch({ claim: { local } }: Pick<Hold, "claim">): boolean {
  return local !== undefined && local.holds.length > 0;
}
