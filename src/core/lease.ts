/**
 * One held lock, as its user sees it: a hold lent for a while, or a re-entry into such a lease. Re-entries are leases inside a
 * lease: it goes back when it and all inside it are released.
 * A lease is held, then released or lost, once: that is one field, and while it is empty the hold decides. Every question goes
 * through {@link HeldLease.stateNow}, so that a lease cannot be over and still be believed.
 */
import type { Lease, ReleaseResult } from "./api.ts";
import type { Holding, Mode, Outcome } from "../contract/backend.ts";
import type { Duration } from "../contract/duration.ts";
import { LockLostError } from "../contract/errors.ts";
import type { AcquireEvent } from "../contract/events.ts";
import type { LossReason } from "../contract/loss.ts";
import { ContextAbort } from "./context.ts";
import { endOf, leftToOthers } from "./doubt.ts";
import { fenceOf } from "./fence-of.ts";
import { unused } from "./grant.ts";
import type { Hold } from "./hold.ts";
import { HoldReport, isHeard, type Profiled } from "./hold-events.ts";
import type { Peekable, Peeked } from "./peek.ts";
import type { Runtime } from "./release-until.ts";
import { causeOf, noticeEnd, whyEnded } from "./report-lost.ts";
import { describe } from "./shown.ts";
import type { Watchdog } from "./watchdog.ts";

/** What a lease needs besides its hold. */
export interface LeaseParts extends Runtime, Profiled {
  readonly watchdog: Watchdog;
}

/** What a lease is at one instant, by the monotonic clock. `doubt`: the machine may have slept. */
export type LeaseState = "held" | "doubt" | "released" | "lost";

export class HeldLease implements Lease, Peekable {
  readonly name: string;
  readonly fence: bigint;
  /** @internal What its user asked for: a shared re-entry into an exclusive lease is shared. */
  readonly mode: Mode;
  /** @internal Another lease of this process had its hold before. */
  readonly localHandOver: boolean;
  readonly #hold: Hold;
  readonly #parts: LeaseParts;
  /** @internal The lease that it entered, because its caller was inside of that. */
  readonly outer: HeldLease | undefined;
  readonly #left: (() => void) | undefined;
  #inner: Set<HeldLease> | undefined;
  /** Itself until it is released, and all inside it. */
  #open = 1;
  /** How it ended. A release that turns out to have come too late makes a loss of it. */
  #end: "released" | LockLostError | undefined;
  #stopReason: unknown;
  #disposed = false;
  #controller: AbortController | undefined;
  #wanted: AbortController | undefined;
  #result: Promise<ReleaseResult> | undefined;
  #report: HoldReport | undefined;
  /** @internal What subscribers heard of its acquire. */
  acquired: AcquireEvent | undefined;
  /** @internal Called after the hold was lost, when all states are consistent; also where this lease was released before. */
  onLost: ((loss: LossReason) => void) | undefined;

  /** @internal Leases come from acquire(). */
  constructor(
    hold: Hold,
    parts: LeaseParts,
    inside?: { readonly outer: HeldLease; readonly mode: Mode; readonly left: () => void },
  ) {
    this.name = hold.claim.name;
    this.#hold = hold;
    this.#parts = parts;
    this.fence = inside?.outer.fence ?? hold.lend(this);
    this.mode = inside?.mode ?? hold.claim.mode;
    this.localHandOver = hold.lent > 1;
    this.outer = inside?.outer;
    this.#left = inside?.left;
  }

  /** @internal Tells subscribers that the lease has begun, and does the work in their context. A re-entry is no lease of its own. */
  announce<T>(work: () => T): T {
    if (this.outer !== undefined || !isHeard(this.#parts)) return work();
    return HoldReport.begin(this.#parts, this, this.#hold, (report) => void (this.#report = report), work);
  }

  get fences(): ReadonlyMap<string, bigint> {
    return new Map([[this.name, this.fence]]);
  }

  fenceOf(name: string): bigint {
    return fenceOf(this, name);
  }

  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new ContextAbort();
      const reason = this.lost ?? this.#stopReason;
      if (reason !== undefined) this.#controller.abort(reason);
    }
    return this.#controller.signal;
  }

  get wanted(): AbortSignal {
    if (this.outer !== undefined) return this.outer.wanted;
    return (this.#wanted ??= this.#hold.expectWanted(this.#parts.backend)).signal;
  }

  /** @internal */
  tellWanted(): void {
    this.#wanted?.abort();
  }

  remaining(): number {
    return this.#whyNot() === undefined ? this.#hold.remainingMs(this.#parts.clock.now()) : 0;
  }

  assertHeld(): void {
    const loss = this.#whyNot();
    if (loss !== undefined) throw this.lossFor(loss);
  }

  async extend(ttl?: Duration): Promise<number> {
    const { extend } = await import("./extend.ts");
    return await extend(this, this.#hold, ttl, this.#parts);
  }

  release(): Promise<ReleaseResult> {
    if (this.#result !== undefined) return this.#result;
    const nowMs = noticeEnd(this.#hold, this.#parts.clock);
    // What the backend runs when it is asked may release this very lease; so may listeners of a loss that was noticed there.
    if (this.#end === "released" && this.#result === undefined) return Promise.resolve().then(() => this.#result!);
    return (this.#result ??= this.#release(nowMs));
  }

  toJSON(): unknown {
    return { name: this.name, fence: String(this.fence) };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // The answer to an explicit release() has said it already, or another disposal does.
    if (this.#result !== undefined || this.#disposed) return void (await this.release());
    this.#disposed = true;
    const lost = await this.finish();
    if (lost !== undefined) throw lost;
  }

  /**
   * @internal Ends the lease when the work under it has settled. Returns the loss if that work may not be taken for complete:
   * judged once, at this instant, by the monotonic clock; where that is in doubt, the release decides. An outcome is kept by the
   * store's word only, when the last one inside is out: see {@link over}.
   */
  async finish(outcome?: Omit<Outcome, "fence">): Promise<LockLostError | undefined> {
    const state = this.stateNow();
    if (outcome !== undefined && (state === "held" || state === "doubt"))
      this.#hold.outcome = { ...outcome, fence: this.#hold.firstFence };
    const result = await this.release();
    if (result === "unknown" && state === "doubt") {
      this.#loseLate({ kind: outcome === undefined ? "unconfirmed" : "unkept" });
    }
    // Its hold may be another's by now.
    if (outcome !== undefined && state === "released") this.#loseLate({ kind: "released" });
    return this.lost;
  }

  /** @internal What becomes of its hold when the last one inside is out, too. */
  over(): Promise<ReleaseResult> {
    return endOf(this.#hold);
  }

  /** @internal Ends a lease that its user never got. One inside another is not the hold's only user. */
  discard(): void {
    if (this.outer === undefined) this.#hold.claim = unused(this.#hold.claim);
    this.release().catch(() => {});
  }

  /** @internal */
  get lost(): LockLostError | undefined {
    return this.#end === "released" ? undefined : this.#end;
  }

  /** @internal What it is now. An end that no timer has noticed yet is noticed here. */
  stateNow(): LeaseState {
    const { clock } = this.#parts;
    return this.#state(this.#end === undefined ? noticeEnd(this.#hold, clock) : clock.now());
  }

  /** @internal The same as {@link stateNow}, without noticing anything: for tests that watch. */
  peek(): readonly Peeked[] {
    const { name, fence } = this;
    const nowMs = this.#parts.clock.now();
    return this.#hold.unseen(() => {
      return [{ name, fence, state: this.#state(nowMs), trustedUntilMs: nowMs + this.#hold.remainingMs(nowMs) }];
    });
  }

  #state(nowMs: number): LeaseState {
    if (this.#end !== undefined) return this.#end === "released" ? "released" : "lost";
    if (!this.#hold.trusted(nowMs)) return "lost";
    return this.#hold.inDoubt(nowMs) ? "doubt" : "held";
  }

  /** @internal For messages. */
  describe(): Holding {
    return describe(this.#hold, this.#parts.clock.now());
  }

  /** @internal A re-entry: one more lease on the same hold, with the same fence. `left` is called when it is over. */
  enter(mode: Mode, left: () => void): HeldLease {
    const inner = new HeldLease(this.#hold, this.#parts, { outer: this, mode, left });
    // What was asked to stop stays so: work that enters now must learn of it.
    inner.#stopReason = this.#stopReason;
    this.#open++;
    (this.#inner ??= new Set()).add(inner);
    return inner;
  }

  /** @internal Asks the work to stop, while the lease is still held. */
  stop(reason: unknown): void {
    if (this.#stopReason !== undefined) return;
    const all = this.withInner();
    // First every state: a lease that enters from a listener must learn of it.
    for (const lease of all) lease.#stopReason ??= reason;
    for (const lease of all) if (lease.#end !== "released") lease.#controller?.abort(reason);
  }

  /** @internal It and all inside it, the outer ones first. A loop, because re-entries may be 20,000 deep. */
  withInner(): readonly HeldLease[] {
    const all: HeldLease[] = [this];
    for (const lease of all) for (const inner of lease.#inner ?? []) all.push(inner);
    return all;
  }

  /** @internal True: one more may enter it. The hold decides, since a lease that was released may have others inside. */
  get canBeEntered(): boolean {
    return this.#hold.trusted(this.#parts.clock.now());
  }

  /** @internal The loss, for a caller that wanted to enter. */
  lossFor(loss: LossReason): LockLostError {
    return this.lost ?? new LockLostError(this.name, this.fence, loss, causeOf(this.#hold, loss));
  }

  /** @internal Marks the lease as lost, and calls nothing: see report-lost.ts. If it was over before, its user knows. */
  markLost(loss: LossReason): void {
    this.#end ??= this.lossFor(loss);
  }

  /** @internal Calls the user's listeners; and subscribers, also where its user has released it and others are inside. */
  abort(loss: LossReason): void {
    if (this.lost !== undefined) this.#controller?.abort(this.lost);
    this.#report?.lost(this.lossFor(loss));
  }

  /** Its release has shown that it was lost before. */
  #loseLate(loss: LossReason): void {
    this.#end = this.lossFor(loss);
    this.abort(loss);
  }

  /** Undefined while the lease is surely held: the clock decides, not a flag that a late timer would have to set. */
  #whyNot(): LossReason | undefined {
    const state = this.#state(this.#parts.clock.now());
    if (state === "held") return undefined;
    if (state === "released") return { kind: "released" };
    if (state === "lost") return this.lost?.loss ?? whyEnded(this.#hold, this.#parts.clock.now());
    this.#parts.watchdog.confirm(this.#hold);
    return { kind: "in-doubt" };
  }

  #release(nowMs: number): Promise<ReleaseResult> {
    this.#end ??= "released";
    const given = HeldLease.#leave(this, nowMs);
    if (typeof given === "string") return Promise.resolve(this.#conclude(given));
    return given.then((result) => this.#conclude(result));
  }

  /** The lease is released. The last one out gives the hold back, and takes those around it along that wait for nothing else. */
  static #leave(released: HeldLease, nowMs: number): ReleaseResult | Promise<ReleaseResult> {
    let leaving = released;
    while (--leaving.#open === 0) {
      const outer = leaving.outer;
      if (outer === undefined) {
        const given = leaving.#hold.takeBack(leaving, nowMs) ?? leaving.#leftToOthers();
        return leaving.#report === undefined ? given : leaving.#report.over(given);
      }
      outer.#inner!.delete(leaving);
      // Its turn goes to the next sibling in the same step, so that a lease with a request in line is never over in between.
      leaving.#left!();
      leaving = outer;
    }
    return leaving.#leftToOthers();
  }

  #leftToOthers(): ReleaseResult | Promise<ReleaseResult> {
    return leftToOthers(this.#hold, this.#parts.clock, this.#parts.watchdog);
  }

  #conclude(given: ReleaseResult): ReleaseResult {
    if (given === "lost" && this.lost === undefined) this.#loseLate({ kind: "gone" });
    return this.lost === undefined ? given : "lost";
  }
}
