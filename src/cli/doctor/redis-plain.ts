/** One Redis with the plain layout: what it keeps, and whether waiting clients are woken or must poll. */
import { openMember } from "../../backends/redis-plain/open.ts";
import { ask, clock, eviction, role } from "./redis-checks.ts";
import type { Examine, Finding } from "./report.ts";

export const examineRedisPlain: Examine = async ({ url }) => {
  const member = await openMember(url);
  try {
    const found = await ask(member);
    const { identity, roundTripMs } = found;
    const events = await member.sendsEvents();
    return {
      backend: "redis-plain",
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
        ...(identity.role === "master" ? [eviction(identity), clock(found), wakeUps(events)] : []),
      ],
      promises: [
        "one holder at a time, beside every library that uses SET NX and compares before it deletes, while this primary keeps its memory",
        "fences that rise among clients of Holdfast (by its clock)",
      ],
      limits: [
        "a fence of another library's holder: it has none",
        "an order among those who wait: the first to ask after a release gets the lock",
        "mutual exclusion after a restart that loses data, or a fail-over to a replica that did not have the lease",
        "anything against a client that deletes or writes the key without comparing its value",
      ],
    };
  } finally {
    await member.close();
  }
};

function wakeUps(events: boolean | undefined): Finding {
  const check = "events";
  if (events === true) return { level: "good", check, text: "keyspace events are on: a release wakes who waits" };
  const how = "CONFIG SET notify-keyspace-events Kgx lets a release wake them";
  if (events === false) return { level: "weak", check, text: `keyspace events are off, so who waits polls. ${how}` };
  return {
    level: "unknown",
    check,
    text: `whether keyspace events are on cannot be asked (CONFIG GET is forbidden). ${how}`,
  };
}
