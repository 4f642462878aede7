/**
 * The conformance suite: what every backend promises, as data. Any test runner can run it:
 *
 *     for (const { promise, check } of conformance) test(promise, () => check({ open: () => myBackend() }));
 */
import { claimPromises } from "./promises/claims.ts";
import { fencePromises } from "./promises/fences.ts";
import { inspectPromises } from "./promises/inspect.ts";
import { lingerPromises } from "./promises/linger.ts";
import { locksPromises } from "./promises/locks.ts";
import { modePromises } from "./promises/modes.ts";
import { namePromises } from "./promises/names.ts";
import { outcomePromises } from "./promises/outcomes.ts";
import type { ConformancePromise } from "./promises/promise.ts";
import { queuePromises } from "./promises/queue.ts";
import { sightPromises } from "./promises/query.ts";
import { stealPromises } from "./promises/steal.ts";
import { timePromises } from "./promises/time.ts";
import { votePromises } from "./promises/votes.ts";
import { wantedPromises } from "./promises/wanted.ts";

/** What every backend promises. */
export const conformance: readonly ConformancePromise[] = [
  ...claimPromises,
  ...queuePromises,
  ...fencePromises,
  ...modePromises,
  ...timePromises,
  ...sightPromises,
  ...inspectPromises,
  ...wantedPromises,
  ...lingerPromises,
  ...outcomePromises,
  ...stealPromises,
  ...namePromises,
  ...locksPromises,
];

/** What a backend promises beyond that when a quorum is to be made of it. */
export const memberConformance: readonly ConformancePromise[] = votePromises;

/** Promises that do not apply to a backend, each with the reason. */
export type Declined = Readonly<Record<string, string>>;

/** Splits promises into those to check and those declined. Throws on a declined promise that does not exist or has no reason. */
export function withoutDeclined(
  promises: readonly ConformancePromise[],
  declined: Declined,
): readonly ConformancePromise[] {
  const known = new Set(promises.map(({ promise }) => promise));
  for (const [promise, reason] of Object.entries(declined)) {
    if (!known.has(promise)) throw new TypeError(`Declined a promise that does not exist: ${JSON.stringify(promise)}`);
    if (reason.trim() === "") throw new TypeError(`Declined without a reason: ${JSON.stringify(promise)}`);
  }
  return promises.filter(({ promise }) => !Object.hasOwn(declined, promise));
}
