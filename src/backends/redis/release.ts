/** How claims go out, held or queued. Until the store has answered, the claim stays on the roster, and close() waits for it. */
import type { Claim, Released } from "../../contract/backend.ts";
import { LockBackendError, quote } from "../../contract/errors.ts";
import type { Caller } from "./caller.ts";
import type { Connection } from "./connection.ts";
import { release } from "./generated/scripts.ts";
import type { Names } from "./keys.ts";
import type { Settings } from "./options.ts";
import type { Post } from "./messages.ts";
import { isBusy, toReleased } from "./replies.ts";
import type { Entry } from "./local-claims.ts";
import { LEAVING, type Underway } from "./pending-calls.ts";
import { MARK } from "./wire.ts";

/** How often a call is followed by others that pass over lapsed tickets. Then it is left to those who wait. */
export const FOLLOWS_MAX = 1000;

/**
 * The claim's id as release and swap want it. Its minHold counts if the claim has one: a lease that nobody had goes back
 * without. Who resumes another process's lease need not know its terms, so that the record's count.
 */
export function leavingId({ id, minHoldMs, resumes }: Claim): string {
  return minHoldMs > 0 || resumes === true ? id + MARK.keeps : id;
}

export class Leaving {
  readonly #connection: Connection;
  readonly #names: Names;
  readonly #caller: Caller;
  readonly #post: Post;
  readonly #underway: Underway;
  /** Nothing but the script itself is needed for an answer. */
  readonly #plain: boolean;

  constructor(
    connection: Connection,
    names: Names,
    caller: Caller,
    post: Post,
    underway: Underway,
    { quarantineMs }: Settings,
  ) {
    this.#connection = connection;
    this.#names = names;
    this.#caller = caller;
    this.#post = post;
    this.#underway = underway;
    this.#plain = quarantineMs === 0;
  }

  release(claim: Claim): Promise<Released> {
    this.#post.queue.forget(claim.id);
    const entry = this.#post.roster.leave(claim);
    this.#underway.begin(entry, LEAVING);
    const breaks = this.#connection.breaks();
    const key = this.#names.lock(claim.name);
    const id = leavingId(claim);
    const released = this.#plain
      ? this.#connection.evalshaOn(release.sha, key, this.#names.markerBeside(key, false), id, undefined)
      : this.#caller.run(release, key, [id]);
    return released.then(
      (reply) => this.#answered(claim, entry, reply, breaks),
      async (error: unknown) => {
        const again = this.#caller.afterNoScript(error, release, key, [id]);
        const reply = await again.catch((known: unknown) => this.#failed(claim, entry, known));
        return this.#answered(claim, entry, reply, breaks);
      },
    );
  }

  #answered(claim: Claim, entry: Entry, reply: unknown, breaks: number): Released {
    this.#post.roster.left(entry, true);
    this.#underway.end(entry, LEAVING);
    if (reply === 1) return "held";
    const was = toReleased(claim.name, reply);
    // Nobody waits for this; should it fail, the waiters' signs of life do the same.
    if (isBusy(reply)) void this.#follow(claim).catch(() => {});
    if (was !== "absent" || this.#connection.breaks() === breaks) return was;
    // Some client libraries send again what was under way when a connection ended: then a "no" may follow a "yes" that nobody heard.
    const text =
      "the connection ended while it was being released, and Redis does not know it any more. Either the first of two requests released it, or it was over before";
    throw new LockBackendError("redis", claim.name, `Lock ${quote(claim.name)}: ${text}.`);
  }

  async #follow(claim: Claim): Promise<void> {
    const key = this.#names.lock(claim.name);
    let busy = true;
    for (let i = 0; busy && i < FOLLOWS_MAX && !this.#underway.isClosing; i++)
      busy = isBusy(await this.#caller.run(release, key, [claim.id]));
  }

  #failed(claim: Claim, entry: Entry, error: unknown): never {
    this.#post.roster.left(entry, false);
    this.#underway.end(entry, LEAVING);
    return this.#caller.explained(claim.name)(error);
  }
}
