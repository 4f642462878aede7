/** Many claims in few round trips: one script call for all claims of a slot, in portions that do not block a server for long. */
import type { Connection, Topology } from "./connection.ts";
import { isTryAgain } from "./errors.ts";
import { beat } from "./generated/scripts.ts";
import type { Names } from "./keys.ts";
import { quarantineText, type Settings } from "./options.ts";
import { runScript } from "./scripts.ts";
import type { Heartbeats, Waiter } from "./waiting.ts";

/** A script call for this many claims takes about a millisecond of the server's time. */
export const PORTION = 500;

/** Divides waiters into portions for one script call each: in a cluster, those of one slot. */
function portions(waiters: readonly Waiter[], topology: Topology, names: Names): Waiter[][] {
  if (topology !== "cluster") return cut(waiters);
  const bySlot = new Map<string, Waiter[]>();
  for (const waiter of waiters) {
    const slot = names.marker(waiter.key);
    const same = bySlot.get(slot);
    if (same === undefined) bySlot.set(slot, [waiter]);
    else same.push(waiter);
  }
  return [...bySlot.values()].flatMap((same) => cut(same));
}

function cut<T>(items: readonly T[]): T[][] {
  const result: T[][] = [];
  for (let start = 0; start < items.length; start += PORTION) result.push(items.slice(start, start + PORTION));
  return result;
}

/** Sends waiters' heartbeats: one call for those whose locks share a slot. */
export class RedisHeartbeats implements Heartbeats {
  readonly #connection: Connection;
  readonly #names: Names;
  readonly #quarantine: string;

  constructor(connection: Connection, names: Names, settings: Settings) {
    this.#connection = connection;
    this.#names = names;
    this.#quarantine = quarantineText(settings);
  }

  portions(waiters: readonly Waiter[]): readonly Waiter[][] {
    return portions(waiters, this.#connection.topology, this.#names);
  }

  async send(portion: readonly Waiter[]): Promise<readonly unknown[]> {
    const keys = portion.map(({ key }) => key);
    const marker = this.#names.markerBeside(keys[0] as string, this.#quarantine !== "0");
    if (marker !== undefined) keys.push(marker);
    const args = [String(portion.length), this.#quarantine, ...portion.map(({ claim }) => claim.id)];
    try {
      const reply = await runScript(this.#connection, beat, keys, args);
      return Array.isArray(reply) ? reply : [];
    } catch (error) {
      if (!isTryAgain(error) || portion.length === 1) throw error;
      // A slot is half moved: each is sent alone, and one that cannot be sent yet is sent later.
      const one = async (waiter: Waiter): Promise<unknown> => (await this.send([waiter]))[0];
      return await Promise.all(portion.map((waiter) => one(waiter).catch(() => undefined)));
    }
  }
}
