/**
 * One lock as the scripts in lua/ should keep it: the same rules, without fast ways, texts or gaps. It is the judge of timed.test.ts,
 * which plays the same history to both, on a clock of its own.
 */

export interface Terms {
  readonly mode: "x" | "s";
  readonly limit: number;
  readonly ttl: number;
  readonly delay: number;
  /** 0: it does not queue. */
  readonly ticket: number;
  readonly minhold: number;
  readonly more: number;
  /** Its process listens. */
  readonly heard: boolean;
  /** An outcome is as good as the lock. */
  readonly wants: boolean;
  /** What its process says of itself. */
  readonly who: string;
}

export interface Held {
  readonly id: string;
  terms: Terms;
  till: number;
  readonly since: number;
  readonly fence: number;
  readonly more: number;
  /** Released before its minHold had passed. */
  readonly kept: boolean;
  /** By a vote: of its end the whole world hears. */
  readonly voted: boolean;
}

export interface Waits {
  readonly id: string;
  terms: Terms;
  till: number;
  readonly since: number;
}

export class ModelLock {
  now = 0;
  nowUs = 0;
  /** The store may have lost leases: until then nothing is granted. */
  youngUntil = 0;
  holders: Held[] = [];
  queue: Waits[] = [];
  last = 0;
  outcome: { readonly over: number; readonly left: number; readonly id: string; readonly fence: number } | undefined;
  /** When the hash may vanish; 0: there never was one. */
  death = 0;
  /** Ended by force, by fence; and the fence by which each claim was ended last. */
  readonly forced: Map<number, { readonly at: number; readonly id: string }> = new Map();
  readonly forcedFence: Map<string, number> = new Map();
  /** Which vote was granted last, and the greatest fence before it. */
  #ballot: { readonly id: string; readonly last: number } | undefined;
  /** Who has to hear of this step: that it was handed the lock (and whether others wait), that it needs it no longer, that another wants it. */
  handed: { readonly held: Held; readonly hears: boolean }[] = [];
  done: string[] = [];
  wanted: string[] = [];
  /** How many voted leases ended in this step. */
  freed = 0;
  /** The last moment that this step is about. */
  #lasts = 0;
  readonly #idle: number;
  /** When the lease began that ends in this step. */
  #ended: number | undefined;

  /** `idle`: how long the hash outlives the last moment that matters. */
  constructor(idle: number) {
    this.#idle = idle;
  }

  #touch(till: number): void {
    this.#lasts = Math.max(this.#lasts, till);
  }

  /** Behind each step: half an idle time in reserve, so that most steps need not move the end of the hash. */
  end(): void {
    if (this.#lasts > 0 && this.#lasts + this.#idle > this.death)
      this.death = this.#lasts + this.#idle + Math.floor(this.#idle / 2);
    this.#lasts = 0;
  }

  #prune(): void {
    this.holders = this.holders.filter(({ till }) => till > this.now);
  }

  get hasOutcome(): boolean {
    return this.outcome !== undefined && this.outcome.over > this.now;
  }

  #admits({ mode, limit }: Terms): boolean {
    const [first] = this.holders;
    return first === undefined || (first.terms.mode === mode && (mode === "s" || this.holders.length < limit));
  }

  #endByForce(held: Held): void {
    this.holders = this.holders.filter((other) => other !== held);
    if (held.voted) this.freed++;
    const id = held.kept ? `~${held.id}` : held.id;
    this.forced.set(held.fence, { at: this.now, id });
    this.forcedFence.set(id, held.fence);
  }

  /** Old records of force go when new ones come. */
  #sweep(keepMs: number): void {
    for (const [fence, { at, id }] of this.forced) {
      if (at + keepMs > this.now) continue;
      this.forced.delete(fence);
      this.forcedFence.delete(id);
    }
  }

  #grant(id: string, terms: Terms, till: number): Held {
    const fence = Math.max(this.last + 1, this.nowUs);
    let { more } = terms;
    // Ahead of the clock: at most one run of 500 in each millisecond.
    if (fence > this.nowUs) {
      more = this.#ended !== undefined && this.#ended < this.now ? Math.min(more, 499) : 0;
      this.#ended = undefined;
    }
    this.last = fence + more;
    const held = { id, terms, till, since: this.now, fence, more, kept: false, voted: false };
    this.holders.push(held);
    return held;
  }

  get #isYoung(): boolean {
    return this.now < this.youngUntil;
  }

  #promote(caller?: string): Held | undefined {
    let mine: Held | undefined;
    if (this.#isYoung) return undefined;
    const wasEmpty = this.holders.length === 0;
    const handed: Held[] = [];
    while (this.queue.length > 0) {
      const { id, terms, till } = this.queue[0]!;
      const isDone = terms.wants && this.hasOutcome;
      const isOver = (till <= this.now && id !== caller) || isDone;
      if (!isOver && !this.#admits(terms)) break;
      this.queue.shift();
      if (isDone && till > this.now && terms.heard) this.done.push(id);
      if (isOver) continue;
      // Who listens has its ttl from its last question; who does not, no more than its ticket.
      if (id === caller) mine = this.#grant(id, terms, this.now + terms.ttl + terms.delay);
      else {
        const held = this.#grant(id, terms, (terms.heard ? till - terms.ticket + terms.ttl : till) + terms.delay);
        if (terms.heard) handed.push(held);
      }
    }
    // They hear that others wait, too, where that is known without reading all who hold.
    for (const held of handed) {
      const isKnown = held.terms.mode === "s" || held.terms.limit === 1 || wasEmpty;
      this.handed.push({ held, hears: isKnown && this.isWanted(held) });
    }
    return mine;
  }

  find(id: string): Held | undefined {
    return this.holders.find((held) => held.id === id && !held.kept && held.till > this.now);
  }

  isWanted({ terms, fence }: Held): boolean {
    if (this.queue.length === 0) return false;
    return terms.mode === "s" || this.holders.every((other) => other.kept || other.fence >= fence);
  }

  attempt(id: string, terms: Terms): Held | "done" | undefined {
    this.#prune();
    const held = this.find(id);
    const till = this.now + terms.ttl + terms.delay;
    if (held !== undefined) {
      held.till = Math.max(held.till, till);
      held.terms = { ...held.terms, heard: terms.heard, who: terms.who, wants: terms.wants };
      this.#touch(till);
      this.#promote();
      return held;
    }
    const waits = this.queue.find((one) => one.id === id);
    if (terms.wants && this.hasOutcome) {
      this.queue = this.queue.filter((one) => one !== waits);
      this.#promote();
      return "done";
    }
    if (waits !== undefined) Object.assign(waits, { terms, till: this.now + terms.ticket });
    const mine = this.#promote(id);
    if (mine !== undefined || terms.ticket > 0) this.#touch(till);
    if (mine !== undefined) return mine;
    if (this.queue.length === 0 && !this.#isYoung && this.#admits(terms)) {
      this.#touch(till);
      return this.#grant(id, terms, till);
    }
    if (waits === undefined && terms.ticket > 0) {
      this.queue.push({ id, terms, till: this.now + terms.ticket, since: this.now });
      // The queue begins: those who hold learn of it.
      if (this.queue.length === 1)
        for (const one of this.holders)
          if (!one.kept && one.terms.heard && this.isWanted(one)) this.wanted.push(one.id);
    }
    if (waits !== undefined && terms.ticket === 0) {
      this.queue = this.queue.filter((one) => one !== waits);
      this.#promote();
    }
    return undefined;
  }

  #leave(id: string, keeps: boolean): 0 | 1 | 2 {
    this.#ended = undefined;
    const waiting = this.queue.length;
    this.queue = this.queue.filter((one) => one.id !== id);
    if (this.queue.length < waiting) return 2;
    const held = this.find(id);
    if (held === undefined) return 0;
    this.#ended = held.since;
    const till = Math.min(held.since, this.now) + held.terms.minhold;
    this.holders = this.holders.filter((other) => other !== held);
    if (held.voted) this.freed++;
    if (keeps && till > this.now) {
      this.holders.push({ ...held, till, kept: true });
      this.#touch(till);
    }
    return 1;
  }

  release(id: string, keeps: boolean): 0 | 1 | 2 {
    const was = this.#leave(id, keeps);
    if (this.queue.length > 0) {
      this.#prune();
      this.#promote();
    }
    this.#ended = undefined;
    return was;
  }

  /** As release, and what the work came to is kept if it was done under the lease with that fence. */
  finish(id: string, keeps: boolean, keepMs: number, fence: number): 0 | 1 | 2 {
    const held = this.find(id);
    const mine = held?.fence === fence;
    const kept = !mine && this.hasOutcome && this.outcome!.id === id && this.outcome!.fence === fence;
    if (kept && held === undefined) return 1;
    let was = this.#leave(id, keeps);
    if (held !== undefined && !mine) was = kept ? 1 : 0;
    if (mine) {
      this.outcome = { over: this.now + keepMs, left: this.now, id, fence };
      this.#touch(this.now + keepMs);
      for (const { id: other, terms } of this.queue) if (terms.wants && terms.heard) this.done.push(other);
      this.queue = this.queue.filter(({ terms }) => !terms.wants);
    }
    if (this.queue.length > 0) {
      this.#prune();
      this.#promote();
    }
    this.#ended = undefined;
    return was;
  }

  forget(fence: number): boolean {
    if (!this.hasOutcome || this.outcome!.fence !== fence) return false;
    this.outcome = undefined;
    return true;
  }

  /** Tells those who hold it that another wants it. */
  want(): void {
    const fences = this.holders.filter(({ kept }) => !kept).map(({ fence }) => fence);
    for (const { id, kept, terms, fence } of this.holders)
      if (!kept && terms.heard && (terms.mode === "s" || fence === Math.min(...fences))) this.wanted.push(id);
  }

  /** A waiter's sign of life. */
  beat(id: string): Held | "queued" | undefined {
    this.#prune();
    const held = this.find(id);
    if (held !== undefined) {
      const till = this.now + held.terms.ttl + held.terms.delay;
      held.till = Math.max(held.till, till);
      this.#touch(till);
      return held;
    }
    const waits = this.queue.find((one) => one.id === id);
    if (waits === undefined) return undefined;
    if (waits.terms.wants && this.hasOutcome) {
      this.queue = this.queue.filter((one) => one !== waits);
      this.#promote();
      return undefined;
    }
    waits.till = this.now + waits.terms.ticket;
    this.#touch(this.now + waits.terms.ttl + waits.terms.delay);
    return this.#promote(id) ?? "queued";
  }

  vote(id: string, terms: Terms, ballot: number): "granted" | "held" | number {
    this.#prune();
    const held = this.find(id);
    const till = this.now + terms.ttl + terms.delay;
    if (held?.fence === ballot) {
      held.till = Math.max(held.till, till);
      this.#touch(till);
      return "granted";
    }
    if (held === undefined && !this.#admits(terms)) return "held";
    if (ballot <= this.last) return this.last;
    this.holders = this.holders.filter((other) => other !== held);
    this.#ballot = { id, last: this.last };
    this.last = ballot;
    this.#touch(till);
    this.holders.push({ id, terms, till, since: this.now, fence: ballot, more: 0, kept: false, voted: true });
    return "granted";
  }

  /** The vote never became a lease: the greatest fence is again what it was before, if no other was voted for since. */
  withdraw(id: string): 0 | 1 | 2 {
    const held = this.find(id);
    const mine = held !== undefined && held.fence === this.last;
    const was = this.#leave(id, false);
    if (mine && this.#ballot?.id === id) this.last = this.#ballot.last;
    this.#ended = undefined;
    return was;
  }

  swap(id: string, keeps: boolean, next: string, terms: Terms): [0 | 1 | 2, Held | "done" | undefined] {
    const was = this.#leave(id, keeps);
    const held = this.attempt(next, terms);
    this.#ended = undefined;
    return [was, held];
  }

  /** `fence`: it need not be the same lease any more. `who`: what its process says of itself now. */
  renew(id: string, keep: number, fence?: number, who?: string): Held | "other" | undefined {
    const held = this.find(id);
    if (held === undefined) return undefined;
    if (fence !== undefined && fence !== held.fence) return "other";
    held.till = Math.max(held.till, this.now + keep);
    if (who !== undefined) held.terms = { ...held.terms, who };
    this.#touch(this.now + keep);
    return held;
  }

  force(fence: number, keepMs: number): boolean {
    this.#prune();
    const hit = this.holders.find((held) => held.fence <= fence && fence <= held.fence + held.more);
    if (hit === undefined) return false;
    this.#sweep(keepMs);
    this.#endByForce(hit);
    this.#promote();
    this.#touch(this.now + keepMs);
    return true;
  }

  steal(id: string, terms: Terms, keepMs: number): Held | "done" | undefined {
    if (this.#isYoung || this.find(id) !== undefined) return this.attempt(id, terms);
    this.#prune();
    if (this.holders.length > 0) {
      this.#sweep(keepMs);
      this.#touch(this.now + keepMs);
    }
    for (const held of this.holders) this.#endByForce(held);
    this.#touch(this.now + terms.ttl + terms.delay);
    this.queue = this.queue.filter((one) => one.id !== id);
    const held = this.#grant(id, terms, this.now + terms.ttl + terms.delay);
    this.#promote();
    return held;
  }
}
