/** The errors of the standard: a DOMException with a name by which code knows it. */

export type DomErrorName = "AbortError" | "InvalidStateError" | "NotSupportedError";

/** `cause`: what Holdfast says about it. */
export function domError(name: DomErrorName, message: string, cause?: unknown): DOMException {
  const error = new DOMException(message, name);
  // Not every runtime has a constructor that takes it.
  if (cause !== undefined) Object.defineProperty(error, "cause", { value: cause, configurable: true, writable: true });
  return error;
}
