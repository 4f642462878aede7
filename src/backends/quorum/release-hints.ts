/**
 * ReleaseHints that a lock was released, for one waiting claim. Listening begins with the first refusal and lasts until the
 * claim ends, so a release between an attempt and the wait that follows is not missed.
 *
 * A claim that loses a round releases the members that it had won, and that is a hint to all other waiters too. So a claim
 * is woken only when a majority may be free: otherwise waiters would wake each other without end while the lock is held.
 */
import type { MemberLink } from "./member-link.ts";
import type { Round } from "./round.ts";
import { majorityOf } from "./votes.ts";

export class ReleaseHints {
  readonly #freed = new Set<MemberLink>();
  #links: readonly MemberLink[] = [];
  #stops: (() => void)[] = [];
  #lost: Round | undefined;
  #wake: (() => void) | undefined;

  /** An attempt begins now: it answers the hints so far. */
  forget(): void {
    this.#freed.clear();
  }

  /** The claim was refused: from now on releases matter. */
  listen(links: readonly MemberLink[], name: string, lost: Round): void {
    this.#lost = lost;
    if (this.#links.length > 0) return;
    this.#links = links;
    for (const link of links) {
      if (link.member.freed === undefined) continue;
      const stop = link.member.freed(name, () => {
        this.#freed.add(link);
        this.#wakeIfFree();
      });
      this.#stops.push(stop);
    }
  }

  get isListening(): boolean {
    return this.#stops.length > 0;
  }

  /** Calls `wake` when a majority may be free; at once if it may be already. */
  await(wake: (() => void) | undefined): void {
    this.#wake = wake;
    this.#wakeIfFree();
  }

  stop(): void {
    for (const stop of this.#stops) stop();
    this.#stops = [];
    this.#wake = undefined;
  }

  #wakeIfFree(): void {
    if (this.#wake === undefined || this.#freed.size === 0) return;
    const free = this.#links.filter((link) => this.#freed.has(link) || this.#wasFree(link)).length;
    if (free >= majorityOf(this.#links.length)) this.#wake();
  }

  #wasFree(link: MemberLink): boolean {
    const vote = this.#lost?.vote(link)?.vote;
    return vote === "granted" || vote === "low";
  }
}
