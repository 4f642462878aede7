/** One claim's stand in a lock's line, whichever the recipe: what `line.ts` and `semaphore.ts` have in common. */
import type { Claim } from "../../contract/backend.ts";
import type { ZooKeeperClient } from "./client/client.ts";
import { hasCode } from "./client/errors.ts";
import type { Placed } from "./claim-node.ts";

/** What a look at the line told. */
export type Verdict =
  | {
      readonly holds: true;
      /** The node that is the lease. */
      readonly node: Placed;
      /** The lease was surely ours at this moment: when the request left whose answer came through the leader. */
      readonly provenMs: number;
    }
  | {
      readonly holds: false;
      /** Paths of nodes whose claims hold: for messages. */
      readonly holders: readonly string[];
      readonly position: number;
    };

export interface Ticket {
  readonly claim: Claim;
  /** The lock's own node. */
  readonly path: string;
  /** Gets in line, unless it stands there, and looks. */
  attempt(): Promise<Verdict>;
  /** Waits until whoever is in the way goes, then looks. `undefined`: nothing certain, attempt again. */
  watch(signal: AbortSignal): Promise<Verdict | undefined>;
  /** Leaves the line. `false`: it did not stand there. Rejects if nobody knows. */
  remove(): Promise<boolean>;
}

/** How many holders are named in a refusal. */
export const HOLDERS_SHOWN = 3;

/** Resolves to true when the node goes or changes, to false when `signal` aborts or the session ends. */
export function newsOfNode(client: ZooKeeperClient, path: string, signal: AbortSignal): Promise<boolean> {
  return news(signal, path, client, (watcher) => client.getData(path, watcher));
}

/** Resolves to true when a child comes or goes. */
export function newsOfChildren(
  client: ZooKeeperClient,
  path: string,
  signal: AbortSignal,
  isNews: (children: readonly string[]) => boolean,
): Promise<boolean> {
  return news(signal, path, client, async (watcher) => {
    const { children } = await client.getChildren(path, watcher);
    if (isNews(children)) watcher({ type: "children", path });
  });
}

type Arm = (watcher: Parameters<ZooKeeperClient["unwatch"]>[1]) => Promise<unknown>;

function news(signal: AbortSignal, path: string, client: ZooKeeperClient, arm: Arm): Promise<boolean> {
  return new Promise((resolve) => {
    const end = (isNews: boolean): void => {
      signal.removeEventListener("abort", stop);
      client.unwatch(path, watcher);
      resolve(isNews);
    };
    const stop = (): void => end(false);
    const watcher: Parameters<Arm>[0] = ({ type }) => end(type !== "session");
    if (signal.aborted) return resolve(false);
    signal.addEventListener("abort", stop, { once: true });
    // The node may have gone since it was seen: that is the news.
    arm(watcher).catch((error: unknown) => end(hasCode(error, "NONODE")));
  });
}
