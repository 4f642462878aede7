/**
 * One ephemeral sequential node of a claim: made once even if answers are lost, and certainly removed.
 *
 * An answer to create may be lost, and asking again would make a second node. So the node's name contains the claim's id
 * ("protected create"): before we ask again, our server catches up with the leader and we look for the name. A node of an
 * earlier session is never taken for ours, even under our own id: the end of that session removes it.
 */
import type { ZooKeeperClient } from "./client/client.ts";
import { hasCode, ZooKeeperError } from "./client/errors.ts";
import type { EphemeralCreated } from "./client/operations.ts";

/** A node that this process made, in which session. */
export interface OurNode extends EphemeralCreated {
  readonly name: string;
}

export interface Listing {
  readonly node: OurNode;
  /** The parent's children, read after the node was made. */
  readonly children: readonly string[];
  /** When the node was requested, if just now: its creation went through the leader. */
  readonly askedMs: number | undefined;
}

const MAKE_TRIES = 5;

export class ClaimNode {
  readonly parent: string;
  readonly #client: ZooKeeperClient;
  readonly #prefix: string;
  #data: Uint8Array;
  /** What the node contains, as far as we know, and when it was changed last. */
  #written: Uint8Array | undefined;
  #writtenMs = -Infinity;
  readonly #parents: "container" | "persistent";
  #node: OurNode | undefined;
  /** A create was requested, and its answer was lost. */
  #mayBeCreated = false;
  /** A delete was requested, and its answer was lost. */
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

  /** The node, if it was made in the present session. */
  get existing(): OurNode | undefined {
    const node = this.#node;
    return node?.sessionId === this.#client.sessionId ? node : undefined;
  }

  /** Makes the node unless it exists, and lists its parent's children. */
  async create(): Promise<Listing> {
    for (let tries = 1; ; tries++) {
      const known = this.existing ?? (this.#mayBeCreated ? await this.#find() : undefined);
      try {
        const children = known === undefined ? [] : (await this.#client.getChildren(this.parent)).children;
        if (known !== undefined && children.includes(known.name)) return { node: known, children, askedMs: undefined };
        // Our server has seen our own create: what it does not list was deleted.
        this.#node = undefined;
        return await this.#make((made) => this.#client.createAndList(this.parent, this.#prefix, this.#data, made));
      } catch (error) {
        if (!hasCode(error, "NONODE") || tries === MAKE_TRIES) throw error;
        // ZooKeeper removes an empty container at any time until it has a child again.
        this.#node = undefined;
        await this.#client.makePath(this.parent, this.#parents);
      }
    }
  }

  /** Removes `before` and makes this node, in one transaction. */
  async replace(before: ClaimNode): Promise<Listing> {
    const old = before.existing;
    if (old === undefined || this.existing !== undefined || before.parent !== this.parent) {
      await before.remove();
      return this.create();
    }
    before.#mayBeDeleted = true;
    try {
      const listing = await this.#make((made) =>
        this.#client.replaceAndList(old.path, this.parent, this.#prefix, this.#data, made),
      );
      before.#node = undefined;
      return listing;
    } catch (error) {
      // The old node was removed before: there is nothing left to replace.
      if (!hasCode(error, "NONODE")) throw error;
      before.#node = undefined;
      return this.create();
    }
  }

  /**
   * Asks the leader, through a transaction that changes nothing, whether the node still exists. `false`: certainly not.
   * A read is not enough: a server cut off from the ensemble still shows what the ensemble has removed.
   */
  async verify(): Promise<boolean> {
    const node = this.existing;
    if (node === undefined) return false;
    try {
      await this.#client.multi([{ op: "check", path: node.path, version: -1 }]);
      return true;
    } catch (error) {
      if (hasCode(error, "NONODE")) return false;
      throw error;
    }
  }

  /** Removes the node. `false`: it did not exist. Rejects if that is unknown: then it must be asked again. */
  async remove(): Promise<boolean> {
    const node = this.existing ?? (this.#mayBeCreated ? await this.#find() : undefined);
    if (node === undefined) return false;
    try {
      await this.#client.delete(node.path);
      this.#node = undefined;
      return true;
    } catch (error) {
      if (hasCode(error, "CONNECTIONLOSS")) this.#mayBeDeleted = true;
      if (!hasCode(error, "NONODE")) throw error;
      this.#node = undefined;
      return this.#mayBeDeleted;
    }
  }

  /**
   * Changes the node's data, unless that was done within `paceMs`: then it is done the next time. Without `data`: does what was put
   * off. Never rejects: the data is for people.
   */
  async rewrite(data: Uint8Array | undefined, paceMs: number): Promise<void> {
    if (data !== undefined && Buffer.compare(data, this.#data) !== 0) this.#data = data;
    const node = this.existing;
    const nowMs = performance.now();
    if (node === undefined || this.#written === this.#data || nowMs < this.#writtenMs + paceMs) return;
    this.#written = this.#data;
    this.#writtenMs = nowMs;
    try {
      await this.#client.setData(node.path, this.#data);
    } catch {
      this.#written = undefined;
    }
  }

  async #make(create: (made: (node: EphemeralCreated) => void) => Promise<readonly string[]>): Promise<Listing> {
    const askedMs = performance.now();
    this.#mayBeCreated = true;
    this.#written = this.#data;
    try {
      const children = await create(({ path, czxid, sessionId }) => {
        this.#node = { name: path.slice(this.parent.length + 1), path, czxid, sessionId };
        this.#mayBeCreated = false;
        this.#mayBeDeleted = false;
      });
      const node = this.existing;
      if (node === undefined) throw new ZooKeeperError("SESSIONEXPIRED", `create ${this.parent}/${this.#prefix}`);
      return { node, children, askedMs };
    } catch (error) {
      this.#mayBeCreated &&= hasCode(error, "CONNECTIONLOSS");
      throw error;
    }
  }

  /** Looks for the node that a request with a lost answer may have made. */
  async #find(): Promise<OurNode | undefined> {
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
        this.#node = { name, path, czxid: stat.czxid, sessionId: stat.ephemeralOwner };
        break;
      }
    } catch (error) {
      if (!hasCode(error, "NONODE")) throw error;
    }
    this.#mayBeCreated = false;
    return this.existing;
  }
}
