/** A quorum of independent Redis servers: each member, and what shows only when they are compared. */
import type { Member } from "../../contract/backend.ts";
import { formatMs } from "../../contract/duration.ts";
import { initMembers, type QuorumOptions } from "../../backends/quorum/index.ts";
import { openMembers, type OpenMembers } from "../../backends/quorum/open.ts";
import { toSettings } from "../../backends/quorum/options.ts";
import { ask, eviction, type Identified, role } from "./redis-checks.ts";
import type { Examine, Finding } from "./report.ts";

const CLOCK_SPREAD_MS = 1000;

interface Examined {
  readonly label: string;
  readonly found: Identified | Error;
}

export const examineQuorum: Examine = async ({ url, init, say }) => {
  const opened = await openMembers(url);
  const { members, options } = opened;
  try {
    const seen = await Promise.all(
      members.map((member, at) => examine(member, options.labels?.[at] ?? `member ${at + 1}`)),
    );
    const findings = [...seen.flatMap(memberFindings), ...together(seen), quarantines(seen, options)];
    if (init) findings.push(...(await endQuarantine(opened, say)));
    return { backend: "quorum", facts: factsOf(seen), findings, promises: PROMISES, limits: LIMITS };
  } finally {
    await Promise.all(members.map((member) => member.close()));
  }
};

const PROMISES = [
  "one holder at a time while a majority of the members answers, and clocks run at about the same rate",
  "fences that rise, by ballots: no two leases of a lock ever have the same",
  "a member that lost its data abstains until all leases that it may have lost have expired",
];
const LIMITS = [
  "mutual exclusion when a majority loses its data within one ttl and --init ends its quarantine before it has passed",
  "first come, first served: members keep no queue",
  "limits above one",
];

async function examine(member: Member, label: string): Promise<Examined> {
  try {
    return { label, found: await ask(member) };
  } catch (error) {
    return { label, found: error instanceof Error ? error : new Error(String(error)) };
  }
}

function memberFindings({ label, found }: Examined): readonly Finding[] {
  if (found instanceof Error) return [{ level: "weak", check: "reachable", text: `${label}: ${found.message}` }];
  const { identity } = found;
  const findings = [role(identity, false)];
  if (identity.role === "master" && !identity.cluster) {
    const evicts = eviction(identity);
    findings.push(evicts.level === "weak" ? { ...evicts, level: "broken" } : evicts);
    if (identity.replicas > 0) {
      findings.push({
        level: "weak",
        check: "replicas",
        text: `it has ${identity.replicas} replicas; members should have none`,
      });
    }
  }
  return findings.map((finding) => ({ ...finding, text: `${label}: ${finding.text}` }));
}

function together(seen: readonly Examined[]): readonly Finding[] {
  const answered = seen.flatMap(({ found }) => (found instanceof Error ? [] : [found]));
  const majority = Math.floor(seen.length / 2) + 1;
  const findings: Finding[] = [
    answered.length >= majority
      ? {
          level: "good",
          check: "majority",
          text: `${answered.length} of ${seen.length} members answer; ${majority} are needed`,
        }
      : {
          level: "broken",
          check: "majority",
          text: `only ${answered.length} of ${seen.length} members answer; ${majority} are needed`,
        },
  ];
  if (seen.length % 2 === 0) {
    const text = `${seen.length} members tolerate no more failures than ${seen.length - 1}; use an odd number`;
    findings.push({ level: "weak", check: "odd", text });
  }
  const ids = answered.map(({ identity }) => identity.runId);
  if (new Set(ids).size < ids.length) {
    findings.push({ level: "broken", check: "independent", text: "two members are one and the same server" });
  }
  const offsets = answered.map(({ clockOffsetMs }) => clockOffsetMs).filter(Number.isFinite);
  const spreadMs = offsets.length === 0 ? 0 : Math.round(Math.max(...offsets) - Math.min(...offsets));
  const apart = `the members' clocks are ${spreadMs} ms apart`;
  findings.push({ level: spreadMs > CLOCK_SPREAD_MS ? "weak" : "good", check: "clocks", text: apart });
  return findings;
}

/** All processes must use the same terms: a shorter quarantine would cut that of the others short. */
function quarantines(seen: readonly Examined[], options: QuorumOptions): Finding {
  const check = "quarantine";
  const ownMs = toSettings(options).terms.quarantineMs;
  const others = seen.flatMap(({ label, found }) => {
    const askedMs = found instanceof Error ? undefined : found.identity.quarantineMs;
    return askedMs === undefined || askedMs === ownMs ? [] : [`${label} with ${formatMs(askedMs)}`];
  });
  if (others.length === 0)
    return { level: "good", check, text: `no other quarantine than ${formatMs(ownMs)} is in use` };
  const text = `used with another quarantine than this URL's ${formatMs(ownMs)}: ${others.join(", ")}. All processes must use the same maxTtl and durable; the longest holds for all, until --init`;
  return { level: "weak", check, text };
}

async function endQuarantine(
  { members, options }: OpenMembers,
  say: (line: string) => void,
): Promise<readonly Finding[]> {
  say("Ending the quarantine: from now on the members vote, as if they had never held a lease.");
  const results = await initMembers(members, options);
  return results.map(({ member, result, cause }) => {
    if (result === "failed") {
      const why = cause instanceof Error ? cause.message : String(cause);
      return { level: "broken", check: "init", text: `${member}: its quarantine could not be ended: ${why}` };
    }
    return {
      level: "good",
      check: "init",
      text: `${member}: ${result === "durable" ? "never abstains anyway" : "votes from now on"}`,
    };
  });
}

function factsOf(seen: readonly Examined[]): Record<string, string> {
  return Object.fromEntries(
    seen.map(({ label, found }) => [
      label,
      found instanceof Error ? "no answer" : `${found.identity.version}, ${found.roundTripMs.toFixed(1)} ms`,
    ]),
  );
}
