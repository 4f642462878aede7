/** What a hold knows of those around it: the queue that it belongs to, the leases that use it, the group that it is renewed with. */
import type { Deadline } from "../contract/deadlines.ts";
import type { LocalFacts } from "../contract/backend.ts";
import type { LossReason } from "../contract/loss.ts";
import type { ReleaseResult } from "./api.ts";

/** The queue that a hold belongs to. */
export interface HoldFront<Hold> {
  /** Its last lease was released, at `nowMs`. The answer says what becomes of it. */
  over(hold: Hold, nowMs: number): ReleaseResult | Promise<ReleaseResult>;
  /** It can no longer be trusted. */
  lose(hold: Hold, loss: LossReason): void;
  /** It lingers, and goes back to the store now. */
  endIdle(hold: Hold): void;
  /** What it shows in the store of those who wait behind it here. `undefined`: none does. */
  behind(hold: Hold): LocalFacts | undefined;
  /** A request of this process waits. */
  readonly isAwaited: boolean;
}

/** A local lease that uses a hold. */
export interface HoldUser {
  readonly name: string;
  readonly onLost: ((loss: LossReason) => void) | undefined;
  /** It, and those that entered it again. */
  withInner(): readonly HoldUser[];
  markLost(loss: LossReason): void;
  abort(loss: LossReason): void;
  /** Tells its listeners that the lock is wanted. */
  tellWanted(): void;
  /** Asks its work to stop, while it is held. */
  stop(reason: Error): void;
}

/** A hold's place among those that linger: see linger.ts. */
export interface Idle<Hold> extends Deadline {
  readonly hold: Hold;
  /** It lingers until then. `undefined`: it is in use, or over. */
  untilMs: number | undefined;
}

/** Renewals in a row that were neither a yes nor a no. */
export interface Trouble {
  readonly failures: number;
  /** What the last of them failed with; `undefined` where nothing said it. */
  readonly cause: unknown;
}

/** Holds that are renewed together. */
export interface HoldGroup<Hold> {
  readonly inTrouble: boolean;
  readonly renewAtMs: number;
  isAsking(nowMs: number): boolean;
  remove(hold: Hold): void;
}
