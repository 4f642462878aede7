/** The public names of `holdfast`. No logic. */
export type {
  AcquireOptions,
  CloseOptions,
  ElectOptions,
  ForceReleaseOptions,
  Lease,
  LockOptions,
  Locks,
  LocksOptions,
  ReleaseResult,
  Work,
} from "./api.ts";
export type {
  Backend,
  Claim,
  Forced,
  Granted,
  Holding,
  Listener,
  Member,
  Meta,
  Mode,
  Refused,
  Released,
  Renewal,
  Renewer,
  Snapshot,
  Swapped,
  Vote,
  Waiting,
} from "./backend.ts";
export type { Chance } from "./chance.ts";
export type { Clock, Timer } from "./clock.ts";
export { connect, openBackend } from "./connect.ts";
export type { Duration } from "./duration.ts";
export {
  LockBackendError,
  type LockBackendErrorOptions,
  LockClosedError,
  LockError,
  type LockErrorCode,
  LockLostError,
  LockTimeoutError,
  type MemberVote,
} from "./errors.ts";
export type { AcquireEvent, ForceReleaseEvent, HoldEvent, LostEvent, RenewEvent } from "./events.ts";
export { createLocks } from "./locks.ts";
