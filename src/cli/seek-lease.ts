/**
 * The waiting of `holdfast acquire`: for the lock as long as it was asked to, for the store never longer than that takes. However it ends,
 * nothing of the claim is left in the store, or it is said what may be.
 */
import { setTimeout as pause } from "node:timers/promises";

import type { Backend, Claim, Granted, Holding } from "../contract/backend.ts";
import { type SentAt, SleepDetector, systemClock } from "../contract/clock.ts";
import { formatMs } from "../contract/duration.ts";
import { asBackendError, LockTimeoutError } from "../contract/errors.ts";
import { printable } from "../contract/foreign.ts";
import { onAbort } from "../contract/on-abort.ts";
import { systemChance } from "../contract/random.ts";
import { within } from "../contract/time-limit.ts";
import { Acquisition } from "../core/acquisition.ts";
import type { Grant } from "../core/grant.ts";
import { ANSWER_MS, ask, silence } from "./ask-store.ts";
import type { OpenStore } from "./open-store.ts";

/** How long the store is given to confirm that it has let go of a claim that is no longer wanted. */
const LEAVE_MS = 2000;

/** What the store gave, and when the question for it left. */
export type Taken = Pick<Grant, "granted" | "sent">;

export interface Wanted {
  readonly store: OpenStore;
  readonly claim: Claim;
  /** 0 for a claim that does not queue. */
  readonly waitMs: number;
  readonly stop: AbortSignal;
  /** Shown to people: what may be left in the store. */
  readonly note: (line: string) => void;
}

/** Rejects with a `LockTimeoutError` where the lock was not free in time, with the signal's reason, or with what is wrong with the store. */
export async function seekLease(wanted: Wanted): Promise<Taken> {
  const { store, claim, waitMs, stop, note } = wanted;
  const { backend } = store;
  const sleep = new SleepDetector(systemClock);
  const kept: { grant?: Taken } = {};
  const asked =
    claim.resumes === true
      ? withoutEnding(backend, (granted, sent) => (kept.grant = { granted, sent }), sleep)
      : backend;
  const acquisition = new Acquisition(
    { backend: asked, clock: systemClock, chance: systemChance, sleep },
    claim,
    undefined,
  );
  const over = new AbortController();
  let calledOff = false;
  let silent = false;
  const off = new Promise<undefined>((resolve) => {
    const callOff = (): void => {
      calledOff = true;
      void acquisition.callOff();
      // Not its answer: a question that is out may never get one.
      resolve(undefined);
    };
    over.signal.addEventListener("abort", onAbort(stop, callOff));
    const after = (ms: number, then: () => void): void =>
      void pause(ms, undefined, { signal: over.signal }).then(then, () => {});
    if (claim.queues && Number.isFinite(waitMs)) after(waitMs, callOff);
    // Without a queue there is nothing to wait for but the answer itself.
    if (!claim.queues) {
      after(ANSWER_MS, () => {
        silent = true;
        callOff();
      });
    }
  });
  try {
    const seeking = acquisition.seek();
    const grant = await Promise.race([seeking, off]).finally(() => over.abort());
    seeking.catch(() => {});
    if (grant !== undefined && "granted" in grant) return grant;
  } catch (error) {
    await leave(wanted, acquisition);
    throw asBackendError(backend.name, claim.name, error);
  }
  // One that was refused without a queue has left nothing.
  const answers = !calledOff || (await leave(wanted, acquisition));
  // It was granted at the last moment, to this command or to another with the same claim.
  if (kept.grant !== undefined) {
    if (!stop.aborted) return kept.grant;
    note(
      `holdfast: ${printable(claim.name)} is held under this claim, perhaps by another command: it was not released`,
    );
  }
  // Stopped, or never answered: that says more than "not free".
  stop.throwIfAborted();
  if (silent) throw silence(backend.name, `whether ${printable(claim.name)} is free`);
  const trouble = acquisition.refused === undefined ? acquisition.troubleAt(systemClock.now()) : undefined;
  if (trouble !== undefined) throw asBackendError(backend.name, claim.name, trouble);
  const { quarantineMs } = acquisition.blockers(systemClock.now());
  throw new LockTimeoutError(claim.name, waitMs, await holders(store, acquisition, answers), quarantineMs);
}

/**
 * The store for a claim that other commands may ask for at the same time (`--claim`). To give up must not end a lease that another
 * command has: only the place in the queue is given up, and a lease is reported.
 */
function withoutEnding(
  backend: Backend,
  onHeld: (granted: Granted, sent: SentAt) => void,
  sleep: SleepDetector,
): Backend {
  const watch = backend.watch?.bind(backend);
  return {
    name: backend.name,
    attempt: (claim) => backend.attempt(claim),
    ...(watch && { watch }),
    renew: (claims, fences) => backend.renew(claims, fences),
    async release(claim) {
      const sent = sleep.sentNow();
      const answer = await backend.attempt({ ...claim, queues: false });
      if (!answer.granted) return "queued";
      onHeld(answer, sent);
      return "held";
    },
    query: (prefix) => backend.query(prefix),
    inspect: (name) => backend.inspect(name),
    forceRelease: (name, fence, by, reason) => backend.forceRelease(name, fence, by, reason),
    close: () => backend.close(),
  };
}

/** The release that the acquisition has begun goes out before the store is closed. `false`: it is unknown whether it arrived. */
async function leave({ claim, note }: Wanted, acquisition: Acquisition<undefined>): Promise<boolean> {
  const left = await within(
    systemClock,
    acquisition.callOff().then(() => true),
    LEAVE_MS,
  );
  if (left === true) return true;
  const { name, ttlMs, queues } = claim;
  const what = queues ? "a place in its queue, or the lock itself," : "the lock";
  note(
    `holdfast: the store did not confirm that nothing of this is left: ${what} may stay taken on ${printable(name)} until the ttl of ${formatMs(ttlMs)} is over`,
  );
  return false;
}

/** Who is in the way: what the store says now, or has said if it does not answer any more. */
async function holders(
  store: OpenStore,
  acquisition: Acquisition<undefined>,
  answers: boolean,
): Promise<readonly Holding[]> {
  const { name } = acquisition.claim;
  const said = acquisition.refused === undefined ? undefined : acquisition.blockers(systemClock.now()).heldBy;
  if (said !== undefined && !answers) return said;
  try {
    return (await ask(store, name)).held.filter((one) => one.name === name);
  } catch (error) {
    if (said === undefined) throw error;
    return said;
  }
}
