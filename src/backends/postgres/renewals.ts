/** Renews leases in few statements, each with its own answer. Used by the backend, and by the renewer of a worker thread. */
import type { Claim, Renewal } from "../../contract/backend.ts";
import type { Connection } from "./connection.ts";
import { toBackendError, tooLong, unexpected } from "./errors.ts";
import { CALL_RENEW, CALL_WHY } from "./generated/sql.ts";
import type { Settings } from "./options.ts";
import { toArray, toBytesArray, toFields, toForce } from "./records.ts";
import { toAscii, toDetail } from "./who.ts";

/** A row that another transaction has locked is waited for so long at most, or this part of its ttl: the answers of the others wait with it. */
const BUSY_MAX_MS = 3000;
const BUSY_PART = 1 / 10;
/** One statement for so many leases: about 50 ms of the server's time. */
const PORTION = 5000;

/** Leases of the same length. */
interface Call {
  readonly claims: Claim[];
  readonly fences: bigint[] | undefined;
  readonly ttlMs: number;
  readonly delayMs: number;
  /** Where each answer belongs. */
  readonly places: number[];
  /** Made once: mostly the same leases are renewed again. */
  locks: string;
  ids: string;
  /** What those say of themselves that have something new to say, by their number from 1 on. */
  details: string | null;
}

const RENEWED: Renewal = { held: true };
const WANTED: Renewal = { held: true, wanted: true };
const GONE: Renewal = { held: false, reason: { kind: "gone" } };
const RETAKEN: Renewal = { held: false, reason: { kind: "retaken" } };

export class Renewals {
  readonly #connection: Connection;
  readonly #settings: Settings;
  /** Of the last renewal. Weak, because there is no event when the last of many leases is gone. */
  #last: WeakRef<{ readonly claims: readonly Claim[]; readonly calls: readonly Call[] }> | undefined;

  constructor(connection: Connection, settings: Settings) {
    this.#connection = connection;
    this.#settings = settings;
  }

  /** The claims of the last renewal, if they are still in memory. */
  renewed(): readonly Claim[] {
    return this.#last?.deref()?.claims ?? [];
  }

  async renew(claims: readonly Claim[], fences?: readonly bigint[]): Promise<readonly Renewal[]> {
    const answers = claims.map((claim): Renewal => ({ held: "unknown", cause: unexpected(claim.name) }));
    const asked = this.#cut(claims, fences, answers).map(async (call) => {
      const renewals = await this.#ask(call);
      for (const [at, place] of call.places.entries()) {
        const renewal = renewals[at];
        if (renewal !== undefined) answers[place] = renewal;
      }
    });
    await Promise.all(asked);
    return answers;
  }

  async #ask(call: Call): Promise<readonly Renewal[]> {
    try {
      const letters = (await this.#send(call, 0)).split("");
      // Their rows were locked in that instant. They are waited for in a statement of their own, for a short time: the core asks again.
      const busy = letters.flatMap((letter, at) => (letter === "b" ? [at] : []));
      if (busy.length > 0) {
        const again = await this.#send(
          part(call, busy),
          Math.max(1, Math.floor(Math.min(BUSY_MAX_MS, call.ttlMs * BUSY_PART))),
        ).catch(() => "");
        for (const [index, at] of busy.entries()) letters[at] = again[index] ?? "?";
      }
      const gone = letters.flatMap((letter, at) => (letter === "n" ? [at] : []));
      const why = gone.length > 0 ? await this.#why(part(call, gone)) : {};
      return letters.map((letter, at) => toRenewal(letter, call.claims[at] as Claim, why));
    } catch (error) {
      const cause = toBackendError(error, call.claims.length === 1 ? (call.claims[0] as Claim).name : "");
      return call.claims.map(() => ({ held: "unknown", cause }));
    }
  }

  async #send(call: Call, waitMs: number): Promise<string> {
    const { claims, fences, ttlMs, delayMs, locks, ids, details } = call;
    const given = fences === undefined ? null : toArray(fences);
    const values = [locks, ids, given, String(ttlMs), String(delayMs), details, String(waitMs)];
    const { answers } = await this.#connection.ask(CALL_RENEW, values);
    const [letters] = answers;
    if (typeof letters !== "string" || letters.length !== claims.length) throw unexpected("");
    return letters;
  }

  /** Who ended them by force, if they were. Not to know it does not make them less gone. */
  async #why({ locks, ids }: Call): Promise<Readonly<Record<string, unknown>>> {
    const reply = await this.#connection.read(CALL_WHY, [locks, ids]).catch(() => undefined);
    return toFields(reply?.answers[0] ?? "") ?? {};
  }

  #cut(claims: readonly Claim[], fences: readonly bigint[] | undefined, answers: Renewal[]): readonly Call[] {
    const last = this.#last?.deref();
    if (last !== undefined && fences === undefined && isSame(last.claims, claims)) return last.calls;
    const open = new Map<string, Call>();
    const calls: Call[] = [];
    for (const [place, claim] of claims.entries()) {
      const { ttlMs, lockDelayMs: delayMs } = claim;
      if (ttlMs + delayMs > this.#settings.maxTtlMs) {
        answers[place] = { held: "unknown", cause: tooLong(claim.name, this.#settings.maxTtlMs) };
        continue;
      }
      const length = `${ttlMs} ${delayMs}`;
      let call = open.get(length);
      if (call === undefined || call.claims.length === PORTION) {
        call = { claims: [], fences: fences && [], ttlMs, delayMs, places: [], locks: "", ids: "", details: null };
        open.set(length, call);
        calls.push(call);
      }
      call.claims.push(claim);
      call.fences?.push(fences?.[place] as bigint);
      call.places.push(place);
    }
    for (const call of calls) fill(call);
    // Answers to those that were not asked for are made each time, so such calls are not kept.
    const kept = fences === undefined && calls.reduce((sum, call) => sum + call.claims.length, 0) === claims.length;
    this.#last = kept ? new WeakRef({ claims: [...claims], calls }) : undefined;
    return calls;
  }
}

function fill(call: Call): void {
  call.locks = toBytesArray(call.claims.map(({ name }) => name));
  call.ids = toArray(call.claims.map(({ id }) => id));
  const changed = call.claims.flatMap((claim, at) => (claim.changed === true ? [[at + 1, toDetail(claim)]] : []));
  call.details = changed.length === 0 ? null : toAscii(Object.fromEntries(changed));
}

function part(call: Call, places: readonly number[]): Call {
  const chosen: Call = {
    ...call,
    claims: places.map((at) => call.claims[at] as Claim),
    fences: call.fences && places.map((at) => call.fences?.[at] as bigint),
  };
  fill(chosen);
  return chosen;
}

function isSame(before: readonly Claim[], claims: readonly Claim[]): boolean {
  return before.length === claims.length && before.every((claim, at) => claim === claims[at]);
}

function toRenewal(letter: string, claim: Claim, why: Readonly<Record<string, unknown>>): Renewal {
  if (letter === "y") return RENEWED;
  if (letter === "w") return WANTED;
  if (letter === "o") return RETAKEN;
  if (letter !== "n") return { held: "unknown", cause: unexpected(claim.name) };
  const who = why[claim.id];
  return who === undefined ? GONE : { held: false, reason: { kind: "forced", ...toForce(who) } };
}
