/** One listener per event on a client, however many backends share it: an eleventh would print a warning. */

export interface Emitter {
  on(event: string, listener: (...args: never[]) => void): unknown;
  off(event: string, listener: (...args: never[]) => void): unknown;
}

interface Shared {
  readonly calls: Set<(...args: unknown[]) => void>;
  readonly listener: (...args: never[]) => void;
}

const clients: WeakMap<Emitter, Map<string, Shared>> = new WeakMap();

/** Calls `call` at every such event of the client. Returns a function that stops it. */
export function listen(client: Emitter, event: string, call: (...args: unknown[]) => void): () => void {
  const events = clients.get(client) ?? new Map<string, Shared>();
  clients.set(client, events);
  const shared = events.get(event) ?? share(client, events, event);
  // A new function for each caller, so that the same function passed twice is called twice.
  const own = (...args: unknown[]): void => call(...args);
  shared.calls.add(own);
  return () => {
    if (!shared.calls.delete(own) || shared.calls.size > 0) return;
    events.delete(event);
    client.off(event, shared.listener);
  };
}

function share(client: Emitter, events: Map<string, Shared>, event: string): Shared {
  const calls: Shared["calls"] = new Set();
  const listener = (...args: unknown[]): void => {
    // A call may add or remove others; a Set allows that while it is iterated.
    for (const call of calls) call(...args);
  };
  const shared = { calls, listener };
  events.set(event, shared);
  client.on(event, listener);
  return shared;
}
