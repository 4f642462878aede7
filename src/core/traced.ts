/**
 * What subscribers of `holdfast:acquire` and of the beginning of `holdfast:hold` hear. Both in the context of the caller, so that the
 * hold is no child of the acquire; and work runs inside its hold's context, so that what it traces is a child of the hold.
 */
import type { KeptOutcome } from "../contract/claim.ts";
import { isA, LockClosedError, LockTimeoutError } from "../contract/errors.ts";
import { type AcquireEvent, acquireChannel, fill } from "../contract/events.ts";
import { contextNow, inContext } from "./context.ts";
import type { Engine } from "./engine.ts";
import { HeldLease } from "./lease.ts";
import { MultiLease } from "./multi-lease.ts";
import { type CheckedOptions, toMeta } from "./options.ts";
import type { Taken, WaitMode } from "./request.ts";

/** An engine, or a way of its own into it. */
export type Traced = Pick<Engine, "backend" | "clock" | "closed" | "contention" | "takeOrOutcome">;

/**
 * As the engine's own, with events for those who subscribe: those of tracePromise(), in the same order and context. That one, and
 * async functions here, would make six promises of one, which cost more than all else that subscribers cost.
 */
export function takeTraced(
  engine: Traced,
  name: string,
  checked: CheckedOptions,
  waitMode: WaitMode,
  waitMs: number,
): Promise<Taken> {
  const { clock, backend } = engine;
  const event: AcquireEvent = { backend: backend.name, name, mode: checked.mode, contended: false, attempts: 0 };
  const startedAtMs = clock.now();
  const { start, end, asyncStart, asyncEnd, error: failed } = acquireChannel;
  const over = (outcome: NonNullable<AcquireEvent["outcome"]>, more: Partial<AcquireEvent> = {}): void => {
    fill(event, { outcome, waitedMs: clock.now() - startedAtMs, ...more });
    engine.contention.profile?.over(event);
    // Subscribers are inside of no lease, also where the caller is: what they take is no re-entry.
    inContext(undefined, () => {
      if (more.error !== undefined) failed.publish(event);
      asyncStart.publish(event);
      asyncEnd.publish(event);
    });
  };
  const take = (): Promise<Taken> =>
    engine.takeOrOutcome(name, withMeta(checked, event), waitMode, waitMs, event).then(
      (taken) => {
        if (taken instanceof HeldLease) taken.acquired = event;
        if (taken === null) over("busy");
        else over(taken instanceof HeldLease ? "acquired" : "done", { fence: taken.fence });
        return stillOpen(engine, name, taken);
      },
      (error: unknown) => {
        const isAborted = checked.signal?.aborted === true && error === checked.signal.reason;
        if (isAborted) over("aborted", { error });
        else over(isA(LockTimeoutError, error) ? "timeout" : "error", { error });
        throw error;
      },
    );
  const around = contextNow();
  return inContext(undefined, () => {
    const taking = start.runStores(event, () => inContext(around, take));
    end.publish(event);
    return taking;
  });
}

/** With what a subscriber adds. Where that is invalid, or leaves no room, the caller's own `meta` is all. */
function withMeta(checked: CheckedOptions, event: AcquireEvent): CheckedOptions {
  try {
    const { meta } = event;
    return meta === undefined ? checked : { ...checked, meta: toMeta(checked.meta, meta) };
  } catch {
    return checked;
  }
}

/** These locks may have been closed before the caller had its lease, also by a subscriber. What it is inside of goes on. */
function stillOpen<T extends HeldLease | MultiLease | KeptOutcome | null>(
  engine: Pick<Engine, "closed">,
  name: string,
  taken: T,
): T {
  if (!engine.closed || !(taken instanceof HeldLease || taken instanceof MultiLease)) return taken;
  const parts = partsOf(taken);
  if (parts.every(({ outer }) => outer !== undefined)) return taken;
  for (const part of parts) part.discard();
  throw new LockClosedError(name);
}

/** Tells that the leases have begun, where no function runs under them. */
export function announced<T extends HeldLease | MultiLease | null>(engine: Engine, taking: Promise<T>): Promise<T> {
  return taking.then((taken) => {
    if (taken === null) return taken;
    if (!engine.closed) for (const part of partsOf(taken)) part.announce(() => undefined);
    return stillOpen(engine, taken.name, taken);
  });
}

export function partsOf(lease: HeldLease | MultiLease): readonly HeldLease[] {
  return lease instanceof MultiLease ? lease.parts : [lease];
}
