/**
 * What a backend answers, looked at before it is believed. A custom one may have mistakes: a fence that is none would be
 * noticed only at the guard, and a grant that is over before it begins would be asked for without a pause.
 *
 * An answer is a foreign object, which may throw when it is looked at, or say something else the next time. So it is
 * read here, once, and nowhere else. See backend-mistake.ts for how a mistake is reported.
 */
import type { Backend, Claim, Granted, Holding, KeptOutcome, Refused, Renewal } from "./backend.ts";
import { messageOf } from "./errors.ts";
import { describeLoss, type LossReason } from "./loss.ts";

const MAX_FENCE = 2n ** 63n - 1n;
/** Below it, the end of a run that is no longer than 2^31 need not be calculated, for which three bigints are made. */
const NEAR_FENCE = 2n ** 62n;

/** The answer to a claim. `"none"`: it says neither yes nor no. `"mistaken"`: it grants what cannot be, or cannot be read. */
export function readAnswer(
  answer: Granted | Refused | null | undefined,
  nowMs: number,
): Granted | Refused | "none" | "mistaken" {
  try {
    const granted = answer?.granted;
    if (granted === true) return readGrant(answer as Granted, nowMs);
    return granted === false ? readRefusal(answer as Refused) : "none";
  } catch {
    return "mistaken";
  }
}

function readGrant(answer: Granted, nowMs: number): Granted | "mistaken" {
  const { fence, run, ttlMs, fromMs } = answer;
  if (typeof fence !== "bigint" || fence < 1n || fence > MAX_FENCE) return "mistaken";
  if (!Number.isSafeInteger(run) || run < 1) return "mistaken";
  if ((run > 2 ** 31 || fence > NEAR_FENCE) && fence + BigInt(run) - 1n > MAX_FENCE) return "mistaken";
  if (ttlMs !== undefined && !(Number.isFinite(ttlMs) && ttlMs > 0)) return "mistaken";
  // From the future: another clock, mostly the wall clock. It would be trusted for ever.
  if (fromMs !== undefined && !(Number.isFinite(fromMs) && fromMs <= nowMs)) return "mistaken";
  const wanted = answer.wanted === true;
  const mayLinger = answer.mayLinger === true;
  return { granted: true, fence, run, ttlMs, fromMs, wanted, mayLinger, sentTwice: answer.sentTwice === true };
}

function readRefusal({ heldBy, position, retryMs, quarantineMs, outcome, sentTwice }: Refused): Refused | "mistaken" {
  const kept = outcome === undefined ? undefined : readOutcome(outcome);
  if (kept === "mistaken") return kept;
  const numbers = { position: number(position), retryMs: number(retryMs), quarantineMs: number(quarantineMs) };
  return { granted: false, heldBy, ...numbers, outcome: kept, sentTwice: sentTwice === true };
}

/** What it says is for its readers to check: the store does not look into it, either. */
export function readOutcome({ value, fence, holder, ageMs, remainingMs }: KeptOutcome): KeptOutcome | "mistaken" {
  if (typeof value !== "string" || typeof holder !== "string" || typeof fence !== "bigint") return "mistaken";
  return Number.isFinite(ageMs) && Number.isFinite(remainingMs)
    ? { value, fence, holder, ageMs, remainingMs }
    : "mistaken";
}

function number(value: unknown): number | undefined {
  return typeof value === "number" ? value : undefined;
}

/** How much earlier than the store we stop believing in a lease, because two clocks never run at the same rate. */
export function driftMs(ttlMs: number): number {
  return ttlMs / 100 + 2;
}

/** The instant until which a grant may be trusted. */
export function trustedUntilMs({ fromMs, ttlMs }: Granted, claim: Claim, sentAtMs: number): number {
  const lastsMs = ttlMs ?? claim.ttlMs;
  return (fromMs ?? sentAtMs) + lastsMs - driftMs(lastsMs);
}

/** Why a lock is not granted: its holders, or that the store is in quarantine. For messages. */
export interface Blockers {
  readonly heldBy: readonly Holding[];
  readonly quarantineMs?: number | undefined;
}

/** The blockers by a refusal that is `ageMs` old, with the times of now. What cannot be shown is left out. */
export function readBlockers(refused: Refused | undefined, ageMs: number): Blockers {
  const leftMs = (refused?.quarantineMs ?? 0) - ageMs;
  try {
    const all: unknown = refused?.heldBy;
    const heldBy = Array.isArray(all) ? all.flatMap((holding: Holding) => readHolding(holding, ageMs)) : [];
    return { heldBy, quarantineMs: leftMs > 0 ? leftMs : undefined };
  } catch {
    return { heldBy: [] };
  }
}

function readHolding(holding: Holding, ageMs: number): readonly Holding[] {
  const { name, mode, limit, holder, fence, heldMs: hadMs, remainingMs: hasMs, meta, lingerMs } = holding;
  const [heldMs, remainingMs] = [hadMs + ageMs, Math.max(0, hasMs - ageMs)];
  const isShown = typeof holder === "string" && typeof fence === "bigint" && Number.isFinite(heldMs + remainingMs);
  const lingers = lingerMs !== undefined && lingerMs > 0 && { lingerMs };
  return isShown ? [{ name, mode, limit, holder, fence, heldMs, remainingMs, meta, ...lingers }] : [];
}

/** From when trust counts; with the news that the lease is wanted, or why it is gone. Nearly always only the first. */
export type ReadRenewal = number | { readonly gone: LossReason } | { readonly wantedFromMs: number };

/**
 * What a backend says of one lease of those that it was asked to renew. `undefined`: nothing that could be. An instant from the
 * future would be trusted for ever.
 */
export function readRenewal(
  renewals: readonly Renewal[] | undefined,
  index: number,
  sentAtMs: number,
  nowMs: number,
): ReadRenewal | undefined {
  try {
    const renewal = renewals?.[index] as Renewal & { fromMs?: number; reason?: unknown; wanted?: unknown };
    const held = renewal?.held;
    if (held === false) return { gone: readLoss(renewal.reason) };
    const fromMs = held === true ? (renewal.fromMs ?? sentAtMs) : undefined;
    if (typeof fromMs !== "number" || !(fromMs <= nowMs)) return undefined;
    return renewal.wanted === true ? { wantedFromMs: fromMs } : fromMs;
  } catch {
    return undefined;
  }
}

/** Why a backend says neither yes nor no of one lease. */
export function readCause(renewals: readonly Renewal[] | undefined, index: number): unknown {
  try {
    return (renewals?.[index] as { readonly cause?: unknown } | undefined)?.cause;
  } catch {
    return undefined;
  }
}

/** The question for a claim. */
export function askFor(backend: Backend, claim: Claim): Promise<Granted | Refused> {
  return asked(() => backend.attempt(claim));
}

/** To await a promise calls no method of it. */
async function awaited<T>(answer: Promise<T>): Promise<T> {
  return await answer;
}

/** Asks the store. A backend that throws instead of rejecting has failed in the same way: our own state must not care. */
export function asked<T>(ask: () => Promise<T>): Promise<T> {
  try {
    // What is no promise is an answer all the same; a promise comes back as it is, unless it has methods of its own.
    const answer = Promise.resolve(ask());
    return Object.hasOwn(answer, "then") || Object.hasOwn(answer, "catch") ? awaited(answer) : answer;
  } catch (error) {
    return Promise.reject(error as Error);
  }
}

/** A reason as a backend gave it, read once: a custom one may give anything, also a text. */
export function readLoss(given: unknown): LossReason {
  try {
    // A copy, which cannot change later: functions and getters are not in it.
    const loss = structuredClone(given) as LossReason;
    if (typeof describeLoss(loss) === "string") return loss;
  } catch {
    // It cannot be copied, or has a field that cannot be shown.
  }
  return { kind: "other", text: messageOf(given) };
}
