/**
 * The sockets of a client library that is ours: it keeps connections that have fallen silent, as when a host vanishes or a network forgets them, and
 * waits for the other side when it ends.
 */
import { Socket } from "node:net";

export class Sockets {
  readonly #target: { readonly host: string; readonly port: number } | { readonly path: string };
  readonly #sockets: Set<Socket> = new Set();
  #closed = false;

  /** `host`: a name, an address, or the directory of a unix socket. */
  constructor(host: string, port: number) {
    this.#target = host.startsWith("/") ? { path: `${host}/.s.PGSQL.${port}` } : { host, port };
  }

  /** For postgres.js: what is written before it is connected is sent then. */
  open(): Socket {
    const socket = this.make().connect(this.#target);
    socket.setNoDelay(true);
    socket.setKeepAlive(true);
    return socket;
  }

  /** For pg, which connects it. */
  make(): Socket {
    // Its timers go on after its end, and would keep the process alive with new connections.
    if (this.#closed) throw new Error("closed");
    for (const socket of this.#sockets) if (socket.destroyed) this.#sockets.delete(socket);
    const socket = new Socket();
    this.#sockets.add(socket);
    return socket;
  }

  /** What waits for an answer on one of them is rejected, and the next statement opens another. */
  destroyAll(): void {
    for (const socket of this.#sockets) socket.destroy();
    this.#sockets.clear();
  }

  close(): void {
    this.#closed = true;
    this.destroyAll();
  }
}
