/** The stores of one application: each is opened once under its name, and all are closed together. */
import { Logger } from "@nestjs/common";
import { connect } from "../../connect.ts";
import { ArgumentError, got } from "../../contract/argument-error.ts";
import { type Duration, toMs } from "../../contract/duration.ts";
import { messageOf, quote } from "../../contract/errors.ts";
import type { Locks, LocksOptions } from "../../core/api.ts";
import { checkObject } from "../../core/options.ts";

export interface LocksModuleOptions {
  /** As of connect(). One that is undefined is an error. @default HOLDFAST_URL, else `file:` */
  readonly url?: string;
  /** Locks that are there already. The module closes them, too. */
  readonly locks?: Locks | undefined;
  /** For the locks that are opened by URL: see connect(). */
  readonly defaults?: LocksOptions | undefined;
  /** How long the shutdown waits for methods that hold a lock, after their signals were aborted. @default "10s" */
  readonly grace?: Duration | undefined;
}

const GRACE: Duration = "10s";
const OPTIONS: ReadonlySet<string> = new Set(["url", "locks", "defaults", "grace"]);

interface Store {
  readonly locks: Locks;
  readonly graceMs: number;
}

const applications = new WeakMap<object, Stores>();

export class Stores {
  readonly logger: Logger = new Logger("Holdfast");
  /** `undefined`: it is being opened. */
  readonly #stores: Map<string, Store | undefined> = new Map();
  #closed: Promise<void> | undefined;

  /** Those of the application that has this container of modules. */
  static of(container: object): Stores {
    const stores = applications.get(container) ?? new Stores();
    applications.set(container, stores);
    return stores;
  }

  async open(name: string, options: LocksModuleOptions): Promise<Locks> {
    const graceMs = checkModuleOptions(options);
    if (this.#stores.has(name)) {
      throw new ArgumentError(
        `Expected LocksModule.forRoot() once for the store ${quote(name)}: import it in the root module, and give other stores a \`name\``,
      );
    }
    this.#stores.set(name, undefined);
    const locks = await opened(options);
    this.#stores.set(name, { locks, graceMs });
    // One that was opened too late is not left open.
    if (this.#closed !== undefined) await this.#close();
    return locks;
  }

  /** An application whose start fails has no end at which its other stores would be closed. What was thrown is thrown again. */
  async starting<T>(step: () => T | Promise<T>): Promise<T> {
    try {
      return await step();
    } catch (error) {
      await this.close();
      throw error;
    }
  }

  get(name: string): Locks | undefined {
    return this.#stores.get(name)?.locks;
  }

  /** All at once, so that their times of grace do not add up. Each module of the application calls it. */
  close(): Promise<void> {
    return (this.#closed ??= this.#close());
  }

  async #close(): Promise<void> {
    const stores = [...this.#stores.values()].filter((store) => store !== undefined);
    await Promise.all(
      stores.map(({ locks, graceMs }) =>
        // Not thrown: it would end the shutdown, and what others have to close would stay open.
        locks.close({ grace: graceMs }).catch((error: unknown) => this.logger.warn(messageOf(error))),
      ),
    );
  }
}

function checkModuleOptions(options: LocksModuleOptions): number {
  const { locks, defaults, grace = GRACE } = checkObject(options);
  for (const option of Object.keys(options))
    if (!OPTIONS.has(option)) throw new ArgumentError(`Unknown option \`${option}\` of LocksModule`);
  if (locks !== undefined && ("url" in options || defaults !== undefined))
    throw new ArgumentError("Expected `locks`, or else `url` and `defaults`, and not both");
  if (locks !== undefined && (typeof locks?.run !== "function" || typeof locks.close !== "function"))
    throw new ArgumentError(`Expected \`locks\` as connect() or createLocks() make them, got ${got(locks)}`);
  return toMs(grace, "grace", { minMs: 0, maxMs: Infinity });
}

async function opened(options: LocksModuleOptions): Promise<Locks> {
  const { url, locks, defaults } = options;
  if (locks !== undefined) return locks;
  // A variable that is not set would silently be a lock of this machine alone: connect() refuses it.
  return await ("url" in options ? connect(url as string, defaults) : connect(defaults ?? {}));
}
