/** One Redis with the layout of Redisson: what it keeps, and whether it can wake those who wait. */
import { openBackend } from "../../backends/redisson/open.ts";
import { ask, clock, eviction, role } from "./redis-checks.ts";
import type { Examine } from "./report.ts";

export const examineRedisson: Examine = async ({ url }) => {
  const backend = await openBackend(url);
  try {
    const found = await ask(backend);
    const { identity, roundTripMs } = found;
    return {
      backend: "redisson",
      facts: {
        version: identity.version,
        role: identity.role === "slave" ? "replica" : identity.role,
        replicas: identity.replicas,
        persistence: identity.persistence,
        eviction: identity.policy,
        "round trip": `${roundTripMs.toFixed(1)} ms`,
      },
      findings: [
        role(identity, /^rediss?\+cluster:/iu.test(url)),
        ...(identity.role === "master" ? [eviction(identity), clock(found)] : []),
      ],
      promises: [
        "one holder at a time (of a read-write lock: readers together, or one writer), beside Redisson, while this primary keeps its memory",
        "fences that rise over Java too with kind=fenced; with the other kinds among clients of Holdfast",
        "a release of either side wakes those of the other who wait",
      ],
      limits: [
        "a fence of a Java holder that uses RLock or RReadWriteLock: it has none",
        "an order among those who wait: the first to ask after a release gets the lock",
        "mutual exclusion after a restart that loses data, or a fail-over to a replica that did not have the lease",
        "exclusion between an RLock and an RReadWriteLock of one name in Java: they do not exclude each other",
      ],
    };
  } finally {
    await backend.close();
  }
};
