/**
 * Listening to a user's AbortSignal: one listener per signal for the whole library, however many wait with it. Node warns
 * of a leak when one signal has more than ten, and a thousand waiters with one signal are no leak.
 */
interface Heard {
  readonly callbacks: Set<() => void>;
  readonly listener: () => void;
}

const signals = new WeakMap<AbortSignal, Heard>();

/** Calls `fn` once when the signal aborts. Returns what takes it away again. The caller has looked at `signal.aborted`. */
export function onAbort(signal: AbortSignal, fn: () => void): () => void {
  // A function of its own, so that one that is added twice is called twice.
  const callback = (): void => fn();
  const heard = signals.get(signal) ?? listenTo(signal);
  heard.callbacks.add(callback);
  return () => {
    if (!heard.callbacks.delete(callback) || heard.callbacks.size > 0) return;
    signal.removeEventListener("abort", heard.listener);
    if (signals.get(signal) === heard) signals.delete(signal);
  };
}

function listenTo(signal: AbortSignal): Heard {
  const callbacks = new Set<() => void>();
  const listener = (): void => {
    signals.delete(signal);
    // One callback may take others away: a Set does not visit those any more.
    for (const callback of callbacks) {
      callbacks.delete(callback);
      callback();
    }
  };
  const heard = { callbacks, listener };
  signals.set(signal, heard);
  signal.addEventListener("abort", listener, { once: true });
  return heard;
}
