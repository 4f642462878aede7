/** The standard's Lock, as `instanceof` and reflection see it. */
import type { Lease } from "../../core/api.ts";
import type { WebLock, WebLockMode } from "./api.ts";
import { asInterface } from "./as-interface.ts";

let make: (name: string, mode: WebLockMode, lease: Lease) => Lock;

export class Lock implements WebLock {
  readonly #name: string;
  readonly #mode: WebLockMode;
  readonly #lease: Lease;

  static {
    make = (name, mode, lease) => new Lock(make, name, mode, lease);
  }

  private constructor(maker: unknown, name: string, mode: WebLockMode, lease: Lease) {
    // Users make none, as in a browser.
    if (maker !== make) throw new TypeError("Illegal constructor");
    this.#name = name;
    this.#mode = mode;
    this.#lease = lease;
  }

  get name(): string {
    return this.#name;
  }

  get mode(): WebLockMode {
    return this.#mode;
  }

  get fence(): bigint {
    return this.#lease.fence;
  }

  get signal(): AbortSignal {
    return this.#lease.signal;
  }
}

asInterface(Lock, ["name", "mode", "fence", "signal"]);

/** `name`: that of the request, unescaped. */
export function toLock(name: string, mode: WebLockMode, lease: Lease): WebLock {
  return make(name, mode, lease);
}
