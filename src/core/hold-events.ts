/** What subscribers hear of a lease: its beginning, its renewals, its loss and its end. */
import type { Mode } from "../contract/backend.ts";
import type { Clock } from "../contract/clock.ts";
import type { LockLostError } from "../contract/errors.ts";
import {
  type AcquireEvent,
  fill,
  holdChannel,
  type HoldEvent,
  lostChannel,
  renewChannel,
  type RenewEvent,
} from "../contract/events.ts";
import { describeLoss, type LossReason } from "../contract/loss.ts";
import type { ReleaseResult } from "./api.ts";
import { inContext } from "./context.ts";
import type { ProfiledHold, ProfileSlot } from "./profile.ts";
import type { RenewalGroup } from "./renewal-group.ts";

/** Who wants to know, besides subscribers. */
export interface Profiled {
  readonly contention: ProfileSlot;
}

interface Around extends Profiled {
  readonly backend: { readonly name: string };
  readonly clock: Clock;
}

/** Leases are of interest: to subscribers, or to the contention profile. */
export function isHeard({ contention }: Profiled): boolean {
  return contention.profile !== undefined || holdChannel.hasSubscribers;
}

/** A lease, as far as its subscribers are concerned. */
interface Teller {
  readonly name: string;
  readonly mode: Mode;
  readonly fence: bigint;
  readonly localHandOver: boolean;
  readonly acquired: AcquireEvent | undefined;
  readonly lost: LockLostError | undefined;
  lossFor(loss: LossReason): LockLostError;
}

/**
 * What is reported of one lease: that it began, that it was lost, that it is over, each once and in this order. What was reported is
 * kept here, not read from the event, which subscribers can change.
 */
export class HoldReport {
  readonly #event: HoldEvent;
  readonly #startedAtMs: number;
  readonly #lease: Teller;
  readonly #around: Around;
  #reported: "begun" | "lost" | "over" = "begun";

  private constructor(event: HoldEvent, startedAtMs: number, lease: Teller, around: Around) {
    this.#event = event;
    this.#startedAtMs = startedAtMs;
    this.#lease = lease;
    this.#around = around;
  }

  /** Tells that it begins, and does the work in the subscribers' context; what it is inside of, the work says itself. */
  static begin<T>(
    around: Around,
    lease: Teller,
    hold: ProfiledHold & { readonly ttlMs: number },
    begun: (report: HoldReport) => void,
    work: () => T,
  ): T {
    const { name, mode, fence, localHandOver, acquired } = lease;
    const { backend, clock, contention } = around;
    const { ttlMs } = hold;
    const startedAtMs = clock.now();
    const event = { backend: backend.name, name, mode, fence, ttlMs, localHandOver, startedAtMs, acquired };
    contention.profile?.began(event, hold);
    const start = (): T => {
      const report = new HoldReport(event, startedAtMs, lease, around);
      begun(report);
      // It may have been lost before all of them had heard of it: none hears of that first.
      report.lost(lease.lost);
      return work();
    };
    return inContext(undefined, () => holdChannel.start.runStores(event, start));
  }

  /** Before its end: a lease that is lost may never be released. */
  lost(lost: LockLostError | undefined): void {
    if (lost === undefined || this.#reported !== "begun") return;
    this.#reported = "lost";
    fill(this.#event, { error: lost, heldMs: this.#heldMs });
    this.#around.contention.profile?.lost(this.#event);
    tell(holdChannel.error, this.#event);
  }

  /** In a turn of its own, also where the answer is here: subscribers may do anything. */
  over(given: ReleaseResult | Promise<ReleaseResult>): Promise<ReleaseResult> {
    this.#around.contention.profile?.ended(this.#event);
    return Promise.resolve(given).then(
      (result) => this.#end(result),
      (error: unknown) => {
        // The backend's answer is a mistake; the lease is over all the same.
        this.#end("unknown");
        throw error;
      },
    );
  }

  #end(result: ReleaseResult): ReleaseResult {
    const lost = result === "lost" ? this.#lease.lossFor({ kind: "gone" }) : this.#lease.lost;
    this.lost(lost);
    const end = lost === undefined ? result : "lost";
    fill(this.#event, this.#reported === "lost" ? { end } : { end, heldMs: this.#heldMs });
    this.#reported = "over";
    tell(holdChannel.end, this.#event);
    return result;
  }

  get #heldMs(): number {
    return this.#around.clock.now() - this.#startedAtMs;
  }
}

/** Whatever sets it off, a caller, a timer or a call of another: its subscribers are inside of no lease. */
function tell<E>(channel: { publish(event: E): void }, event: E): void {
  inContext(undefined, () => channel.publish(event));
}

export function publishLost(backend: string, name: string, fence: bigint, loss: LossReason): void {
  if (lostChannel.hasSubscribers) tell(lostChannel, { backend, name, fence, reason: describeLoss(loss), loss });
}

/** `groups`: those that were renewed in this batch. */
export function publishRenewed(
  backend: string,
  counts: Pick<RenewEvent, "asked" | "renewed" | "gone" | "unknown">,
  tookMs: number,
  lateMs: number,
  groups: readonly { readonly ttlMs: number }[],
): void {
  if (!renewChannel.hasSubscribers) return;
  const ttlMs = Math.min(...groups.map((group) => group.ttlMs));
  tell(renewChannel, { backend, ...counts, tookMs, delayMs: Math.max(0, lateMs), ttlMs });
}

/** Groups that were asked for and have had no answer in its time: they are asked for again. What it returns tells of them, after that. */
export function silentAmong(due: readonly RenewalGroup[], backend: string, nowMs: number): () => void {
  if (!renewChannel.hasSubscribers) return () => {};
  const silent = due
    .filter((group) => group.askedAtMs > -Infinity && !group.isAsking(nowMs) && group.holds.length > 0)
    .map((group) => ({ group, asked: group.holds.length, tookMs: nowMs - group.askedAtMs }));
  return () => {
    for (const { group, asked, tookMs } of silent)
      publishRenewed(backend, { asked, renewed: 0, gone: 0, unknown: asked }, tookMs, nowMs - group.dueMs, [group]);
  };
}
