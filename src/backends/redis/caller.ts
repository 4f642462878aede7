/** Calls scripts on one lock, with the marker of its server: obeyed wherever there is one. Replicated where durability asks for it. */
import { formatMs } from "../../contract/duration.ts";
import type { Connection } from "./connection.ts";
import { toBackendError } from "./errors.ts";
import type { Names } from "./keys.ts";
import { quarantineText, type Settings } from "./options.ts";
import type { Replicator } from "./replicated.ts";
import type { Script } from "./generated/scripts.ts";
import { isNoScript, runScript } from "./script.ts";

/** Fewer replicas than asked for have what was written. */
export class TooFewReplicas extends Error {
  override readonly name = "TooFewReplicas";
}

export class Caller {
  /** The endpoint accepted a write once: from then on READONLY means a fail-over, and not a wrong address. */
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

  /** For `catch`: runs by its text a script that the server did not know by its SHA1; any other error comes back. */
  async afterNoScript(error: unknown, script: Script, key: string, args: string[]): Promise<unknown> {
    if (!isNoScript(error)) throw error;
    return await this.#connection.eval(script.source, this.#keys(key), args);
  }

  /** With a quarantine, that is the script's last argument. */
  run(script: Script, key: string, args: string[]): Promise<unknown> {
    return runScript(this.#connection, script, this.#keys(key), this.#all(args));
  }

  /** The same, and rejects with {@link TooFewReplicas} when a grant did not reach enough of them in time. */
  async runDurably(script: Script, key: string, args: string[]): Promise<unknown> {
    const { durability } = this.#settings;
    if (durability === undefined || this.#replicator === undefined) return this.run(script, key, args);
    const { replicas: asked, waitMs } = durability;
    const { reply, replicas } = await this.#replicator.run(script, this.#keys(key), this.#all(args));
    if (!grants(reply) || replicas >= asked) return reply;
    throw new TooFewReplicas(`${replicas} of ${asked} replicas confirmed it within ${formatMs(waitMs)}`);
  }

  #keys(key: string): string[] {
    const marker = this.#names.markerBeside(key, this.#settings.quarantineMs > 0);
    return marker === undefined ? [key] : [key, marker];
  }

  #all(args: string[]): string[] {
    return this.#settings.quarantineMs === 0 ? args : [...args, quarantineText(this.#settings)];
  }

  /** For `.catch`: says what it is and what to do. */
  explained(lock: string): (error: unknown) => never {
    return (error) => {
      throw toBackendError(error, lock, this.wrote);
    };
  }
}

/** Whether a script's reply is a grant: a fence, or in a swap a fence beside what became of the other claim. */
function grants(reply: unknown): boolean {
  return typeof (Array.isArray(reply) && reply.length === 2 ? reply[1] : reply) === "string";
}
