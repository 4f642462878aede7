/**
 * Claims with a limit: Curator's InterProcessSemaphoreV2. Claimants stand in line at `<lock>/locks`; the first of them
 * makes a lease node in `<lock>/leases` and waits until no more than `limit` of those are left, then leaves the line.
 */
import type { Claim } from "../../contract/backend.ts";
import type { ZooKeeperClient } from "./client/client.ts";
import { type Contender, inOrder } from "./contenders.ts";
import { checkLimit, checkOverflow } from "./mixed-use.ts";
import { guidOf, SEMAPHORE } from "./paths.ts";
import { OwnNode } from "./claim-node.ts";
import { writeClaim } from "./node-data.ts";
import { HOLDERS_SHOWN, newsOfChildren, newsOfNode, type Ticket, type Verdict } from "./recipe.ts";

const TRIES = 5;

export class SemaphoreTicket implements Ticket {
  readonly claim: Claim;
  readonly path: string;
  readonly #client: ZooKeeperClient;
  readonly #turn: OwnNode;
  readonly #lease: OwnNode;
  readonly #leaveLine: (turn: OwnNode) => Promise<void>;
  /** In line: the node before ours. Undefined: we are first, and wait for leases to go. */
  #waitsFor: string | undefined;
  #isChecked = false;

  /** `leaveLine`: removes the node in the line for certain, and does not reject. */
  constructor(client: ZooKeeperClient, claim: Claim, path: string, leaveLine: (turn: OwnNode) => Promise<void>) {
    this.claim = claim;
    this.path = path;
    this.#client = client;
    this.#leaveLine = leaveLine;
    const start = `_c_${guidOf(claim.id, true)}`;
    const data = writeClaim(claim);
    this.#turn = new OwnNode(client, `${path}/${SEMAPHORE.line}`, start + SEMAPHORE.lineName, data);
    this.#lease = new OwnNode(client, `${path}/${SEMAPHORE.leases}`, start + SEMAPHORE.leaseName, data);
  }

  async attempt(): Promise<Verdict> {
    for (let tries = 1; ; tries++) {
      const verdict = (await this.#waitInLine()) ?? (await this.#takeLease());
      if (verdict !== undefined) return verdict;
      if (tries === TRIES) throw new Error(`our node of ${this.path} was removed ${TRIES} times`);
    }
  }

  async watch(signal: AbortSignal): Promise<Verdict | undefined> {
    const isNews = await (this.#waitsFor === undefined
      ? newsOfChildren(this.#client, this.#lease.parent, signal, (leases) => this.#fits(leases.length))
      : newsOfNode(this.#client, this.#waitsFor, signal));
    return isNews ? this.attempt() : undefined;
  }

  async remove(): Promise<boolean> {
    const outcomes = await Promise.allSettled([this.#lease.remove(), this.#turn.remove()]);
    for (const outcome of outcomes) if (outcome.status === "rejected") throw outcome.reason;
    return outcomes.some((outcome) => outcome.status === "fulfilled" && outcome.value);
  }

  /** Stands in line. `undefined`: it is our turn. */
  async #waitInLine(): Promise<Verdict | undefined> {
    // Whoever has made its lease node has had its turn.
    if (this.#lease.placed !== undefined) return undefined;
    const { placed, children } = await this.#turn.place();
    const order = inOrder(children);
    checkOverflow(this.claim, this.path, order);
    const index = order.findIndex(({ name }) => name === placed.name);
    const before = order[index - 1];
    if (before === undefined) return undefined;
    this.#waitsFor = `${this.#turn.parent}/${before.name}`;
    const leases = await this.#leases();
    await this.#check(leases);
    return { holds: false, holders: this.#shown(leases), position: index + 1 };
  }

  /** Makes the lease node. `undefined`: it is gone, start again. */
  async #takeLease(): Promise<Verdict | undefined> {
    this.#waitsFor = undefined;
    const { placed, children, askedMs } = await this.#lease.place();
    const leases = inOrder(children);
    await this.#check(leases);
    if (!this.#fits(leases.length)) return { holds: false, holders: this.#shown(leases), position: 1 };
    const verifiedMs = performance.now();
    if (askedMs === undefined && !(await this.#lease.verify())) return undefined;
    // Before the claim is told: else whoever comes next finds somebody in line though there is room.
    await this.#leaveLine(this.#turn);
    return { holds: true, node: placed, provenMs: askedMs ?? verifiedMs };
  }

  #fits(leases: number): boolean {
    return leases <= this.claim.limit;
  }

  async #leases(): Promise<readonly Contender[]> {
    const list = await this.#client.getChildren(this.#lease.parent).catch(() => ({ children: [] }));
    return inOrder(list.children);
  }

  /** Once, after our first node was made: of two claims that disagree, the later one sees the other. */
  async #check(leases: readonly Contender[]): Promise<void> {
    if (this.#isChecked) return;
    const other = leases.find(({ name }) => name !== this.#lease.placed?.name);
    await checkLimit(this.#client, this.claim, this.path, other && `${this.#lease.parent}/${other.name}`);
    this.#isChecked = true;
  }

  #shown(leases: readonly Contender[]): readonly string[] {
    const holders = leases.slice(0, Math.min(HOLDERS_SHOWN, this.claim.limit));
    return holders.map(({ name }) => `${this.#lease.parent}/${name}`);
  }
}
