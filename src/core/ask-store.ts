/** A question to the store that a user waits for: with the user's own signal and time limit, and only until the locks are closed. */
import type { Engine } from "./engine.ts";
import { formatMs } from "../contract/duration.ts";
import { asBackendError, LockBackendError, LockClosedError } from "../contract/errors.ts";
import { onAbort } from "../contract/on-abort.ts";
import type { QuerySpec } from "./options.ts";
import { asked } from "../contract/answer.ts";

export async function askStore<T>(
  { backend, clock, ended }: Engine,
  what: string,
  { signal, timeoutMs }: QuerySpec,
  ask: () => Promise<T>,
  lock = "",
): Promise<T> {
  if (signal?.aborted === true) throw signal.reason;
  if (ended.aborted) throw closed(what, lock);
  const stop: (() => void)[] = [];
  try {
    return await new Promise<T>((resolve, reject) => {
      stop.push(onAbort(ended, () => reject(closed(what, lock))));
      stop.push(onAbort(signal, reject));
      if (timeoutMs !== Infinity) {
        const timer = clock.setTimer(() => reject(tooSlow(backend.name, what, timeoutMs, lock)), timeoutMs, true);
        stop.push(() => clock.clearTimer(timer));
      }
      asked(ask).then(resolve, (error: unknown) => reject(asBackendError(backend.name, lock, error)));
    });
  } finally {
    for (const end of stop) end();
  }
}

function closed(what: string, lock: string): LockClosedError {
  const message = `${what} got no answer: these locks are closed. Create new ones with createLocks() or connect().`;
  return new LockClosedError(lock, message);
}

function tooSlow(backend: string, what: string, timeoutMs: number, lock: string): LockBackendError {
  const message = `The ${backend} store did not answer ${what} within ${formatMs(timeoutMs)}. See whether it is up with \`holdfast doctor\`.`;
  return new LockBackendError(backend, lock, message);
}
