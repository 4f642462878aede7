/**
 * The guards in ZooKeeper, each in one transaction: by a mark, which works with the fences of any lock, or by the lock's own
 * node, which needs no mark.
 */
import { LockLostError } from "../../contract/errors.ts";
import { checkFenced, type Fenced, storedFence } from "../fenced.ts";
import { reject } from "../rejected.ts";
import { firstPartError, isMissing, type ZooKeeperLike, type ZooKeeperPart } from "./client.ts";

export interface MarkOptions {
  /** The node below which the marks are. All writers of the data must agree. @default "/holdfast-fences" */
  readonly marks?: string | undefined;
}

const DEFAULTS = { marks: "/holdfast-fences" } as const satisfies MarkOptions;

/** Each lost race means that another writer succeeded, so this many in a row is no longer a race. */
const TRIES = 100;

/**
 * Carries out the parts, all or nothing, unless a later lease has been here. Resolves to the results of the parts.
 * Throws `FenceRejectedError`, with nothing written, when the mark is greater.
 */
export async function writeFenced<R>(
  zookeeper: ZooKeeperLike<R>,
  offered: Fenced,
  parts: readonly ZooKeeperPart[],
  options: MarkOptions = {},
): Promise<readonly R[]> {
  const fenced = checkFenced(offered);
  const parent = options.marks ?? DEFAULTS.marks;
  const path = `${parent}/${nodeName(fenced.name)}`;
  for (let tries = 0; tries < TRIES; tries++) {
    const advance = await nextStep(zookeeper, path, fenced);
    try {
      return (await zookeeper.multi([advance, ...parts])).slice(1);
    } catch (error) {
      const code = firstPartError(error);
      if (code !== "NONODE" && code !== "BADVERSION" && code !== "NODEEXISTS") throw error;
      // Another writer was faster, or our server lags behind: read again what the leader knows.
      if (code === "NONODE") await zookeeper.makePath(parent, "persistent");
      await zookeeper.sync(path);
    }
  }
  throw new Error(`The mark ${path} kept changing: nothing was written. Try again`);
}

/** The part that raises the mark, or checks that it is still what was read. */
async function nextStep(zookeeper: ZooKeeperLike, path: string, fenced: Fenced): Promise<ZooKeeperPart> {
  const data = Buffer.from(fenced.fence.toString());
  const found = await zookeeper.getData(path).catch((error: unknown) => {
    if (isMissing(error)) return undefined;
    throw error;
  });
  if (found === undefined) return { op: "create", path, data, mode: "persistent" };
  const current = storedFence(Buffer.from(found.data).toString(), path);
  if (current > fenced.fence) throw reject("zookeeper", fenced, current);
  const { version } = found.stat;
  return current === fenced.fence ? { op: "check", path, version } : { op: "setData", path, data, version };
}

/** The name as one node: percent-encoded, and the three names that a path cannot have are escaped. */
function nodeName(name: string): string {
  if (name === "") return "%";
  return name === "." || name === ".." ? name.replaceAll(".", "%2E") : encodeURIComponent(name);
}

/**
 * Carries out the parts, all or nothing, only while the lock's own node exists. Resolves to the results of the parts.
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
