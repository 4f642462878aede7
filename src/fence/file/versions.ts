/**
 * A folder whose file names are fences: the greatest name is the present one, and an older one can never replace it.
 *
 * Adding a name and then looking for the greatest is a compare-and-advance without any lock: of two writers at once,
 * whoever looks last sees both. So it holds between processes of one machine; network file systems promise less.
 */
import { randomUUID } from "node:crypto";
import { mkdir, open, readdir, rename, unlink, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";

import { parseFence } from "../fenced.ts";

const NAME = /^\d{19}$/;

/** Adds a version, durably, and resolves to the greatest fence then there: another than `fence` means refused. */
export async function addVersion(folder: string, fence: bigint, data?: string | Uint8Array): Promise<bigint> {
  const own = fileOf(fence);
  if (data === undefined) await touch(join(folder, own));
  else await put(folder, own, data);
  await syncFolder(folder);
  const names = await list(folder);
  const greatest = names.at(-1) ?? own;
  if (greatest !== own) {
    // Only once the greater name is sure to survive a power cut may ours go: else both might be gone.
    await syncFolder(folder);
    await remove(folder, [own]);
    return fenceOf(greatest);
  }
  await remove(folder, names.slice(0, -1));
  return fence;
}

/** The greatest fence in the folder, `undefined` when there is none, or no folder. */
export async function latestVersion(folder: string): Promise<bigint | undefined> {
  const names = await list(folder).catch((error: unknown) => {
    if (isMissing(error)) return [];
    throw error;
  });
  const greatest = names.at(-1);
  return greatest === undefined ? undefined : fenceOf(greatest);
}

export function isMissing(error: unknown): boolean {
  return error instanceof Error && "code" in error && error.code === "ENOENT";
}

export function fileOf(fence: bigint): string {
  return fence.toString().padStart(19, "0");
}

/** Makes the folder, durably, and those above it that are missing. Resolves to whether any was. */
export async function makeFolder(path: string): Promise<boolean> {
  const folder = resolve(path);
  const first = await mkdir(folder, { recursive: true });
  if (first === undefined) return false;
  for (let made = folder; made !== dirname(first); made = dirname(made)) await syncFolder(dirname(made));
  return true;
}

async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Writes a whole file or none: a crash leaves a file that no reader looks at. */
async function put(folder: string, name: string, data: string | Uint8Array): Promise<void> {
  const draft = `draft-${randomUUID()}`;
  const path = join(folder, draft);
  try {
    await writeFile(path, data, { flag: "wx", flush: true });
    await rename(path, join(folder, name));
  } catch (error) {
    await remove(folder, [draft]);
    throw error;
  }
}

async function touch(path: string): Promise<void> {
  const handle = await open(path, "a");
  await handle.close();
}

/** Fences as file names, smallest first. Whatever else lies in the folder is left alone. */
async function list(folder: string): Promise<string[]> {
  return (await readdir(folder)).filter((name) => NAME.test(name)).toSorted();
}

function fenceOf(name: string): bigint {
  // The pattern admits 19 digits, so only a number beyond 64 bits fails here: nobody of ours wrote it.
  const fence = parseFence(name.replace(/^0+(?=\d)/, ""));
  if (fence === undefined) throw new Error(`Expected a fence as file name, found ${name}`);
  return fence;
}

async function remove(folder: string, names: readonly string[]): Promise<void> {
  // What cannot be removed now is removed by a later writer, and does no harm meanwhile.
  await Promise.allSettled(names.map((name) => unlink(join(folder, name))));
}
