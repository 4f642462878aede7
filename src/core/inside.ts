/** What the drop-ins need of locks besides their verbs. Only locks that createLocks() made have it. */
import type { AcquireOptions, Locks } from "./api.ts";
import type { Running } from "./close.ts";
import type { Engine } from "./engine.ts";
import type { CheckedOptions } from "./options.ts";
import { Scope } from "./reentry.ts";

export interface Inside {
  readonly engine: Engine;
  readonly running: Running;
  readonly checked: (options: AcquireOptions) => CheckedOptions;
}

export const insides: WeakMap<Locks, Inside> = new WeakMap();

/** Takes a lock without re-entry: where the function that asks holds the lock itself, it waits like all others, or is refused. */
export function withoutReentry<T>(locks: Locks, name: string, take: () => T): T {
  const inside = insides.get(locks);
  const isInside = inside !== undefined && Scope.of(inside.engine, name) !== undefined;
  return isInside ? Scope.outside(take) : take();
}
