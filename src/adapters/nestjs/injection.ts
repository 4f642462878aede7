/** How locks reach what uses them: by Nest's own injection, so that each application, and each test, has its own. */
import { Inject } from "@nestjs/common";
import { ArgumentError, got } from "../../contract/argument-error.ts";
import type { Locks } from "../../core/api.ts";

export const DEFAULT_STORE = "default";

/** The token of a store's locks. `store`: the `name` that was given to forRoot(). */
export function getLocksToken(store: string = DEFAULT_STORE): string {
  if (typeof store !== "string" || store === "")
    throw new ArgumentError(`Expected the name of a store to be a text that is not empty, got ${got(store)}`);
  return store === DEFAULT_STORE ? "HoldfastLocks" : `HoldfastLocks:${store}`;
}

/** Injects a store's locks, into a constructor or a property. */
export function InjectLocks(store?: string): PropertyDecorator & ParameterDecorator {
  return Inject(getLocksToken(store));
}

/** Shared by all copies of this package. */
function placeOf(store: string): symbol {
  return Symbol.for(`holdfast.${getLocksToken(store)}`);
}

/** Has Nest give the store's locks to each instance of the class that `prototype` is of. */
export function injectInto(prototype: object, store: string): void {
  const place = placeOf(store);
  // By another method of the class, or of one that it extends.
  if (place in prototype) return;
  Object.defineProperty(prototype, place, {
    configurable: true,
    get: () => undefined,
    set(this: object, locks: Locks) {
      attachLocks(this, locks, store);
    },
  });
  Inject(getLocksToken(store))(prototype, place);
}

/**
 * Gives locks to an instance that Nest did not make from its class: in a unit test, or in the `useFactory` of a provider. Returns the instance.
 */
export function attachLocks<T extends object>(instance: T, locks: Locks, store: string = DEFAULT_STORE): T {
  // Its own, so that it is found through a proxy; and not shown where the instance is printed.
  Object.defineProperty(instance, placeOf(store), { value: locks, configurable: true, writable: true });
  return instance;
}

export function locksOf(instance: unknown, store: string, where: string): Locks {
  const locks = (instance as Readonly<Record<symbol, Locks | undefined>> | undefined)?.[placeOf(store)];
  if (locks !== undefined) return locks;
  throw new ArgumentError(
    `Expected the instance of ${where} to have locks: Nest gives them to what it makes from a class, if LocksModule.forRoot() is there. ` +
      "To others, as in useFactory or in a unit test, give them with attachLocks(instance, locks).",
  );
}
