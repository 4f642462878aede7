/** Whether someone else has answered while the handler worked: Hono does not take its response then, and what it came to is not known. */
import { AsyncLocalStorage } from "node:async_hooks";
import type { Context, Next } from "hono";

/** The request whose handler the code that asks is part of. */
const handled = new AsyncLocalStorage<Context>();

/**
 * Runs the rest, and resolves to whether a middleware around it has answered in the place of the handler, as `timeout()` does. A handler that
 * fails is heard all the same: then the response is that of its error.
 */
export async function isAnsweredMeanwhile(c: Context, next: Next): Promise<boolean> {
  // One around another has put its own there.
  const own = Object.getOwnPropertyDescriptor(c, "res");
  const given = own ?? Object.getOwnPropertyDescriptor(Object.getPrototypeOf(c), "res");
  let isOthers = false;
  Object.defineProperty(c, "res", {
    configurable: true,
    get: () => given?.get?.call(c) as unknown,
    set: (response: unknown) => {
      isOthers = handled.getStore() !== c;
      given?.set?.call(c, response);
    },
  });
  try {
    await handled.run(c, next);
  } finally {
    if (own === undefined) Reflect.deleteProperty(c, "res");
    else Object.defineProperty(c, "res", own);
  }
  return isOthers;
}
