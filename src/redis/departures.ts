/** How claims go out: releases, and what close() still has to wait for. */
import type { Claim, Released } from "../backend.ts";
import { LockBackendError, quote } from "../errors.ts";
import type { Caller } from "./caller.ts";
import type { Connection } from "./connection.ts";
import { release } from "./generated/release.ts";
import type { Names } from "./names.ts";
import type { Settings } from "./options.ts";
import { toReleased } from "./reply.ts";
import { Underway } from "./underway.ts";

/** How long close() waits for answers to what is still under way. */
const CLOSE_MS = 2000;

export class Departures {
  readonly #connection: Connection;
  readonly #names: Names;
  readonly #caller: Caller;
  readonly #settings: Settings;
  /** Attempts count too: a late grant is given back. */
  readonly underway: Underway = new Underway();

  constructor(connection: Connection, names: Names, caller: Caller, settings: Settings) {
    this.#connection = connection;
    this.#names = names;
    this.#caller = caller;
    this.#settings = settings;
  }

  /** Ends the claim, held or queued. No async function: this is the hot path. */
  release(claim: Claim): Promise<Released> {
    const key = this.#names.lock(claim.name);
    const breaks = this.#connection.breaks();
    this.underway.leave(claim);
    const released =
      this.#settings.quarantineMs === 0
        ? this.#connection.evalshaOn(release.sha, key, claim.id, undefined)
        : this.#caller.run(release, key, [claim.id]);
    return released.then(
      (reply) => this.#released(claim, reply, breaks),
      async (error: unknown) => {
        const again = this.#caller.afterNoScript(error, release, key, [claim.id]);
        const reply = await again.catch((known: unknown) => {
          this.underway.left(claim);
          return this.#caller.explained(claim.name)(known);
        });
        return this.#released(claim, reply, breaks);
      },
    );
  }

  /** Releases a grant that nobody waits for. Should it fail, the lease ends by itself. */
  async abandon(key: string, id: string): Promise<void> {
    const claim = { name: this.#names.nameOf(key) ?? key };
    this.underway.leave(claim);
    await this.#caller.run(release, key, [id]).catch(() => {});
    this.underway.left(claim);
  }

  /** Waits until all that is under way is answered, for a while. Resolves to an error that says what may be left behind, if anything. */
  async settled(): Promise<LockBackendError | undefined> {
    const left = await this.underway.settled(this.#settings.clock, CLOSE_MS);
    if (left.length === 0) return undefined;
    const more = left.length > 3 ? ` and ${left.length - 3} more` : "";
    const locks = left.slice(0, 3).map(quote).join(", ") + more;
    const text = `closed, but Redis did not answer within ${CLOSE_MS / 1000} s whether ${locks} ${left.length === 1 ? "is" : "are"} free. What is left there ends with its ttl`;
    return new LockBackendError("redis", left.join(", "), `Redis locks: ${text}.`);
  }

  /** Some client libraries send again what was under way when a connection ended: then a "no" may follow a "yes" that nobody heard. */
  #released(claim: Claim, reply: unknown, breaks: number): Released {
    this.underway.left(claim);
    const released = toReleased(reply);
    if (released !== "absent" || breaks === this.#connection.breaks()) return released;
    const text =
      "the connection ended while it was being released, and Redis does not know it any more. Either the first of two requests released it, or it was over before";
    throw new LockBackendError("redis", claim.name, `Lock ${quote(claim.name)}: ${text}.`);
  }
}
