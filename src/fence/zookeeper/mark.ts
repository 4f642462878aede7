/** The guard in ZooKeeper by a mark: compare, remember and write in one transaction. Works with any lock's fences. */
import { checkFenced, type Fenced, storedFence } from "../fenced.ts";
import { reject } from "../rejected.ts";
import { firstPartError, isMissing, type ZooKeeperLike, type ZooKeeperPart } from "./client.ts";

export interface MarkOptions {
  /** The node below which the marks are. All writers of the data must agree. @default "/holdfast-fences" */
  readonly marks?: string | undefined;
}

const DEFAULTS = { marks: "/holdfast-fences" } as const satisfies MarkOptions;

/** Each lost race means that another writer got through, so this many in a row is no longer a race. */
const TRIES = 100;

/**
 * Carries out the parts unless a later lease has been here, all or nothing. Resolves to the results of the parts.
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
      const wrong = firstPartError(error);
      if (wrong !== "NONODE" && wrong !== "BADVERSION" && wrong !== "NODEEXISTS") throw error;
      // Somebody was faster, or our server lags behind: look again, at what the leader knows.
      if (wrong === "NONODE") await zookeeper.makePath(parent, "persistent");
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

/** Any name as one node: percent-encoded, with the three names that a path cannot have spelt out. */
function nodeName(name: string): string {
  if (name === "") return "%";
  return name === "." || name === ".." ? name.replaceAll(".", "%2E") : encodeURIComponent(name);
}
