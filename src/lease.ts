/** One held lock, as its user sees it: a hold lent for a while, or a share in such a lease by re-entry. */
import type { Lease, ReleaseResult } from "./api.ts";
import { LockLostError } from "./errors.ts";
import { holdChannel, type HoldEvent } from "./events.ts";
import type { Borrower, Hold } from "./hold.ts";
import type { Clock } from "./clock.ts";

/** Where a lease goes when its last share is released. */
export interface LeaseHome {
  readonly clock: Clock;
  readonly backendName: string;
  /** The lease and all its re-entries are over: pass the hold on, or release it. */
  giveBack(lease: HeldLease, hold: Hold): ReleaseResult | Promise<ReleaseResult>;
  /** Something about this lease can only be settled by asking the store again. */
  doubt(): void;
}

const RELEASED = "it was released";

export class HeldLease implements Lease, Borrower {
  readonly name: string;
  readonly fence: bigint;
  readonly #hold: Hold;
  readonly #home: LeaseHome;
  /** The lease that this one re-entered; itself for the outermost. */
  readonly #root: HeldLease;
  #shares: Set<HeldLease> | undefined;
  #open = 1;
  #controller: AbortController | undefined;
  #stopReason: unknown;
  #result: Promise<ReleaseResult> | undefined;
  #lost: LockLostError | undefined;
  #onEnd: (() => void) | undefined;
  #event: HoldEvent | undefined;
  #untold = false;

  /** @internal Leases come from acquire(). */
  constructor(name: string, fence: bigint, hold: Hold, home: LeaseHome, root?: HeldLease) {
    this.name = name;
    this.fence = fence;
    this.#hold = hold;
    this.#home = home;
    this.#root = root ?? this;
    if (root === undefined && holdChannel.hasSubscribers) {
      this.#event = { backend: home.backendName, name, mode: hold.claim.mode, fence };
      holdChannel.start.publish(this.#event);
    }
  }

  get fences(): ReadonlyMap<string, bigint> {
    return new Map([[this.name, this.fence]]);
  }

  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#lost !== undefined) this.#controller.abort(this.#lost);
      else if (this.#stopReason !== undefined) this.#controller.abort(this.#stopReason);
    }
    return this.#controller.signal;
  }

  remaining(): number {
    return this.#whyNot() === undefined ? this.#hold.trustedUntilMs - this.#home.clock.now() : 0;
  }

  assertHeld(): void {
    const reason = this.#whyNot();
    if (reason !== undefined) throw this.#lost ?? new LockLostError(this.name, this.fence, reason);
  }

  release(): Promise<ReleaseResult> {
    return (this.#result ??= this.#release());
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release();
    this.throwIfUntold();
  }

  /** @internal Throws the loss, unless its user could learn of it from the signal: it is told once. */
  throwIfUntold(): void {
    if (this.#lost !== undefined && (this.#untold || this.#controller === undefined)) throw this.#lost;
  }

  /** @internal */
  get lost(): LockLostError | undefined {
    return this.#lost;
  }

  /** @internal True from the moment its release began, or when it was lost. */
  get over(): boolean {
    return this.#result !== undefined || this.#lost !== undefined;
  }

  /** @internal What the store holds for this lease. */
  get mode(): "exclusive" | "shared" {
    return this.#hold.claim.mode;
  }

  /** @internal One more lease on the same hold: same fence, released when all are. */
  share(onEnd: () => void): HeldLease {
    const root = this.#root;
    const lease = new HeldLease(this.name, this.fence, this.#hold, this.#home, root);
    lease.#onEnd = onEnd;
    root.#open++;
    (root.#shares ??= new Set()).add(lease);
    return lease;
  }

  /** @internal The lease has ended: tells everybody who has a share in it. */
  lose(reason: string): void {
    if (this.#lost !== undefined) return;
    this.#lost = new LockLostError(this.name, this.fence, reason);
    this.#controller?.abort(this.#lost);
    if (this.#shares !== undefined) for (const share of this.#shares) share.lose(reason);
  }

  /** @internal Asks the work to stop, while the lease is still held. */
  stop(reason: unknown): void {
    this.#stopReason ??= reason;
    this.#controller?.abort(reason);
    if (this.#shares !== undefined) for (const share of this.#shares) share.stop(reason);
  }

  /** Undefined while the lease is surely held: the clock decides, not a flag that a late timer would have to set. */
  #whyNot(): string | undefined {
    if (this.#lost !== undefined) return this.#lost.reason;
    if (this.#result !== undefined) return RELEASED;
    const nowMs = this.#home.clock.now();
    if (!this.#hold.trusted(nowMs)) {
      return "its ttl passed before it could be renewed (the event loop was blocked, or the process paused)";
    }
    if (this.#hold.inDoubt(nowMs)) {
      this.#home.doubt();
      return "it is in doubt until the store confirms it: the machine seems to have slept";
    }
    return undefined;
  }

  #release(): Promise<ReleaseResult> {
    const root = this.#root;
    root.#shares?.delete(this);
    root.#open--;
    this.#onEnd?.();
    if (root.#open > 0) return Promise.resolve(this.#lost === undefined ? "released" : "lost");
    const given = this.#home.giveBack(root, this.#hold);
    return typeof given === "string"
      ? Promise.resolve(this.#ended(given))
      : given.then((result) => this.#ended(result));
  }

  #ended(given: ReleaseResult): ReleaseResult {
    const event = this.#root.#event;
    const result = this.#lost === undefined ? given : "lost";
    if (result === "lost" && this.#lost === undefined) {
      // The signal had no time to tell: whoever waits for the end of the lease is told there.
      this.#untold = true;
      this.lose("the store no longer knew it when it was released");
    }
    if (event !== undefined) publishEnd(event, result, this.#lost, this.#home.clock.now() - this.#hold.grantedAtMs);
    return result;
  }
}

function publishEnd(event: HoldEvent, end: ReleaseResult, lost: LockLostError | undefined, heldMs: number): void {
  event.end = end;
  event.heldMs = heldMs;
  if (lost !== undefined) {
    event.error = lost;
    holdChannel.error.publish(event);
  }
  holdChannel.end.publish(event);
}
