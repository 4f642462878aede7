/**
 * Methods under a lock, and methods whose work is done once. The method itself is replaced, and no interceptor is used: so it also holds for
 * crons, message handlers and calls from other classes.
 */
import { ArgumentError, got } from "../../contract/argument-error.ts";
import { OUTCOME_KEEP_MAX_MS, OUTCOME_KEEP_MIN_MS } from "../../contract/claim.ts";
import { toMs } from "../../contract/duration.ts";
import type { AcquireOptions, Locks, OnceOptions } from "../../core/api.ts";
import { checkObject, checkOptions } from "../../core/options.ts";
import { withLease } from "../current-lease.ts";
import { DEFAULT_STORE, getLocksToken, injectInto, locksOf } from "./injection.ts";
import { type LockKey, namerOf } from "./key.ts";

interface StoreOption {
  /** The `name` that was given to forRoot(). @default that without a name */
  readonly store?: string | undefined;
}

export interface LockDecoratorOptions extends Omit<AcquireOptions, "signal">, StoreOption {}

export interface OnceDecoratorOptions extends Omit<OnceOptions<unknown>, "signal" | "codec">, StoreOption {
  /** Not checked against the method's type: what it reads must be what the method returns. @default JSON */
  readonly codec?: { encode(value: never): string; decode(text: string): unknown } | undefined;
}

/** For methods that return a promise, and take at least these arguments. */
export type PromiseMethodDecorator<A extends readonly unknown[]> = <
  M extends (...args: [...A, ...never[]]) => Promise<unknown>,
>(
  target: object,
  property: string | symbol,
  descriptor: TypedPropertyDescriptor<M>,
) => void;

type Method = (...args: readonly unknown[]) => unknown;
type Runner = (locks: Locks, name: string, work: () => Promise<unknown>) => Promise<unknown>;

/** Runs the method while it holds the lock that `key` names for the call. Rejects as {@link Locks.run} does. */
export function Lock<A extends readonly unknown[] = []>(
  key: LockKey<A>,
  options: LockDecoratorOptions = {},
): PromiseMethodDecorator<A> {
  const { store = DEFAULT_STORE, ...acquire } = checked("Lock", options);
  return decorator("Lock", key, store, (locks, name, work) =>
    locks.run(name, acquire, (lease) => withLease(lease, work)),
  );
}

/**
 * Of all calls that have the same name, everywhere, one runs; the others get its value, for as long as `keep` says. The value is what the codec
 * makes of it, for all of them. Rejects as {@link Locks.once} does.
 */
export function Once<A extends readonly unknown[] = []>(
  key: LockKey<A>,
  options: OnceDecoratorOptions,
): PromiseMethodDecorator<A> {
  const { store = DEFAULT_STORE, ...once } = checked("Once", options);
  for (const option of ["keep", "keepFailure"] as const) {
    if (option === "keep" || once[option] !== undefined)
      toMs(once[option], option, { minMs: OUTCOME_KEEP_MIN_MS, maxMs: OUTCOME_KEEP_MAX_MS });
  }
  return decorator("Once", key, store, async (locks, name, work) => {
    const { value } = await locks.once(name, once as OnceOptions<unknown>, (lease) => withLease(lease, work));
    return value;
  });
}

/** A copy. What is wrong for every call is an error where the class is declared. */
function checked<O extends LockDecoratorOptions | OnceDecoratorOptions>(which: "Lock" | "Once", options: O): O {
  const { store, keep, keepFailure, codec, ...acquire } = { ...checkObject(options) } as Record<string, unknown>;
  if (store !== undefined) getLocksToken(store as string);
  for (const option of which === "Once" ? ["signal", "mode", "limit"] : ["signal"]) {
    if (option in acquire) throw new ArgumentError(`Expected no \`${option}\` in the options of @${which}()`);
  }
  const extra = which === "Once" ? {} : { keep, keepFailure, codec };
  const given = Object.entries(extra).filter(([, value]) => value !== undefined);
  checkOptions({ ...acquire, ...Object.fromEntries(given) }, {});
  return { ...options };
}

function decorator(which: "Lock" | "Once", key: unknown, store: string, run: Runner): (...args: unknown[]) => void {
  const shown = `@${which}(${typeof key === "string" ? JSON.stringify(key) : "…"})`;
  namerOf(key, shown);
  return (target, property, descriptor) => {
    const where = `${shown} on ${String(property)}()`;
    const given = descriptor as PropertyDescriptor | undefined;
    const method = given?.value as Method | undefined;
    if (given === undefined || typeof method !== "function" || typeof target === "function") {
      throw new ArgumentError(`Expected ${where} to decorate a method that is not static, got ${got(given?.value)}`);
    }
    const nameOf = namerOf(key, where);
    injectInto(target as object, store);
    const locked = async function (this: unknown, ...args: readonly unknown[]): Promise<unknown> {
      const locks = locksOf(this, store, where);
      const work = async (): Promise<unknown> => checkDone(await Reflect.apply(method, this, args), where);
      return await run(locks, nameOf(this, args), work);
    };
    // In its place: applyDecorators() does not look at what a decorator returns.
    given.value = likeMethod(locked, method);
  };
}

/** Its work would begin when the lock is released. */
function checkDone(value: unknown, where: string): unknown {
  if (typeof value !== "object" || value === null) return value;
  const { lift, subscribe, next } = value as Readonly<Record<string, unknown>>;
  const isGenerator = typeof next === "function" && (Symbol.asyncIterator in value || Symbol.iterator in value);
  const isObservable = typeof lift === "function" && typeof subscribe === "function";
  if (!isObservable && !isGenerator) return value;
  throw new ArgumentError(
    `Expected ${where} to return a promise, got ${isGenerator ? "a generator" : "an Observable"}, whose work would run without the lock. ` +
      "Collect its values in the method, as with lastValueFrom().",
  );
}

interface Metadata {
  getOwnMetadataKeys?(target: object): readonly unknown[];
  getOwnMetadata?(key: unknown, target: object): unknown;
  defineMetadata?(key: unknown, value: unknown, target: object): void;
}

/** What decorators below it have noted on the method (routes, guards, crons) is noted on what replaces it. */
function likeMethod(locked: Method, method: Method): Method {
  const own = Object.getOwnPropertyDescriptors(method) as Record<string, PropertyDescriptor>;
  for (const property of ["prototype", "arguments", "caller"]) Reflect.deleteProperty(own, property);
  Object.defineProperties(locked, own);
  const reflect: Metadata = Reflect as Metadata;
  for (const key of reflect.getOwnMetadataKeys?.(method) ?? []) {
    reflect.defineMetadata?.(key, reflect.getOwnMetadata?.(key, method), locked);
  }
  return locked;
}
