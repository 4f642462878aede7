/** What a faulty network can do to a client's connections, as types: the work is done in proxy.ts. */
import type { Direction, Road } from "./roads.ts";

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
  /** How often a client went while its requests were still under way: the server may get them after all that came later. */
  readonly outlived: number;
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
   * Silently loses everything from now on: with `"replies"` the server acts and its answers are lost. Connections that
   * lost something stay silent after heal(); new ones are fine.
   */
  drop(direction: Direction | "both"): void;
  /** Loses the next `n` replies, or each one for which the predicate holds, with all that follows on their connections. */
  dropReplies(which: number | ((chunk: Buffer) => boolean)): void;
  /** Delivers what hooks held back so far; later chunks pass as usual. */
  deliver(): void;
  /** Refuses new connections (ECONNREFUSED); open ones stay. */
  refuse(): Promise<void>;
  /** Drops the server's side of each connection and the client does not notice. */
  halfOpen(): void;
  /** Back to a good network: everything passes, held chunks are delivered, hooks are removed. */
  heal(): Promise<void>;
  /** The connections of one kind only: see `roadOf`. */
  road(name: string): Road;
  stop(): Promise<void>;
}

export interface ProxyTarget {
  /** Read for each new connection: a target may move. */
  readonly port: number;
  /** @default "127.0.0.1" */
  readonly host?: string | undefined;
  /** Names a connection's road by what it asks for, once that is known. @default all are on one, "main" */
  readonly roadOf?: ((request: Buffer) => string | undefined) | undefined;
}
