/** Locks that are used in two ways at once, without mutual exclusion: refused where the nodes show it. */
import type { Claim } from "../../contract/backend.ts";
import { LockBackendError, quote } from "../../contract/errors.ts";
import { warn } from "../../contract/warning.ts";
import type { ZooKeeperClient } from "./client/client.ts";
import { hasCode } from "./client/errors.ts";
import { type Contender, overflow, parseContender } from "./contenders.ts";
import { type Dialect, SEMAPHORE } from "./paths.ts";
import { isClaim, readClaim } from "./node-data.ts";

/** The recipe that does not see the nodes of a dialect. */
const UNSEEN_BY: Readonly<Record<Dialect, { readonly kind: string; readonly dialect: Dialect } | undefined>> = {
  curator: { kind: "__WRIT__", dialect: "curator-rw" },
  "curator-rw": { kind: "lock-", dialect: "curator" },
  kazoo: undefined,
};

/** Throws if the queue of an exclusive or shared claim shows that another recipe uses the lock too. */
export function checkContenders(claim: Claim, path: string, dialect: Dialect, order: readonly Contender[]): void {
  checkOverflow(claim, path, order);
  const other = UNSEEN_BY[dialect];
  if (other !== undefined && order.some(({ kind }) => kind === other.kind)) {
    throw mixedUse(
      claim,
      `has nodes of another recipe (${other.kind}), which does not see those of dialect "${dialect}". Use dialect "${other.dialect}" for it everywhere`,
    );
  }
}

/** Throws if the lock of an exclusive or shared claim is also held with a limit. */
export async function checkNoLeases(client: ZooKeeperClient, claim: Claim, path: string): Promise<void> {
  if (!(await hasLeases(client, path))) return;
  throw mixedUse(claim, `is in use with a limit, but this claim asks for limit 1. All claimants must agree on it`);
}

/** Throws if a lock with a limit is also used without, or with another one. */
export async function checkLimit(
  client: ZooKeeperClient,
  claim: Claim,
  path: string,
  otherLease: string | undefined,
): Promise<void> {
  const [{ children }, other] = await Promise.all([
    client.getChildren(path),
    otherLease === undefined ? undefined : dataOf(client, otherLease),
  ]);
  if (children.some((child) => parseContender(child) !== undefined)) {
    throw mixedUse(
      claim,
      `is in use with limit 1, but this claim asks for limit ${claim.limit}. All claimants must agree on it`,
    );
  }
  if (other === undefined || !isClaim(other)) return;
  const { limit } = readClaim(other);
  if (limit !== claim.limit) {
    throw mixedUse(
      claim,
      `is in use with limit ${limit}, but this claim asks for limit ${claim.limit}. All claimants must agree on it`,
    );
  }
}

const warned = new Set<string>();

export function checkOverflow(claim: Claim, path: string, order: readonly Contender[]): void {
  const state = overflow(order);
  if (state === "none") return;
  if (state === "broken") {
    throw mixedUse(
      claim,
      `has used up its 2147483648 sequence numbers, after which other libraries' clients do not keep the order. Delete ${path} while it is not in use`,
    );
  }
  if (warned.has(path)) return;
  warned.add(path);
  warn(
    "HOLDFAST_SEQUENCE",
    `ZooKeeper's sequence numbers for ${path} will be used up within a million acquisitions. Other libraries' clients break then: leave the lock alone for a minute or two, or delete the path while it is not in use.`,
  );
}

async function hasLeases(client: ZooKeeperClient, path: string): Promise<boolean> {
  try {
    const { children } = await client.getChildren(`${path}/${SEMAPHORE.leases}`);
    return children.length > 0;
  } catch (error) {
    if (hasCode(error, "NONODE")) return false;
    throw error;
  }
}

async function dataOf(client: ZooKeeperClient, path: string): Promise<Buffer | undefined> {
  try {
    const { data } = await client.getData(path);
    return data;
  } catch (error) {
    if (hasCode(error, "NONODE")) return undefined;
    throw error;
  }
}

function mixedUse(claim: Claim, what: string): LockBackendError {
  return new LockBackendError("zookeeper", claim.name, `Lock ${quote(claim.name)} ${what}.`, { fatal: true });
}
