/** Opens a connection of our own, but waits neither for it nor for its answers for ever: a server that hangs accepts connections too. */
import type { Connection, Destination, Wire, WireEvents } from "./connection.ts";

const OPEN_MS = 5000;

/** Rejects when it was not open in time, and closes it should it open later. */
export async function opened(connection: Connection, to: Destination, events: WireEvents): Promise<Wire> {
  let late = false;
  const opening = connection.wire(to, events);
  opening.then(
    (wire) => late && wire.close(),
    () => {},
  );
  return inTime(opening, "was not open", () => (late = true));
}

/** The same of everything that a connection of our own needs before it is of use. */
export async function inTime<T>(asked: Promise<T>, not: string, expire: () => void): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const expired = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      expire();
      reject(new Error(`a connection of our own ${not} within ${OPEN_MS / 1000} s`));
    }, OPEN_MS).unref();
  });
  try {
    return await Promise.race([asked, expired]);
  } finally {
    clearTimeout(timer);
  }
}
