/** Guarded files: a folder of versions, read by its greatest fence. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";

import { checkFenced, type Fenced } from "../fenced.ts";
import { reject } from "../rejected.ts";
import { addVersion, fileOf, isMissing, latestVersion, makeFolder } from "./versions.ts";

export interface FencedFile {
  readonly data: Buffer;
  /** The fence of the lease that wrote it. */
  readonly fence: bigint;
}

/** How often a reader starts over because a newer version came and the one it was about to read went. */
const TRIES = 100;

/**
 * Replaces the content kept in `folder`, whole and durably, unless a later lease has written it.
 * Throws `FenceRejectedError`, with nothing changed for readers, when one has.
 */
export async function writeFileFenced(folder: string, offered: Fenced, data: string | Uint8Array): Promise<void> {
  const fenced = checkFenced(offered);
  await makeFolder(folder);
  const current = await addVersion(folder, fenced.fence, data);
  if (current > fenced.fence) throw reject("file", fenced, current);
}

/** Reads what the latest lease wrote. `undefined`: nobody has written yet. */
export async function readFileFenced(folder: string): Promise<FencedFile | undefined> {
  for (let tries = 0; tries < TRIES; tries++) {
    const fence = await latestVersion(folder);
    if (fence === undefined) return undefined;
    try {
      return { data: await readFile(join(folder, fileOf(fence))), fence };
    } catch (error) {
      if (!isMissing(error)) throw error;
    }
  }
  throw new Error(`The newest version in ${folder} was replaced ${TRIES} times while it was being read`);
}
