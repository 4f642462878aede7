/** The guard in ZooKeeper without a mark: the write goes through only while the lock's own node is there. */
import { LockLostError } from "../../contract/errors.ts";
import { checkFenced, type Fenced } from "../fenced.ts";
import { firstPartError, isMissing, type ZooKeeperLike, type ZooKeeperPart } from "./client.ts";

/**
 * Carries out the parts if the lease is held at that very moment, all or nothing. Resolves to the results of the parts.
 * For leases of the ZooKeeper backend, whose fence is the czxid of a node below `lockPath`.
 * Throws `LockLostError`, with nothing written, when that node is gone.
 */
export async function writeWhileHeld<R>(
  zookeeper: ZooKeeperLike<R>,
  lockPath: string,
  lease: Fenced,
  parts: readonly ZooKeeperPart[],
): Promise<readonly R[]> {
  const fenced = checkFenced(lease);
  const node =
    (await findNode(zookeeper, lockPath, fenced.fence)) ?? (await findAfterSync(zookeeper, lockPath, fenced.fence));
  if (node === undefined) throw lost(fenced);
  try {
    return (await zookeeper.multi([{ op: "check", path: node, version: -1 }, ...parts])).slice(1);
  } catch (error) {
    throw firstPartError(error) === "NONODE" ? lost(fenced) : error;
  }
}

/** Our server may lag behind the one that granted the lease. */
async function findAfterSync(zookeeper: ZooKeeperLike, lockPath: string, fence: bigint): Promise<string | undefined> {
  await zookeeper.sync(lockPath);
  return findNode(zookeeper, lockPath, fence);
}

async function findNode(zookeeper: ZooKeeperLike, lockPath: string, fence: bigint): Promise<string | undefined> {
  const found = await zookeeper.getChildren(lockPath).catch((error: unknown) => {
    if (isMissing(error)) return { children: [] };
    throw error;
  });
  for (const child of found.children) {
    const path = `${lockPath}/${child}`;
    if ((await zookeeper.exists(path))?.czxid === fence) return path;
  }
  return undefined;
}

function lost({ name, fence }: Fenced): LockLostError {
  return new LockLostError(name, fence, "its node is gone from ZooKeeper");
}
