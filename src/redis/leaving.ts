/** Ends claims, held or queued. Until the store has answered, the claim stays on the roster. */
import type { Claim, Released } from "../backend.ts";
import { LockBackendError, quote } from "../errors.ts";
import type { Caller } from "./caller.ts";
import type { Connection } from "./connection.ts";
import { release } from "./generated/release.ts";
import type { Names } from "./names.ts";
import { isBusy, toReleased } from "./reply.ts";
import type { Roster } from "./roster.ts";

/** How often a release is followed by others that pass over lapsed tickets. Then it is left to those who wait. */
const FOLLOWS_MAX = 1000;

export class Leaving {
  readonly #connection: Connection;
  readonly #names: Names;
  readonly #caller: Caller;
  readonly #roster: Roster;
  /** Nothing but the script itself is needed for an answer. */
  readonly #plain: boolean;

  constructor(connection: Connection, names: Names, caller: Caller, roster: Roster, plain: boolean) {
    this.#connection = connection;
    this.#names = names;
    this.#caller = caller;
    this.#roster = roster;
    this.#plain = plain;
  }

  release(claim: Claim): Promise<Released> {
    this.#roster.leave(claim);
    const { reconnects } = this.#caller;
    const key = this.#names.lock(claim.name);
    const released = this.#plain
      ? this.#connection.evalshaOn(release.sha, key, claim.id, undefined)
      : this.#caller.run(release, key, [claim.id]);
    return released.then(
      (reply) => this.#answered(claim, reply, reconnects),
      async (error: unknown) => {
        const again = this.#caller.afterNoScript(error, release, key, [claim.id]);
        const reply = await again.catch((known: unknown) => this.#failed(claim, known));
        return this.#answered(claim, reply, reconnects);
      },
    );
  }

  #answered(claim: Claim, reply: unknown, reconnects: number): Released {
    this.#roster.left(claim.id, true);
    const was = toReleased(claim.name, reply);
    // Nobody waits for this; should it fail, the waiters' signs of life do the same.
    if (isBusy(reply)) void this.#follow(claim).catch(() => {});
    if (was !== "absent" || this.#caller.reconnects === reconnects) return was;
    const text =
      "the connection broke during the release, and the client may have sent it twice: it is not known whether it was held";
    throw new LockBackendError("redis", claim.name, `Lock ${quote(claim.name)}: ${text}.`);
  }

  async #follow(claim: Claim): Promise<void> {
    const key = this.#names.lock(claim.name);
    let busy = true;
    for (let i = 0; busy && i < FOLLOWS_MAX; i++) busy = isBusy(await this.#caller.run(release, key, [claim.id]));
  }

  #failed(claim: Claim, error: unknown): never {
    this.#roster.left(claim.id, false);
    return this.#caller.explained(claim.name)(error);
  }
}
