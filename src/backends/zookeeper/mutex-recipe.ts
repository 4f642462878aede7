/** Exclusive and shared claims in one line: Curator's and kazoo's mutex and read/write lock. */
import type { Claim } from "../../contract/backend.ts";
import type { ZooKeeperClient } from "./client/client.ts";
import { type Contender, holdersOf, inOrder, inTheWay } from "./contenders.ts";
import { checkLine, checkNoLeases } from "./mixed-use.ts";
import { type Dialect, nodePrefix, SEMAPHORE, STYLES } from "./paths.ts";
import { type Look, OwnNode } from "./claim-node.ts";
import { writeClaim } from "./node-data.ts";
import { HOLDERS_SHOWN, newsOfNode, type Ticket, type Verdict } from "./recipe.ts";

const TRIES = 5;

export class LineTicket implements Ticket {
  readonly claim: Claim;
  readonly path: string;
  readonly #client: ZooKeeperClient;
  readonly #dialect: Dialect;
  readonly #node: OwnNode;
  #waitsFor: string | undefined;

  constructor(client: ZooKeeperClient, claim: Claim, path: string, dialect: Dialect) {
    this.claim = claim;
    this.path = path;
    this.#client = client;
    this.#dialect = dialect;
    this.#node = new OwnNode(client, path, nodePrefix(claim, dialect), writeClaim(claim), STYLES[dialect].parents);
  }

  attempt(): Promise<Verdict> {
    return this.#attempt(() => this.#node.place());
  }

  /** Leaves the line for `before`, and gets in line itself, in one transaction. */
  attemptAfter(before: LineTicket): Promise<Verdict> {
    let look = (): Promise<Look> => {
      look = () => this.#node.place();
      return this.#node.placeAfter(before.#node);
    };
    return this.#attempt(() => look());
  }

  async #attempt(place: () => Promise<Look>): Promise<Verdict> {
    for (let tries = 1; ; tries++) {
      const look = await place();
      if (look.children.includes(SEMAPHORE.leases)) await checkNoLeases(this.#client, this.claim, this.path);
      const verdict = this.#judge(look, look.askedMs ?? performance.now());
      // The list may come from a server that lost the ensemble: unless the node was made just now, the leader is asked.
      const isSure = look.askedMs !== undefined || verdict?.holds === false;
      if (verdict !== undefined && (isSure || (await this.#node.verify()))) return verdict;
      if (tries === TRIES) throw new Error(`our node of ${this.path} was removed ${TRIES} times`);
    }
  }

  async watch(signal: AbortSignal): Promise<Verdict | undefined> {
    if (this.#waitsFor === undefined || !(await newsOfNode(this.#client, this.#waitsFor, signal))) return undefined;
    const placed = this.#node.placed;
    if (placed === undefined) return undefined;
    // Most likely it is our turn: so the list and the proof are asked for in one go.
    const askedMs = performance.now();
    const [{ children }, isThere] = await Promise.all([this.#client.getChildren(this.path), this.#node.verify()]);
    return isThere ? this.#judge({ placed, children }, askedMs) : undefined;
  }

  remove(): Promise<boolean> {
    return this.#node.remove();
  }

  /** `provenMs`: when the node was surely ours, if it turns out to be. `undefined`: it is gone. */
  #judge({ placed, children }: Omit<Look, "askedMs">, provenMs: number): Verdict | undefined {
    const order = inOrder(children);
    const index = order.findIndex(({ name }) => name === placed.name);
    if (index === -1) return undefined;
    checkLine(this.claim, this.path, this.#dialect, order);
    const ahead = inTheWay(order, index);
    this.#waitsFor = ahead === undefined ? undefined : `${this.path}/${ahead.name}`;
    if (ahead !== undefined) return { holds: false, holders: this.#shown(order), position: positionOf(order, index) };
    return { holds: true, node: placed, provenMs };
  }

  #shown(order: readonly Contender[]): readonly string[] {
    const holders = holdersOf(order).slice(0, HOLDERS_SHOWN);
    return holders.map(({ name }) => `${this.path}/${name}`);
  }
}

function positionOf(order: readonly Contender[], index: number): number {
  return index + 1 - holdersOf(order).length;
}
