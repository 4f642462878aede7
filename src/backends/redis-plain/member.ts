/**
 * One server as a member of a quorum, beside clients of Redlock. Those keep to nothing but the keys: a member that restarts without its data
 * grants to them at once. It abstains from votes for ours until every lease that it may have lost is over.
 */
import type { Claim, MemberFacts, MemberTerms, Vote } from "../../contract/backend.ts";
import type { Connection, Primary } from "../redis/connection.ts";
import { identify } from "../redis/query.ts";
import { runScript } from "../redis/scripts.ts";
import { whyNoMember } from "../redis/server-checks.ts";
import { errors } from "./errors.ts";
import { vote as voteScript } from "./generated/scripts.ts";
import type { Names } from "./keys.ts";
import type { Settings } from "./options.ts";
import { toShown } from "./records.ts";
import { whoText } from "../redis/layouts/notes.ts";

/** The run id of a server of which an operator has said that it lost no lease (`holdfast doctor --init`). */
const ADMITTED = "holdfast:plain:admitted";

export class Voter {
  readonly #connection: Connection;
  readonly #names: Names;
  readonly #settings: Settings;
  /** 0: it is durable, and never forgets. */
  #quarantineMs = 0;
  /** Of our clock: until when the server abstains. `undefined`: its age is still to be asked for, after a reconnect too. */
  #abstainsUntilMs: number | undefined;

  constructor(connection: Connection, names: Names, settings: Settings) {
    this.#connection = connection;
    this.#names = names;
    this.#settings = settings;
  }

  /** The server may be another one, or have started again. */
  doubt(): void {
    this.#abstainsUntilMs = undefined;
  }

  async join({ quarantineMs, allowEviction }: MemberTerms): Promise<MemberFacts> {
    const identity = await identify(this.#connection);
    const trouble = whyNoMember(identity, allowEviction);
    if (trouble !== undefined) throw errors.refusal("", `this Redis cannot be a quorum member: ${trouble}`);
    this.#quarantineMs = quarantineMs;
    await this.#learnAge();
    return { id: identity.runId };
  }

  async endQuarantine(): Promise<void> {
    const { primary, runId } = await this.#server();
    await primary.command(["SET", ADMITTED, runId]);
    this.#abstainsUntilMs = -Infinity;
  }

  async ask(claim: Claim, ballot: bigint): Promise<Vote> {
    const forMs = await this.abstainsMs();
    if (forMs > 0) return { vote: "recovering", forMs };
    const { lock, notes } = this.#names.of(claim.name);
    const { ttlMs, lockDelayMs, minHoldMs } = claim;
    const times = [ttlMs + lockDelayMs, Math.ceil(minHoldMs), lockDelayMs, this.#settings.idleMs].map(String);
    const breaks = this.#connection.breaks();
    const args = [claim.id, ...times, whoText(claim), String(ballot)];
    const reply = await runScript(this.#connection, voteScript, [lock, notes], args);
    if (this.#connection.breaks() !== breaks) {
      // The client library may have sent it again, to a server that has started since.
      this.doubt();
      throw errors.unknown(claim.name, "the connection ended during the vote, and the server may have started again");
    }
    return toVote(claim.name, reply);
  }

  /** For how long the server still abstains, because it may have lost leases when it started. */
  async abstainsMs(): Promise<number> {
    if (this.#quarantineMs === 0) return 0;
    if (this.#abstainsUntilMs === undefined) await this.#learnAge();
    return Math.max(0, (this.#abstainsUntilMs ?? 0) - this.#settings.clock.now());
  }

  async #learnAge(): Promise<void> {
    const { primary, runId, ageMs } = await this.#server();
    const nowMs = this.#settings.clock.now();
    const isAdmitted = ageMs < this.#quarantineMs && (await primary.command(["GET", ADMITTED])) === runId;
    this.#abstainsUntilMs = isAdmitted ? -Infinity : nowMs + this.#quarantineMs - ageMs;
  }

  async #server(): Promise<{ readonly primary: Primary; readonly runId: string; readonly ageMs: number }> {
    const [primary] = await this.#connection.primaries();
    if (primary === undefined) throw new Error("no primary is known");
    const info = String(await primary.command(["INFO", "server"]));
    const runId = /^run_id:(\w+)/mu.exec(info)?.[1];
    const seconds = /^uptime_in_seconds:(\d+)/mu.exec(info)?.[1];
    if (runId === undefined || seconds === undefined) throw new Error("unexpected reply to INFO");
    return { primary, runId, ageMs: Number(seconds) * 1000 };
  }
}

function toVote(name: string, reply: unknown): Vote {
  const [vote, wall, detail, text]: unknown[] = Array.isArray(reply) ? reply : [];
  if (typeof wall !== "number") throw errors.unexpected(name);
  if (vote === "granted") return { vote, wallMs: wall };
  if (vote === "low" && typeof detail === "string" && /^\d{1,19}$/u.test(detail))
    return { vote, fence: BigInt(detail), wallMs: wall };
  const shown = typeof detail === "number" && typeof text === "string" ? toShown(name, wall, detail, text) : undefined;
  if (vote !== "held" || shown === undefined) throw errors.unexpected(name);
  const { holder, fence, heldMs, remainingMs } = shown.holding;
  return { vote, by: holder, fence, heldMs, remainingMs, wallMs: wall };
}
