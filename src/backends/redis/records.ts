/** Claims as the store keeps them: written from what their process asks for, and read back. The layout is in wire.ts. */
import type { Claim, Forced, Holding, LocalFacts, Meta, Mode, Waiting } from "../../contract/backend.ts";
import { clipped, HOLDER_MAX, META_BYTES_MAX, REASON_MAX } from "../../contract/foreign.ts";
import type { LossReason } from "../../contract/loss.ts";
import type { Settings } from "./options.ts";
import { reader, write } from "./columns.ts";
import { toLinger, toLocal, whoText } from "./who.ts";
import { FLAG, FORCED, isFence, MODE, RECORD, STATE_ALONE, TERMS } from "./wire.ts";

/** The most that fits into its column. */
const KEEP_MAX_MS = 999_999_999_999;

/**
 * Fences for a claim behind which no other waits, as far as its process knows. Few, because a process that takes and releases a lock in a
 * loop would otherwise use up more fences than there are microseconds, and would then get one at a time.
 */
const CALM_RUN = 64;

/** `crowded`: others in this process wait for the same lock. `voted`: the fence is a ballot, and has no run. */
type Crowd = "calm" | "crowded" | "voted";

/** Writes what the store needs to know of a claim. Successive claims mostly differ in their id alone, so the last text is kept. */
export class Terms {
  readonly #inbox: string;
  readonly #idleMs: number;
  readonly #ticketMs: number;
  readonly #run: number;
  #last: Claim | undefined;
  #lastTicketMs = -1;
  #lastCrowd: Crowd | undefined;
  #text = "";

  constructor(inbox: string, { idleMs, ticketMs, run }: Settings) {
    this.#inbox = inbox;
    this.#idleMs = idleMs;
    this.#ticketMs = ticketMs;
    this.#run = run;
  }

  /** A waiter's ticket never outlives its ttl, because a hand-over counts from the last heartbeat. */
  ticketMs(claim: Claim): number {
    return Math.min(this.#ticketMs, claim.ttlMs);
  }

  of(claim: Claim, queues: boolean, crowd: Crowd): string {
    const ticketMs = queues ? this.ticketMs(claim) : 0;
    const last = this.#last;
    if (last !== undefined && ticketMs === this.#lastTicketMs && crowd === this.#lastCrowd && alike(last, claim)) {
      return this.#text;
    }
    this.#last = claim;
    this.#lastTicketMs = ticketMs;
    this.#lastCrowd = crowd;
    this.#text = this.#write(claim, ticketMs, crowd);
    return this.#text;
  }

  #write(claim: Claim, ticketMs: number, crowd: Crowd): string {
    const [plain, minHold] = crowd === "voted" ? [FLAG.voted, FLAG.votedMinHold] : [FLAG.plain, FLAG.minHold];
    return write(TERMS, {
      flag: claim.minHoldMs === 0 ? plain : minHold,
      mode: MODE[claim.mode],
      keep: Math.min(claim.ttlMs + claim.lockDelayMs, KEEP_MAX_MS),
      more: this.#runOf(claim, crowd) - 1,
      idle: this.#idleMs,
      limit: claim.limit,
      ttl: claim.ttlMs,
      delay: claim.lockDelayMs,
      ticket: ticketMs,
      minhold: claim.minHoldMs,
      inbox: this.#inbox,
      who: whoText(claim),
    });
  }

  /** Only where one holds at a time: otherwise a later holder of this run would be below an earlier one of the next. */
  #runOf({ mode, limit }: Claim, crowd: Crowd): number {
    if (crowd === "voted" || mode !== "exclusive" || limit !== 1) return 1;
    return crowd === "crowded" ? this.#run : Math.min(CALM_RUN, this.#run);
  }
}

function alike(a: Claim, b: Claim): boolean {
  return (
    a.meta === b.meta &&
    a.local === b.local &&
    a.lingerMs === b.lingerMs &&
    a.wantsOutcome === b.wantsOutcome &&
    a.ttlMs === b.ttlMs &&
    a.mode === b.mode &&
    a.limit === b.limit &&
    a.lockDelayMs === b.lockDelayMs &&
    a.minHoldMs === b.minHoldMs &&
    a.holder === b.holder
  );
}

interface Parsed {
  readonly endMs: number;
  readonly sinceMs: number;
  readonly number: string;
  readonly mode: Mode;
  readonly limit: number;
  readonly delayMs: number;
  readonly holder: string;
  readonly meta: Meta;
  readonly local: LocalFacts | undefined;
  readonly linger: Pick<Holding, "lingerMs">;
}

const record = reader(RECORD, "till", "since", "number", "mode", "limit", "delay", "who");
const alone = reader(STATE_ALONE, "id", "record");
const forced = reader(FORCED, "at", "who");

/** No more of a record is read. Its holder is unknown then, but it is still shown: the lock is held. */
const RECORD_MAX = 1_048_576;

/**
 * Reads a holder's record. `undefined`: it is not one, so it is not believed. `id`: of its claim, where that is known; with "~" before it,
 * it is not held any more.
 */
export function toHolding(name: string, text: string, nowMs: number, id?: string): Holding | undefined {
  const parsed = parse(text);
  if (parsed === undefined || !isFence(Number(parsed.number))) return undefined;
  const { mode, limit, holder, meta, local, delayMs, endMs, linger } = parsed;
  const isKept = id?.startsWith("~") === true;
  const remainder = isKept ? "minHold" : delayMs > 0 && endMs - delayMs <= nowMs ? "lockDelay" : undefined;
  return {
    name,
    mode,
    limit,
    holder,
    fence: BigInt(parsed.number),
    heldMs: Math.max(0, nowMs - parsed.sinceMs),
    remainingMs: Math.max(0, parsed.endMs - nowMs),
    meta,
    ...(id !== undefined && { id: isKept ? id.slice(1) : id }),
    ...(local && { local }),
    ...(remainder && { remainder }),
    ...linger,
  };
}

/** The lock's only holder, whose id and record are in the state itself; `undefined` if there is none. */
export function aloneIn(state: string): { readonly id: string; readonly record: string } | undefined {
  const found = alone.pattern.exec(state);
  return found === null ? undefined : { id: found[alone.at.id] as string, record: found[alone.at.record] as string };
}

/** Reads a waiter's record; its position is not in it, but its place in the queue is. */
export function toWaiting(
  name: string,
  text: string,
  nowMs: number,
  id?: string,
): { waiter: Waiting; place: number } | undefined {
  const parsed = parse(text);
  if (parsed === undefined || parsed.endMs <= nowMs) return undefined;
  const { mode, limit, holder, meta, local } = parsed;
  const waitingMs = Math.max(0, nowMs - parsed.sinceMs);
  const known = { ...(id !== undefined && { id }), order: BigInt(parsed.sinceMs), ...(local && { local }) };
  const waiter = { name, mode, limit, holder, waitingMs, position: 0, meta, ...known };
  return { waiter, place: Number(parsed.number) };
}

/** Reads the record of a lease that was ended by force. */
export function toForced(name: string, fence: string, text: string, nowMs: number): Forced | undefined {
  const found = readForced(text);
  if (found === null || !/^\d{1,16}$/u.test(fence) || !isFence(Number(fence))) return undefined;
  const agoMs = Math.max(0, nowMs - Number(found[forced.at.at]));
  return { name, fence: BigInt(fence), agoMs, ...toForce(found[forced.at.who] as string) };
}

function readForced(text: string): RegExpExecArray | null {
  return forced.pattern.exec(text.slice(0, RECORD_MAX));
}

/** Who ended a lease by force, and why. */
function toForce(json: string): { by: string; reason: string } {
  const value = parseJson(json);
  const { by, reason } = (typeof value === "object" && value !== null ? value : {}) as Record<string, unknown>;
  return {
    by: typeof by === "string" ? clipped(by, HOLDER_MAX) : "unknown",
    reason: typeof reason === "string" ? clipped(reason, REASON_MAX) : "no reason given",
  };
}

/** Why a lease was lost, if it was ended by force; `undefined` if this is not a record of force. */
export function toForcedLoss(text: string): LossReason | undefined {
  const json = readForced(text)?.[forced.at.who];
  return json === undefined ? undefined : { kind: "forced", ...toForce(json) };
}

function parse(text: string): Parsed | undefined {
  const found = record.pattern.exec(text.length > RECORD_MAX ? text.slice(0, RECORD_MAX) : text);
  if (found === null) return undefined;
  const { at } = record;
  const who = parseJson(found[at.who] as string);
  const [holder, meta, local, linger]: unknown[] = Array.isArray(who) ? who : [];
  return {
    endMs: Number(found[at.till]),
    sinceMs: Number(found[at.since]),
    number: found[at.number] as string,
    mode: found[at.mode] === MODE.shared ? "shared" : "exclusive",
    limit: Number(found[at.limit]),
    delayMs: Number(found[at.delay]),
    holder: typeof holder === "string" ? clipped(holder, HOLDER_MAX) : "unknown",
    meta: toMeta(meta),
    local: toLocal(local),
    linger: toLinger(linger),
  };
}

/** A meta that is too long is not shown at all: a part of it would look like the whole. */
function toMeta(value: unknown): Meta {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return {};
  const all = Object.entries(value);
  if (all.length === 0) return {};
  const entries = all.filter((entry): entry is [string, string] => typeof entry[1] === "string");
  const length = entries.reduce((sum, [field, text]) => sum + field.length + text.length, 0);
  return length > META_BYTES_MAX ? {} : Object.fromEntries(entries);
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
