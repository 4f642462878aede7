/** Asks one server for its vote on a proposed fence. The same script finds out whether the server may have forgotten leases. */
import type { Claim, Vote } from "../backend.ts";
import type { Caller } from "./caller.ts";
import type { Connection } from "./connection.ts";
import { vote } from "./generated/vote.ts";
import type { Names } from "./names.ts";
import { toVote } from "./reply.ts";
import { isNoScript } from "./script.ts";
import { isBallot, type Terms, toBallot } from "./terms.ts";

export class Voter {
  readonly #connection: Connection;
  readonly #names: Names;
  readonly #terms: Terms;
  readonly #caller: Caller;
  /** As the script wants it behind the ballot: every argument of its own would show. */
  #quarantine = "";

  constructor(connection: Connection, names: Names, terms: Terms, caller: Caller) {
    this.#connection = connection;
    this.#names = names;
    this.#terms = terms;
    this.#caller = caller;
  }

  /** How long the server abstains when it may have forgotten leases; 0: it never forgets, and nobody looks. */
  set quarantineMs(ms: number) {
    this.#quarantine = ms === 0 ? "" : ` ${ms}`;
  }

  /** One turn of the microtask queue behind the client's answer, and no more: a round waits for several of these. */
  ask(claim: Claim, ballot: bigint): Promise<Vote> {
    if (!isBallot(ballot))
      return Promise.reject(new TypeError(`Expected \`ballot\` to be from 1 to 2^53 - 1, got ${ballot}`));
    const key = this.#names.lock(claim.name);
    const keys = this.#quarantine === "" ? [key] : [key, this.#names.marker(key)];
    const args = [claim.id, this.#terms.of(claim, false, "voted"), toBallot(ballot) + this.#quarantine];
    return this.#connection.evalsha(vote.sha, keys, args).then(
      (reply) => toVote(claim.name, reply),
      (error: unknown) => this.#again(error, claim.name, keys, args),
    );
  }

  async #again(error: unknown, lock: string, keys: readonly string[], args: readonly string[]): Promise<Vote> {
    if (!isNoScript(error)) return this.#caller.explained(lock)(error);
    return toVote(lock, await this.#connection.eval(vote.source, keys, args).catch(this.#caller.explained(lock)));
  }
}
