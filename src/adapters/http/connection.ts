/**
 * When the connection of a response of `node:http` is closed. A response says so itself, unless it waits behind another one of the same
 * connection (pipelining): then only the socket does.
 */
import type { ServerResponse } from "node:http";
import { Socket } from "node:net";

/** One listener per socket: each request of a long connection would be one more. */
const closings = new WeakMap<Socket, Set<() => void>>();

function closingOf(socket: Socket): Set<() => void> {
  const known = closings.get(socket);
  if (known !== undefined) return known;
  const all = new Set<() => void>();
  closings.set(socket, all);
  socket.once("close", () => {
    for (const closed of all) closed();
  });
  return all;
}

/** Calls `closed` once, when the connection is closed, or at once where it is closed already. Returns how to stop that. */
export function onClosed(response: ServerResponse, closed: () => void): () => void {
  // HTTP/2 has a stream per response, and that says it.
  const { httpVersionMajor, socket } = (response.req ?? {}) as Partial<ServerResponse["req"]>;
  const closing = httpVersionMajor === 1 && socket instanceof Socket ? closingOf(socket) : undefined;
  const off = (): void => {
    response.off("close", once);
    closing?.delete(once);
  };
  const once = (): void => {
    off();
    closed();
  };
  response.on("close", once);
  closing?.add(once);
  if (response.destroyed || socket?.destroyed === true) once();
  return off;
}

/** Aborts when the connection is closed: a request whose client has gone needs no turn. */
export function whenGone(response: ServerResponse): { readonly signal: AbortSignal; readonly off: () => void } {
  const controller = new AbortController();
  return { signal: controller.signal, off: onClosed(response, () => controller.abort()) };
}
