/**
 * The watch of one lease whose holder wants to know when its lock is wanted.
 *
 * While no claim waits, the list of the lock's nodes is watched; once one does, only the node of the last that waits, because the
 * lock is wanted for as long as that is there. So a queue that grows to hundreds costs its holder two notifications, and not one
 * for each. After a reconnect the client restores both watches; what was under way is asked again.
 */
import type { ZooKeeperClient } from "./client/client.ts";
import { hasCode } from "./client/errors.ts";
import type { WatchEvent } from "./client/protocol.ts";
import { inOrder, waitersOn } from "./contenders.ts";

/** The lease's node, and how many may hold its lock. */
interface Watched {
  readonly node: { readonly path: string; readonly name: string };
  readonly claim: { readonly limit: number };
}

export class WantedWatch {
  readonly #client: ZooKeeperClient;
  readonly #lease: Watched;
  readonly #parent: string;
  readonly #begun: () => void;
  #isWanted = false;
  #looking: Promise<void> | undefined;
  /** Something has changed since the last look began. */
  #isStale = true;
  #isStopped = false;
  /** The node of the last that waits. */
  #waiter: string | undefined;

  /** `begun`: called when a claim begins to wait. */
  constructor(client: ZooKeeperClient, lease: Watched, begun: () => void) {
    this.#client = client;
    this.#lease = lease;
    this.#parent = lease.node.path.slice(0, -lease.node.name.length - 1);
    this.#begun = begun;
    void this.look();
  }

  /** As far as is known. */
  get isWanted(): boolean {
    return this.#isWanted;
  }

  /** Looks, if something has changed or the last look failed. `undefined`: what is known is true, as far as the server has said. */
  look(): Promise<void> | undefined {
    if (this.#looking === undefined && this.#isStale && !this.#isStopped) {
      this.#looking = this.#look().finally(() => (this.#looking = undefined));
    }
    return this.#looking;
  }

  /** The lease is over. */
  stop(): void {
    this.#isStopped = true;
    this.#client.unwatch(this.#parent, this.#listChanged);
    this.#unwatchWaiter();
  }

  async #look(): Promise<void> {
    while (this.#isStale && !this.#isStopped) {
      this.#isStale = false;
      try {
        const { children } = await this.#client.getChildren(this.#parent, this.#listChanged);
        await this.#read(children);
      } catch (error) {
        const isWaiterGone = this.#waiter !== undefined && hasCode(error, "NONODE");
        this.#isStale = true;
        this.#unwatchWaiter();
        // No connection: asked again after the next one is there. No list: the lease is over, and who watches it learns so.
        if (!isWaiterGone) return;
      } finally {
        if (this.#isStopped) this.stop();
      }
    }
  }

  async #read(children: readonly string[]): Promise<void> {
    if (this.#isStopped) return;
    const { node, claim } = this.#lease;
    const last = waitersOn(inOrder(children), claim.limit, node.name).at(-1);
    const hasBegun = last !== undefined && !this.#isWanted;
    this.#isWanted = last !== undefined;
    if (hasBegun) this.#begun();
    const path = last && `${this.#parent}/${last.name}`;
    if (path === this.#waiter) return;
    this.#unwatchWaiter();
    this.#waiter = path;
    // It may be gone since the list was read: then that is looked at again.
    if (path !== undefined) await this.#client.getData(path, this.#waiterChanged);
  }

  readonly #listChanged = ({ type }: WatchEvent): void => {
    // Where one waits, more of them change nothing.
    if (type === "children" && !this.#isWanted) this.#changed();
  };

  readonly #waiterChanged = ({ type }: WatchEvent): void => {
    if (type === "session") return;
    // Also where only its data has changed: the watch is to be set again.
    this.#waiter = undefined;
    this.#changed();
  };

  #changed(): void {
    this.#isStale = true;
    void this.look();
  }

  #unwatchWaiter(): void {
    if (this.#waiter !== undefined) this.#client.unwatch(this.#waiter, this.#waiterChanged);
    this.#waiter = undefined;
  }
}
