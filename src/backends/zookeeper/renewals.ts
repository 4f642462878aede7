/**
 * Confirms leases by a transaction of nothing but checks. It changes nothing and wakes no watcher, and yet its answer means
 * that a majority of the ensemble agreed, after we asked, that the session and the nodes exist. A `sync` would be cheaper,
 * but a leader that has lost its majority still answers that for a while.
 */
import type { Claim, Renewal } from "../../contract/backend.ts";
import { systemClock } from "../../contract/clock.ts";
import { declined } from "../../contract/declined.ts";
import { within } from "../../contract/time-limit.ts";
import { CAN } from "./abilities.ts";
import type { ZooKeeperClient } from "./client/client.ts";
import { hasCode, ZooKeeperMultiError } from "./client/errors.ts";
import type { LocalLease } from "./local-leases.ts";

/** Well below the 1 MB that a server takes in one request. */
const CHUNK_BYTES = 128 * 1024;
const OVERHEAD_BYTES = 32;

/** What the backend knows and does of its leases. */
export interface LeaseSteps {
  readonly find: (claim: Claim) => LocalLease | undefined;
  /** Takes what the ensemble said. Returns what that means for a lease that may have ended meanwhile. */
  readonly apply: (lease: LocalLease, answer: Renewal) => Renewal;
  /** Writes what the claim's process says of itself, where that has changed. */
  readonly tell: (claim: Claim) => void;
}

export const NOT_HELD: Renewal = { held: false, reason: { kind: "not-held" } };

/** How much of the shortest ttl a renewal waits to learn who waits: a hint must not cost a lease. */
const HINT_SHARE = 1 / 4;

/** Confirms the leases of the claims, each by itself; one for another ttl is refused, and keeps what it has. */
export async function renewLeases(
  client: ZooKeeperClient,
  claims: readonly Claim[],
  fences: readonly bigint[] | undefined,
  { find, apply, tell }: LeaseSteps,
): Promise<readonly Renewal[]> {
  const leases = claims.map((claim, at) => {
    const lease = find(claim);
    return fences === undefined || lease?.node.czxid === fences[at] ? lease : undefined;
  });
  const known = leases.filter(
    (lease, at): lease is LocalLease => lease !== undefined && !isOtherTtl(lease, claims[at]!),
  );
  const confirmed = await confirm(client, known);
  const answers = new Map(known.map((lease, at) => [lease, apply(lease, confirmed[at]!)]));
  for (const [at, lease] of leases.entries()) if (lease !== undefined) tell(claims[at]!);
  await awaitWanted(known);
  return leases.map((lease, at) => {
    if (lease === undefined) return NOT_HELD;
    const answer = answers.get(lease) ?? otherTtl(claims[at]!);
    return answer.held === true && lease.wanted?.isWanted === true ? { ...answer, wanted: true } : answer;
  });
}

/** The ttl may be the one that was asked for, or the one that the session has room for. */
function isOtherTtl(lease: LocalLease, { ttlMs }: Claim): boolean {
  return ttlMs !== lease.claim.ttlMs && ttlMs !== lease.ttlMs;
}

function otherTtl({ name }: Claim): Renewal {
  return { held: "unknown", cause: declined("zookeeper", CAN, "otherTtl", name) };
}

/**
 * Waits for the answer to who waits, where the server has announced a change. It did so before it confirmed the leases: what a
 * renewal says is no older than itself.
 */
async function awaitWanted(leases: readonly LocalLease[]): Promise<void> {
  const looks = leases.flatMap(({ wanted }) => wanted?.look() ?? []);
  if (looks.length === 0) return;
  const shortestMs = Math.min(...leases.map(({ ttlMs }) => ttlMs));
  await within(systemClock, Promise.all(looks), shortestMs * HINT_SHARE);
}

/** Confirms all leases at once, and answers in their order. */
export async function confirm(client: ZooKeeperClient, leases: readonly LocalLease[]): Promise<readonly Renewal[]> {
  const answers = await Promise.all(chunks(leases).map((chunk) => confirmChunk(client, chunk)));
  return answers.flat();
}

async function confirmChunk(client: ZooKeeperClient, leases: readonly LocalLease[]): Promise<readonly Renewal[]> {
  const askedMs = performance.now();
  try {
    await client.multi(leases.map(({ node }) => ({ op: "check", path: node.path, version: -1 })));
    const fromMs = client.since(askedMs);
    return leases.map(() => ({ held: true, fromMs }));
  } catch (error) {
    // One node that is gone fails the whole transaction: then each is checked by itself, still in one round trip.
    if (error instanceof ZooKeeperMultiError && leases.length > 1) {
      const answers = await Promise.all(leases.map((lease) => confirmChunk(client, [lease])));
      return answers.flat();
    }
    if (hasCode(error, "NONODE")) return leases.map(() => ({ held: false, reason: { kind: "removed" } }));
    return leases.map(() => ({ held: "unknown", cause: error }));
  }
}

function chunks(leases: readonly LocalLease[]): readonly LocalLease[][] {
  const result: LocalLease[][] = [];
  let bytes = Infinity;
  for (const lease of leases) {
    const size = OVERHEAD_BYTES + Buffer.byteLength(lease.node.path);
    bytes += size;
    if (bytes > CHUNK_BYTES) {
      result.push([]);
      bytes = size;
    }
    result.at(-1)?.push(lease);
  }
  return result;
}
