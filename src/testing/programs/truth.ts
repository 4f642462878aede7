/** The store's truth against what every lease believes of itself: who holds beside whom, until when, and with which fence. */
import type { LeaseView, LockView, StoreChange } from "../../backends/memory/index.ts";
import type { Peeked } from "../../core/peek.ts";
import { peek } from "../peek.ts";
import type { Rule } from "./program.ts";
import type { Client, Stage } from "./stage.ts";
import { isInside, type Tenancy } from "./tenancy.ts";

/** One lease of the store, from its grant on. */
export interface StoreLease {
  readonly lock: string;
  readonly claim: string;
  readonly holder: string;
  readonly fence: bigint;
  readonly lastFence: bigint;
  how: "released" | "ran-out" | "forced" | undefined;
  /** Trust in it ended while its user still had it: an unclean end. */
  outlived: boolean;
  /** A program has had it. */
  wasUsed: boolean;
}

interface Believer {
  readonly tenancy: Tenancy;
  readonly peeked: Peeked;
}

/** Clocks and timers count in fractions; what is smaller than this is rounding. */
const EPSILON_MS = 0.01;

export class Truth {
  /** Leases that are in use, or that still say that they are held. */
  tenancies: Tenancy[] = [];
  readonly #stage: Stage;
  readonly #fail: (rule: Rule, message: string) => void;
  readonly #leases: StoreLease[] = [];
  /** The greatest fences handed out so far, by lock: to writers, and to all. */
  readonly #writers = new Map<string, bigint>();
  readonly #all = new Map<string, bigint>();

  constructor(stage: Stage, fail: (rule: Rule, message: string) => void) {
    this.#stage = stage;
    this.#fail = fail;
  }

  changed(change: StoreChange): void {
    if (change.kind === "granted") {
      const { lock, claim, holder, fence, run } = change;
      this.#leases.push({
        lock,
        claim,
        holder,
        fence,
        lastFence: fence + BigInt(run) - 1n,
        how: undefined,
        outlived: false,
        wasUsed: false,
      });
    } else if (change.kind === "dropped") {
      const lease = this.#leases.findLast(({ claim }) => claim === change.claim);
      if (lease !== undefined) lease.how = change.how;
    }
  }

  /** The store's lease to which the fence belongs. */
  leaseOf(lock: string, fence: bigint): StoreLease | undefined {
    return this.#leases.findLast((lease) => lease.lock === lock && lease.fence <= fence && fence <= lease.lastFence);
  }

  /** A program has a lease now that belongs to the store's lease with this fence. */
  isUsed(lock: string, fence: bigint): boolean {
    const lease = this.leaseOf(lock, fence);
    return this.tenancies.some(
      (tenancy) =>
        !tenancy.ended &&
        peek(tenancy.lease).some(({ name, fence: own }) => name === lock && this.leaseOf(lock, own) === lease),
    );
  }

  /** True when the store has let go of it by itself, or by force and the process has learned of that. */
  isGone(lock: string, fence: bigint, { knownLost }: Client): boolean {
    const lease = this.leaseOf(lock, fence);
    if (lease === undefined || lease.how === "released") return false;
    if (lease.how === "forced") return knownLost.has(lease.claim);
    return lease.how === "ran-out" || find(this.#stage.store.view(), lock, fence) === undefined;
  }

  /** Looks at every lease that was ever handed out. */
  look(): void {
    const believers: Believer[] = [];
    let view: readonly LockView[] | undefined;
    let over = false;
    for (const tenancy of this.tenancies) {
      // A process that stands still says nothing.
      if (!tenancy.client.process.running) continue;
      let believes = false;
      const all = peek(tenancy.lease);
      this.note(tenancy, all);
      for (const peeked of all) {
        believes ||= peeked.state === "held" || peeked.state === "doubt";
        if (peeked.state !== "held") continue;
        view ??= this.#stage.store.view();
        if (this.#isTrue(tenancy, peeked, find(view, peeked.name, peeked.fence))) believers.push({ tenancy, peeked });
      }
      over ||= tenancy.ended && !believes;
    }
    if (over) this.tenancies = this.tenancies.filter(({ ended, lease }) => !ended || peek(lease).some(isBelief));
    if (believers.length > 1) this.#exclude(believers);
  }

  /** Notes which of its leases have ended uncleanly. Called again before its user ends it: an end that comes later does not count. */
  note({ client, ended }: Tenancy, all: readonly Peeked[]): void {
    if (ended) return;
    for (const { name, fence, trustedUntilMs } of all) {
      if (trustedUntilMs > client.process.clock.now()) continue;
      const lease = this.leaseOf(name, fence);
      if (lease !== undefined) lease.outlived = true;
    }
  }

  /** A lease with a lock delay that ended uncleanly is left to the store, so that the delay holds. No other may be left. */
  isDelayed({ claim, fence }: LeaseView): boolean {
    return claim.lockDelayMs > 0 && this.leaseOf(claim.name, fence)?.outlived === true;
  }

  #isTrue({ client, call }: Tenancy, { name, fence, trustedUntilMs }: Peeked, lease: LeaseView | undefined): boolean {
    const who = `${client.name}'s ${call.verb}() of "${name}" (fence ${fence})`;
    if (lease === undefined) {
      const record = this.leaseOf(name, fence);
      if (record?.how !== "forced") {
        const why = record?.how === undefined ? "" : ` (${record.how})`;
        this.#fail("believed without the store", `${who} passes assertHeld(), but the store does not hold it${why}`);
      } else if (client.knownLost.has(record.claim)) {
        this.#fail("believed after the news", `${who} passes assertHeld() after the news that it was ended by force`);
      }
      return false;
    }
    const endMs = this.#stage.nowMs + trustedUntilMs - client.process.clock.now();
    if (endMs > lease.untilMs + EPSILON_MS) {
      const lateMs = (endMs - lease.untilMs).toFixed(2);
      this.#fail(
        "believed beyond the store",
        `${who} trusts its lease for ${lateMs} ms longer than the store keeps it`,
      );
    }
    return true;
  }

  #exclude(believers: readonly Believer[]): void {
    for (const [at, one] of believers.entries()) {
      for (const other of believers.slice(at + 1)) {
        if (one.peeked.name === other.peeked.name && !fit(one, other)) {
          const [a, b] = [one, other].map(({ tenancy, peeked }) => describe(tenancy, peeked.fence));
          this.#fail("two holders", `of "${one.peeked.name}": ${a} and ${b}`);
        }
      }
    }
  }

  /** Was it known before this turn? Within one, the news may have come while the promise was being settled. */
  #wasLost(client: Client, trustedUntilMs: number, record: StoreLease | undefined): boolean {
    const learnedAt = client.knownLost.get(record?.claim ?? "");
    if (learnedAt !== undefined && learnedAt < this.#stage.turn) return true;
    return this.#stage.nowMs + trustedUntilMs - client.process.clock.now() <= this.#stage.turnMs;
  }

  /** A lease comes into the hands of a program. */
  handed(tenancy: Tenancy): void {
    this.tenancies.push(tenancy);
    const { client, call, mode } = tenancy;
    for (const { name, fence, state, trustedUntilMs } of peek(tenancy.lease)) {
      const record = this.leaseOf(name, fence);
      if (record !== undefined) record.wasUsed = true;
      if (record?.how === "released")
        this.#fail("entered a lease that is over", `${client.name}'s ${call.verb}() of "${name}" got fence ${fence}`);
      if (isPart(tenancy, name, fence)) continue;
      if (
        tenancy.lease.fences.size > 1 &&
        (state === "released" || (state === "lost" && this.#wasLost(client, trustedUntilMs, record)))
      )
        this.#fail(
          "group without a part",
          `${client.name}'s ${call.verb}() of a group got "${name}" when it was ${state}`,
        );
      // The news of a forced release may still be on its way.
      if (state !== "held" || isPool(name) || record?.how === "forced") continue;
      const floor = mode === "shared" ? this.#writers.get(name) : this.#all.get(name);
      if (floor !== undefined && fence <= floor)
        this.#fail("fence", `${client.name}'s ${call.verb}() of "${name}" got ${fence}, though ${floor} came before`);
      raise(this.#all, name, fence);
      if (mode !== "shared") raise(this.#writers, name, fence);
    }
    this.look();
  }
}

function isBelief({ state }: Peeked): boolean {
  return state === "held" || state === "doubt";
}

export function isPool(name: string): boolean {
  return name.startsWith("p");
}

/** A part in a lease that a function around it has. */
export function isPart(tenancy: Tenancy, name: string, fence: bigint): boolean {
  if (tenancy.alone) return false;
  for (let around = tenancy.inside; around !== undefined; around = around.inside) {
    if (around.client === tenancy.client && around.lease.fences.get(name) === fence) return true;
  }
  return false;
}

/** May both believe at once? */
function fit(one: Believer, other: Believer): boolean {
  if (one.tenancy.mode === "shared" && other.tenancy.mode === "shared") return true;
  if (one.peeked.fence !== other.peeked.fence) return isPool(one.peeked.name);
  return isInside(one.tenancy, other.tenancy) || isInside(other.tenancy, one.tenancy);
}

function find(view: readonly LockView[], lock: string, fence: bigint): LeaseView | undefined {
  for (const { name, held } of view) {
    if (name !== lock) continue;
    for (const lease of held) if (lease.fence <= fence && fence < lease.fence + BigInt(lease.run)) return lease;
  }
  return undefined;
}

function raise(fences: Map<string, bigint>, name: string, fence: bigint): void {
  if (fence > (fences.get(name) ?? -1n)) fences.set(name, fence);
}

function describe({ client, call, mode }: Tenancy, fence: bigint): string {
  return `${client.name}'s ${mode} ${call.verb}() (fence ${fence})`;
}
