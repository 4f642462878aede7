/** Nodes that must go: surely, though an answer may be lost; or later, because a `minHold` keeps them. */
import type { Claim, Released } from "../../contract/backend.ts";
import type { ZooKeeperClient } from "./client/client.ts";
import { hasCode } from "./client/errors.ts";
import { type Contender, holdersOf, inOrder } from "./contenders.ts";
import { guidOf, SEMAPHORE } from "./paths.ts";

export interface Removable {
  /** `false`: it was not there. Rejects if nobody knows. */
  remove(): Promise<boolean>;
}

/** Which claim a node belongs to. */
export interface Of {
  readonly id: string;
  /** The lock's name, for messages. */
  readonly name: string;
}

interface Litter {
  readonly name: string;
  readonly what: Removable;
  readonly was: Was;
}

/** What a claim was to the store when its node was to go. */
type Was = Exclude<Released, "absent">;

interface Kept {
  readonly untilMs: number;
  readonly timer: NodeJS.Timeout;
}

export class Removals {
  /** What nobody knows to be removed. */
  readonly #litter = new Map<string, Litter>();
  readonly #kept = new Map<string, Kept>();

  /** Removes for certain: what could not be removed now is tried again by {@link retry}, until the session ends. */
  async discard({ id, name }: Of, what: Removable, was: Was): Promise<Released> {
    this.#litter.set(id, { name, what, was });
    try {
      const wasThere = await what.remove();
      this.#litter.delete(id);
      return wasThere ? was : "absent";
    } catch (error) {
      if (!hasCode(error, "SESSIONEXPIRED")) throw error;
      this.#litter.delete(id);
      return "absent";
    }
  }

  /** Removes for certain, and never rejects. */
  async discardQuietly(of: Of, what: Removable, was: Was): Promise<void> {
    // What failed is in the litter.
    await this.discard(of, what, was).catch(() => undefined);
  }

  /** Removes it at `untilMs` of the local clock. `false`: that has passed. */
  keep(of: Of, what: Removable, untilMs: number): boolean {
    const restMs = untilMs - performance.now();
    if (restMs <= 0) return false;
    const timer = setTimeout(() => {
      this.#kept.delete(of.id);
      void this.discardQuietly(of, what, "held");
    }, Math.ceil(restMs));
    // A process that wants to exit may.
    timer.unref();
    this.#kept.set(of.id, { untilMs, timer });
    return true;
  }

  isKept(id: string): boolean {
    return this.#kept.has(id);
  }

  /** Asks again for what nobody knows to be removed. `undefined`: there is nothing of this claim. */
  again(id: string): Promise<Released> | undefined {
    const left = this.#litter.get(id);
    return left && this.discard({ id, name: left.name }, left.what, left.was);
  }

  /** Everything that nobody knows to be removed. */
  all(): readonly Litter[] {
    return [...this.#litter.values()];
  }

  /** Connected again. */
  retry(): void {
    // What failed again stays in the litter.
    for (const id of this.#litter.keys()) this.again(id)?.catch(() => undefined);
  }

  /** The session ended, and all its nodes with it. */
  clear(): void {
    this.#litter.clear();
    this.stop();
  }

  /** Stops the clocks, and tells until when something is to be kept; 0: nothing is. */
  stop(): number {
    let lastMs = 0;
    for (const { untilMs, timer } of this.#kept.values()) {
      clearTimeout(timer);
      lastMs = Math.max(lastMs, untilMs);
    }
    this.#kept.clear();
    return lastMs;
  }
}

/** Removes the nodes of a claim that this process does not know: another process's, or those of an earlier life. */
export async function removeOf(client: ZooKeeperClient, claim: Claim, path: string): Promise<Released> {
  if (claim.limit === 1) return removeNamed(client, path, claim, holdersOf);
  const parts = await Promise.all([
    removeNamed(client, `${path}/${SEMAPHORE.leases}`, claim, (order) => order.slice(0, claim.limit)),
    removeNamed(client, `${path}/${SEMAPHORE.line}`, claim, () => []),
  ]);
  return parts.find((part) => part === "held") ?? parts.find((part) => part === "queued") ?? "absent";
}

async function removeNamed(
  client: ZooKeeperClient,
  parent: string,
  { id }: Claim,
  holding: (order: readonly Contender[]) => readonly Contender[],
): Promise<Released> {
  const guids = [guidOf(id, true), guidOf(id, false)];
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
