/**
 * The guards in etcd, each in one transaction: by a mark, which works with the fences of any lock, or by the lock's own key,
 * which needs no mark.
 */
import { LockLostError } from "../../contract/errors.ts";
import { checkFenced, type Fenced, storedFence } from "../fenced.ts";
import { reject } from "../rejected.ts";
import type { EtcdLike, EtcdWrite } from "./client.ts";

export interface MarkOptions {
  /** What the keys of the marks begin with. All writers of the data must agree. @default "/holdfast-fences" */
  readonly marks?: string | undefined;
}

const DEFAULTS = { marks: "/holdfast-fences" } as const satisfies MarkOptions;

/** Each lost race means that another writer succeeded, so this many in a row is no longer a race. */
const TRIES = 100;

/**
 * Carries out the writes, all or nothing, unless a later lease has been here. Throws `FenceRejectedError`, with nothing written,
 * when the mark is greater.
 */
export async function writeFenced(
  etcd: EtcdLike,
  offered: Fenced,
  writes: readonly EtcdWrite[],
  options: MarkOptions = {},
): Promise<void> {
  const fenced = checkFenced(offered);
  const path = `${options.marks ?? DEFAULTS.marks}/${encodeURIComponent(fenced.name)}`;
  const key = Buffer.from(path);
  const value = Buffer.from(fenced.fence.toString());
  for (let tries = 0; tries < TRIES; tries++) {
    const [mark] = (await etcd.range({ key })).kvs;
    const current = mark === undefined ? undefined : storedFence(Buffer.from(mark.value).toString(), path);
    if (current !== undefined && current > fenced.fence) throw reject("etcd", fenced, current);
    const { succeeded } = await etcd.txn({
      when: [{ key, modRevision: mark?.modRevision ?? 0n }],
      success: current === fenced.fence ? writes : [{ put: { key, value, lease: 0n } }, ...writes],
    });
    // Otherwise another writer was faster: read again.
    if (succeeded) return;
  }
  throw new Error(`The mark ${path} kept changing: nothing was written. Try again`);
}

/**
 * Carries out the writes, all or nothing, only while the lock's own key exists. For leases of the etcd backend, whose fence is
 * the revision at which a key below `lockPath` was granted. Throws `LockLostError`, with nothing written, when it is gone.
 */
export async function writeWhileHeld(
  etcd: EtcdLike,
  lockPath: string,
  lease: Fenced,
  writes: readonly EtcdWrite[],
): Promise<void> {
  const fenced = checkFenced(lease);
  const { kvs } = await etcd.range({ key: Buffer.from(`${lockPath}/`), end: Buffer.from(`${lockPath}0`) });
  const own = kvs.find(({ modRevision }) => modRevision === fenced.fence);
  if (own === undefined) throw lost(fenced);
  // A key that was created again, or written again, has another revision.
  const { succeeded } = await etcd.txn({ when: [{ key: own.key, modRevision: fenced.fence }], success: writes });
  if (!succeeded) throw lost(fenced);
}

function lost({ name, fence }: Fenced): LockLostError {
  return new LockLostError(name, fence, "its key is gone from etcd");
}
