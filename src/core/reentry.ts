/**
 * Re-entry: a run() or acquire() inside the function of a run() on the same lock takes part in the lease it is already
 * in: same fence, released when all are. Siblings started in parallel inside one holder take turns.
 *
 * Only functions open a context. A lease from acquire() does not: it would leak into whatever its caller does next,
 * and two unrelated workers would find themselves inside each other's lease.
 *
 * To enter is decided and counted in one synchronous step: a lease that is over is never entered, and one that a call is
 * in, or waits to be in, is not over.
 */
import { ArgumentError } from "../contract/argument-error.ts";
import type { Blockers } from "../contract/answer.ts";
import type { HeldLock, Mode } from "../contract/backend.ts";
import { quote } from "../contract/errors.ts";
import type { LossReason } from "../contract/loss.ts";
import { contextNow, inContext } from "./context.ts";
import type { HeldLease } from "./lease.ts";
import { RequestList, type Queue, type Request } from "./request.ts";

/** One lock held by the function that is running, and the turns inside it. */
export class Scope implements Queue {
  readonly name: string;
  readonly #locks: object;
  /** Gone when the function has ended and no call is inside: a context lives as long as any promise made in it. */
  #lease: HeldLease | undefined;
  #outer: Scope | undefined;
  #running = true;
  #readers = 0;
  #writers = 0;
  readonly #line: RequestList = new RequestList();

  private constructor(locks: object, lease: HeldLease, outer: Scope | undefined) {
    this.name = lease.name;
    this.#locks = locks;
    this.#lease = lease;
    this.#outer = Scope.#living(outer);
  }

  /** Runs the function that holds these leases in the context of all of them, the last one outermost. */
  static async run<T>(locks: object, leases: readonly HeldLease[], work: () => T | Promise<T>): Promise<T> {
    let innermost = contextNow() as Scope | undefined;
    const scopes: Scope[] = [];
    for (const lease of leases.toReversed()) scopes.unshift((innermost = new Scope(locks, lease, innermost)));
    let inside = (): T | Promise<T> => inContext(innermost, work);
    // Subscribers are outside, of all of them: what they run is no re-entry.
    for (const lease of leases) {
      const next = inside;
      inside = () => lease.announce(next);
    }
    try {
      return await inside();
    } finally {
      for (const scope of scopes) {
        scope.#running = false;
        scope.#letGo();
      }
    }
  }

  /** The innermost running holder of `name`, seen from the code that asks. One that has released its lease is none. */
  static of(locks: object, name: string): Scope | undefined {
    for (let scope = Scope.innermost(); scope !== undefined; scope = scope.#outer) {
      scope.#outer = Scope.#living(scope.#outer);
      if (scope.#locks !== locks || scope.name !== name) continue;
      if (scope.#lease!.stateNow() !== "released") return scope;
    }
    return undefined;
  }

  /** Does something as if no function around it held a lock. */
  static outside<T>(work: () => T): T {
    return inContext(undefined, work);
  }

  /** The innermost function that holds a lock, seen from the code that asks. */
  static innermost(): Scope | undefined {
    return Scope.#living(contextNow() as Scope | undefined);
  }

  /** The locks that are held by the functions from this one outwards. */
  held(locks: object): readonly HeldLock[] {
    const held: HeldLock[] = [];
    for (let scope = Scope.#living(this); scope !== undefined; scope = Scope.#living(scope.#outer)) {
      if (scope.#locks === locks && scope.#lease?.peek()[0]?.state === "held") {
        held.push({ name: scope.name, fence: scope.#lease.fence });
      }
    }
    return held;
  }

  /** The scope, or the next one around it whose function still runs. Those that ended are let go of, not kept for ever. */
  static #living(scope: Scope | undefined): Scope | undefined {
    let found = scope;
    while (found !== undefined && !found.#running) found = found.#outer;
    return found;
  }

  /** Throws where this lease cannot be entered, now or later: the mode does not fit, or it was lost. */
  check(mode: Mode): void {
    if (mode === "exclusive" && this.#lease!.mode === "shared") {
      throw new ArgumentError(
        `Expected \`mode\` to be "shared": lock ${quote(this.name)} is held in shared mode by the function that asks, ` +
          "and would wait for itself. Release it first, or take it in exclusive mode from the start.",
      );
    }
    if (this.#lease!.lost !== undefined) throw this.#lease!.lost;
  }

  /** Enters at once; `undefined` where a sibling is inside or in line. */
  enterNow(mode: Mode): HeldLease | undefined {
    if (this.#line.first !== undefined || !this.#mayEnter(mode)) return undefined;
    return this.#lease!.canBeEntered ? this.#enter(mode) : undefined;
  }

  /** Waits for its turn among its siblings. */
  enter(request: Request): void {
    if (!request.waits) return request.refuse(this.blockers());
    this.#line.push(request);
    this.#lease!.onLost = (loss) => this.#sendAway(loss);
    return undefined;
  }

  leave(request: Request): void {
    if (this.#line.remove(request)) this.#serve();
  }

  blockers(): Blockers {
    return { heldBy: [this.#lease!.describe()] };
  }

  trouble(): undefined {
    return undefined;
  }

  refusalOf(): undefined {
    return undefined;
  }

  nudge(): void {}

  #mayEnter(mode: Mode): boolean {
    return this.#writers === 0 && (mode === "shared" || this.#readers === 0);
  }

  #enter(mode: Mode): HeldLease {
    if (mode === "shared") this.#readers++;
    else this.#writers++;
    return this.#lease!.enter(mode, () => {
      if (mode === "shared") this.#readers--;
      else this.#writers--;
      this.#serve();
      // No call is inside and yet none could enter: its time has just passed.
      if (this.#readers + this.#writers === 0) this.#sendAway({ kind: "expired", renewal: "late" });
      this.#letGo();
    });
  }

  /** Lets the next siblings in, as far as it goes. */
  #serve(): void {
    if (!this.#lease!.canBeEntered) return;
    for (
      let next = this.#line.first;
      next !== undefined && this.#mayEnter(next.options.mode);
      next = this.#line.first
    ) {
      this.#line.remove(next);
      next.grant(this.#enter(next.options.mode));
    }
  }

  #letGo(): void {
    if (!this.#running && this.#readers + this.#writers === 0) this.#lease = undefined;
  }

  /** The lease is lost: it is not entered any more. */
  #sendAway(loss: LossReason): void {
    // With the line empty, the lease may have been let go of.
    for (let next = this.#line.shift(); next !== undefined; next = this.#line.shift()) {
      next.fail(this.#lease!.lossFor(loss));
    }
  }
}
