/**
 * One ephemeral sequential node of ours: made once, whatever happens to the answers, and surely removed.
 *
 * An answer to create may be lost, and asking again would make a second node. So the node's name bears the claim's id
 * ("protected create"): before asking again we let our server catch up with the leader and look for the name. A node of
 * an earlier session is never taken for ours, even under our own id: that session's end removes it.
 */
import type { ZooKeeperClient } from "./client/client.ts";
import { hasCode, ZooKeeperError } from "./client/errors.ts";

export interface Placed {
  readonly name: string;
  readonly path: string;
  /** The transaction that created the node. */
  readonly czxid: bigint;
  readonly sessionId: bigint;
}

export interface Look {
  readonly placed: Placed;
  /** The parent's children, seen after the node was made. */
  readonly children: readonly string[];
  /** When the node was asked for, if just now: its creation went through the leader. */
  readonly askedMs: number | undefined;
}

const MAKE_TRIES = 5;

export class OwnNode {
  readonly parent: string;
  readonly #client: ZooKeeperClient;
  readonly #prefix: string;
  readonly #data: Uint8Array;
  readonly #parents: "container" | "persistent";
  #placed: Placed | undefined;
  /** A create was asked for, and its answer was lost. */
  #isUnsure = false;
  /** A delete was asked for, and its answer was lost. */
  #mayBeDeleted = false;

  constructor(
    client: ZooKeeperClient,
    parent: string,
    prefix: string,
    data: Uint8Array,
    parents: "container" | "persistent" = "container",
  ) {
    this.#client = client;
    this.parent = parent;
    this.#prefix = prefix;
    this.#data = data;
    this.#parents = parents;
  }

  /** The node, if it was made in the session that lasts. */
  get placed(): Placed | undefined {
    const placed = this.#placed;
    return placed?.sessionId === this.#client.sessionId ? placed : undefined;
  }

  /** Makes the node unless it is there, and lists its parent's children. */
  async place(): Promise<Look> {
    for (let tries = 1; ; tries++) {
      const known = this.placed ?? (this.#isUnsure ? await this.#find() : undefined);
      try {
        const children = known === undefined ? [] : (await this.#client.getChildren(this.parent)).children;
        if (known !== undefined && children.includes(known.name))
          return { placed: known, children, askedMs: undefined };
        // Our server has seen our own create: what it does not list was deleted.
        this.#placed = undefined;
        return await this.#make((made) => this.#client.place(this.parent, this.#prefix, this.#data, made));
      } catch (error) {
        if (!hasCode(error, "NONODE") || tries === MAKE_TRIES) throw error;
        // An emptied container goes by itself, at any moment until it has a child again.
        this.#placed = undefined;
        await this.#client.makePath(this.parent, this.#parents);
      }
    }
  }

  /** Removes `before` and makes this node, in one transaction. */
  async placeAfter(before: OwnNode): Promise<Look> {
    const old = before.placed;
    if (old === undefined || this.placed !== undefined || before.parent !== this.parent) {
      await before.remove();
      return this.place();
    }
    before.#mayBeDeleted = true;
    try {
      const look = await this.#make((made) =>
        this.#client.placeAfter(old.path, this.parent, this.#prefix, this.#data, made),
      );
      before.#placed = undefined;
      return look;
    } catch (error) {
      // Somebody removed the old one before: there is nothing left to leave.
      if (!hasCode(error, "NONODE")) throw error;
      before.#placed = undefined;
      return this.place();
    }
  }

  /**
   * Asks the leader, through a transaction that changes nothing, whether the node is still there. `false`: surely not.
   * A read would not do: a server cut off from the ensemble still shows what the ensemble has removed.
   */
  async verify(): Promise<boolean> {
    const placed = this.placed;
    if (placed === undefined) return false;
    try {
      await this.#client.multi([{ op: "check", path: placed.path, version: -1 }]);
      return true;
    } catch (error) {
      if (hasCode(error, "NONODE")) return false;
      throw error;
    }
  }

  /** Removes the node. `false`: it was not there. Rejects if nobody knows: then it must be asked again. */
  async remove(): Promise<boolean> {
    const placed = this.placed ?? (this.#isUnsure ? await this.#find() : undefined);
    if (placed === undefined) return false;
    try {
      await this.#client.delete(placed.path);
      this.#placed = undefined;
      return true;
    } catch (error) {
      if (hasCode(error, "CONNECTIONLOSS")) this.#mayBeDeleted = true;
      if (!hasCode(error, "NONODE")) throw error;
      this.#placed = undefined;
      return this.#mayBeDeleted;
    }
  }

  async #make(place: (made: (node: Omit<Placed, "name">) => void) => Promise<readonly string[]>): Promise<Look> {
    const askedMs = performance.now();
    this.#isUnsure = true;
    try {
      const children = await place(({ path, czxid, sessionId }) => {
        this.#placed = { name: path.slice(this.parent.length + 1), path, czxid, sessionId };
        this.#isUnsure = false;
        this.#mayBeDeleted = false;
      });
      const placed = this.placed;
      if (placed === undefined) throw new ZooKeeperError("SESSIONEXPIRED", `create ${this.parent}/${this.#prefix}`);
      return { placed, children, askedMs };
    } catch (error) {
      this.#isUnsure &&= hasCode(error, "CONNECTIONLOSS");
      throw error;
    }
  }

  /** Looks for the node that a lost answer may have told of. */
  async #find(): Promise<Placed | undefined> {
    try {
      // The server that we talk to now may be behind the one that made the node.
      const [, { children }] = await Promise.all([
        this.#client.sync(this.parent),
        this.#client.getChildren(this.parent),
      ]);
      for (const name of children) {
        if (!name.startsWith(this.#prefix)) continue;
        const path = `${this.parent}/${name}`;
        const stat = await this.#client.exists(path);
        if (stat === undefined || stat.ephemeralOwner !== this.#client.sessionId || stat.czxid <= 0n) continue;
        this.#placed = { name, path, czxid: stat.czxid, sessionId: stat.ephemeralOwner };
        break;
      }
    } catch (error) {
      if (!hasCode(error, "NONODE")) throw error;
    }
    this.#isUnsure = false;
    return this.placed;
  }
}
