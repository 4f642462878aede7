/** Asks one server for its vote on a proposed fence. The same script finds out whether the server may have forgotten leases. */
import type { Claim, Vote } from "../backend.ts";
import type { Caller } from "./caller.ts";
import type { Connection } from "./connection.ts";
import { vote } from "./generated/vote.ts";
import type { Names } from "./names.ts";
import { type Terms, toBallot } from "./record.ts";
import { toVote } from "./reply.ts";
import { runScript } from "./script.ts";

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

  async ask(claim: Claim, ballot: bigint): Promise<Vote> {
    const key = this.#names.lock(claim.name);
    const keys = this.#quarantine === "" ? [key] : [key, this.#names.marker(key)];
    const args = [claim.id, this.#terms.of(claim, false, 0), toBallot(ballot) + this.#quarantine];
    let reply: unknown;
    try {
      reply = await runScript(this.#connection, vote, keys, args);
    } catch (error) {
      return this.#caller.explained(claim.name)(error);
    }
    return toVote(claim.name, reply);
  }
}
