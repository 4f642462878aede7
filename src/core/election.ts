/** Leader election: campaign repeatedly, run the work while elected, and step down only after the work has settled. */
import type { Work } from "./api.ts";
import { type Chance, jitter } from "../contract/random.ts";
import type { Clock } from "../contract/clock.ts";
import { isA, LockBackendError, LockClosedError } from "../contract/errors.ts";
import type { HeldLease } from "./lease.ts";
import { onAbort } from "../contract/on-abort.ts";
import { pause } from "./pause.ts";

/** Between two terms, so that work which ends at once does not become a busy loop. */
const PAUSE_MAX_MS = 1000;

export interface Candidacy {
  readonly clock: Clock;
  readonly chance: Chance;
  readonly signal: AbortSignal | undefined;
  /** Aborts when the locks are being closed. */
  readonly closing: AbortSignal;
  readonly ttlMs: number;
  acquire(): Promise<HeldLease>;
  /** Runs the work in the lease's context. */
  hold(lease: HeldLease, run: () => Promise<void>): Promise<void>;
  readonly work: Work<unknown>;
}

/** Resolves when the signal aborts or the locks are closed. Rejects when the work fails while elected, or the store refuses for good. */
export async function elect(candidacy: Candidacy): Promise<void> {
  const { clock, chance, signal, closing, ttlMs } = candidacy;
  while (!isOver(candidacy)) {
    const lease = await campaign(candidacy);
    if (lease !== undefined) await serve(candidacy, lease);
    if (isOver(candidacy)) return;
    const pauseMs = jitter(Math.min(PAUSE_MAX_MS, ttlMs / 10), 0.5, 1, chance);
    await pause(clock, pauseMs, [signal, closing]);
  }
}

function isOver({ signal, closing }: Candidacy): boolean {
  return signal?.aborted === true || closing.aborted;
}

/** Waits to be elected; undefined when the candidacy ended first. */
async function campaign(candidacy: Candidacy): Promise<HeldLease | undefined> {
  try {
    return await candidacy.acquire();
  } catch (error) {
    if (isOver(candidacy) || isA(LockClosedError, error)) return undefined;
    // A store that is away comes back; one that refuses for good is a mistake to be reported.
    if (isA(LockBackendError, error) && !error.fatal) return undefined;
    throw error;
  }
}

/** One term as the leader. It ends when the work settles, or when the lease is lost and the work has noticed. */
async function serve(candidacy: Candidacy, lease: HeldLease): Promise<void> {
  const { signal, work } = candidacy;
  let stopListening: (() => void) | undefined;
  let failed = false;
  try {
    stopListening = onAbort(signal, (reason) => lease.stop(reason));
    await candidacy.hold(lease, async () => {
      // Elected just when the candidacy ended: the work does not start, so minHold does not count.
      if (isOver(candidacy)) lease.discard();
      else await work(lease);
    });
  } catch (error) {
    // After a loss or a step-down, the work may end by rejecting; while elected, that is a failure.
    failed = lease.stateNow() !== "lost" && !isOver(candidacy);
    if (failed) throw error;
  } finally {
    stopListening?.();
    // The work's own error is reported, whatever the release answers.
    const released = lease.release();
    await (failed ? released.catch(() => {}) : released);
  }
}
