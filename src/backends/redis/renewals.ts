/** Renews leases in few calls, each with its own answer. Used by the backend, and by the renewer of a worker thread. */
import type { Claim, Renewal } from "../../contract/backend.ts";
import { within } from "../../contract/time-limit.ts";
import { PORTION } from "./batches.ts";
import type { Connection } from "./connection.ts";
import type { Replicator } from "./durability.ts";
import { isTryAgain, toBackendError } from "./errors.ts";
import { tooLong } from "./server-checks.ts";
import { renew } from "./generated/scripts.ts";
import type { Names } from "./keys.ts";
import type { Settings } from "./options.ts";
import { toForcedLoss } from "./records.ts";
import { runScript } from "./scripts.ts";
import { whoText } from "./who.ts";
import { fenceText, WORD } from "./wire.ts";

/** One call: leases of the same length and, in a cluster, in one slot. */
interface Call {
  readonly keys: string[];
  readonly ids: string[];
  /** As the script reads them; empty if it need not compare them. */
  readonly fences: string[];
  /** What the claims' processes say of themselves, where that has changed; otherwise empty. */
  readonly words: string[];
  readonly keepMs: number;
  /** Where each answer belongs, counted from the first claim of its portion. */
  readonly places: number[];
  leastTtlMs: number;
  /** Made once. The ids are one argument, because most of what thousands of leases cost a client is the cost per argument. */
  args: readonly string[];
}

/** Claims that are renewed together. Mostly the same are renewed again, and nothing has to be made anew. */
interface Portion {
  readonly claims: readonly Claim[];
  readonly calls: readonly Call[];
  /** The calls say with which fences the claims were granted. */
  readonly fenced: boolean;
  /** Not sent, because the lease would outlast a quarantine. By place. */
  readonly refused: ReadonlyMap<number, Renewal>;
}

/** The id of a server: see lua/_incarnation.lua. */
const WHO = /^[0-9a-f]{0,20}$/u;
const RENEWED: Renewal = { held: true };
const WANTED: Renewal = { held: true, wanted: true };
const UNKNOWN: Renewal = { held: "unknown", cause: new Error("Redis gave no answer to a renewal") };

export class Renewals {
  readonly #connection: Connection;
  readonly #names: Names;
  readonly #settings: Settings;
  readonly #replicator: Replicator | undefined;
  /** As a quorum member: every answer says which server it comes from. Set before the first renewal. */
  asksWho = false;
  /** Of the last renewal. Weak, because there is no event when the last of many leases is gone. */
  #last: WeakRef<readonly Portion[]> | undefined;

  constructor(connection: Connection, names: Names, settings: Settings, replicator: Replicator | undefined) {
    this.#connection = connection;
    this.#names = names;
    this.#settings = settings;
    this.#replicator = replicator;
  }

  /** The claims of the last renewal, if they are still in memory. */
  *renewed(): Generator<Claim> {
    for (const { claims } of this.#last?.deref() ?? []) yield* claims;
  }

  async renew(claims: readonly Claim[], fences?: readonly bigint[]): Promise<readonly Renewal[]> {
    const answers = claims.map(() => UNKNOWN);
    const portions = this.#cut(claims, fences);
    const alone = portions.length === 1 && portions[0]?.calls.length === 1;
    const asked: Promise<void>[] = [];
    let from = 0;
    for (const portion of portions) {
      const whole = portion.calls.length === 1 && portion.refused.size === 0;
      for (const call of portion.calls) asked.push(this.#make(call, alone, whole, answers, from));
      for (const [place, refusal] of portion.refused) answers[from + place] = refusal;
      from += portion.claims.length;
    }
    await Promise.all(asked);
    return answers;
  }

  async #make(call: Call, alone: boolean, whole: boolean, answers: Renewal[], from: number): Promise<void> {
    const { clock } = this.#settings;
    const asked = this.#ask(call).catch((error: unknown) => toBackendError(error, ""));
    // A node that does not answer must not delay the answers of the others.
    const limitMs = Math.max(50, call.leastTtlMs / 6);
    const heard = await (alone ? asked : within(clock, asked, limitMs));
    const replies = heard === undefined ? noAnswer(limitMs) : heard;
    // Usually a portion is one call, and all its answers are the same.
    const who = this.asksWho ? whoOf(replies, call.places.length) : undefined;
    const renewed: Renewal = who === undefined || who === "" ? RENEWED : { held: true, from: who };
    const all = who === undefined ? isYes(replies) : replies === who;
    if (all && whole) answers.fill(renewed, from, from + call.places.length);
    else {
      for (const [at, place] of call.places.entries())
        answers[from + place] = all ? renewed : toRenewal(replies, at, renewed);
    }
  }

  async #ask({ keys, ids, fences, words, args }: Call): Promise<unknown> {
    try {
      return await ask(this.#connection, this.#settings, this.#replicator, keys, args);
    } catch (error) {
      if (!isTryAgain(error) || keys.length === 1) throw error;
      // Half of the slot's locks have moved: each is renewed alone, wherever it is.
      const one = (id: string, at: number): Promise<unknown> =>
        ask(
          this.#connection,
          this.#settings,
          this.#replicator,
          [keys[at]!],
          [
            `${id} `,
            ...args.slice(1, 5),
            ...(fences.length > 0 ? [fences[at]!] : args.slice(5, 6)),
            ...words.slice(at, at + 1),
          ],
        ).then(
          (reply) => (Array.isArray(reply) ? (reply[0] as unknown) : reply),
          (reason: unknown) => `${WORD.failed}${reason instanceof Error ? reason.message : String(reason)}`,
        );
      return await Promise.all(ids.map(one));
    }
  }

  /** In a cluster all claims are one portion, because a call takes the claims of one slot, wherever they are in the list. */
  #cut(claims: readonly Claim[], fences: readonly bigint[] | undefined): readonly Portion[] {
    const size = this.#connection.topology === "cluster" ? Math.max(1, claims.length) : PORTION;
    const last = this.#last?.deref() ?? [];
    const portions: Portion[] = [];
    for (let from = 0; from < claims.length; from += size) {
      const before = last[portions.length];
      const till = Math.min(from + size, claims.length);
      const same = before && !before.fenced && fences === undefined && isSame(before, claims, from, till);
      portions.push(same ? before : this.#prepare(claims.slice(from, till), fences?.slice(from, till)));
    }
    this.#last = new WeakRef(portions);
    return portions;
  }

  #prepare(claims: readonly Claim[], fences: readonly bigint[] | undefined): Portion {
    const calls: Call[] = [];
    const open = new Map<string, Call>();
    const refused: Map<number, Renewal> = new Map();
    const cluster = this.#connection.topology === "cluster";
    for (const [place, claim] of claims.entries()) {
      const { id, name, ttlMs, lockDelayMs } = claim;
      const refusal = tooLong(claim, this.#settings.maxTtlMs);
      if (refusal !== undefined) {
        refused.set(place, { held: "unknown", cause: refusal });
        continue;
      }
      const key = this.#names.lock(name);
      const keepMs = ttlMs + lockDelayMs;
      const tells = claim.changed === true;
      const kind = `${keepMs} ${tells} ${cluster ? this.#names.marker(key) : ""}`;
      let call = open.get(kind);
      if (call === undefined || call.keys.length === PORTION) {
        call = { keys: [], ids: [], fences: [], words: [], keepMs, places: [], leastTtlMs: ttlMs, args: [] };
        open.set(kind, call);
        calls.push(call);
      }
      call.keys.push(key);
      call.ids.push(id);
      if (fences !== undefined) call.fences.push(`${fenceText(fences[place] as bigint)} `);
      if (tells) call.words.push(whoText(claim));
      call.places.push(place);
      call.leastTtlMs = Math.min(call.leastTtlMs, ttlMs);
    }
    for (const call of calls) {
      const { idleMs, quarantineMs, silenceS } = this.#settings;
      const marker = this.#names.marker(call.keys[0] as string);
      // A key among the arguments: client libraries put no prefix before it.
      const silence = quarantineMs === 0 ? this.#connection.keyPrefix + marker : String(silenceS);
      call.args = [`${call.ids.join(" ")} `, String(call.keepMs), String(idleMs), silence];
      const more = [this.asksWho ? "who" : "", call.fences.join(""), ...call.words];
      // What is not needed is not sent.
      call.args = [...call.args, ...more.slice(0, more.findLastIndex((text) => text !== "") + 1)];
      if (this.asksWho) call.keys.push(marker);
    }
    return { claims, calls, refused, fenced: fences !== undefined };
  }
}

function isSame({ claims: before }: Portion, claims: readonly Claim[], from: number, till: number): boolean {
  if (before.length !== till - from) return false;
  for (const [at, claim] of before.entries()) if (claim !== claims[from + at]) return false;
  return true;
}

function noAnswer(limitMs: number): Error {
  return toBackendError(new Error(`no answer within ${Math.round(limitMs)} ms`), "");
}

async function ask(
  connection: Connection,
  { durability }: Settings,
  replicator: Replicator | undefined,
  keys: readonly string[],
  args: readonly string[],
): Promise<unknown> {
  if (durability === undefined || replicator === undefined) return runScript(connection, renew, keys, args);
  const { reply, replicas } = await replicator.run(renew, keys, args);
  if (replicas < durability.replicas) {
    // The lease is renewed here, but would be lost in a fail-over: so it does not count.
    throw new Error(
      `${replicas} of ${durability.replicas} replicas confirmed the renewal within ${durability.waitMs} ms`,
    );
  }
  return reply;
}

/** Instead of the 1 for all, or after the answers for each. "": the server does not say. */
function whoOf(replies: unknown, count: number): string | undefined {
  const who: unknown = Array.isArray(replies) ? replies[count] : replies;
  return typeof who === "string" && WHO.test(who) ? who : undefined;
}

function isYes(reply: unknown): boolean {
  return reply === 1 || reply === "1";
}

/** From an answer for each, or an error for all. */
function toRenewal(replies: unknown, at: number, renewed: Renewal): Renewal {
  if (replies instanceof Error) return { held: "unknown", cause: replies };
  const reply: unknown = Array.isArray(replies) ? replies[at] : undefined;
  if (isYes(reply)) return renewed;
  if (reply === 2 || reply === "2") return renewed === RENEWED ? WANTED : { ...renewed, ...WANTED };
  if (reply === WORD.other) return { held: false, reason: { kind: "retaken" } };
  if (typeof reply === "string" && reply.startsWith(WORD.gone))
    return { held: false, reason: toForcedLoss(reply.slice(WORD.gone.length)) ?? { kind: "gone" } };
  if (typeof reply !== "string" || !reply.startsWith(WORD.failed))
    return { held: "unknown", cause: new Error("unexpected reply to a renewal") };
  if (reply.includes("WRONGTYPE") || reply.includes(WORD.foreign))
    return { held: false, reason: { kind: "overwritten" } };
  return { held: "unknown", cause: toBackendError(new Error(reply.slice(WORD.failed.length)), "") };
}
