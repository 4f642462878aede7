/** Asks one server for its vote on a proposed fence. The same script notices if the server may have lost leases. */
import { ArgumentError } from "../../contract/argument-error.ts";
import type { Claim, MemberFacts, MemberTerms, Recalled, Released, Vote } from "../../contract/backend.ts";
import { LockBackendError } from "../../contract/errors.ts";
import type { Connection } from "./connection.ts";
import { isNoScript } from "./errors.ts";
import { endQuarantine, meet, recall, release, type Script, vote, want, withdraw } from "./generated/scripts.ts";
import type { Names } from "./keys.ts";
import type { Settings } from "./options.ts";
import { identify } from "./query.ts";
import type { Terms } from "./records.ts";
import { toReleased, toVote } from "./replies.ts";
import { runScript, type Scripts } from "./scripts.ts";
import { whyNoMember } from "./server-checks.ts";
import { fenceText, isFence, LIMIT } from "./wire.ts";

export class Voter {
  readonly #connection: Connection;
  readonly #names: Names;
  readonly #terms: Terms;
  readonly #scripts: Scripts;
  /** With `failover: "quarantine"`: the longest silence of a replica that counts, in seconds. */
  readonly #silenceS: number | undefined;
  /** How long the server abstains when it may have lost leases; 0: it counts as one that never does. */
  #quarantineMs: number;
  /** What the quorum that it is a member of asks of the server. */
  joinedMs: number | undefined;

  constructor(connection: Connection, names: Names, settings: Settings, terms: Terms, scripts: Scripts) {
    this.#connection = connection;
    this.#names = names;
    this.#terms = terms;
    this.#scripts = scripts;
    this.#silenceS = settings.quarantineMs > 0 ? settings.silenceS : undefined;
    this.#quarantineMs = settings.voteQuarantineMs;
  }

  /** One turn of the microtask queue after the client's answer, and no more: a round waits for several of these. */
  ask(claim: Claim, ballot: bigint): Promise<Vote> {
    if (!isFence(Number(ballot)))
      return Promise.reject(new ArgumentError(`Expected \`ballot\` to be from 1 to ${LIMIT.fence}, got ${ballot}`));
    const key = this.#names.lock(claim.name);
    const keys = [key, this.#names.marker(key)];
    const args = [claim.id, this.#terms.of(claim, false, "voted"), `${fenceText(ballot)} ${this.#quarantineMs}`];
    return this.#connection.evalsha(vote.sha, keys, args).then(
      (reply) => toVote(claim.name, reply),
      (error: unknown) => this.#again(error, claim.name, keys, args),
    );
  }

  /** Tells the server the quorum's quarantine; learns which server it is, and what others had asked of it. */
  async join({ quarantineMs, allowEviction }: MemberTerms): Promise<MemberFacts> {
    const identity = await identify(this.#connection);
    const trouble = whyNoMember(identity, allowEviction);
    if (trouble !== undefined) {
      throw new LockBackendError("redis", "", `This Redis cannot be a quorum member: ${trouble}.`, { fatal: true });
    }
    this.#quarantineMs = quarantineMs;
    this.joinedMs = quarantineMs;
    // Loaded in advance: a withdrawal should need one message only, because its process may be about to end.
    const [primary] = await this.#connection.primaries();
    const load = async (script: Script): Promise<unknown> =>
      primary?.command(["SCRIPT", "LOAD", script.source]).catch(() => undefined);
    await Promise.all([withdraw, release].map(load));
    const [marker = ""] = this.#names.markers();
    const reply = await runScript(this.#connection, meet, [marker], [String(quarantineMs)]);
    const [id, before] = Array.isArray(reply) ? reply.map(String) : [];
    if (id === undefined || before === undefined) throw new Error("unexpected reply to a quorum's introduction");
    return { id: id === "" ? identity.runId : id, quarantineMs: before === "-1" ? undefined : Number(before) };
  }

  /** An operator says that no lease which this server may have lost is still alive. */
  async endQuarantine(): Promise<void> {
    const args = [String(this.#quarantineMs), ...(this.#silenceS === undefined ? [] : [String(this.#silenceS)])];
    const mark = (marker: string): Promise<unknown> => runScript(this.#connection, endQuarantine, [marker], args);
    await Promise.all(this.#names.markers().map(mark));
  }

  async withdraw(claim: Claim): Promise<Released> {
    const key = this.#names.lock(claim.name);
    const keys = [key, this.#names.marker(key)];
    const reply = runScript(this.#connection, withdraw, keys, [claim.id]);
    return toReleased(claim.name, await reply.catch(this.#scripts.explained(claim.name)));
  }

  async want(name: string): Promise<void> {
    await runScript(this.#connection, want, [this.#names.lock(name)], []).catch(this.#scripts.explained(name));
  }

  async recall(name: string, id: string): Promise<Recalled | undefined> {
    const reply = runScript(this.#connection, recall, [this.#names.lock(name)], [id]);
    const [, whole, ballot] =
      /^(\S+) (\d{1,16})$/u.exec(String(await reply.catch(this.#scripts.explained(name)))) ?? [];
    return whole === undefined || ballot === undefined ? undefined : { id: whole, ballot: BigInt(ballot) };
  }

  async #again(error: unknown, lock: string, keys: readonly string[], args: readonly string[]): Promise<Vote> {
    if (!isNoScript(error)) return this.#scripts.explained(lock)(error);
    return toVote(lock, await this.#connection.eval(vote.source, keys, args).catch(this.#scripts.explained(lock)));
  }
}
