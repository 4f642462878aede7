/** Which abilities etcd has, and why not the others. */
import type { Abilities } from "../../contract/backend.ts";

export const CAN: Abilities = {
  outcomes: true,
  wanted: true,
  otherTtl:
    "etcd renews a lease for the ttl that it began with only, because that is fixed when the cluster grants it. Acquire the lock with the ttl that it needs",
  steal:
    "etcd serves keys in the order of their creation, as etcdctl lock and Go programs do, so no claim can go before those that wait. End the lease with forceRelease(), and acquire the lock",
  waiters: true,
  linger:
    "etcd makes each fence itself, with a key of its own, so that none is left for the next holder in the same process. Acquire the lock anew, or use a store whose grants reserve several",
};
