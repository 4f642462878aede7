/** Ballots are proposed by the time of day, which some clocks have only in whole milliseconds. */
import { expect, test } from "vitest";
import { ballotOf, Proposer } from "../../../src/backends/quorum/ballot.ts";

/** A wall clock with whole milliseconds, and an exact monotonic one. */
class Hands {
  trueMs = 1_700_000_000_000.7;
  readonly #startMs = this.trueMs;

  now(): number {
    return this.trueMs - this.#startMs;
  }

  wall(): number {
    return Math.floor(this.trueMs);
  }

  setTimer(): undefined {
    return undefined;
  }

  clearTimer(): void {}
}

test("every proposal is above the last one, even after the shortest round", () => {
  const clock = new Hands();
  const proposer = new Proposer(clock);
  let last = proposer.next();
  for (let round = 0; round < 200; round++) {
    clock.trueMs += 0.1;
    const next = proposer.next();
    expect(next, `round ${round}`).toBeGreaterThan(last);
    last = next;
  }
});

test("after a sleep that the monotonic clock did not count, proposals follow the wall clock, and continue from there", () => {
  const clock = new Hands();
  const proposer = new Proposer(clock);
  const asleepMs = 3_600_000;
  const now = clock.now.bind(clock);
  clock.trueMs += asleepMs;
  clock.now = () => now() - asleepMs;
  const awake = proposer.next();
  expect(awake).toBeGreaterThanOrEqual(ballotOf(BigInt(clock.wall()) * 1000n));
  clock.trueMs += 0.1;
  expect(proposer.next()).toBeGreaterThan(awake);
});

test("a wall clock that is set back does not lower proposals", () => {
  const clock = new Hands();
  const proposer = new Proposer(clock);
  const before = proposer.next();
  clock.wall = () => 0;
  clock.trueMs += 0.1;
  expect(proposer.next()).toBeGreaterThan(before);
});
