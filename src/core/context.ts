/**
 * Which function holds a lock around the code that runs: see reentry.ts. Here alone, so that leases, which re-entry is built on,
 * can call a listener where it belongs. We call listeners from timers and answers, and these run in the context of the
 * caller that set them off first: a listener of one caller would be inside the lease of another.
 */
import { AsyncLocalStorage } from "node:async_hooks";

/** Only re-entry looks inside. */
export type Context = object | undefined;

const contexts = new AsyncLocalStorage<Context>();
let opened = false;

/** Asking costs nothing until a context was opened. */
export function contextNow(): Context {
  return opened ? contexts.getStore() : undefined;
}

/** Does something in a context; in `undefined`, as if no function around it held a lock. */
export function inContext<T>(context: Context, work: () => T): T {
  opened ||= context !== undefined;
  return opened ? contexts.run(context, work) : work();
}

/** Its listeners are called in the context in which it was made, from wherever it is aborted. */
export class ContextAbort extends AbortController {
  readonly #context: Context = contextNow();

  override abort(reason?: unknown): void {
    inContext(this.#context, () => super.abort(reason));
  }
}
