/** tryAcquire() is linearizable: a no is true of some instant between its call and its answer. */
import type { StoreChange } from "../../backends/memory/index.ts";
import { peek } from "../peek.ts";
import type { Rule } from "./program.ts";
import type { Stage } from "./stage.ts";
import type { Call } from "./tenancy.ts";
import { isPool, type Truth } from "./truth.ts";

interface Try {
  readonly call: Call;
  /** There was an instant at which it could not have had the lock. */
  busy: boolean;
  refused: boolean;
}

export class Tries {
  readonly #stage: Stage;
  readonly #truth: Truth;
  readonly #calls: readonly Call[];
  readonly #fail: (rule: Rule, message: string) => void;
  readonly #tries: Try[] = [];

  constructor(stage: Stage, truth: Truth, calls: readonly Call[], fail: (rule: Rule, message: string) => void) {
    this.#stage = stage;
    this.#truth = truth;
    this.#calls = calls;
    this.#fail = fail;
  }

  called(call: Call): void {
    this.#tries.push({ call, busy: this.#isBusy(call), refused: false });
  }

  changed({ kind, lock }: StoreChange): void {
    for (const one of this.#tries) {
      if (one.call.endedAt === undefined && !one.busy && one.call.names.includes(lock))
        one.busy = kind === "granted" || kind === "queued" || this.#isBusy(one.call);
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
  #isBusy({ names, mode, client, inside }: Call): boolean {
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
      const taken = [...held, ...kept];
      const fits =
        taken.length === 0 ||
        (taken[0]?.claim.mode === mode && (mode === "shared" || (isPool(name) && taken.length < 2)));
      return queued.length > 0 || !fits;
    });
  }
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
