/** Exclusive and shared claims in one queue: Curator's and kazoo's mutex and read/write lock. */
import type { Claim } from "../../contract/backend.ts";
import { ClaimNode, type Listing } from "./claim-node.ts";
import type { ZooKeeperClient } from "./client/client.ts";
import { blockedBy, type Contender, holdersOf, inOrder, waitersOn } from "./contenders.ts";
import { checkContenders, checkNoLeases } from "./mixed-use.ts";
import { writeClaim } from "./node-data.ts";
import { type Dialect, NODE_NAMING, nodePrefix, SEMAPHORE } from "./paths.ts";
import { type AttemptResult, HOLDERS_SHOWN, nodeChange, type Recipe } from "./recipe.ts";

const TRIES = 5;

export class MutexRecipe implements Recipe {
  readonly claim: Claim;
  readonly path: string;
  readonly #client: ZooKeeperClient;
  readonly #dialect: Dialect;
  readonly #node: ClaimNode;
  /** The path of the node before ours that must go first. */
  #blockedBy: string | undefined;

  constructor(client: ZooKeeperClient, claim: Claim, path: string, dialect: Dialect) {
    this.claim = claim;
    this.path = path;
    this.#client = client;
    this.#dialect = dialect;
    const { parents } = NODE_NAMING[dialect];
    this.#node = new ClaimNode(client, path, nodePrefix(claim, dialect), writeClaim(claim), parents);
  }

  attempt(): Promise<AttemptResult> {
    return this.#attempt(() => this.#node.create());
  }

  /** Removes the node of `before` and joins the queue, in one transaction. */
  attemptAfter(before: MutexRecipe): Promise<AttemptResult> {
    let create = (): Promise<Listing> => {
      create = () => this.#node.create();
      return this.#node.replace(before.#node);
    };
    return this.#attempt(() => create());
  }

  async #attempt(create: () => Promise<Listing>): Promise<AttemptResult> {
    for (let tries = 1; ; tries++) {
      const listing = await create();
      if (listing.children.includes(SEMAPHORE.leases)) await checkNoLeases(this.#client, this.claim, this.path);
      const result = this.#read(listing, listing.askedMs ?? performance.now());
      // The list may come from a server that lost the ensemble: unless the node was made just now, ask the leader.
      const isCertain = listing.askedMs !== undefined || result?.holds === false;
      if (result !== undefined && (isCertain || (await this.#node.verify()))) return result;
      if (tries === TRIES) throw new Error(`our node of ${this.path} was removed ${TRIES} times`);
    }
  }

  async watch(signal: AbortSignal): Promise<AttemptResult | undefined> {
    if (this.#blockedBy === undefined || !(await nodeChange(this.#client, this.#blockedBy, signal))) return undefined;
    const node = this.#node.existing;
    if (node === undefined) return undefined;
    // Most likely the claim holds now: so the list and the proof are requested together.
    const askedMs = performance.now();
    const [{ children }, exists] = await Promise.all([this.#client.getChildren(this.path), this.#node.verify()]);
    return exists ? this.#read({ node, children }, askedMs) : undefined;
  }

  remove(): Promise<boolean> {
    return this.#node.remove();
  }

  tell(data: Uint8Array | undefined, paceMs: number): Promise<void> {
    return this.#node.rewrite(data, paceMs);
  }

  /** `provenMs`: when the node was certainly ours, if it holds. `undefined`: it is gone. */
  #read({ node, children }: Omit<Listing, "askedMs">, provenMs: number): AttemptResult | undefined {
    const order = inOrder(children);
    const index = order.findIndex(({ name }) => name === node.name);
    if (index === -1) return undefined;
    checkContenders(this.claim, this.path, this.#dialect, order);
    const blocker = blockedBy(order, index);
    this.#blockedBy = blocker === undefined ? undefined : `${this.path}/${blocker.name}`;
    if (blocker !== undefined) return { holds: false, holders: this.#shown(order), position: positionOf(order, index) };
    return { holds: true, node, provenMs, isWanted: waitersOn(order, 1, node.name).length > 0 };
  }

  #shown(order: readonly Contender[]): readonly string[] {
    const holders = holdersOf(order).slice(0, HOLDERS_SHOWN);
    return holders.map(({ name }) => `${this.path}/${name}`);
  }
}

function positionOf(order: readonly Contender[], index: number): number {
  return index + 1 - holdersOf(order).length;
}
