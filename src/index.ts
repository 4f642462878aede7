/** What every program imports: locks, leases, their options, errors and events. */
export type {
  AcquireOptions,
  CloseOnSignalsOptions,
  CloseOptions,
  ElectOptions,
  ForceReleaseOptions,
  ForgetOptions,
  GroupLease,
  Lease,
  LeaseOf,
  LockHolder,
  LockNames,
  LockOptions,
  Locks,
  LockSnapshot,
  LocksOptions,
  LocksSnapshot,
  LockWaiter,
  OnceCodec,
  OnceOptions,
  OnceResult,
  OutcomeFacts,
  OutcomeOptions,
  OutcomeState,
  QueryOptions,
  ReleaseResult,
  TryOptions,
  TryRunResult,
  Work,
} from "./core/api.ts";
export type {
  CallCounts,
  Contention,
  ContentionOptions,
  LockContention,
  OtherContention,
  Spread,
  WaitedFor,
} from "./core/contention-api.ts";
export type {
  Abilities,
  Backend,
  Claim,
  Forced,
  Granted,
  HeldLock,
  Holding,
  KeptOutcome,
  Listener,
  LocalFacts,
  LockState,
  Member,
  Meta,
  Mode,
  Outcome,
  Refused,
  Released,
  Renewal,
  Renewer,
  Snapshot,
  Swapped,
  Vote,
  Waiting,
} from "./contract/backend.ts";
export type { Chance } from "./contract/random.ts";
export type { Clock, Timer } from "./contract/clock.ts";
export { connect, openBackend } from "./connect.ts";
export type { Duration } from "./contract/duration.ts";
export {
  LockBackendError,
  type LockBackendErrorOptions,
  LockClosedError,
  LockDeadlockError,
  LockError,
  type LockErrorCode,
  LockLostError,
  LockOutcomeError,
  LockTimeoutError,
  type MemberVote,
} from "./contract/errors.ts";
export type { Deadlock, DeadlockMember } from "./contract/deadlock.ts";
export type {
  AcquireEvent,
  DeadlockEvent,
  FenceRejectedEvent,
  ForceReleaseEvent,
  HoldEvent,
  LostEvent,
  RenewEvent,
} from "./contract/events.ts";
export type { LossReason } from "./contract/loss.ts";
export { closeOnSignals } from "./core/close-on-signals.ts";
export { createLocks } from "./core/locks.ts";
export { type HoldfastEvents, subscribe } from "./core/subscribe.ts";
