/** A memory backend whose every step a test can watch, hold up, lose or fail: what happens on a bad day, on command. */
import type {
  Abilities,
  Backend,
  Claim,
  Granted,
  Listener,
  LockState,
  Outcome,
  Refused,
  Released,
  Renewal,
  Snapshot,
} from "../../src/contract/backend.ts";
import { createLocks } from "../../src/core/locks.ts";
import type { Locks, LocksOptions } from "../../src/core/api.ts";
import { memory, type MemoryStore, memoryStore } from "../../src/backends/memory/index.ts";
import { FakeClock } from "../../src/testing/fake-clock.ts";

type Step = "attempt" | "renew" | "release" | "swap";

/** Called before a step reaches the store: may wait, throw (the request was lost), or call `pass` and throw (the reply was). */
export type Interference = (pass: () => Promise<unknown>, claims: readonly Claim[]) => Promise<unknown>;

export class ScriptedBackend implements Backend {
  readonly name = "scripted";
  readonly can: Abilities = { outcomes: true, wanted: true, otherTtl: true, linger: true };
  readonly steps: { readonly step: Step; readonly claims: readonly Claim[] }[] = [];
  readonly interfere: Partial<Record<Step, Interference | undefined>> = {};
  listener: Listener | undefined;
  /** How often it was closed. */
  closings = 0;
  readonly #inner: Backend;

  constructor(store: MemoryStore) {
    this.#inner = memory({ store });
  }

  get closed(): boolean {
    return this.closings > 0;
  }

  count(step: Step): number {
    return this.steps.filter((one) => one.step === step).length;
  }

  attempt(claim: Claim): Promise<Granted | Refused> {
    return this.#step("attempt", [claim], () => this.#inner.attempt(claim));
  }

  watch(claim: Claim, signal: AbortSignal): Promise<Granted | undefined> {
    return this.#inner.watch!(claim, signal);
  }

  renew(claims: readonly Claim[], fences?: readonly bigint[]): Promise<readonly Renewal[]> {
    return this.#step("renew", claims, () => this.#inner.renew(claims, fences));
  }

  release(claim: Claim, outcome?: Outcome): Promise<Released> {
    return this.#step("release", [claim], () => this.#inner.release(claim, outcome));
  }

  swap(held: Claim, next: Claim): Promise<Granted | Refused> {
    return this.#step("swap", [held, next], () => this.#inner.swap!(held, next));
  }

  query(prefix: string): Promise<Snapshot> {
    return this.#inner.query(prefix);
  }

  forget(name: string, fence: bigint): Promise<boolean> {
    return this.#inner.forget!(name, fence);
  }

  inspect(name: string): Promise<LockState> {
    return this.#inner.inspect(name);
  }

  forceRelease(name: string, fence: bigint, by: string, reason: string): Promise<boolean> {
    return this.#inner.forceRelease(name, fence, by, reason);
  }

  listen(listener: Listener): void {
    this.listener = listener;
    this.#inner.listen?.(listener);
  }

  async close(): Promise<void> {
    this.closings++;
    await this.#inner.close();
  }

  async #step<T>(step: Step, claims: readonly Claim[], pass: () => Promise<T>): Promise<T> {
    this.steps.push({ step, claims });
    const interfere = this.interfere[step];
    return interfere === undefined ? await pass() : ((await interfere(pass, claims)) as T);
  }
}

export interface Stage {
  readonly clock: FakeClock;
  readonly store: MemoryStore;
  readonly backend: ScriptedBackend;
  readonly locks: Locks;
  /** Another process on the same store. */
  readonly other: (options?: LocksOptions) => Locks;
}

/** Locks on a simulated clock over a store that other "processes" can share. */
export function stage(options: LocksOptions = {}): Stage {
  const clock = new FakeClock();
  const store = memoryStore({ clock });
  const backend = new ScriptedBackend(store);
  const locks = createLocks(backend, { clock, holder: "here:1", ...options });
  const other = (more: LocksOptions = {}): Locks =>
    createLocks(memory({ store }), { clock, holder: "there:2", ...more });
  return { clock, store, backend, locks, other };
}

/** A promise and the means to settle it. */
export function gate(): { readonly opened: Promise<void>; readonly open: () => void } {
  let open = (): void => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { opened, open };
}

/** The error that a promise rejects with; fails when it does not. */
export async function failure(promise: Promise<unknown>): Promise<Error & Record<string, unknown>> {
  try {
    await promise;
  } catch (error) {
    return error as Error & Record<string, unknown>;
  }
  throw new Error("Expected a rejection");
}
