/**
 * Listening to a user's AbortSignal: one listener per signal for the whole library, however many wait with it. Node warns
 * of a leak when one signal has more than ten, and a thousand waiters with one signal are no leak.
 *
 * A signal may be of a foreign kind. Where it cannot be listened to the caller learns of it, and has to put back
 * what it has begun; whatever else it does is harmless here.
 */
type Callback = (reason: unknown) => void;

interface Heard {
  readonly callbacks: Set<Callback>;
  readonly listener: () => void;
}

const signals = new WeakMap<AbortSignal, Heard>();

/** Calls `fn` once when the signal aborts, or at once where it has. Returns what takes it away again. */
export function onAbort(signal: AbortSignal | undefined, fn: Callback): () => void {
  if (signal === undefined) return nothing;
  if (signal.aborted) {
    fn(reasonOf(signal));
    return nothing;
  }
  // A function of its own, so that one that is added twice is called twice.
  const callback: Callback = (reason) => fn(reason);
  const heard = signals.get(signal) ?? listenTo(signal);
  heard.callbacks.add(callback);
  return () => {
    if (!heard.callbacks.delete(callback) || heard.callbacks.size > 0) return;
    if (signals.get(signal) === heard) signals.delete(signal);
    try {
      signal.removeEventListener("abort", heard.listener);
    } catch {
      // It may call the listener later, which then finds no callback.
    }
  };
}

function listenTo(signal: AbortSignal): Heard {
  const callbacks = new Set<Callback>();
  const listener = (): void => {
    signals.delete(signal);
    const reason = reasonOf(signal);
    // One callback may take others away: a Set does not visit those any more.
    for (const callback of callbacks) {
      callbacks.delete(callback);
      callback(reason);
    }
  };
  const heard = { callbacks, listener };
  signal.addEventListener("abort", listener, { once: true });
  // Only now: one that throws there is not listened to.
  signals.set(signal, heard);
  return heard;
}

function nothing(): void {}

function reasonOf(signal: AbortSignal): unknown {
  try {
    return signal.reason;
  } catch (error) {
    return error;
  }
}

/** Resolves when it aborts. */
export function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => void onAbort(signal, () => resolve()));
}
