/**
 * Hints between processes, over unix sockets in the lock directory: "look at your claim". They save time and are never
 * the truth: lose every one, and everything still works at the pace of polling. A connection is a hint too: the kernel
 * closes it in the moment in which the process at the other end dies.
 */
import { closeSync, openSync } from "node:fs";
import { createServer, connect, type Server, type Socket } from "node:net";
import { createHash } from "node:crypto";
import { join } from "node:path";
import { remove } from "./disk.ts";
import type { Place } from "./directory.ts";
import { isId } from "./records.ts";

/** What fits into a socket's address on every system. */
const PATH_MAX = 103;
const PEERS_MAX = 64;
const FLUSH_MAX_MS = 200;
const LINE_MAX = 256;

interface Peer {
  readonly socket: Socket;
  readonly followers: Set<() => void>;
}

export class Hints {
  readonly #place: Place;
  readonly #instance: string;
  readonly #look: (ownerId: string) => void;
  readonly #peers = new Map<string, Peer>();
  readonly #guests = new Set<Socket>();
  #server: Server | undefined;
  /** The socket directory, where its path is too long for an address but not for a link to an open file. */
  #directory: number | undefined;
  #works = false;
  #unsent = 0;
  #sent: (() => void) | undefined;

  constructor(place: Place, instance: string, look: (ownerId: string) => void) {
    this.#place = place;
    this.#instance = instance;
    this.#look = look;
  }

  /** True while others can reach us. */
  get works(): boolean {
    return this.#works;
  }

  listen(): void {
    this.#server = createServer((socket) => this.#hear(socket));
    this.#server.on("error", () => {
      this.#works = false;
    });
    try {
      // `exclusive`: in a cluster's worker the socket must be this process's own.
      this.#server.listen({ path: this.#address(this.#instance), exclusive: true });
      this.#server.unref();
      this.#works = true;
    } catch {
      this.#works = false;
    }
  }

  /** Tells whoever has this owner file to look at its claim. */
  tell(instance: string, ownerId: string): void {
    if (instance === this.#instance) queueMicrotask(() => this.#look(ownerId));
    else this.#write(this.#peer(instance)?.socket, `look ${ownerId}\n`);
  }

  /** Waits, but not long, until what was told has left this process: one that ends right away would take it along. */
  async flush(): Promise<void> {
    if (this.#unsent === 0) return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, FLUSH_MAX_MS);
      this.#sent = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  /** Calls `ended` when the process behind that instance is gone, or cannot be reached. Returns how to stop. */
  follow(instance: string, ended: () => void): () => void {
    if (instance === this.#instance) return () => undefined;
    const peer = this.#peer(instance);
    if (peer === undefined) {
      queueMicrotask(ended);
      return () => undefined;
    }
    peer.followers.add(ended);
    return () => peer.followers.delete(ended);
  }

  close(): void {
    this.#works = false;
    this.#server?.close();
    for (const { socket } of this.#peers.values()) socket.destroy();
    for (const socket of this.#guests) socket.destroy();
    this.#peers.clear();
    if (process.platform !== "win32") remove(join(this.#place.sockets, this.#instance));
    if (this.#directory !== undefined) closeSync(this.#directory);
    this.#directory = undefined;
  }

  #write(socket: Socket | undefined, line: string): void {
    if (socket === undefined) return;
    this.#unsent++;
    // Called for a socket that failed, too.
    socket.write(line, () => {
      this.#unsent--;
      if (this.#unsent === 0) this.#sent?.();
    });
  }

  #peer(instance: string): Peer | undefined {
    const known = this.#peers.get(instance);
    if (known !== undefined) return known;
    if (!isId(instance)) return undefined;
    this.#makeRoom();
    const socket = connect({ path: this.#address(instance) });
    const peer: Peer = { socket, followers: new Set() };
    this.#peers.set(instance, peer);
    socket.unref();
    socket.on("error", () => {});
    // Nobody answers; but without reading, the end would not be seen.
    socket.resume();
    socket.on("close", () => {
      if (this.#peers.get(instance) === peer) this.#peers.delete(instance);
      for (const ended of peer.followers) ended();
    });
    return peer;
  }

  #makeRoom(): void {
    for (const [instance, { socket, followers }] of this.#peers) {
      if (this.#peers.size < PEERS_MAX) return;
      if (followers.size > 0) continue;
      this.#peers.delete(instance);
      socket.destroySoon();
    }
  }

  #hear(socket: Socket): void {
    this.#guests.add(socket);
    socket.unref();
    socket.setEncoding("utf8");
    let received = "";
    socket.on("error", () => {});
    socket.on("close", () => this.#guests.delete(socket));
    socket.on("data", (text: string) => {
      received += text;
      for (let end = received.indexOf("\n"); end >= 0; end = received.indexOf("\n")) {
        const [word, id] = received.slice(0, end).split(" ");
        received = received.slice(end + 1);
        if (word === "look" && isId(id)) this.#look(id);
      }
      if (received.length > LINE_MAX) socket.destroy();
    });
  }

  #address(instance: string): string {
    if (process.platform === "win32") {
      const place = createHash("sha256").update(this.#place.root.toLowerCase()).digest("hex").slice(0, 16);
      return `\\\\.\\pipe\\holdfast-${place}-${instance}`;
    }
    const path = join(this.#place.sockets, instance);
    if (Buffer.byteLength(path) <= PATH_MAX || process.platform !== "linux") return path;
    this.#directory ??= openSync(this.#place.sockets, "r");
    return `/proc/self/fd/${this.#directory}/${instance}`;
  }
}
