/**
 * tryAcquire() is linearizable: a no is true of some instant between its call and its answer. That a process keeps a lock which nothing
 * uses is no reason for a no, where nothing keeps it from giving that lock back in time.
 */
import type { LeaseView, StoreChange } from "../../backends/memory/index.ts";
import { peek } from "../peek.ts";
import type { Program, Rule } from "./program.ts";
import type { Stage } from "./stage.ts";
import type { Call } from "./tenancy.ts";
import { isPool, type Truth } from "./truth.ts";

interface Try {
  readonly call: Call;
  /** There was an instant at which it could not have had the lock. */
  busy: boolean;
  refused: boolean;
}

/** Messages take no time there; this is for what is done in the same instant. */
const PROMPT_MS = 2;
/** Steps that keep a process from hearing that a lock is wanted. */
const DEAF = /"do":"(?:block|pause|suspend|wall)"/u;

export class Tries {
  readonly #stage: Stage;
  readonly #truth: Truth;
  readonly #calls: readonly Call[];
  readonly #fail: (rule: Rule, message: string) => void;
  readonly #tries: Try[] = [];
  /** What lingers comes back at once. */
  readonly #isPrompt: boolean;
  /** Since when a claim queues for a lock that nothing uses. */
  readonly #kept = new Map<string, number>();

  constructor(stage: Stage, truth: Truth, calls: readonly Call[], fail: (rule: Rule, message: string) => void) {
    this.#stage = stage;
    this.#truth = truth;
    this.#calls = calls;
    this.#fail = fail;
    this.#isPrompt = isPrompt(stage.program);
  }

  called(call: Call): void {
    this.#tries.push({ call, busy: this.#isBusy(call), refused: false });
  }

  changed({ kind, lock, holder }: StoreChange): void {
    for (const one of this.#tries) {
      if (one.call.endedAt !== undefined || one.busy || !one.call.names.includes(lock)) continue;
      const queued = kind === "queued" && !this.#isOwn(one.call, holder);
      one.busy = kind === "granted" || queued || this.#isBusy(one.call);
    }
  }

  /** A lease came into the hands of a program: perhaps without a change of the store. */
  handed(): void {
    for (const one of this.#tries) if (one.call.endedAt === undefined && !one.busy) one.busy = this.#isBusy(one.call);
  }

  /** Does a process keep a lock that nothing uses, though a claim queues for it? */
  look(): void {
    if (!this.#isPrompt) return;
    const { nowMs } = this.#stage;
    for (const { name, held, queued } of this.#stage.store.view()) {
      const isKept = queued.length > 0 && held.length > 0 && held.every((lease) => this.#isUnused(lease));
      const sinceMs = this.#kept.get(name) ?? nowMs;
      if (!isKept) this.#kept.delete(name);
      else if (nowMs - sinceMs > PROMPT_MS) this.#fail("kept though wanted", `"${name}", by ${held[0]?.claim.holder}`);
      else this.#kept.set(name, sinceMs);
    }
  }

  refused(call: Call): void {
    const one = this.#tries.find((other) => other.call === call);
    if (one !== undefined) one.refused = !one.busy && !this.#isBusy(call);
  }

  /** All calls are over: was a no said of a free lock? */
  end(): void {
    for (const { call, refused } of this.#tries) {
      if (refused && !this.#calls.some((other) => isAhead(other, call)))
        this.#fail("busy though free", `${call.client.name}'s tryAcquire() of "${call.names.join()}"`);
    }
  }

  /** Could the call not get all of its locks at this instant? */
  #isBusy(call: Call): boolean {
    const { names, mode, client, inside } = call;
    // Inside a function that has the lock, others inside may be ahead: the store does not see them.
    for (let around = inside; around !== undefined; around = around.inside) {
      if (around.client === client && names.some((name) => around.lease.fences.has(name))) return true;
    }
    // The process of a lease that was ended by force may not know it yet.
    for (const tenancy of this.#truth.tenancies) {
      if (tenancy.client !== client) continue;
      if (
        peek(tenancy.lease).some(({ name, state }) => names.includes(name) && (state === "held" || state === "doubt"))
      )
        return true;
    }
    return this.#stage.store.view().some(({ name, held, kept, queued }) => {
      if (!names.includes(name)) return false;
      const taken = [...held.filter((lease) => !this.#isUnused(lease)), ...kept];
      const fits =
        taken.length === 0 ||
        (taken[0]?.claim.mode === mode && (mode === "shared" || (isPool(name) && taken.length < 2)));
      return queued.some(({ holder }) => !this.#isOwn(call, holder)) || !fits;
    });
  }

  /** The claim in the queue is that of the try: it waits for what lingers. */
  #isOwn(call: Call, holder: string): boolean {
    if (!this.#isPrompt || holder !== call.client.name) return false;
    const others = this.#calls.filter((other) => other !== call && other.client === call.client);
    return !others.some(
      (other) => other.endedAt === undefined && other.names.some((name) => call.names.includes(name)),
    );
  }

  /** Its process keeps it, and no program has a lease of it, or is about to get one. */
  #isUnused({ claim: { name, lingerMs, holder }, fence }: LeaseView): boolean {
    if (!this.#isPrompt || lingerMs === undefined) return false;
    const isAsked = this.#calls.some(
      (call) => call.endedAt === undefined && call.client.name === holder && call.names.includes(name),
    );
    if (isAsked) return false;
    return this.#truth.leaseOf(name, fence)?.wasUsed === true && !this.#truth.isUsed(name, fence);
  }
}

function isPrompt({ linger, lagMs, faults = [], without = [], threads }: Program): boolean {
  if (linger === undefined || lagMs !== undefined || faults.length > 0 || without.length > 0) return false;
  return !DEAF.test(JSON.stringify(threads));
}

/** Of the same process, at the same time, and got the lock: it may have been first. */
function isAhead(other: Call, call: Call): boolean {
  return (
    other !== call &&
    other.client === call.client &&
    // A candidate waits until it is stopped.
    (other.gotLease || other.verb === "elect") &&
    other.at < (call.endedAt ?? Infinity) &&
    (other.endedAt ?? Infinity) > call.at &&
    other.names.some((name) => call.names.includes(name))
  );
}
