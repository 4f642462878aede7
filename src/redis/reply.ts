/** Reads the scripts' replies. Everything that comes from the store is checked before it is believed. */
import type { Holding, Refused, Released, Vote } from "../backend.ts";
import { LockBackendError, quote } from "../errors.ts";
import { toHolding } from "./record.ts";

/** The fences of a grant: the first, and how many there are. */
export interface Run {
  readonly fence: bigint;
  readonly run: number;
}

const RUN = /^(\d{1,20})\+(\d{1,6})$/u;

/** From "<fence>+<how many more>"; `undefined` for anything else. */
export function toRun(reply: unknown): Run | undefined {
  const match = typeof reply === "string" ? RUN.exec(reply) : null;
  return match === null ? undefined : { fence: BigInt(match[1] as string), run: Number(match[2]) + 1 };
}

/** From { place, ms until the earliest end, now, a holder's record or "" or "young" }. */
export function toRefused(name: string, reply: unknown): { refused: Refused; headMs: number } {
  if (!Array.isArray(reply) || typeof reply[0] !== "number" || typeof reply[1] !== "number") throw strange(name);
  const [place, aheadMs] = reply as [number, number];
  const refused: Refused = { granted: false, heldBy: heldBy(name, reply[3], Number(reply[2]), aheadMs) };
  if (place === 0) return { refused: aheadMs > 0 ? { ...refused, retryMs: aheadMs } : refused, headMs: 0 };
  return { refused: { ...refused, position: place }, headMs: place === 1 ? aheadMs : 0 };
}

function heldBy(name: string, record: unknown, nowMs: number, aheadMs: number): readonly Holding[] {
  if (record === "young") {
    const holder = "nobody: a quarantine, because the server may have forgotten leases";
    return [{ name, mode: "exclusive", limit: 1, holder, fence: 0n, heldMs: 0, remainingMs: aheadMs, meta: {} }];
  }
  const holding = typeof record === "string" ? toHolding(name, record, nowMs) : undefined;
  return holding === undefined ? [] : [holding];
}

const STAMP_LENGTH = 13;

/** From "now server" or "now server waiters" when granted, else from { vote, now, server, detail, waiters }. */
export function toVote(name: string, reply: unknown): Vote {
  if (typeof reply === "string") {
    // By length and not by pattern: this is the hot path.
    const wallMs = Number(reply.slice(0, STAMP_LENGTH));
    const end = reply.indexOf(" ", STAMP_LENGTH + 1);
    const waiters = end < 0 ? 0 : Number(reply.slice(end));
    if (!(wallMs > 0 && waiters >= 0)) throw strange(name);
    const from = reply.slice(STAMP_LENGTH + 1, end < 0 ? undefined : end);
    return { vote: "granted", from: from === "" ? undefined : from, waiters, wallMs };
  }
  if (!Array.isArray(reply) || !/^\d{1,16}$/u.test(String(reply[1]))) throw strange(name);
  const wallMs = Number(reply[1]);
  const from = String(reply[2]);
  const detail = String(reply[3]);
  const waiters = typeof reply[4] === "number" ? reply[4] : undefined;
  switch (reply[0]) {
    case "held": {
      const holding = toHolding(name, detail, wallMs);
      const { holder: by = "unknown", fence = 0n, heldMs, remainingMs = 0 } = holding ?? {};
      return { vote: "held", from, by, fence, heldMs, remainingMs, waiters, wallMs };
    }
    case "low":
      if (!/^\d{1,20}$/u.test(detail)) throw strange(name);
      return { vote: "low", from, fence: BigInt(detail), wallMs };
    case "young":
      return { vote: "young", from, forMs: Number(detail), wallMs };
    default:
      throw strange(name);
  }
}

function strange(name: string): LockBackendError {
  return new LockBackendError("redis", name, `Lock ${quote(name)}: Redis answered with something that is no answer.`);
}

/** What the release script says that the claim was. */
export function toReleased(reply: unknown): Released {
  if (reply === 1) return "held";
  return reply === 2 ? "queued" : "absent";
}
