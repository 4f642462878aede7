/** What the store needs to know of a claim, as one string. The layout is told in lua/_lock.lua. */
import type { Claim } from "../../contract/backend.ts";
import { FENCE_MAX } from "./fences.ts";
import type { Settings } from "./options.ts";
import { clipped, HOLDER_MAX } from "../../contract/foreign.ts";

/** Times and counts that the store reads by position. */
const KEEP_MAX_MS = 999_999_999_999;
const BALLOT_MAX = BigInt(FENCE_MAX);

/**
 * Fences for a claim behind which nobody waits, as far as its process knows. Few, because whoever takes and releases a lock in
 * a loop would else use up more than a clock of microseconds has, and get the next one by one.
 */
const CALM_RUN = 64;

/** `crowded`: others in this process wait for the same lock. `voted`: the fence is a ballot, and has no run. */
export type Crowd = "calm" | "crowded" | "voted";

/** Claims of one caller mostly differ in their id alone, so that the last text is kept. */
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

  /** A waiter's ticket never outlives its ttl, because a hand-over counts from the last sign of life. */
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
    const flags = crowd === "voted" ? "vw" : ".!";
    const flag = claim.minHoldMs === 0 ? flags[0] : flags[1];
    const mode = claim.mode === "shared" ? "s" : "x";
    const keepMs = Math.min(claim.ttlMs + claim.lockDelayMs, KEEP_MAX_MS);
    const fixed = `${digits(keepMs, 12)} ${digits(this.#runOf(claim, crowd) - 1, 6)} ${digits(this.#idleMs, 12)}`;
    const rest = `${claim.limit} ${claim.ttlMs} ${claim.lockDelayMs} ${ticketMs} ${claim.minHoldMs}`;
    return `${flag}${mode} ${fixed} ${rest} ${this.#inbox} ${JSON.stringify([clipped(claim.holder, HOLDER_MAX), claim.meta])}`;
  }

  /** Only where one holds at a time: else a later holder of this run would be below an earlier one of the next. */
  #runOf({ mode, limit }: Claim, crowd: Crowd): number {
    if (crowd === "voted" || mode !== "exclusive" || limit !== 1) return 1;
    return crowd === "crowded" ? this.#run : Math.min(CALM_RUN, this.#run);
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
