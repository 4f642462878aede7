/**
 * A process's side of the simulation: a backend over two connections, made as the Redis backend is. Commands may be done twice.
 * Messages come in their own time, and are judged by the very queue that Redis uses: a late grant must not be believed.
 */
import type { Backend, Claim, Granted, Listener, Outcome, Refused, Released, Swapped } from "../../contract/backend.ts";
import { LockBackendError } from "../../contract/errors.ts";
import type { MemoryStore } from "../../backends/memory/index.ts";
import { Waiters } from "../../backends/redis/waiting.ts";
import type { FakeClock } from "../fake-clock.ts";
import type { SeededChance } from "../seeded-random.ts";
import { Commands } from "./commands.ts";
import { beat, type Counter, type GrantMessage, type Counted } from "./counter.ts";
import type { SimulatedProcess } from "./process.ts";
import { Road } from "./road.ts";

/** Rules that a test switches off, to prove that the simulation would notice. */
export interface Rules {
  /** Answers contain the lock's last fence: a grant message that is not newer is no proof. @default true */
  readonly lastFence?: boolean;
  /** An "absent" to a release that was sent twice is no answer. @default true */
  readonly sentTwice?: boolean;
}

/** The store, where the network ends. */
export interface Remote {
  readonly backend: Backend;
  readonly store: MemoryStore;
  readonly counter: Counter;
}

export class Network {
  readonly commands: Road;
  readonly messages: Road;
  /** How many grant messages arrived when the lock had been given to another claim since. */
  late = 0;
  readonly #process: SimulatedProcess;
  readonly #remote: Remote;
  readonly #rules: Rules;
  readonly #commands: Commands;
  readonly #waiters: Waiters;
  /** Claims of this process that may be queued. Messages about others are ignored. */
  readonly #wanted = new Map<string, Claim>();
  /** A forced release is reported as a loss, or as a reason to renew: stores differ. */
  readonly #tellsLoss: boolean;
  #listener: Listener | undefined;

  constructor(world: FakeClock, chance: SeededChance, process: SimulatedProcess, remote: Remote, rules: Rules) {
    const { backend, store, counter } = remote;
    this.#process = process;
    this.#remote = remote;
    this.#rules = rules;
    this.commands = new Road(world, chance, true);
    this.messages = new Road(world, chance, false);
    this.#commands = new Commands(world, process, this.commands, chance.happens(0.5));
    this.#tellsLoss = chance.happens(0.5);
    this.#waiters = new Waiters(process.clock, false, {
      portions: (waiters) => (waiters.length > 0 ? [[...waiters]] : []),
      send: (portion) => {
        const claims = portion.map(({ claim }) => claim);
        return this.#ask("", () => beat(store, backend, counter, claims));
      },
    });
    // The new connection is used before the old one's end is reported.
    const sendAgain = this.commands.onReconnect;
    this.commands.onReconnect = () => {
      sendAgain?.();
      this.#doubt();
    };
    this.messages.onReconnect = () => this.#doubt();
    counter.inboxes.set(process.name, (message) => this.messages.send(() => this.#arrived(message)));
  }

  /** How many commands the store has done more than once. */
  get doneTwice(): number {
    return this.#commands.doneTwice;
  }

  /** The store as the process sees it through this network. */
  get backend(): Backend {
    const { backend } = this.#remote;
    return {
      name: "simulated",
      attempt: (claim) => this.#enter(claim, () => backend.attempt(claim)),
      swap: (held, next) => this.#swap(held, next),
      watch: (claim, signal) => this.#waiters.watch(claim, signal),
      renew: (claims, fences) => this.#ask(claims[0]?.name ?? "", () => backend.renew(claims, fences)),
      can: backend.can,
      release: (claim, outcome) => this.#release(claim, outcome),
      query: (prefix) => this.#ask(prefix, () => backend.query(prefix)),
      inspect: (name) => this.#ask(name, () => backend.inspect(name)),
      forget: (name, fence) => this.#ask(name, () => backend.forget!(name, fence)),
      forceRelease: (name, ...rest) => this.#ask(name, () => backend.forceRelease(name, ...rest)),
      listen: (listener) => this.#listen(listener),
      close: async () => {
        this.#waiters.close();
        await backend.close();
      },
    };
  }

  #ask<A>(name: string, step: () => Promise<A>): Promise<A> {
    return this.#commands.ask(name, step, (answer) => answer);
  }

  #enter<A extends Granted | Refused>(
    claim: Claim,
    step: () => Promise<A>,
    understood = (answer: A, _twice: boolean): A => answer,
  ): Promise<A> {
    const sentMs = this.#process.clock.now();
    this.#wanted.set(claim.id, claim);
    return this.#commands.ask(
      claim.name,
      () => this.#remote.counter.count(claim.name, step),
      (counted, twice) => understood({ ...this.#entered(claim, sentMs, counted), sentTwice: twice }, twice),
      () => {
        if (claim.queues) this.#waiters.unsure(claim, claim.name, claim.ttlMs);
      },
    );
  }

  #entered<A extends Granted | Refused>(claim: Claim, sentMs: number, { answer, last }: Counted<A>): A {
    if (answer.granted) this.#waiters.forget(claim.id);
    else if (answer.position === undefined) this.#forget(claim);
    else {
      this.#waiters.queued(claim, claim.name, claim.ttlMs, sentMs, { last, againMs: 0, by: "" }, 0);
      return { ...answer, retryMs: claim.ttlMs };
    }
    return answer;
  }

  #swap(held: Claim, next: Claim): Promise<Swapped> {
    this.#forget(held);
    return this.#enter<Swapped>(
      next,
      () => this.#remote.backend.swap!(held, next),
      (answer, twice) => (this.#isSure(answer.released, twice) ? answer : { ...answer, released: undefined }),
    );
  }

  #release(claim: Claim, outcome?: Outcome): Promise<Released> {
    this.#forget(claim);
    return this.#commands.ask(
      claim.name,
      () => this.#remote.backend.release(claim, outcome),
      (was, twice) => {
        if (this.#isSure(was, twice)) return was;
        throw new LockBackendError("simulated", claim.name, "sent twice, and the first may have released it");
      },
    );
  }

  /** A "no" to what was sent twice may follow a "yes" that was lost. */
  #isSure(was: Released | undefined, twice: boolean): boolean {
    return was === "held" || was === undefined || !twice || this.#rules.sentTwice === false;
  }

  #forget(claim: Claim): void {
    this.#wanted.delete(claim.id);
    this.#waiters.forget(claim.id);
  }

  #listen(listener: Listener): void {
    this.#listener = listener;
    const carry = (arrive: () => void): void => this.messages.send(() => this.#process.deliver(arrive));
    this.#remote.backend.listen?.({
      lost: (id, reason) => carry(() => (this.#tellsLoss ? listener.lost(id, reason) : listener.doubt(id))),
      doubt: (id) => carry(() => listener.doubt(id)),
      wanted: (id) => carry(() => listener.wanted?.(id)),
    });
  }

  #arrived(message: GrantMessage): void {
    if (this.#remote.counter.isOld(message)) this.late++;
    this.#process.deliver(() => {
      const claim = this.#wanted.get(message.claim);
      const { fence, run } = message;
      if (claim !== undefined) this.#waiters.granted(claim, { fences: { fence, run }, sure: true, by: "" });
    });
  }

  /** Messages may have been missed, and the store may have done more than was heard of. */
  #doubt(): void {
    this.#process.deliver(() => {
      this.#waiters.beatAll();
      this.#listener?.doubt();
    });
  }
}
