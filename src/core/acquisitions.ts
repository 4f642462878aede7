/** The claims of one local queue that are on their way through the store. Those that nobody wants are called off, and tracked until gone. */
import { Seeker } from "./acquisition.ts";
import type { Claim, Holding } from "../contract/backend.ts";
import type { Releases } from "./release.ts";
import { added, remove } from "./short-list.ts";
import type { Surroundings } from "./surroundings.ts";
import type { Line, Ticket } from "./request.ts";

export class Seekers {
  readonly #around: Surroundings & { readonly releases: Releases };
  readonly #onQueued: () => void;
  #list: Seeker[] = []; // An array: it nearly always has at most one element.

  /** `onQueued`: the store has said for the first time that one of the claims waits there. */
  constructor(around: Surroundings & { readonly releases: Releases }, onQueued: () => void) {
    this.#around = around;
    this.#onQueued = onQueued;
  }

  get count(): number {
    return this.#list.length;
  }

  /** True: one of them surely waits in the store's queue, so that somebody holds the lock. Not where the store is silent. */
  isQueued(nowMs: number): boolean {
    return this.#list.some(
      (seeker) => seeker.refused !== undefined && seeker.unansweredMs(nowMs) < seeker.claim.ttlMs / 3,
    );
  }

  add(claim: Claim, shape: string): Seeker {
    const seeker = new Seeker(this.#around, claim, shape);
    if (claim.queues) seeker.onQueued = this.#onQueued;
    this.#list = added(this.#list, seeker);
    return seeker;
  }

  /** It has its answer. `false`: it was called off before, and the answer is for nobody. */
  finish(seeker: Seeker): boolean {
    return remove(this.#list, seeker);
  }

  callOff(seeker: Seeker): void {
    remove(this.#list, seeker);
    this.#around.releases.track(seeker.claim.name, seeker.callOff());
  }

  /** More claims at the store than tickets that want them: the youngest go, and those that nobody wants. */
  callOffSpare(line: Line): void {
    const head = line.first;
    let spare = this.#list.length - (head === undefined ? 0 : line.countSame(head, this.#list.length));
    for (let at = this.#list.length - 1; at >= 0; at--) {
      const seeker = this.#list[at]!;
      if (spare <= 0 && isFor(seeker, head)) continue;
      spare--;
      this.callOff(seeker);
    }
  }

  /** A question that got no answer for a whole ttl is worth nothing even if one comes. */
  callOffSilent(nowMs: number): void {
    for (const seeker of this.#list.slice()) {
      if (seeker.unansweredMs(nowMs) >= seeker.claim.ttlMs) this.callOff(seeker);
    }
  }

  find(claimId: string): Seeker | undefined {
    return this.#list.find(({ claim }) => claim.id === claimId);
  }

  /** Who is in the way, by the store's last word. */
  heldBy(nowMs: number): readonly Holding[] {
    return this.#list.map((seeker) => seeker.heldBy(nowMs)).find((heldBy) => heldBy.length > 0) ?? [];
  }

  /** Why the store could not be asked. */
  trouble(nowMs: number): unknown {
    return this.#list.map((seeker) => seeker.troubleAt(nowMs)).find((trouble) => trouble !== undefined);
  }
}

function isFor({ shape, claim }: Seeker, head: Ticket | undefined): boolean {
  return head !== undefined && shape === head.spec.shape && claim.queues === head.waits;
}
