/** Nodes that must go: surely, though an answer may be lost; or later, because a `minHold` keeps them. */
import type { ZooKeeperClient } from "./client/client.ts";
import { hasCode } from "./client/errors.ts";

export interface Removable {
  /** `false`: it was not there. Rejects if nobody knows. */
  remove(): Promise<boolean>;
}

interface Kept {
  readonly untilMs: number;
  readonly timer: NodeJS.Timeout;
}

export class Removals {
  /** What nobody knows to be removed. */
  readonly #litter = new Map<string, Removable>();
  readonly #kept = new Map<string, Kept>();

  /** Removes for certain: what could not be removed now is tried again by {@link retry}, until the session ends. */
  async discard(id: string, what: Removable): Promise<boolean> {
    this.#litter.set(id, what);
    try {
      const wasThere = await what.remove();
      this.#litter.delete(id);
      return wasThere;
    } catch (error) {
      if (!hasCode(error, "SESSIONEXPIRED")) throw error;
      this.#litter.delete(id);
      return false;
    }
  }

  /** Removes for certain, and never rejects. */
  async discardQuietly(id: string, what: Removable): Promise<void> {
    // What failed is in the litter.
    await this.discard(id, what).catch(() => undefined);
  }

  /** Removes it at `untilMs` of the local clock. `false`: that has passed. */
  keep(id: string, what: Removable, untilMs: number): boolean {
    const restMs = untilMs - performance.now();
    if (restMs <= 0) return false;
    const timer = setTimeout(() => {
      this.#kept.delete(id);
      void this.discardQuietly(id, what);
    }, Math.ceil(restMs));
    // A process that wants to exit may.
    timer.unref();
    this.#kept.set(id, { untilMs, timer });
    return true;
  }

  isKept(id: string): boolean {
    return this.#kept.has(id);
  }

  litter(id: string): Removable | undefined {
    return this.#litter.get(id);
  }

  /** Connected again. */
  retry(): void {
    for (const [id, what] of this.#litter) void this.discardQuietly(id, what);
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

/** Removes the children of `parent` whose names bear one of the ids. `false`: there were none. */
export async function removeNamed(client: ZooKeeperClient, parent: string, ids: readonly string[]): Promise<boolean> {
  try {
    // Another process may have made it through another server: ours catches up first.
    const [, { children }] = await Promise.all([client.sync(parent), client.getChildren(parent)]);
    const named = children.filter((child) => ids.some((id) => child.includes(id)));
    await Promise.all(named.map((child) => client.delete(`${parent}/${child}`)));
    return named.length > 0;
  } catch (error) {
    if (hasCode(error, "NONODE")) return false;
    throw error;
  }
}
