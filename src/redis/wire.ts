/** Opens a connection of our own, but does not wait for one for ever: a server that hangs accepts connections too. */
import type { Connection, Destination, Wire, WireEvents } from "./connection.ts";

const OPEN_MS = 5000;

/** Rejects when it was not open in time, and closes it should it open later. */
export async function opened(connection: Connection, to: Destination, events: WireEvents): Promise<Wire> {
  let timer: NodeJS.Timeout | undefined;
  let late = false;
  const opening = connection.wire(to, events);
  opening.then(
    (wire) => late && wire.close(),
    () => {},
  );
  const expired = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      late = true;
      reject(new Error(`a connection of our own was not open within ${OPEN_MS / 1000} s`));
    }, OPEN_MS).unref();
  });
  try {
    return await Promise.race([opening, expired]);
  } finally {
    clearTimeout(timer);
  }
}
