/** Which abilities ZooKeeper has, and why not the others. */
import type { Abilities } from "../../contract/backend.ts";

export const CAN: Abilities = {
  outcomes:
    "ZooKeeper keeps no outcomes: its nodes end with a session or never, so none of them could be kept for a time and then be gone in one atomic step. Use Redis, or keep the result where the work is done, under its fence",
  wanted: true,
  otherTtl:
    "ZooKeeper renews a lease for the ttl that it began with only, because it knows one time-out, that of the session, for all leases of a process. Acquire the lock with the ttl that it needs",
  steal:
    "ZooKeeper serves nodes in the order of their numbers, so no claim can go before those that wait. End the lease with forceRelease(), and acquire the lock",
  waiters: true,
  linger:
    "ZooKeeper makes each fence itself, with a node of its own, so that none is left for the next holder in the same process. Acquire the lock anew, or use a store whose grants reserve several",
};
