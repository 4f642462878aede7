/** What the store says of some locks, each asked for once, with what this process knows better put in its place. */
import type { HeldLock, LocalFacts, LockState } from "../contract/backend.ts";
import { askStore } from "./ask-store.ts";
import type { LockStates } from "./deadlock-graph.ts";
import type { Engine } from "./engine.ts";
import type { LocalQueue } from "./local-queue.ts";
import { checkedState } from "./snapshot.ts";

const ANSWER_MS = 5000;

interface Answer {
  readonly state: LockState;
  /** The claims and leases of this process when it was asked: what is not there any more is over. */
  readonly before: ReadonlySet<string | undefined>;
}

export class LockQuestions {
  readonly #engine: Engine;
  readonly #max: number;
  readonly #answers = new Map<string, Answer>();

  constructor(engine: Engine, max: number) {
    this.#engine = engine;
    this.#max = max;
  }

  /** `undefined`: it would be one too many. Rejects where the store does not answer. */
  async ask(name: string): Promise<LockState | undefined> {
    const known = this.#answers.get(name);
    if (known !== undefined) return this.#withOwn(name, known);
    if (this.#answers.size >= this.#max) return undefined;
    const engine = this.#engine;
    const { backend } = engine;
    const { holds = [], waiting } = engine.queueOf(name) ?? {};
    const before = new Set([...holds.map(({ claim }) => claim.id), ...(waiting?.claimIds ?? [])]);
    const asked = { signal: undefined, timeoutMs: ANSWER_MS };
    const found = await askStore(engine, "inspect()", asked, () => backend.inspect(name), name);
    const answer = { state: checkedState(backend.name, found), before };
    this.#answers.set(name, answer);
    return this.#withOwn(name, answer);
  }

  /** All answers, with what this process knows now. */
  states(): LockStates {
    return new Map(Array.from(this.#answers, ([name, answer]) => [name, this.#withOwn(name, answer)]));
  }

  /** The locks that are held by those who wait in this queue. */
  #heldIn(queue: LocalQueue): readonly HeldLock[] {
    const found = new Map<string, HeldLock>();
    for (const { scope, options } of queue.waiting.requests) {
      for (const held of scope?.held(this.#engine) ?? []) {
        const key = `${held.fence} ${held.name}`;
        if (options.deadlock === "reject") found.set(key, { ...held, yields: true });
        else if (!found.has(key)) found.set(key, held);
      }
    }
    return [...found.values()];
  }

  #withOwn(name: string, { state, before }: Answer): LockState {
    const queue = this.#engine.queueOf(name);
    if (queue === undefined) return state;
    const { holds, waiting } = queue;
    const claimIds = new Set<string | undefined>(waiting.claimIds);
    const isOver = (id: string | undefined): boolean =>
      before.has(id) && !claimIds.has(id) && !holds.some(({ claim }) => claim.id === id);
    const local: LocalFacts = { waiters: 0, users: 1, holds: this.#heldIn(queue), holdsMore: false };
    return {
      ...state,
      held: state.held
        .filter(({ id }) => !isOver(id))
        .map((one) => {
          const isOwn = holds.some(({ firstFence }) => firstFence === one.fence);
          // With a claim of theirs at the store, they wait there.
          return isOwn ? { ...one, local: claimIds.size === 0 ? local : undefined } : one;
        }),
      pending: state.pending
        .filter(({ id }) => !isOver(id))
        .map((one) => (one.id !== undefined && claimIds.has(one.id) ? { ...one, local } : one)),
    };
  }
}
