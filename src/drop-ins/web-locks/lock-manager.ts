/** The standard's LockManager, as `instanceof` and reflection see it. */
import type { WebLockManager, WebLockSnapshot } from "./api.ts";
import { readArguments } from "./arguments.ts";
import { asInterface } from "./as-interface.ts";
import type { Requests } from "./requests.ts";

let make: (requests: Requests) => LockManager;

export class LockManager {
  readonly #requests: Requests;

  static {
    make = (requests) => new LockManager(make, requests);
  }

  private constructor(maker: unknown, requests: Requests) {
    // Users make none, as in a browser.
    if (maker !== make) throw new TypeError("Illegal constructor");
    this.#requests = requests;
  }

  // Async functions: whatever is wrong is a rejection. Up to their first `await` they run at once, so that requests keep their order.

  async request(...given: readonly unknown[]): Promise<unknown> {
    const requests = this.#requests;
    return await requests.make(readArguments(given));
  }

  async query(): Promise<WebLockSnapshot> {
    return await this.#requests.query();
  }
}

asInterface(LockManager, ["request", "query"]);
Object.defineProperty(LockManager.prototype["request"], "length", { value: 2 });

export function toManager(requests: Requests): WebLockManager {
  return make(requests) as WebLockManager;
}
