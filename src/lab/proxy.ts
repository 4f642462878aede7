/**
 * A TCP proxy between a client and a server that does what networks do: delays, loses, holds back and resets.
 * It sees chunks as they come off the socket; a small request or reply is one chunk.
 */
import { createServer, connect } from "node:net";
import type { Server, Socket } from "node:net";
import { PortTakenError, onFreePort } from "./servers/child.ts";
import { freePort, HOST } from "./servers/place.ts";

export type Direction = "requests" | "replies";

/**
 * What happens to one chunk. `hold`: it and all after it on its connection wait for deliver() or heal(). `drop`: it is
 * lost, and so is all after it on its connection in that direction, for ever: TCP delivers nothing past a hole.
 */
export type Verdict = "pass" | "drop" | "hold" | "reset";

/** Decides over one chunk; `undefined`: as the proxy's state says. */
export type Hook = (chunk: Buffer, connection: number) => Verdict | undefined;

export interface Proxy extends AsyncDisposable {
  readonly host: "127.0.0.1";
  readonly port: number;
  /** Connections open from clients now. */
  readonly connections: number;
  /** Connections on which requests are held back or delayed now. */
  readonly holding: number;
  /** Looks at each chunk from a client before anything else does. */
  onRequest: Hook | undefined;
  /** Looks at each chunk from the server before anything else does. */
  onReply: Hook | undefined;
  /** Resets (RST) every open connection. New ones are welcome; see refuse(). */
  cut(): void;
  /** Delivers each chunk this much later, plus a random part of `jitterMs`. */
  delay(ms: number, direction?: Direction | "both", jitterMs?: number): void;
  /** Holds everything back, also on new connections; heal() delivers it late and in order. */
  hang(direction?: Direction | "both"): void;
  /**
   * Silently loses everything from now on: with `"replies"` the server acts and nobody hears of it. Connections that
   * lost something stay silent after heal(); new ones are fine.
   */
  drop(direction: Direction | "both"): void;
  /** Loses the next `n` replies, or each one for which the predicate holds, with all that follows on their connections. */
  dropReplies(which: number | ((chunk: Buffer) => boolean)): void;
  /** Delivers what hooks held back so far; later chunks pass as usual. */
  deliver(): void;
  /** Refuses new connections (ECONNREFUSED); open ones stay. */
  refuse(): Promise<void>;
  /** Drops the server's side of each connection without telling the client. */
  halfOpen(): void;
  /** Back to a good network: everything passes, held chunks are delivered, hooks are removed. */
  heal(): Promise<void>;
  stop(): Promise<void>;
}

type State = "pass" | "hang" | "drop";
type Chunk = { readonly bytes: Buffer | null; readonly dueMs: number; held: boolean };

interface Pipe {
  readonly queue: Chunk[];
  /** Something was lost: nothing that comes after it can be delivered. */
  hole: boolean;
  timer: NodeJS.Timeout | undefined;
}

interface Pair {
  readonly id: number;
  readonly client: Socket;
  readonly server: Socket;
  readonly pipes: Record<Direction, Pipe>;
  /** The server's side is gone and the client must not learn it. */
  halfOpen: boolean;
}

const BOTH: readonly Direction[] = ["requests", "replies"];

export interface ProxyTarget {
  readonly port: number;
  /** @default "127.0.0.1" */
  readonly host?: string | undefined;
}

/** Starts a proxy on a free loopback port. */
export async function startProxy(target: ProxyTarget): Promise<Proxy> {
  return onFreePort(freePort, async (port) => {
    const proxy = new TcpProxy(port, target.port, target.host ?? HOST);
    await proxy.listen();
    return proxy;
  });
}

class TcpProxy implements Proxy {
  readonly host = HOST;
  readonly port: number;
  onRequest: Hook | undefined = undefined;
  onReply: Hook | undefined = undefined;
  readonly #target: { readonly port: number; readonly host: string };
  readonly #listener: Server;
  readonly #pairs = new Set<Pair>();
  /** Connections whose client has gone while its requests were still under way. */
  readonly #late = new Set<Pair>();
  readonly #state: Record<Direction, State> = { requests: "pass", replies: "pass" };
  readonly #delay = { requests: { ms: 0, jitterMs: 0 }, replies: { ms: 0, jitterMs: 0 } };
  #lost: (chunk: Buffer) => boolean = () => false;
  #lastId = 0;

  constructor(port: number, targetPort: number, targetHost: string) {
    this.port = port;
    this.#target = { port: targetPort, host: targetHost };
    this.#listener = createServer({ noDelay: true, allowHalfOpen: true }, (client) => this.#accept(client));
  }

  get connections(): number {
    return this.#pairs.size;
  }

  get holding(): number {
    return this.#all().filter(({ pipes }) => pipes.requests.queue.length > 0).length;
  }

  listen(): Promise<void> {
    return new Promise((resolve, reject) => {
      const fail = (error: NodeJS.ErrnoException): void =>
        reject(error.code === "EADDRINUSE" ? new PortTakenError(error.message) : error);
      this.#listener.once("error", fail).listen(this.port, HOST, () => {
        this.#listener.off("error", fail);
        resolve();
      });
    });
  }

  cut(): void {
    for (const pair of this.#all()) this.#reset(pair);
  }

  delay(ms: number, direction: Direction | "both" = "both", jitterMs = 0): void {
    for (const one of directions(direction)) this.#delay[one] = { ms, jitterMs };
  }

  hang(direction: Direction | "both" = "both"): void {
    this.#set(direction, "hang");
  }

  drop(direction: Direction | "both"): void {
    this.#set(direction, "drop");
  }

  dropReplies(which: number | ((chunk: Buffer) => boolean)): void {
    let left = typeof which === "number" ? which : 0;
    this.#lost = typeof which === "function" ? which : () => left-- > 0;
  }

  deliver(): void {
    for (const pair of this.#all()) {
      for (const direction of BOTH) {
        for (const chunk of pair.pipes[direction].queue) chunk.held = false;
        this.#pump(pair, direction);
      }
    }
  }

  refuse(): Promise<void> {
    // close() stops listening at once; its callback would wait for the open connections.
    this.#listener.close();
    return Promise.resolve();
  }

  halfOpen(): void {
    for (const pair of this.#pairs) {
      pair.halfOpen = true;
      pair.server.destroy();
    }
  }

  async heal(): Promise<void> {
    this.onRequest = undefined;
    this.onReply = undefined;
    this.#lost = () => false;
    this.delay(0);
    this.#set("both", "pass");
    this.deliver();
    if (!this.#listener.listening) await this.listen();
  }

  async stop(): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#listener.close(() => resolve()));
    for (const pair of this.#all()) this.#end(pair, (socket) => socket.destroy());
    await closed;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }

  #all(): readonly Pair[] {
    return [...this.#pairs, ...this.#late];
  }

  #set(direction: Direction | "both", state: State): void {
    for (const one of directions(direction)) {
      this.#state[one] = state;
      for (const pair of this.#all()) this.#pump(pair, one);
    }
  }

  #accept(client: Socket): void {
    const server = connect({ ...this.#target, noDelay: true, allowHalfOpen: true });
    const pipes = { requests: makePipe(), replies: makePipe() };
    const pair: Pair = { id: ++this.#lastId, client, server, pipes, halfOpen: false };
    this.#pairs.add(pair);
    // Errors are followed by "close", which does the work.
    client.on("error", () => undefined).on("close", () => this.#close(pair));
    server.on("error", () => undefined).on("close", () => pair.halfOpen || client.destroy());
    client
      .on("data", (bytes) => this.#take(pair, "requests", bytes))
      .on("end", () => this.#take(pair, "requests", null));
    server.on("data", (bytes) => this.#take(pair, "replies", bytes)).on("end", () => this.#take(pair, "replies", null));
  }

  /** `null` is the end of the stream: it travels like a chunk, so that it can be held and lost. */
  #take(pair: Pair, direction: Direction, bytes: Buffer | null): void {
    const verdict = this.#judge(pair, direction, bytes);
    if (verdict === "reset") return this.#reset(pair);
    const pipe = pair.pipes[direction];
    pipe.hole ||= verdict === "drop";
    if (pipe.hole) return;
    const { ms, jitterMs } = this.#delay[direction];
    const dueMs = performance.now() + ms + Math.random() * jitterMs;
    pipe.queue.push({ bytes, dueMs, held: verdict === "hold" });
    this.#pump(pair, direction);
  }

  #judge(pair: Pair, direction: Direction, bytes: Buffer | null): Verdict {
    if (bytes === null) return this.#state[direction] === "drop" ? "drop" : "pass";
    const hook = direction === "requests" ? this.onRequest : this.onReply;
    const told = hook?.(bytes, pair.id);
    if (told !== undefined) return told;
    if (direction === "replies" && this.#lost(bytes)) return "drop";
    return this.#state[direction] === "drop" ? "drop" : "pass";
  }

  #pump(pair: Pair, direction: Direction): void {
    const pipe = pair.pipes[direction];
    const to = direction === "requests" ? pair.server : pair.client;
    clearTimeout(pipe.timer);
    for (let next = pipe.queue[0]; next !== undefined; next = pipe.queue[0]) {
      if (next.held || this.#state[direction] === "hang") return;
      const waitMs = next.dueMs - performance.now();
      if (waitMs > 0) {
        pipe.timer = setTimeout(() => this.#pump(pair, direction), waitMs);
        return;
      }
      pipe.queue.shift();
      if (next.bytes === null) to.end();
      else if (to.writable) to.write(next.bytes);
    }
    if (this.#late.delete(pair)) pair.server.end();
  }

  #reset(pair: Pair): void {
    this.#end(pair, (socket) => socket.resetAndDestroy());
  }

  #end(pair: Pair, how: (socket: Socket) => void): void {
    for (const direction of BOTH) pair.pipes[direction].queue.length = 0;
    // Before #close(), which destroys one of them: a reset of a destroyed socket can make Node 20 spin when the process ends.
    how(pair.client);
    how(pair.server);
    this.#close(pair);
  }

  /** The client is gone. Its requests that are still held or delayed reach the server all the same, as packets do. */
  #close(pair: Pair): void {
    this.#pairs.delete(pair);
    clearTimeout(pair.pipes.replies.timer);
    if (pair.pipes.requests.queue.length > 0) {
      this.#late.add(pair);
      return;
    }
    this.#late.delete(pair);
    clearTimeout(pair.pipes.requests.timer);
    pair.server.destroy();
  }
}

function makePipe(): Pipe {
  return { queue: [], hole: false, timer: undefined };
}

function directions(direction: Direction | "both"): readonly Direction[] {
  return direction === "both" ? BOTH : [direction];
}
