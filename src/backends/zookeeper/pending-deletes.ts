/** Nodes that must be deleted: for certain, though an answer may be lost; or later, because of a `minHold`. */
import type { Claim, Released } from "../../contract/backend.ts";
import type { ZooKeeperClient } from "./client/client.ts";
import { hasCode } from "./client/errors.ts";
import { type Contender, holdersOf, inOrder } from "./contenders.ts";
import { guidOf, SEMAPHORE } from "./paths.ts";

export interface Removable {
  /** `false`: it did not exist. Rejects if that is unknown. */
  remove(): Promise<boolean>;
}

/** The claim that a node belongs to. */
export interface ClaimRef {
  readonly id: string;
  /** The lock's name, for messages. */
  readonly name: string;
}

/** What a claim was to the store when its node was to be deleted. */
type ClaimStatus = Exclude<Released, "absent">;

interface PendingDelete {
  readonly name: string;
  readonly node: Removable;
  readonly status: ClaimStatus;
}

interface DelayedDelete {
  readonly untilMs: number;
  readonly timer: NodeJS.Timeout;
}

export class PendingDeletes {
  /** Nodes of which we do not know whether they are gone. */
  readonly #pending = new Map<string, PendingDelete>();
  readonly #delayed = new Map<string, DelayedDelete>();

  /** Deletes for certain: what could not be deleted now is retried by {@link retryAll}, until the session ends. */
  async delete({ id, name }: ClaimRef, node: Removable, status: ClaimStatus): Promise<Released> {
    this.#pending.set(id, { name, node, status });
    try {
      const existed = await node.remove();
      this.#pending.delete(id);
      return existed ? status : "absent";
    } catch (error) {
      if (!hasCode(error, "SESSIONEXPIRED")) throw error;
      this.#pending.delete(id);
      return "absent";
    }
  }

  /** Deletes for certain, and never rejects. */
  async deleteQuietly(claim: ClaimRef, node: Removable, status: ClaimStatus): Promise<void> {
    // What failed stays pending.
    await this.delete(claim, node, status).catch(() => undefined);
  }

  /** Deletes it at `untilMs` of the local clock. Returns how long that is from now; 0: that time has passed. */
  delay(claim: ClaimRef, node: Removable, untilMs: number): number {
    const restMs = untilMs - performance.now();
    if (restMs <= 0) return 0;
    const timer = setTimeout(() => {
      this.#delayed.delete(claim.id);
      void this.deleteQuietly(claim, node, "held");
    }, Math.ceil(restMs));
    // The process may exit before.
    timer.unref();
    this.#delayed.set(claim.id, { untilMs, timer });
    return restMs;
  }

  isDelayed(id: string): boolean {
    return this.#delayed.has(id);
  }

  /** Retries the claim's pending delete. `undefined`: it has none. */
  retry(id: string): Promise<Released> | undefined {
    const pending = this.#pending.get(id);
    return pending && this.delete({ id, name: pending.name }, pending.node, pending.status);
  }

  /** Everything of which we do not know whether it is gone. */
  all(): readonly PendingDelete[] {
    return [...this.#pending.values()];
  }

  /** Connected again. */
  retryAll(): void {
    // What fails again stays pending.
    for (const id of this.#pending.keys()) this.retry(id)?.catch(() => undefined);
  }

  /** The session ended, and all its nodes with it. */
  clear(): void {
    this.#pending.clear();
    this.stop();
  }

  /** Stops the timers. Returns until when a delayed node must stay; 0: there is none. */
  stop(): number {
    let lastMs = 0;
    for (const { untilMs, timer } of this.#delayed.values()) {
      clearTimeout(timer);
      lastMs = Math.max(lastMs, untilMs);
    }
    this.#delayed.clear();
    return lastMs;
  }
}

/** Deletes the nodes of a claim that this process does not know: another process's, or one of an earlier session. */
export async function deleteNodesOf(client: ZooKeeperClient, claim: Claim, path: string): Promise<Released> {
  if (claim.limit === 1) return deleteNamed(client, path, claim, holdersOf);
  const parts = await Promise.all([
    deleteNamed(client, `${path}/${SEMAPHORE.leases}`, claim, (order) => order.slice(0, claim.limit)),
    deleteNamed(client, `${path}/${SEMAPHORE.queue}`, claim, () => []),
  ]);
  return parts.find((part) => part === "held") ?? parts.find((part) => part === "queued") ?? "absent";
}

async function deleteNamed(
  client: ZooKeeperClient,
  parent: string,
  { id }: Claim,
  holding: (order: readonly Contender[]) => readonly Contender[],
): Promise<Released> {
  const guids = [true, false].flatMap((dashes) => [guidOf(id, dashes, true), guidOf(id, dashes, false)]);
  const isNamed = (name: string): boolean => guids.some((guid) => name.includes(guid));
  try {
    // Another process may have made it through another server: ours catches up first.
    const [, { children }] = await Promise.all([client.sync(parent), client.getChildren(parent)]);
    const named = children.filter(isNamed);
    await Promise.all(named.map((child) => client.delete(`${parent}/${child}`)));
    if (named.length === 0) return "absent";
    return holding(inOrder(children)).some(({ name }) => isNamed(name)) ? "held" : "queued";
  } catch (error) {
    if (hasCode(error, "NONODE")) return "absent";
    throw error;
  }
}
