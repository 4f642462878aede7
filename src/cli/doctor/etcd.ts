/** An etcd cluster: who leads, what its members run and complain of, and how short a lease it gives. */
import { EtcdClient } from "../../backends/etcd/index.ts";
import { type Endpoint, parseEndpoints, showEndpoint } from "../../backends/etcd/client/endpoints.ts";
import { parseUrl } from "../../backends/etcd/open.ts";
import { LockBackendError } from "../../contract/errors.ts";
import type { Examine, Finding } from "./report.ts";

const ANSWER_MS = 5000;

interface Examined {
  readonly label: string;
  /** Absent: it does not answer. */
  readonly status: Awaited<ReturnType<EtcdClient["status"]>> | undefined;
}

export const examineEtcd: Examine = async ({ url }) => {
  const options = parseUrl(url);
  const endpoints = parseEndpoints(options.endpoints);
  const clientOf = (servers: string): EtcdClient =>
    new EtcdClient({ endpoints: servers, tls: options.tls, auth: options.auth, limitMs: ANSWER_MS });
  const client = clientOf(options.endpoints);
  try {
    const [seen, cluster] = await Promise.all([
      Promise.all(endpoints.map((endpoint) => examine(clientOf, endpoint))),
      askCluster(client),
    ]);
    return {
      backend: "etcd",
      facts: {
        ...Object.fromEntries(seen.map(({ label, status }) => [label, describe(status)])),
        "shortest lease": cluster.shortestMs === undefined ? "not given" : `${cluster.shortestMs} ms`,
      },
      findings: [
        ...members(seen, cluster.members),
        ...versions(seen),
        ...alarms(cluster.alarms),
        encryption(options.tls !== undefined, options.auth !== undefined),
      ],
      promises: [
        "one holder at a time, kept by the cluster's consensus",
        "fences that always rise (revisions)",
        "first come, first served, together with `etcdctl lock` and Go's concurrency.Mutex",
      ],
      limits: [
        "anything while no majority of the cluster is up",
        "mutual exclusion for a holder that is paused longer than its ttl: guard what you protect with the fence",
        "fences that rise over a cluster that was restored from an older snapshot: restore with --bump-revision",
      ],
    };
  } finally {
    await client.close();
  }
};

async function examine(clientOf: (servers: string) => EtcdClient, endpoint: Endpoint): Promise<Examined> {
  const label = showEndpoint(endpoint);
  const client = clientOf(label);
  try {
    return { label, status: await client.status() };
  } catch {
    return { label, status: undefined };
  } finally {
    await client.close();
  }
}

interface Cluster {
  readonly members: number | undefined;
  readonly alarms: readonly string[] | undefined;
  readonly shortestMs: number | undefined;
}

/** What this user has no right to ask is left out. */
async function askCluster(client: EtcdClient): Promise<Cluster> {
  const lease = await client.grantLease(1).catch((cause: unknown) => {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new LockBackendError("etcd", "", `etcd at ${client.endpoints} grants no lease: ${reason}.`, { cause });
  });
  await client.revokeLease(lease.id).catch(() => false);
  const [members, found] = await Promise.all([
    client.members().catch(() => undefined),
    client.alarms().catch(() => undefined),
  ]);
  return {
    members: members?.filter(({ isLearner }) => !isLearner).length,
    alarms: found?.map(({ kind, memberId }) => `${kind} at member ${memberId.toString(16)}`),
    shortestMs: lease.ttl * 1000,
  };
}

function describe(status: Examined["status"]): string {
  if (status === undefined) return "no answer";
  const role = status.leader === status.header.memberId ? "leader" : status.leader === 0n ? "no leader" : "follower";
  return `${status.isLearner ? "learner" : role} ${status.version}`;
}

function members(seen: readonly Examined[], count: number | undefined): readonly Finding[] {
  const check = "members";
  const findings: Finding[] = [];
  const silent = seen.filter(({ status }) => status === undefined).map(({ label }) => label);
  if (silent.length > 0) findings.push({ level: "weak", check, text: `${silent.join(", ")} did not answer` });
  if (count === 1) {
    findings.push({ level: "weak", check, text: "a cluster of one member: when it is down, so are all locks" });
  } else if (count === undefined) {
    findings.push({ level: "unknown", check, text: "this user may not list the members" });
  } else if (count % 2 === 0) {
    findings.push({ level: "weak", check, text: `${count} members: one fewer would survive as many failures` });
  } else {
    findings.push({ level: "good", check, text: `a cluster of ${count} members` });
  }
  if (count !== undefined && count > seen.length) {
    findings.push({ level: "weak", check, text: `the URL names ${seen.length} of ${count} members: name all` });
  }
  return findings;
}

/** Faults of leases, by version: see docs/decisions/17-etcd.md. */
const MENDED = { "3.4": 38, "3.5": 23 } as const;

function versions(seen: readonly Examined[]): readonly Finding[] {
  const check = "version";
  const found = [...new Set(seen.flatMap(({ status }) => (status === undefined ? [] : [status.version])))];
  const old = found.filter((version) => {
    const [major, minor, patch] = version.split(".").map(Number);
    const mended = MENDED[`${major}.${minor}` as keyof typeof MENDED];
    return mended !== undefined && (patch ?? 0) < mended;
  });
  if (found.length === 0) return [];
  if (old.length === 0) return [{ level: "good", check, text: `etcd ${found.join(", ")}` }];
  const text = `etcd ${old.join(", ")}: a leader that was replaced while its disk stood still may revoke leases that are kept alive, and a keep-alive may be answered for a lease that is revoked (mended in 3.4.38 and 3.5.23): the holder learns it at once, and its fence is refused; update`;
  return [{ level: "weak", check, text }];
}

function alarms(found: readonly string[] | undefined): readonly Finding[] {
  const check = "alarms";
  if (found === undefined) return [{ level: "unknown", check, text: "this user may not read the alarms" }];
  if (found.length === 0) return [{ level: "good", check, text: "no alarms" }];
  return [{ level: "weak", check, text: `${found.join(", ")}: locks can be released, but not taken` }];
}

function encryption(tls: boolean, auth: boolean): Finding {
  const check = "access";
  if (tls && auth) return { level: "good", check, text: "encrypted, with a user" };
  const text = auth
    ? "the password goes over the network in clear: use etcds://"
    : "no user: every client that reaches the cluster can take, end and forge every lock";
  return { level: "weak", check, text };
}
