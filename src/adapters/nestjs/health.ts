/** For @nestjs/terminus: whether a store answers, and may grant. Terminus itself is asked only how it wants to hear of a failure. */
import { messageOf, quote } from "../../contract/errors.ts";
import { ArgumentError } from "../../contract/argument-error.ts";
import type { Duration } from "../../contract/duration.ts";
import { DEFAULT_STORE } from "./injection.ts";
import type { Stores } from "./stores.ts";

export interface LocksHealthOptions {
  /** The `name` that was given to forRoot(). @default that without a name */
  readonly store?: string | undefined;
  /** How long to wait for the store's answer. @default "3s" */
  readonly timeout?: Duration | undefined;
}

/** As terminus wants it: the endpoint shows it to its callers, so it names no lock, no host and no reason. */
export type LocksHealth<K extends string> = Record<K, LocksStatus>;

export interface LocksStatus {
  status: "up" | "down";
  message?: string;
  /** Of the error, such as `ERR_LOCK_BACKEND`. */
  code?: string;
  /** The store grants nothing for so long. */
  quarantineMs?: number;
}

/** A lock that is never taken: it is only looked at. */
const NAME = "holdfast:health";

export class LocksHealthIndicator {
  readonly #stores: Stores;

  constructor(stores: Stores) {
    this.#stores = stores;
  }

  /** For `health.check([() => locks.isHealthy("locks")])`. */
  async isHealthy<K extends string>(key: K, options: LocksHealthOptions = {}): Promise<LocksHealth<K>> {
    const { store = DEFAULT_STORE, timeout = "3s" } = options;
    const locks = this.#stores.get(store);
    if (locks === undefined) throw new ArgumentError(`Expected the name of a store, got ${quote(store)}`);
    let quarantineMs: number;
    try {
      ({ quarantineMs = 0 } = await locks.inspect(NAME, { timeout }));
    } catch (error) {
      const { code } = error as { readonly code?: unknown };
      if (code === "ERR_LOCK_ARGUMENT") throw error;
      this.#stores.logger.warn(messageOf(error));
      const message = "the store of the locks did not answer";
      return await down(key, { status: "down", message, ...(typeof code === "string" ? { code } : {}) }, error);
    }
    if (quarantineMs === 0) return { [key]: { status: "up" } } as LocksHealth<K>;
    const message = "the store of the locks is in quarantine, and grants nothing";
    return await down(key, { status: "down", message, quarantineMs });
  }
}

/** Terminus 12 and later take it for down where the result says so; those before take what does not reject for up. */
async function down<K extends string>(key: K, status: LocksStatus, cause?: unknown): Promise<LocksHealth<K>> {
  const result = { [key]: status } as LocksHealth<K>;
  const terminus: object | undefined = await import("@nestjs/terminus").catch(() => undefined);
  if (terminus !== undefined && !("HealthCheckError" in terminus)) return result;
  throw Object.assign(new Error(status.message, { cause }), { isHealthCheckError: true, causes: result });
}
