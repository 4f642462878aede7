/** A question to the store that a user waits for, with the user's own signal and patience. */
import type { Desk } from "./engine.ts";
import { formatMs } from "../contract/duration.ts";
import { asBackendError, LockBackendError } from "../contract/errors.ts";
import { onAbort } from "../contract/on-abort.ts";
import type { QuerySpec } from "./options.ts";
import { asked } from "./surroundings.ts";

export function askStore<T>(
  { backend, clock }: Desk,
  what: string,
  { signal, timeoutMs }: QuerySpec,
  ask: () => Promise<T>,
  lock = "",
): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    if (signal?.aborted === true) return reject(signal.reason as Error);
    let timer: unknown;
    const stopListening = signal === undefined ? undefined : onAbort(signal, () => end(() => reject(signal.reason)));
    const end = (settle: () => void): void => {
      clock.clearTimer(timer);
      stopListening?.();
      settle();
    };
    if (timeoutMs !== Infinity) {
      timer = clock.setTimer(() => end(() => reject(tooSlow(backend.name, what, timeoutMs, lock))), timeoutMs, true);
    }
    asked(ask).then(
      (answer) => end(() => resolve(answer)),
      (error: unknown) => end(() => reject(asBackendError(backend.name, lock, error))),
    );
    return undefined;
  });
}

function tooSlow(backend: string, what: string, timeoutMs: number, lock: string): LockBackendError {
  const message = `The ${backend} store did not answer ${what} within ${formatMs(timeoutMs)}. See whether it is up with \`holdfast doctor\`.`;
  return new LockBackendError(backend, lock, message);
}
