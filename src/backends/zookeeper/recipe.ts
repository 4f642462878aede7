/** One claim in a lock's queue of nodes: what the mutex recipe and the semaphore recipe have in common. */
import type { Claim } from "../../contract/backend.ts";
import type { OurNode } from "./claim-node.ts";
import type { ZooKeeperClient } from "./client/client.ts";
import { hasCode } from "./client/errors.ts";

/** Whether the claim holds the lock, read from the lock's nodes. */
export type AttemptResult =
  | {
      readonly holds: true;
      /** The node that is the lease. */
      readonly node: OurNode;
      /** The lease was certainly ours at this time: when the request left whose answer came through the leader. */
      readonly provenMs: number;
      /** A claim waited for it when it was granted. */
      readonly isWanted: boolean;
    }
  | {
      readonly holds: false;
      /** Paths of nodes whose claims hold: for messages. */
      readonly holders: readonly string[];
      readonly position: number;
    };

export interface Recipe {
  readonly claim: Claim;
  /** The lock's own node. */
  readonly path: string;
  /** Joins the queue, unless the claim is in it, and reads the queue. */
  attempt(): Promise<AttemptResult>;
  /** Waits until the node that blocks the claim is gone, then reads the queue. `undefined`: nothing is certain, attempt again. */
  watch(signal: AbortSignal): Promise<AttemptResult | undefined>;
  /**
   * Writes what the claim's process says of itself, where it has changed and `paceMs` have passed since the last time. Absent: what
   * is still to be written. Never rejects: it is for people.
   */
  tell(data: Uint8Array | undefined, paceMs: number): Promise<void>;
  /** Leaves the queue. `false`: the claim was not in it. Rejects if that is unknown. */
  remove(): Promise<boolean>;
}

/** How many holders are named in a refusal. */
export const HOLDERS_SHOWN = 3;

/** Resolves to true when the node is deleted, to false when `signal` aborts or the session ends. */
export function nodeChange(client: ZooKeeperClient, path: string, signal: AbortSignal): Promise<boolean> {
  return change(signal, path, client, (watcher) => client.getData(path, watcher));
}

/** Resolves to true when a child is created or deleted, or when `isChanged` says so of the present children. */
export function childrenChange(
  client: ZooKeeperClient,
  path: string,
  signal: AbortSignal,
  isChanged: (children: readonly string[]) => boolean,
): Promise<boolean> {
  return change(signal, path, client, async (watcher) => {
    const { children } = await client.getChildren(path, watcher);
    if (isChanged(children)) watcher({ type: "children", path });
  });
}

type SetWatch = (watcher: Parameters<ZooKeeperClient["unwatch"]>[1]) => Promise<unknown>;

function change(signal: AbortSignal, path: string, client: ZooKeeperClient, setWatch: SetWatch): Promise<boolean> {
  return new Promise((resolve) => {
    const end = (isChanged: boolean): void => {
      signal.removeEventListener("abort", stop);
      client.unwatch(path, watcher);
      resolve(isChanged);
    };
    const stop = (): void => end(false);
    // The node may be gone since it was read: that is a change too.
    const set = (): unknown => setWatch(watcher).catch((error: unknown) => end(hasCode(error, "NONODE")));
    // Who only says more of itself is still in the way.
    const watcher: Parameters<SetWatch>[0] = ({ type }) => (type === "changed" ? set() : end(type !== "session"));
    if (signal.aborted) return resolve(false);
    signal.addEventListener("abort", stop, { once: true });
    set();
  });
}
