/** Reads what scripts answer: all of it is checked before it is believed. The layouts are in wire.ts. */
import type { Granted, Holding, Refused, Released, Vote } from "../../contract/backend.ts";
import { LockBackendError, quote } from "../../contract/errors.ts";
import { toHolding } from "./records.ts";
import { placesIn, reader } from "./columns.ts";
import { toOutcome } from "./outcomes.ts";
import { GRANTED, isFence, LEARNED, LIMIT, REFUSAL, VOTE, WORD } from "./wire.ts";

/** The fences of a grant: the first, and how many there are. */
export interface Run {
  readonly fence: bigint;
  readonly run: number;
  /** Another claim queues for the lock. */
  readonly wanted?: boolean | undefined;
}

const run = reader(GRANTED, "fence", "more", "wanted");
const learned = reader(LEARNED, "last", "again", "by");
const REFUSED = placesIn(REFUSAL);
const VOTED = placesIn(VOTE);
const WAS: readonly Released[] = ["absent", "held", "queued"];
const COUNT = /^\d{1,15}$/u;
const SIGNED = /^-?\d{1,15}$/u;

/** From "<fence>+<how many more>", and "*" if it is wanted; `undefined` for anything else, and for a fence that the scripts cannot have granted. */
export function toRun(reply: unknown): Run | undefined {
  // By index: destructuring an array costs as much as the pattern.
  const found = typeof reply === "string" ? run.pattern.exec(reply) : null;
  if (found === null) return undefined;
  return runOf(found[run.at.fence] as string, found[run.at.more] as string, found[run.at.wanted] !== "");
}

export function runOf(fence: string, more: string, wanted: boolean): Run | undefined {
  return isFence(Number(fence)) ? { fence: BigInt(fence), run: Number(more) + 1, wanted } : undefined;
}

/** A grant as the core gets it. A lease may be kept after its work, because its holder learns when it is wanted. */
export function toGranted({ fence, run: fences, wanted }: Run, fromMs: number): Granted {
  // Not spread: this is the hot path.
  return wanted === true
    ? { granted: true, fence, run: fences, fromMs, mayLinger: true, wanted }
    : { granted: true, fence, run: fences, fromMs, mayLinger: true };
}

/** What an answer says to a claim that is still queued. */
export interface Learned {
  /** The lock's last fence: each later grant has a greater one. */
  readonly last: number;
  /** After how long it is worth asking again; 0: at the usual pace. */
  readonly againMs: number;
  /** The server's identity; "" without a quarantine. */
  readonly by: string;
}

/** From "=<last fence> <ms><identity>"; `undefined` for anything else. */
export function toLearned(reply: unknown): Learned | undefined {
  const found = typeof reply === "string" ? learned.pattern.exec(reply) : null;
  if (found === null) return undefined;
  const { at } = learned;
  const last = Number(found[at.last]);
  return last > LIMIT.fence ? undefined : { last, againMs: Number(found[at.again]), by: found[at.by] as string };
}

export interface Refusal {
  readonly refused: Refused;
  /** The server's clock. */
  readonly wallMs: number;
  /** Absent: the claim is not queued. */
  readonly learned: Learned | undefined;
}

/** From a {@link REFUSAL}. */
export function toRefused(name: string, reply: unknown): Refusal {
  const fields: readonly unknown[] = Array.isArray(reply) ? reply : [];
  const place = toCount(fields[REFUSED.place]);
  const aheadMs = toCount(fields[REFUSED.ahead]);
  const wallMs = toCount(fields[REFUSED.now]);
  if (place === undefined || aheadMs === undefined || wallMs === undefined) throw unexpected(name);
  if (fields[REFUSED.record] === WORD.done) {
    const outcome = toOutcome(fields[REFUSED.learned], wallMs);
    if (outcome === undefined) throw unexpected(name);
    return { refused: { granted: false, heldBy: [], outcome }, wallMs, learned: undefined };
  }
  const refused: Refused = isYoung(reply)
    ? { granted: false, heldBy: [], quarantineMs: aheadMs }
    : { granted: false, heldBy: heldBy(name, fields[REFUSED.record], wallMs) };
  if (place === 0) {
    return { refused: aheadMs > 0 ? { ...refused, retryMs: aheadMs } : refused, wallMs, learned: undefined };
  }
  const learnedNow = toLearned(fields[REFUSED.learned]);
  if (learnedNow === undefined) throw unexpected(name);
  return { refused: { ...refused, position: place }, wallMs, learned: learnedNow };
}

/** Whether the lock may be free, but has more lapsed tickets than one call may skip: another call should follow. */
export function isBusy(reply: unknown): boolean {
  if (Array.isArray(reply)) return reply[REFUSED.record] === WORD.busy;
  return (toCount(reply) ?? 0) >= 4;
}

/** Whether a claim was refused because the server may have lost leases. */
export function isYoung(reply: unknown): boolean {
  return Array.isArray(reply) && reply[REFUSED.record] === WORD.young;
}

/** From 1 if the claim was held, 2 if it was queued, 0 if the lock did not know it; plus 4 if the lock is busy. */
export function toReleased(name: string, reply: unknown): Released {
  const kind = toCount(reply);
  const was = kind === undefined ? undefined : WAS[kind >= 4 ? kind - 4 : kind];
  if (was === undefined) throw unexpected(name);
  return was;
}

/** Some clients return numbers as text. A negative number counts as 0: the end of a lease may have passed. */
export function toCount(value: unknown): number | undefined {
  if (typeof value === "number") return Number.isFinite(value) ? Math.max(0, value) : undefined;
  if (typeof value !== "string" || !SIGNED.test(value)) return undefined;
  return Math.max(0, Number(value));
}

function heldBy(name: string, record: unknown, nowMs: number): readonly Holding[] {
  const holding = typeof record === "string" ? toHolding(name, record, nowMs) : undefined;
  return holding === undefined ? [] : [holding];
}

const YES = /^(\d{13}) ([0-9a-f]{0,20})(?: (\d{1,9}))?$/u;
const SERVER = /^[0-9a-f]{1,20}$/u;

/** From "now server" or "now server waiters" if granted, otherwise from a {@link VOTE}. */
export function toVote(name: string, reply: unknown): Vote {
  if (typeof reply === "string") {
    const [, stamp, server = "", waiters = "0"] = YES.exec(reply) ?? [];
    if (stamp === undefined) throw unexpected(name);
    return { vote: "granted", from: toServer(server), waiters: Number(waiters), wallMs: Number(stamp) };
  }
  if (!Array.isArray(reply) || !/^\d{1,16}$/u.test(String(reply[VOTED.now]))) throw unexpected(name);
  const wallMs = Number(reply[VOTED.now]);
  const from = toServer(reply[VOTED.server]);
  const detail = String(reply[VOTED.detail]);
  const waiters = typeof reply[VOTED.waiters] === "number" ? reply[VOTED.waiters] : undefined;
  switch (reply[VOTED.vote]) {
    case WORD.held: {
      const holding = toHolding(name, detail, wallMs);
      const { holder: by = "unknown", fence = 0n, heldMs, remainingMs = 0, lingerMs } = holding ?? {};
      return { vote: "held", from, by, fence, heldMs, remainingMs, lingerMs, waiters, wallMs };
    }
    case WORD.low:
      if (!/^\d{1,16}$/u.test(detail) || !isFence(Number(detail))) throw unexpected(name);
      return { vote: "low", from, fence: BigInt(detail), wallMs };
    case WORD.young:
      if (!COUNT.test(detail)) throw unexpected(name);
      return { vote: "recovering", from, forMs: Number(detail), wallMs };
    default:
      throw unexpected(name);
  }
}

/** `undefined`: the server does not say. */
function toServer(reply: unknown): string | undefined {
  return typeof reply === "string" && SERVER.test(reply) ? reply : undefined;
}

export function unexpected(name: string): LockBackendError {
  return new LockBackendError("redis", name, `Lock ${quote(name)}: unexpected reply from Redis.`);
}
