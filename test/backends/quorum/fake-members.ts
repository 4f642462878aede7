/** Fake members in memory whose answers can be delayed or withheld, on a fake clock. */
import { expect } from "vitest";
import type { Backend, Claim, Granted, Member } from "../../../src/contract/backend.ts";
import { LockBackendError } from "../../../src/contract/errors.ts";
import { memory, type MemoryStore, memoryStore } from "../../../src/backends/memory/index.ts";
import { quorum, type QuorumOptions } from "../../../src/backends/quorum/index.ts";
import { FakeClock, seeded } from "../../../src/testing/index.ts";

type Operation = "vote" | "renew" | "release" | "query" | "forceRelease";

/** Withholding an answer does not undo the request: only a member that is cut off does nothing. */
export class FakeMember {
  readonly member: Member;
  store: MemoryStore;
  readonly asked: Record<Operation, number> = { vote: 0, renew: 0, release: 0, query: 0, forceRelease: 0 };
  /** How long answers take; `Infinity`: they never come. */
  replyMs = 0;
  isCutOff = false;
  readonly #clock: FakeClock;
  #inner: Member;

  constructor(clock: FakeClock) {
    this.#clock = clock;
    this.store = memoryStore({ clock });
    this.#inner = memory({ store: this.store });
    this.member = {
      name: "fake",
      attempt: (claim) => this.#inner.attempt(claim),
      vote: (claim, ballot) => this.#answer("vote", () => this.#inner.vote(claim, ballot)),
      renew: (claims, fences) => this.#answer("renew", () => this.#inner.renew(claims, fences)),
      release: (claim) => this.#answer("release", () => this.#inner.release(claim)),
      withdraw: (claim) => this.#answer("release", () => this.#inner.withdraw!(claim)),
      query: (prefix) => this.#answer("query", () => this.#inner.query(prefix)),
      inspect: (name) => this.#answer("query", () => this.#inner.inspect(name)),
      forceRelease: (...force) => this.#answer("forceRelease", () => this.#inner.forceRelease(...force)),
      listen: (listener) => this.#inner.listen?.(listener),
      close: () => this.#inner.close(),
    };
  }

  /** It comes back empty. */
  restart(): void {
    this.store = memoryStore({ clock: this.#clock });
    this.#inner = memory({ store: this.store });
  }

  get holders(): string {
    const { held } = this.store.query("");
    return held.map(({ holder }) => holder).join("+");
  }

  async #answer<T>(operation: Operation, work: () => Promise<T>): Promise<T> {
    this.asked[operation]++;
    if (this.isCutOff) throw new Error("connection refused");
    const value = await work();
    if (this.replyMs === Infinity) return new Promise<never>(() => undefined);
    if (this.replyMs > 0) await new Promise<void>((resolve) => void this.#clock.setTimer(resolve, this.replyMs));
    return value;
  }
}

export interface FakeQuorum {
  readonly clock: FakeClock;
  readonly fakes: readonly FakeMember[];
  readonly open: (options?: QuorumOptions, clock?: FakeClock) => Backend;
}

export function fakeQuorum(count: number): FakeQuorum {
  const clock = new FakeClock();
  const fakes = Array.from({ length: count }, () => new FakeMember(clock));
  return {
    clock,
    fakes,
    open: (options = {}, own = clock) =>
      quorum(
        fakes.map(({ member }) => member),
        { clock: own, chance: seeded(1), ...options },
      ),
  };
}

export async function granted(backend: Backend, claim: Claim): Promise<Granted> {
  const answer = await backend.attempt(claim);
  if (!answer.granted) throw new Error(`refused: ${JSON.stringify(answer.heldBy.map(({ holder }) => holder))}`);
  return answer;
}

export async function failure(promise: Promise<unknown>): Promise<LockBackendError> {
  const error = await promise.then(
    () => undefined,
    (cause: unknown) => cause,
  );
  expect(error).toBeInstanceOf(LockBackendError);
  return error as LockBackendError;
}
