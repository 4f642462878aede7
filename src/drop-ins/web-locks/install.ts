/** Puts a manager on `navigator`, where code that knows only the standard finds it. */
import { ArgumentError } from "../../contract/argument-error.ts";
import type { Locks } from "../../core/api.ts";
import type { WebLockManager } from "./api.ts";
import { Lock } from "./lock.ts";
import { LockManager, toManager } from "./lock-manager.ts";
import { Requests } from "./requests.ts";

const managers = new WeakMap<Locks, WebLockManager>();

/** The standard's LockManager over these locks: always the same one. */
export function webLocks(locks: Locks): WebLockManager {
  if (typeof locks?.acquire !== "function" || typeof locks.query !== "function")
    throw new ArgumentError("Expected `locks` to be locks such as those of createLocks() or connect()");
  const made = managers.get(locks) ?? toManager(new Requests(locks));
  managers.set(locks, made);
  return made;
}

export interface InstallOptions {
  /** Also where the runtime has locks of its own, which exclude only within one process. @default false */
  readonly replace?: boolean | undefined;
}

/**
 * Makes `navigator.locks` that of these locks, and `Lock` and `LockManager` global, where the runtime lacks them. Returns what takes
 * all of it away again. Throws where the runtime has `navigator.locks`, unless it is to be replaced.
 */
export function installWebLocks(locks: Locks, { replace = false }: InstallOptions = {}): () => void {
  const manager = webLocks(locks);
  const scope = globalThis as { navigator?: object };
  const present = (scope.navigator as { locks?: unknown } | undefined)?.locks;
  if (present !== undefined && !replace)
    throw new ArgumentError(
      "Expected a runtime without `navigator.locks`: this one has its own, which other code may use. To replace it, pass { replace: true }.",
    );
  const undo = [
    ...(scope.navigator === undefined ? [define(scope, "navigator", { value: {}, enumerable: false })] : []),
    ...(present === undefined || replace ? [define(scope.navigator as object, "locks", { get: () => manager })] : []),
    ...Object.entries({ Lock, LockManager }).flatMap(([name, value]) =>
      Object.hasOwn(globalThis, name) && !replace ? [] : [define(globalThis, name, { value, enumerable: false })],
    ),
  ];
  return () => {
    for (const back of undo.splice(0).toReversed()) back();
  };
}

function define(on: object, name: string, how: PropertyDescriptor): () => void {
  const before = Object.getOwnPropertyDescriptor(on, name);
  Object.defineProperty(on, name, { configurable: true, enumerable: true, ...how });
  return () => {
    if (before === undefined) Reflect.deleteProperty(on, name);
    else Object.defineProperty(on, name, before);
  };
}
