/**
 * A TCP proxy between a client and a server that does what networks do: delays, loses, holds back and resets.
 * It sees chunks as they come off the socket; a small request or reply is one chunk.
 */
import { createServer, connect } from "node:net";
import type { Server, Socket } from "node:net";
import type { Hook, Proxy, ProxyTarget, Verdict } from "./proxy-types.ts";
import { BOTH, type Direction, directions, MAIN_ROAD, type Road, RoadBook, type State } from "./roads.ts";
import { PortTakenError, onFreePort, onSamePort } from "./servers/child.ts";
import { freePort, giveBack } from "./servers/free-port.ts";
import { HOST } from "./servers/scratch.ts";

export type { Proxy } from "./proxy-types.ts";
export type { Road } from "./roads.ts";

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
  road: string;
  /** The server's side is gone and the client must not learn it. */
  halfOpen: boolean;
}

/** Starts a proxy on a free loopback port. */
export async function startProxy(target: ProxyTarget): Promise<Proxy> {
  return onFreePort(freePort, async (port) => {
    const proxy = new TcpProxy(port, target);
    await proxy.listen();
    return proxy;
  });
}

class TcpProxy implements Proxy {
  readonly host = HOST;
  readonly port: number;
  onRequest: Hook | undefined = undefined;
  onReply: Hook | undefined = undefined;
  readonly #target: ProxyTarget;
  readonly #listener: Server;
  readonly #pairs = new Set<Pair>();
  /** Connections whose client has gone while its requests were still under way. */
  readonly #late = new Set<Pair>();
  readonly #roads = new RoadBook();
  readonly #roadOf: (request: Buffer) => string | undefined;
  #lost: (chunk: Buffer) => boolean = () => false;
  #lastId = 0;
  #outlived = 0;

  constructor(port: number, target: ProxyTarget) {
    this.port = port;
    this.#target = target;
    this.#roadOf = target.roadOf ?? ((): undefined => undefined);
    this.#listener = createServer({ noDelay: true, allowHalfOpen: true }, (client) => this.#accept(client));
  }

  get connections(): number {
    return this.#pairs.size;
  }

  get holding(): number {
    return this.#all().filter(({ pipes }) => pipes.requests.queue.length > 0).length;
  }

  get outlived(): number {
    return this.#outlived;
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
    this.#slow(undefined, ms, direction, jitterMs);
  }

  hang(direction: Direction | "both" = "both"): void {
    this.#set(undefined, direction, "hang");
  }

  drop(direction: Direction | "both"): void {
    this.#set(undefined, direction, "drop");
  }

  dropReplies(which: number | ((chunk: Buffer) => boolean)): void {
    let left = typeof which === "number" ? which : 0;
    this.#lost = typeof which === "function" ? which : () => left-- > 0;
  }

  deliver(): void {
    this.#deliver(this.#all());
  }

  road(name: string): Road {
    const pairs = (): readonly Pair[] => this.#on(name);
    const open = (): number => [...this.#pairs].filter(({ road }) => road === name).length;
    return {
      get connections() {
        return open();
      },
      cut: () => pairs().forEach((pair) => this.#reset(pair)),
      delay: (ms, direction = "both", jitterMs = 0) => this.#slow(name, ms, direction, jitterMs),
      hang: (direction = "both") => this.#set(name, direction, "hang"),
      drop: (direction) => this.#set(name, direction, "drop"),
      heal: () => {
        this.#slow(name, 0, "both", 0);
        this.#set(name, "both", "pass");
        this.#deliver(pairs());
      },
    };
  }

  #deliver(pairs: readonly Pair[]): void {
    for (const pair of pairs) {
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
    this.#set(undefined, "both", "pass");
    this.deliver();
    await onSamePort(async () => {
      if (!this.#listener.listening) await this.listen();
    });
  }

  async stop(): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#listener.close(() => resolve()));
    for (const pair of this.#all()) this.#end(pair, (socket) => socket.destroy());
    await closed;
    giveBack(this.port);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }

  #all(): readonly Pair[] {
    return [...this.#pairs, ...this.#late];
  }

  #on(road: string | undefined): readonly Pair[] {
    return this.#all().filter((pair) => road === undefined || pair.road === road);
  }

  #set(road: string | undefined, direction: Direction | "both", state: State): void {
    for (const one of directions(direction)) {
      for (const conditions of this.#roads.some(road)) conditions.state[one] = state;
      for (const pair of this.#on(road)) this.#pump(pair, one);
    }
  }

  #slow(road: string | undefined, ms: number, direction: Direction | "both", jitterMs: number): void {
    for (const one of directions(direction))
      for (const conditions of this.#roads.some(road)) conditions.delay[one] = { ms, jitterMs };
  }

  #accept(client: Socket): void {
    const { port, host = HOST } = this.#target;
    const server = connect({ port, host, noDelay: true, allowHalfOpen: true });
    const pipes = { requests: makePipe(), replies: makePipe() };
    const pair: Pair = { id: ++this.#lastId, client, server, pipes, road: MAIN_ROAD, halfOpen: false };
    this.#pairs.add(pair);
    // Errors are followed by "close", which does the work.
    client.on("error", () => undefined).on("close", () => this.#close(pair));
    server.on("error", () => undefined).on("close", () => pair.halfOpen || client.destroy());
    client
      .on("data", (bytes) => this.#take(pair, "requests", bytes))
      .on("end", () => this.#take(pair, "requests", null));
    server.on("data", (bytes) => this.#take(pair, "replies", bytes)).on("end", () => this.#take(pair, "replies", null));
  }

  /** `null` is the end of the stream: it travels like a chunk, so it can be held and lost. */
  #take(pair: Pair, direction: Direction, bytes: Buffer | null): void {
    if (direction === "requests" && bytes !== null && pair.road === MAIN_ROAD)
      pair.road = this.#roadOf(bytes) ?? MAIN_ROAD;
    const verdict = this.#judge(pair, direction, bytes);
    if (verdict === "reset") return this.#reset(pair);
    const pipe = pair.pipes[direction];
    pipe.hole ||= verdict === "drop";
    if (pipe.hole) return;
    const { ms, jitterMs } = this.#roads.of(pair.road).delay[direction];
    const dueMs = performance.now() + ms + Math.random() * jitterMs;
    pipe.queue.push({ bytes, dueMs, held: verdict === "hold" });
    this.#pump(pair, direction);
  }

  #judge(pair: Pair, direction: Direction, bytes: Buffer | null): Verdict {
    const state = this.#roads.of(pair.road).state[direction];
    if (bytes === null) return state === "drop" ? "drop" : "pass";
    const hook = direction === "requests" ? this.onRequest : this.onReply;
    const chosen = hook?.(bytes, pair.id);
    if (chosen !== undefined) return chosen;
    if (direction === "replies" && this.#lost(bytes)) return "drop";
    return state === "drop" ? "drop" : "pass";
  }

  #pump(pair: Pair, direction: Direction): void {
    const pipe = pair.pipes[direction];
    const to = direction === "requests" ? pair.server : pair.client;
    clearTimeout(pipe.timer);
    for (let next = pipe.queue[0]; next !== undefined; next = pipe.queue[0]) {
      if (next.held || this.#roads.of(pair.road).state[direction] === "hang") return;
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
    this.#end(pair, (socket) => {
      // libuv does not reset what is shutting down, and Node 20 keeps the handle for ever then; nor what has not connected yet.
      if (socket.connecting || socket.writableEnded) socket.destroy();
      else if (!socket.destroyed) socket.resetAndDestroy();
    });
  }

  #end(pair: Pair, how: (socket: Socket) => void): void {
    for (const direction of BOTH) pair.pipes[direction].queue.length = 0;
    // Before #close(), which destroys one of them.
    how(pair.client);
    how(pair.server);
    this.#close(pair);
  }

  /** The client is gone. Its requests that are still held or delayed reach the server anyway, as packets do. */
  #close(pair: Pair): void {
    this.#pairs.delete(pair);
    clearTimeout(pair.pipes.replies.timer);
    if (pair.pipes.requests.queue.length > 0) {
      if (!this.#late.has(pair)) this.#outlived++;
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
