/** What tests a backend, or a program with locks: the conformance suite, a fake clock, faults, and a checker of histories. */
export { conformance, type Declined, memberConformance, withoutDeclined } from "./conformance.ts";
export { FakeClock, type FakeClockOptions } from "./fake-clock.ts";
export { type FaultPlan, type Faulty, faulty } from "./faulty.ts";
export { checkHistory } from "./history/check.ts";
export {
  type ClaimantEvent,
  type HistoryEvent,
  type HistoryOptions,
  type Oracle,
  type StoreEvent,
  type Violation,
} from "./history/events.ts";
export { LeftoverError } from "./leftovers.ts";
export { findLinearization, type Linearizability } from "./history/linearizable.ts";
export type { ConformancePromise } from "./promises/promise.ts";
export { peek } from "./peek.ts";
export type { Peeked } from "../core/peek.ts";
export { seeded, type SeededChance } from "./seeded-random.ts";
export type { ConformanceContext } from "./trial.ts";
export type { Fault, FaultAt, Faults, Operation } from "./faults.ts";
