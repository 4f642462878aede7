/** What a quorum does not promise, and why. */
import type { Abilities } from "../../src/contract/backend.ts";
import type { Declined } from "../../src/testing/index.ts";

/** A quorum says why itself. */
export const quorumCannot: readonly (keyof Abilities)[] = ["outcomes", "wanted", "steal", "waiters"];

const NO_QUEUE = "members of a quorum keep no queue: votes decide who is granted next, not the order of arrival";
const NO_WAITERS =
  "members of a quorum keep no queue, so no claim is shown waiting; test/backends/quorum/inspect.test.ts has the rest of it";
const NO_LIMIT = "a limit over a quorum is unsound, so a limit above 1 is refused; see the test of that refusal";
const NO_SWAP = "members report waiters with their votes, so later waiters go first only the next time";

const SPLIT =
  "votes of a waiter and of a try that meet may split, so a try on a free lock may be refused; test/backends/quorum has the rest";

export const quorumDeclined: Declined = {
  "grants waiting claims in the order in which they came, even when no message arrives": NO_QUEUE,
  "lets no claim pass the queue, not even one that does not queue": NO_QUEUE,
  "keeps one place for a claim that asks again while it waits": NO_QUEUE,
  "moves the others up when a waiting claim leaves": NO_QUEUE,
  "ends a watch when its signal aborts, and keeps the claim's place": NO_QUEUE,
  "does not let a stream of readers starve a waiting writer": NO_QUEUE,
  "shows who waits, in order": NO_QUEUE,
  "shows one lock by its exact name: who holds it, who waits in which order, who was forced out": NO_WAITERS,
  "shows what a process says of its own queue, and writes it anew when it has changed": NO_WAITERS,
  "never says busy to a reader's try once the writer is gone, also while a reader of its process waits": SPLIT,
  "lets those who wait go first in a swap()": NO_SWAP,
  "reserves no run where several may hold, so that later holders always have greater fences": NO_LIMIT,
  "lets as many hold as the limit says, and one more for each that leaves": NO_LIMIT,
  "keeps shared and limited claims apart": NO_LIMIT,
  "refuses a claim whose limit differs from the holders', naming both": NO_LIMIT,
  "takes a new limit once no claim holds or waits": NO_LIMIT,
  "shows who holds: name, mode, limit, holder, fence, age, remaining time and meta": NO_LIMIT,
  "ends by force one of several holders, and leaves the others": NO_LIMIT,
};
