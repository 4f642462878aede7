/**
 * What subscribers of `holdfast:acquire` and of the beginning of `holdfast:hold` hear. Both in the context of the caller, so that the
 * hold is no child of the acquire; and work runs inside its hold's context, so that what it traces is a child of the hold.
 */
import type { KeptOutcome } from "../contract/claim.ts";
import { isA, LockClosedError, LockTimeoutError } from "../contract/errors.ts";
import { type AcquireEvent, acquireChannel } from "../contract/events.ts";
import type { Engine } from "./engine.ts";
import { HeldLease } from "./lease.ts";
import { MultiLease } from "./multi-lease.ts";
import type { CheckedOptions } from "./options.ts";
import type { Taken, WaitMode } from "./request.ts";

/** As the engine's own, with an event for those who subscribe. */
export async function takeTraced(
  engine: Engine,
  name: string,
  checked: CheckedOptions,
  waitMode: WaitMode,
  waitMs: number,
): Promise<Taken> {
  const { clock, backend } = engine;
  const event: AcquireEvent = { backend: backend.name, name, mode: checked.mode, contended: false, attempts: 0 };
  const startedAtMs = clock.now();
  const taken = await acquireChannel.tracePromise(async () => {
    try {
      const got = await engine.takeOrOutcome(name, checked, waitMode, waitMs, event);
      event.outcome = got === null ? "busy" : got instanceof HeldLease ? "acquired" : "done";
      if (got !== null) event.fence = got.fence;
      return got;
    } catch (error) {
      if (checked.signal?.aborted === true && error === checked.signal.reason) event.outcome = "aborted";
      else event.outcome = isA(LockTimeoutError, error) ? "timeout" : "error";
      throw error;
    } finally {
      event.waitedMs = clock.now() - startedAtMs;
    }
  }, event);
  return stillOpen(engine, name, taken);
}

/** A subscriber may have closed these locks before the caller had its lease. */
function stillOpen<T extends HeldLease | MultiLease | KeptOutcome | null>(engine: Engine, name: string, taken: T): T {
  if (!engine.closed || !(taken instanceof HeldLease || taken instanceof MultiLease)) return taken;
  for (const part of partsOf(taken)) part.discard();
  throw new LockClosedError(name);
}

/** Tells that the leases have begun, where no function runs under them. */
export async function announced<T extends HeldLease | MultiLease | null>(
  engine: Engine,
  taking: Promise<T>,
): Promise<T> {
  const taken = await taking;
  if (taken === null) return taken;
  for (const part of partsOf(taken)) part.announce(() => undefined);
  return stillOpen(engine, taken.name, taken);
}

export function partsOf(lease: HeldLease | MultiLease): readonly HeldLease[] {
  return lease instanceof MultiLease ? lease.parts : [lease];
}
