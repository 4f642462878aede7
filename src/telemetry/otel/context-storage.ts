/**
 * The storage in which OpenTelemetry keeps its context, so that spans of the work are children of its hold. It is a private field of
 * the context manager (opentelemetry-js#6088 asks for a public way). Where it is not there, spans are the same, but side by side.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import { type Context, context } from "@opentelemetry/api";

interface Private {
  _getContextManager?(): { readonly _asyncLocalStorage?: unknown } | undefined;
}

export function contextStorage(): AsyncLocalStorage<Context> | undefined {
  try {
    const storage = (context as unknown as Private)._getContextManager?.()?._asyncLocalStorage;
    return storage instanceof AsyncLocalStorage ? (storage as AsyncLocalStorage<Context>) : undefined;
  } catch {
    return undefined;
  }
}
