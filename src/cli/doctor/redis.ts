/** One Redis, behind Sentinel or a Cluster: what it keeps after a restart and a fail-over, and what it throws away. */
import type { Member } from "../../contract/backend.ts";
import { openBackend, openMember } from "../../backends/redis/open.ts";
import { toSettings } from "../../backends/redis/options.ts";
import { cannotQuarantine } from "../../backends/redis/server-checks.ts";
import { parseUrl } from "../../backends/redis/url.ts";
import { ask, clock, eviction, type Identified, role } from "./redis-checks.ts";
import type { Examine, Finding } from "./report.ts";

export const examineRedis: Examine = async ({ url, init, say }) => {
  const member: Member = await openMember(url);
  try {
    const found = await ask(member).catch((error: unknown) => whyNot(url, error));
    const { identity, roundTripMs } = found;
    const ended = init ? [await endQuarantine(member, say)] : [];
    return {
      backend: "redis",
      facts: {
        version: identity.version,
        role: identity.role === "slave" ? "replica" : identity.role,
        replicas: identity.replicas,
        persistence: identity.persistence,
        eviction: identity.policy,
        "round trip": `${roundTripMs.toFixed(1)} ms`,
      },
      findings: [
        role(identity, /^rediss?\+cluster:/i.test(url)),
        ...detailsOf(found),
        ...quarantine(url, found),
        ...ended,
      ],
      promises: PROMISES,
      limits: LIMITS,
    };
  } finally {
    await member.close();
  }
};

const PROMISES = [
  "one holder at a time while this primary keeps its memory",
  "fences that rise, also after a flush, a restart or a fail-over (by its clock)",
  "first come, first served; a dead holder is replaced when its ttl is over",
];
const LIMITS = [
  "mutual exclusion after a restart that loses data, or a fail-over to a replica that did not have the lease: guard what you protect with the fence",
  "anything while the server cannot be reached: leases end, and no new ones are granted",
];

/** openBackend() refuses a server of the wrong kind, which here is a finding; but what it says of one that is away is better. */
async function whyNot(url: string, error: unknown): Promise<never> {
  const backend = await openBackend(url);
  await backend.close();
  throw error;
}

async function endQuarantine(member: Member, say: (line: string) => void): Promise<Finding> {
  say("Ending the quarantine: from now on the server grants, as if it had never held a lease.");
  const check = "init";
  try {
    await member.endQuarantine?.();
    return { level: "good", check, text: "its quarantine is over" };
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    return { level: "broken", check, text: `its quarantine could not be ended: ${why}` };
  }
}

function detailsOf(found: Identified): readonly Finding[] {
  if (found.identity.role !== "master") return [];
  return [eviction(found.identity), persistence(found), replication(found), clock(found)];
}

/** Where the URL asks for one: whether the server's own settings let it promise anything. */
function quarantine(url: string, { identity }: Identified): readonly Finding[] {
  const settings = toSettings(parseUrl(url).options);
  if (settings.quarantineMs === 0 || identity.role !== "master") return [];
  const check = "quarantine";
  const why = cannotQuarantine(identity, settings);
  if (why !== undefined) return [{ level: "broken", check, text: `failover=quarantine promises nothing here: ${why}` }];
  return [{ level: "good", check, text: "failover=quarantine holds with its settings" }];
}

function persistence({ identity }: Identified): Finding {
  const check = "persistence";
  if (/always/.test(identity.persistence))
    return { level: "good", check, text: "every write is on the disk before it is answered" };
  const text = `${identity.persistence}: a crash may forget leases that are held, and outcomes that once() keeps; appendonly yes with appendfsync always keeps them`;
  return { level: "weak", check, text };
}

function replication({ identity: { replicas, minReplicas, cluster } }: Identified): Finding {
  const check = "replication";
  if (replicas === 0 && !cluster)
    return { level: "good", check, text: "it has no replicas, so no fail-over can lose a lease" };
  const text = `${replicas} replicas: a fail-over may lose the newest leases and outcomes`;
  if (minReplicas !== undefined && minReplicas > 0) {
    return {
      level: "weak",
      check,
      text: `${text}; min-replicas-to-write is ${minReplicas}: failover=quarantine closes the gap`,
    };
  }
  return { level: "weak", check, text: `${text}; set min-replicas-to-write, and failover=quarantine` };
}
