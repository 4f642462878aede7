/** Reads the scripts' replies. Everything that comes from the store is checked before it is believed. */
import type { Holding, Refused, Released, Vote } from "../../contract/backend.ts";
import { LockBackendError, quote } from "../../contract/errors.ts";
import { FENCE_MAX, isFence } from "./fences.ts";
import { toHolding } from "./record.ts";

/** The fences of a grant: the first, and how many there are. */
export interface Run {
  readonly fence: bigint;
  readonly run: number;
}

const RUN = /^(\d{1,16})\+(\d{1,6})$/u;
const LEARNED = /^=(\d{16}) (\d{1,13})(@[0-9a-f]{12})?$/u;
const WAS: readonly Released[] = ["absent", "held", "queued"];
const COUNT = /^\d{1,15}$/u;
const SIGNED = /^-?\d{1,15}$/u;

/** From "<fence>+<how many more>"; `undefined` for anything else, and for a fence that no store of ours can have given. */
export function toRun(reply: unknown): Run | undefined {
  // By index: taking an array apart by its iterator costs as much as the pattern.
  const found = typeof reply === "string" ? RUN.exec(reply) : null;
  if (found === null || !isFence(Number(found[1]))) return undefined;
  return { fence: BigInt(found[1] as string), run: Number(found[2]) + 1 };
}

/** What an answer tells a claim that is still queued. */
export interface Learned {
  /** The lock's last fence: every later grant has a greater one. */
  readonly last: number;
  /** After how long it is worth asking again; 0: at the usual pace. */
  readonly againMs: number;
  /** Which life of the server says so; "" without a quarantine. */
  readonly by: string;
}

/** From "=<last fence> <ms><identity>"; `undefined` for anything else. */
export function toLearned(reply: unknown): Learned | undefined {
  const found = typeof reply === "string" ? LEARNED.exec(reply) : null;
  const last = Number(found?.[1]);
  return found === null || last > FENCE_MAX ? undefined : { last, againMs: Number(found[2]), by: found[3] ?? "" };
}

export interface Refusal {
  readonly refused: Refused;
  /** The server's clock. */
  readonly wallMs: number;
  /** Absent: the claim is not queued. */
  readonly learned: Learned | undefined;
}

/** From { place, ms until the earliest end, now, a holder's record or "" or "young", what a waiter learns }. */
export function toRefused(name: string, reply: unknown): Refusal {
  const fields: readonly unknown[] = Array.isArray(reply) ? reply : [];
  const place = toCount(fields[0]);
  const aheadMs = toCount(fields[1]);
  const wallMs = toCount(fields[2]);
  if (place === undefined || aheadMs === undefined || wallMs === undefined) throw strange(name);
  const refused: Refused = { granted: false, heldBy: heldBy(name, fields[3], wallMs, aheadMs) };
  if (place === 0) {
    return { refused: aheadMs > 0 ? { ...refused, retryMs: aheadMs } : refused, wallMs, learned: undefined };
  }
  const learned = toLearned(fields[4]);
  if (learned === undefined) throw strange(name);
  return { refused: { ...refused, position: place }, wallMs, learned };
}

/** Whether the lock may be free, but has more lapsed tickets than one call may pass over: another should follow. */
export function isBusy(reply: unknown): boolean {
  if (Array.isArray(reply)) return reply[3] === "busy";
  return (toCount(reply) ?? 0) >= 4;
}

/** Whether a claim was refused because the server may have forgotten leases. */
export function isYoung(reply: unknown): boolean {
  return Array.isArray(reply) && reply[3] === "young";
}

/** From 1 when the claim was held, 2 when it was queued, 0 when the lock knew nothing of it; and 4 more when it is busy. */
export function toReleased(name: string, reply: unknown): Released {
  const kind = toCount(reply);
  const was = kind === undefined ? undefined : WAS[kind >= 4 ? kind - 4 : kind];
  if (was === undefined) throw strange(name);
  return was;
}

/** Some clients give numbers as texts. Less than nothing is nothing: the end of a lease may have passed. */
export function toCount(value: unknown): number | undefined {
  if (typeof value === "number") return Number.isFinite(value) ? Math.max(0, value) : undefined;
  if (typeof value !== "string" || !SIGNED.test(value)) return undefined;
  return Math.max(0, Number(value));
}

function heldBy(name: string, record: unknown, nowMs: number, aheadMs: number): readonly Holding[] {
  if (record === "young") {
    const holder = "nobody: a quarantine, because the server may have forgotten leases";
    return [{ name, mode: "exclusive", limit: 1, holder, fence: 0n, heldMs: 0, remainingMs: aheadMs, meta: {} }];
  }
  const holding = typeof record === "string" ? toHolding(name, record, nowMs) : undefined;
  return holding === undefined ? [] : [holding];
}

const YES = /^(\d{13}) ([0-9a-f]{0,20})(?: (\d{1,9}))?$/u;
const SERVER = /^[0-9a-f]{1,20}$/u;

/** From "now server" or "now server waiters" when granted, else from { vote, now, server, detail, waiters }. */
export function toVote(name: string, reply: unknown): Vote {
  if (typeof reply === "string") {
    const [, stamp, server = "", waiters = "0"] = YES.exec(reply) ?? [];
    if (stamp === undefined) throw strange(name);
    return { vote: "granted", from: toServer(server), waiters: Number(waiters), wallMs: Number(stamp) };
  }
  if (!Array.isArray(reply) || !/^\d{1,16}$/u.test(String(reply[1]))) throw strange(name);
  const wallMs = Number(reply[1]);
  const from = toServer(reply[2]);
  const detail = String(reply[3]);
  const waiters = typeof reply[4] === "number" ? reply[4] : undefined;
  switch (reply[0]) {
    case "held": {
      const holding = toHolding(name, detail, wallMs);
      const { holder: by = "unknown", fence = 0n, heldMs, remainingMs = 0 } = holding ?? {};
      return { vote: "held", from, by, fence, heldMs, remainingMs, waiters, wallMs };
    }
    case "low":
      if (!/^\d{1,16}$/u.test(detail) || !isFence(Number(detail))) throw strange(name);
      return { vote: "low", from, fence: BigInt(detail), wallMs };
    case "young":
      if (!COUNT.test(detail)) throw strange(name);
      return { vote: "recovering", from, forMs: Number(detail), wallMs };
    default:
      throw strange(name);
  }
}

/** `undefined`: the server does not tell. */
function toServer(reply: unknown): string | undefined {
  return typeof reply === "string" && SERVER.test(reply) ? reply : undefined;
}

function strange(name: string): LockBackendError {
  return new LockBackendError("redis", name, `Lock ${quote(name)}: Redis answered with something that is no answer.`);
}
