/** Which abilities a quorum has, and why not the others. */
import type { Abilities } from "../../contract/backend.ts";

/** What stands against the others is the same each time: members answer one by one, so nothing is one step of all of them. */
export const CAN: Abilities = {
  outcomes:
    "a quorum keeps no outcomes, because no majority can store one and end the lease in one atomic step. Use one Redis, or keep the result where the work is done, under its fence",
  wanted: "members of a quorum keep no queue, so none of them knows that a claim waits for the lock",
  otherTtl: true,
  steal:
    "a quorum cannot end a lease and grant the next one in one atomic step, because others may win the votes in between. End the lease with forceRelease(), and acquire the lock",
  linger: "not all members of the quorum can tell a holder that a claim waits for the lock",
  waiters:
    "members of a quorum keep no queue, so none of them shows who waits, and no deadlock is found there. Use one store, or take several locks in one call",
};
