/**
 * Claims with a limit: Curator's InterProcessSemaphoreV2. Claims queue at `<lock>/locks`; the first of them makes a lease
 * node in `<lock>/leases`, waits until no more than `limit` of those are left, and then leaves the queue.
 */
import type { Claim } from "../../contract/backend.ts";
import { ClaimNode } from "./claim-node.ts";
import type { ZooKeeperClient } from "./client/client.ts";
import { type Contender, inOrder } from "./contenders.ts";
import { checkLimit, checkOverflow } from "./mixed-use.ts";
import { writeClaim } from "./node-data.ts";
import { guidOf, SEMAPHORE } from "./paths.ts";
import { type AttemptResult, childrenChange, HOLDERS_SHOWN, nodeChange, type Recipe } from "./recipe.ts";

const TRIES = 5;

export class SemaphoreRecipe implements Recipe {
  readonly claim: Claim;
  readonly path: string;
  readonly #client: ZooKeeperClient;
  readonly #queueNode: ClaimNode;
  readonly #leaseNode: ClaimNode;
  readonly #leaveQueue: (queueNode: ClaimNode) => Promise<void>;
  /** In the queue: the path of the node before ours. Undefined: we are first, and wait for leases to end. */
  #blockedBy: string | undefined;
  #isChecked = false;

  /** `leaveQueue`: removes the node in the queue for certain, and does not reject. */
  constructor(client: ZooKeeperClient, claim: Claim, path: string, leaveQueue: (node: ClaimNode) => Promise<void>) {
    this.claim = claim;
    this.path = path;
    this.#client = client;
    this.#leaveQueue = leaveQueue;
    const start = `_c_${guidOf(claim.id, true, !claim.queues)}`;
    const data = writeClaim(claim);
    this.#queueNode = new ClaimNode(client, `${path}/${SEMAPHORE.queue}`, start + SEMAPHORE.queueName, data);
    this.#leaseNode = new ClaimNode(client, `${path}/${SEMAPHORE.leases}`, start + SEMAPHORE.leaseName, data);
  }

  async attempt(): Promise<AttemptResult> {
    for (let tries = 1; ; tries++) {
      const result = (await this.#waitInQueue()) ?? (await this.#takeLease());
      if (result !== undefined) return result;
      if (tries === TRIES) throw new Error(`our node of ${this.path} was removed ${TRIES} times`);
    }
  }

  async watch(signal: AbortSignal): Promise<AttemptResult | undefined> {
    const isChanged = await (this.#blockedBy === undefined
      ? childrenChange(this.#client, this.#leaseNode.parent, signal, (leases) => this.#fits(leases.length))
      : nodeChange(this.#client, this.#blockedBy, signal));
    return isChanged ? this.attempt() : undefined;
  }

  async remove(): Promise<boolean> {
    const outcomes = await Promise.allSettled([this.#leaseNode.remove(), this.#queueNode.remove()]);
    for (const outcome of outcomes) if (outcome.status === "rejected") throw outcome.reason;
    return outcomes.some((outcome) => outcome.status === "fulfilled" && outcome.value);
  }

  async tell(data: Uint8Array | undefined, paceMs: number): Promise<void> {
    await Promise.all([this.#leaseNode.rewrite(data, paceMs), this.#queueNode.rewrite(data, paceMs)]);
  }

  /** Joins the queue. `undefined`: the claim is first in it. */
  async #waitInQueue(): Promise<AttemptResult | undefined> {
    // A claim makes its lease node only when it is first, so it need not queue again.
    if (this.#leaseNode.existing !== undefined) return undefined;
    const { node, children } = await this.#queueNode.create();
    const order = inOrder(children);
    checkOverflow(this.claim, this.path, order);
    const index = order.findIndex(({ name }) => name === node.name);
    const before = order[index - 1];
    if (before === undefined) return undefined;
    this.#blockedBy = `${this.#queueNode.parent}/${before.name}`;
    const leases = await this.#leases();
    await this.#check(leases);
    return { holds: false, holders: this.#shown(leases), position: index + 1 };
  }

  /** Makes the lease node. `undefined`: it is gone, start again. */
  async #takeLease(): Promise<AttemptResult | undefined> {
    this.#blockedBy = undefined;
    const { node, children, askedMs } = await this.#leaseNode.create();
    const leases = inOrder(children);
    await this.#check(leases);
    if (!this.#fits(leases.length)) return { holds: false, holders: this.#shown(leases), position: 1 };
    const verifiedMs = performance.now();
    if (askedMs === undefined && !(await this.#leaseNode.verify())) return undefined;
    // Before the grant is reported: otherwise the next claim finds the queue taken though a lease is free.
    await this.#leaveQueue(this.#queueNode);
    return { holds: true, node, provenMs: askedMs ?? verifiedMs, isWanted: false };
  }

  #fits(leases: number): boolean {
    return leases <= this.claim.limit;
  }

  async #leases(): Promise<readonly Contender[]> {
    const list = await this.#client.getChildren(this.#leaseNode.parent).catch(() => ({ children: [] }));
    return inOrder(list.children);
  }

  /** Once, after our first node was made: of two claims that disagree, the later one sees the other. */
  async #check(leases: readonly Contender[]): Promise<void> {
    if (this.#isChecked) return;
    const other = leases.find(({ name }) => name !== this.#leaseNode.existing?.name);
    await checkLimit(this.#client, this.claim, this.path, other && `${this.#leaseNode.parent}/${other.name}`);
    this.#isChecked = true;
  }

  #shown(leases: readonly Contender[]): readonly string[] {
    const holders = leases.slice(0, Math.min(HOLDERS_SHOWN, this.claim.limit));
    return holders.map(({ name }) => `${this.#leaseNode.parent}/${name}`);
  }
}
