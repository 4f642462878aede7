/** Calls the scripts: by their SHA1, or by their text if the server does not know them; and waits for replicas if `durability` asks for it. */
import { formatMs } from "../../contract/duration.ts";
import type { Connection } from "./connection.ts";
import type { Replicator } from "./durability.ts";
import { isNoScript, toBackendError } from "./errors.ts";
import type { Script } from "./generated/scripts.ts";
import type { Names } from "./keys.ts";
import { quarantineText, type Settings } from "./options.ts";

/** Runs the script. Rejects as the client library does. */
export function runScript(
  connection: Connection,
  script: Script,
  keys: readonly string[],
  args: readonly string[],
): Promise<unknown> {
  // A plain `.catch` and no `async`: this is the hot path, and an async frame per call is measurable.
  return connection.evalsha(script.sha, keys, args).catch((error: unknown) => {
    if (!isNoScript(error)) throw error;
    return connection.eval(script.source, keys, args);
  });
}

/** Fewer replicas than asked for have what was written. */
export class TooFewReplicas extends Error {
  override readonly name = "TooFewReplicas";
}

/** Calls scripts on one lock, with the marker of its server: a marker is obeyed wherever there is one. */
export class Scripts {
  /** The server accepted a write once: from then on READONLY means a fail-over, and not a wrong address. */
  wrote = false;
  readonly #connection: Connection;
  readonly #names: Names;
  readonly #settings: Settings;
  readonly #replicator: Replicator | undefined;

  constructor(connection: Connection, names: Names, settings: Settings, replicator: Replicator | undefined) {
    this.#connection = connection;
    this.#names = names;
    this.#settings = settings;
    this.#replicator = replicator;
  }

  /** For `catch`: sends the text of a script whose SHA1 the server did not know. Any other error is thrown again. */
  async afterNoScript(error: unknown, script: Script, key: string, args: string[]): Promise<unknown> {
    if (!isNoScript(error)) throw error;
    return await this.#connection.eval(script.source, this.#keys(key), args);
  }

  /** With a quarantine, that is the script's last argument. */
  run(script: Script, key: string, args: string[]): Promise<unknown> {
    return runScript(this.#connection, script, this.#keys(key), this.#all(args));
  }

  /** The same, but rejects with {@link TooFewReplicas} if what `counts` did not reach enough replicas in time: a grant, unless said. */
  async runDurably(
    script: Script,
    key: string,
    args: string[],
    counts: (reply: unknown) => boolean = grants,
  ): Promise<unknown> {
    const { durability } = this.#settings;
    if (durability === undefined || this.#replicator === undefined) return this.run(script, key, args);
    const { replicas: asked, waitMs } = durability;
    const { reply, replicas } = await this.#replicator.run(script, this.#keys(key), this.#all(args));
    if (!counts(reply) || replicas >= asked) return reply;
    throw new TooFewReplicas(`${replicas} of ${asked} replicas confirmed it within ${formatMs(waitMs)}`);
  }

  /** For `.catch`: throws an error that says what happened and what to do. */
  explained(lock: string): (error: unknown) => never {
    return (error) => {
      throw toBackendError(error, lock, this.wrote);
    };
  }

  #keys(key: string): string[] {
    const marker = this.#names.markerBeside(key, this.#settings.quarantineMs > 0);
    return marker === undefined ? [key] : [key, marker];
  }

  #all(args: string[]): string[] {
    return this.#settings.quarantineMs === 0 ? args : [...args, quarantineText(this.#settings)];
  }
}

/** Whether a script's reply is a grant: a fence; in a swap, a fence beside what became of the other claim. */
function grants(reply: unknown): boolean {
  return typeof (Array.isArray(reply) && reply.length === 2 ? reply[1] : reply) === "string";
}
