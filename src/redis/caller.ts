/** Calls scripts on one lock: with the marker where a quarantine asks for it, replicated where durability does. */
import { formatMs } from "../duration.ts";
import type { Connection } from "./connection.ts";
import { toBackendError } from "./fault.ts";
import type { Names } from "./names.ts";
import type { Settings } from "./options.ts";
import type { Replicator } from "./replicated.ts";
import { isNoScript, runScript, type Script } from "./script.ts";

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
    return await this.#connection.eval(script.source, [key], args);
  }

  /** With a quarantine, the marker is the script's last key and the quarantine its last argument. */
  run(script: Script, key: string, args: string[]): Promise<unknown> {
    const { quarantineMs } = this.#settings;
    if (quarantineMs === 0) return runScript(this.#connection, script, [key], args);
    return runScript(this.#connection, script, [key, this.#names.marker(key)], [...args, String(quarantineMs)]);
  }

  /** The same, and rejects with {@link TooFewReplicas} when a grant did not reach enough of them in time. */
  async runDurably(script: Script, key: string, args: string[]): Promise<unknown> {
    const { durability, quarantineMs } = this.#settings;
    if (durability === undefined || this.#replicator === undefined) return this.run(script, key, args);
    const keys = quarantineMs === 0 ? [key] : [key, this.#names.marker(key)];
    const all = quarantineMs === 0 ? args : [...args, String(quarantineMs)];
    const { replicas: asked, waitMs } = durability;
    const { reply, replicas } = await this.#replicator.run(script, keys, all);
    if (!grants(reply) || replicas >= asked) return reply;
    throw new TooFewReplicas(`${replicas} of ${asked} replicas confirmed it within ${formatMs(waitMs)}`);
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
