/**
 * Wake-ups between processes, over unix sockets in the lock directory: "check your claim". They save time and are never
 * the truth: if all of them are lost, everything still works at the pace of polling. A connection is a hint too: the kernel
 * closes it when the process at the other end dies.
 */
import { closeSync, openSync } from "node:fs";
import { createServer, connect, type Server, type Socket } from "node:net";
import { createHash } from "node:crypto";
import { join } from "node:path";
import { systemClock } from "../../contract/clock.ts";
import { within } from "../../contract/time-limit.ts";
import { remove } from "./disk.ts";
import type { DirectoryPaths } from "./directory.ts";
import { isId } from "./checked-text.ts";

/** What fits into a socket's address on every system. */
const PATH_MAX = 103;
const PEERS_MAX = 64;
const FLUSH_MAX_MS = 200;
/** The name of a lock's directory is the longest part. */
const LINE_MAX = 512;
/** How many claims one message names. */
const PORTION = 100;

/** What a wake-up says of those behind. */
const [WANTED, ALONE] = ["wanted", "alone"];

interface Peer {
  readonly socket: Socket;
  readonly followers: Set<() => void>;
}

/** Called with what comes in. */
export interface Heard {
  /** A claim of this lease file is to be checked. `others`: it was handed its lock, and others waited then, or none did. */
  woken(fileId: string, others?: boolean): void;
  /** What this lease file holds of the lock with that directory is wanted. */
  wanted(fileId: string, directory: string): void;
}

export class WakeUpSockets {
  readonly #paths: DirectoryPaths;
  readonly #instance: string;
  readonly #heard: Heard;
  readonly #peers = new Map<string, Peer>();
  readonly #clients = new Set<Socket>();
  #server: Server | undefined;
  /** The socket directory, where its path is too long for an address but not for a link to an open file. */
  #directory: number | undefined;
  #works = false;
  #unsent = 0;
  #sent: (() => void) | undefined;

  constructor(paths: DirectoryPaths, instance: string, heard: Heard) {
    this.#paths = paths;
    this.#instance = instance;
    this.#heard = heard;
  }

  /** True while others can reach us. */
  get works(): boolean {
    return this.#works;
  }

  listen(): void {
    this.#server = createServer((socket) => this.#receive(socket));
    this.#server.on("error", () => {
      this.#works = false;
    });
    try {
      // `exclusive`: in a worker of node:cluster the socket must be this process's own.
      this.#server.listen({ path: this.#address(this.#instance), exclusive: true });
      this.#server.unref();
      this.#works = true;
    } catch {
      this.#works = false;
    }
  }

  /** Asks the process of this lease file to check its claim. `others`: it was handed its lock; do others wait for that? */
  wake(instance: string, fileId: string, others?: boolean): void {
    if (instance === this.#instance) queueMicrotask(() => this.#heard.woken(fileId, others));
    else this.#write(this.#peer(instance)?.socket, `look ${fileId}${wordFor(others)}\n`);
  }

  /** The same for many claims: one message for each process, or several where they are many. */
  wakeAll(claims: readonly { readonly instance: string; readonly id: string }[]): void {
    for (const instance of new Set(claims.map((claim) => claim.instance))) {
      const ids = claims.filter((claim) => claim.instance === instance).map(({ id }) => id);
      if (instance === this.#instance) for (const id of ids) this.wake(instance, id);
      else
        for (let at = 0; at < ids.length; at += PORTION) {
          const lines = ids.slice(at, at + PORTION).map((id) => `look ${id}\n`);
          this.#write(this.#peer(instance)?.socket, lines.join(""));
        }
    }
  }

  /** Tells the process of this lease file that what it holds of that lock is wanted. `directory`: the lock's. */
  want(instance: string, fileId: string, directory: string): void {
    if (instance === this.#instance) queueMicrotask(() => this.#heard.wanted(fileId, directory));
    else this.#write(this.#peer(instance)?.socket, `want ${fileId} ${directory}\n`);
  }

  /** Waits, but not long, until all wake-ups have left this process. If it exited before, they would be lost. */
  async flush(): Promise<void> {
    if (this.#unsent === 0) return;
    const sent = new Promise<void>((resolve) => {
      this.#sent = resolve;
    });
    await within(systemClock, sent, FLUSH_MAX_MS);
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
    for (const socket of this.#clients) socket.destroy();
    this.#peers.clear();
    if (process.platform !== "win32") remove(join(this.#paths.sockets, this.#instance));
    if (this.#directory !== undefined) closeSync(this.#directory);
    this.#directory = undefined;
  }

  #write(socket: Socket | undefined, line: string): void {
    if (socket === undefined) return;
    this.#unsent++;
    // Also called for a socket that failed.
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
    // Nothing is ever received; but without reading, the end would not be seen.
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

  #receive(socket: Socket): void {
    this.#clients.add(socket);
    socket.unref();
    socket.setEncoding("utf8");
    let received = "";
    socket.on("error", () => {});
    socket.on("close", () => this.#clients.delete(socket));
    socket.on("data", (text: string) => {
      received += text;
      for (let end = received.indexOf("\n"); end >= 0; end = received.indexOf("\n")) {
        const [word, id, more = ""] = received.slice(0, end).split(" ");
        received = received.slice(end + 1);
        if (word === "look" && isId(id)) this.#heard.woken(id, more === WANTED || (more === ALONE ? false : undefined));
        if (word === "want" && isId(id)) this.#heard.wanted(id, more);
      }
      if (received.length > LINE_MAX) socket.destroy();
    });
  }

  #address(instance: string): string {
    if (process.platform === "win32") {
      const directory = createHash("sha256").update(this.#paths.root.toLowerCase()).digest("hex").slice(0, 16);
      return `\\\\.\\pipe\\holdfast-${directory}-${instance}`;
    }
    const path = join(this.#paths.sockets, instance);
    if (Buffer.byteLength(path) <= PATH_MAX || process.platform !== "linux") return path;
    this.#directory ??= openSync(this.#paths.sockets, "r");
    return `/proc/self/fd/${this.#directory}/${instance}`;
  }
}

function wordFor(others: boolean | undefined): string {
  return others === undefined ? "" : ` ${others ? WANTED : ALONE}`;
}
