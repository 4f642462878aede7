/** What the backend needs of a client library, and nothing else. Adapters are in clients/. */

/** Parameters are text, or null. */
export type Values = readonly (string | null)[];

/**
 * How long a migration may take: it waits for others, and tries several times. One that was given up earlier would go on in the server, beside the
 * next one.
 */
export const SCRIPT_MS = 60_000;

export interface Reply {
  /** The column `answer` of each row. */
  readonly answers: readonly (string | null)[];
  /** Read from the monotonic clock just before the statement left. */
  readonly sentMs: number;
}

export interface ListenEvents {
  /** Everything that arrives on the channel. Each role of the database can send there. */
  heard(payload: string): void;
  /** The connection is gone. It is not opened again by itself. */
  ended(): void;
}

export interface Listening {
  stop(): Promise<void>;
}

export interface Connection {
  /**
   * Runs one statement that returns one row, in a transaction of its own. Rejects when there is no answer within the connection's limit, and when the answer came in
   * a transaction of the user's, which may still be rolled back: such an answer proves nothing.
   */
  ask(text: string, values: Values): Promise<Reply>;

  /** Runs one statement that changes nothing. In a transaction of the user's it may see what will be rolled back, so nothing may depend on it. */
  read(text: string, values: Values): Promise<Reply>;

  /** Runs several statements in one transaction. They may take {@link SCRIPT_MS}, and must end by themselves before that. */
  script(text: string): Promise<void>;

  /**
   * Listens on a channel, on a connection of its own where there can be one. Resolves to `undefined` where something between us and the server
   * gives each transaction another server connection: messages would reach any process. `signal` gives up a connection that is still being made.
   */
  listen(channel: string, events: ListenEvents, signal?: AbortSignal): Promise<Listening | undefined>;

  /** Ends what this opened itself, and never what the user gave. */
  close(): Promise<void>;
}

/** A statement was answered inside a transaction that is still open. */
export class OpenTransaction extends Error {
  override readonly name = "OpenTransaction";
}
