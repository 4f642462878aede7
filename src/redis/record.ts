/** How claims are written into the store, and read back from it. The layout is told in lua/_lock.lua. */
import type { Claim, Forced, Holding, Meta, Mode, Waiting } from "../backend.ts";

/** Times and counts that the store reads by position. */
const KEEP_MAX_MS = 999_999_999_999;
const BALLOT_MAX = BigInt(Number.MAX_SAFE_INTEGER);

/** What the store needs to know of a claim, as one string. Claims of one caller mostly differ in their id alone. */
export class Terms {
  readonly #inbox: string;
  readonly #idleMs: number;
  readonly #ticketMs: number;
  #last: Claim | undefined;
  #lastTicketMs = -1;
  #lastRun = -1;
  #text = "";

  constructor(inbox: string, idleMs: number, ticketMs: number) {
    this.#inbox = inbox;
    this.#idleMs = idleMs;
    this.#ticketMs = ticketMs;
  }

  /** A waiter's ticket never outlives its ttl, because a hand-over counts from the last sign of life. */
  ticketMs(claim: Claim): number {
    return Math.min(this.#ticketMs, claim.ttlMs);
  }

  /** `run` 0 marks a voted lease. */
  of(claim: Claim, queues: boolean, run: number): string {
    const ticketMs = queues ? this.ticketMs(claim) : 0;
    const last = this.#last;
    if (last !== undefined && ticketMs === this.#lastTicketMs && run === this.#lastRun && alike(last, claim)) {
      return this.#text;
    }
    this.#last = claim;
    this.#lastTicketMs = ticketMs;
    this.#lastRun = run;
    this.#text = this.#write(claim, ticketMs, run);
    return this.#text;
  }

  #write(claim: Claim, ticketMs: number, run: number): string {
    const flags = run === 0 ? "vw" : ".!";
    const flag = claim.minHoldMs === 0 ? flags[0] : flags[1];
    const mode = claim.mode === "shared" ? "s" : "x";
    const keepMs = Math.min(claim.ttlMs + claim.lockDelayMs, KEEP_MAX_MS);
    const fixed = `${digits(keepMs, 12)} ${digits(Math.max(0, run - 1), 6)} ${digits(this.#idleMs, 12)}`;
    const rest = `${claim.limit} ${claim.ttlMs} ${claim.lockDelayMs} ${ticketMs} ${claim.minHoldMs}`;
    return `${flag}${mode} ${fixed} ${rest} ${this.#inbox} ${JSON.stringify([claim.holder, claim.meta])}`;
  }
}

/** Whether scripts, which know doubles only, can keep this fence exactly. */
export function isBallot(fence: bigint): boolean {
  return fence > 0n && fence <= BALLOT_MAX;
}

/** A proposed fence as the store wants it. */
export function toBallot(fence: bigint): string {
  return String(fence).padStart(16, "0");
}

function digits(value: number, width: number): string {
  return String(value).padStart(width, "0");
}

function alike(a: Claim, b: Claim): boolean {
  return (
    a.meta === b.meta &&
    a.ttlMs === b.ttlMs &&
    a.mode === b.mode &&
    a.limit === b.limit &&
    a.lockDelayMs === b.lockDelayMs &&
    a.minHoldMs === b.minHoldMs &&
    a.holder === b.holder
  );
}

// "<end> <since> <fence or place> <flag><mode> <keep> <more> <idle> <limit> <ttl> <lockDelay> <ticket> <minHold> <inbox> <json>"
const RECORD = /^(\d{13}) (\d{13}) (\d{1,20}) [.!vw]([xs]) (?:\d{1,16} ){3}(\d{1,16}) (?:\d{1,16} ){4}\S+ (.*)$/su;
const FORCED = /^(\d{13,16}) \S+ (.*)$/su;

interface Parsed {
  readonly endMs: number;
  readonly sinceMs: number;
  readonly number: string;
  readonly mode: Mode;
  readonly limit: number;
  readonly holder: string;
  readonly meta: Meta;
}

/** Reads a holder's record. `undefined`: it is not one, so that it is not believed. */
export function toHolding(name: string, record: string, nowMs: number): Holding | undefined {
  const parsed = parse(record);
  if (parsed === undefined) return undefined;
  const { mode, limit, holder, meta } = parsed;
  return {
    name,
    mode,
    limit,
    holder,
    fence: BigInt(parsed.number),
    heldMs: Math.max(0, nowMs - parsed.sinceMs),
    remainingMs: Math.max(0, parsed.endMs - nowMs),
    meta,
  };
}

/** Reads a waiter's record; its position is not in it, but its place in the line is. */
export function toWaiting(name: string, record: string, nowMs: number): (Waiting & { place: number }) | undefined {
  const parsed = parse(record);
  if (parsed === undefined || parsed.endMs <= nowMs) return undefined;
  const { mode, limit, holder, meta } = parsed;
  const waitingMs = Math.max(0, nowMs - parsed.sinceMs);
  return { name, mode, limit, holder, waitingMs, position: 0, meta, place: Number(parsed.number) };
}

export function toForced(name: string, fence: string, record: string, nowMs: number): Forced | undefined {
  const [, at, json] = FORCED.exec(record) ?? [];
  if (at === undefined || json === undefined || !/^\d{1,20}$/u.test(fence)) return undefined;
  return { name, fence: BigInt(fence), agoMs: Math.max(0, nowMs - Number(at)), ...toForce(json) };
}

/** Who ended a lease by force, and why; from the record that renewals and messages bring. */
export function toForce(json: string): { by: string; reason: string } {
  const value = parseJson(json);
  const { by, reason } = (typeof value === "object" && value !== null ? value : {}) as Record<string, unknown>;
  return {
    by: typeof by === "string" ? by : "somebody",
    reason: typeof reason === "string" ? reason : "no reason given",
  };
}

/** Why a lease was lost, when the store says that force ended it. */
export function forcedReason(record: string): string {
  const { by, reason } = toForce(FORCED.exec(record)?.[2] ?? record);
  return `${by} ended it by force: ${reason}`;
}

function parse(record: string): Parsed | undefined {
  const [, end, since, number, mode, limit, json] = RECORD.exec(record) ?? [];
  if (number === undefined || json === undefined) return undefined;
  const who = parseJson(json);
  const [holder, meta] = Array.isArray(who) ? (who as unknown[]) : [];
  return {
    endMs: Number(end),
    sinceMs: Number(since),
    number,
    mode: mode === "s" ? "shared" : "exclusive",
    limit: Number(limit),
    holder: typeof holder === "string" ? holder : "unknown",
    meta: toMeta(meta),
  };
}

function toMeta(value: unknown): Meta {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return {};
  return Object.fromEntries(
    Object.entries(value).filter((entry): entry is [string, string] => typeof entry[1] === "string"),
  );
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
