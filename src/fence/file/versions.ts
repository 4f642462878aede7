/**
 * Guarded files: a folder whose file names are fences. The greatest name is the current version, and an older one can never
 * replace it.
 *
 * Adding a name and then looking for the greatest is a compare-and-advance without a lock: of two concurrent writers, the
 * one that looks last sees both names. This holds between processes of one machine; network file systems promise less.
 */
import { randomUUID } from "node:crypto";
import { constants } from "node:fs";
import { mkdir, open, readdir, readFile, rename, stat, unlink, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";

import { checkFenced, type Fenced, parseFence } from "../fenced.ts";
import { reject } from "../rejected.ts";

const NAME = /^\d{19}$/;
/** A draft is named after the fence that it is for: it is useless once a greater version is there. */
const DRAFT = /^draft-(\d{19})-[-0-9a-f]{36}$/;
/** Neither waits for the other end of a pipe nor follows a symbolic link. */
const TOUCH =
  constants.O_WRONLY |
  constants.O_CREAT |
  constants.O_APPEND |
  (constants.O_NONBLOCK ?? 0) |
  (constants.O_NOFOLLOW ?? 0);

export interface FencedFile {
  readonly data: Buffer;
  /** The fence of the lease that wrote it. */
  readonly fence: bigint;
}

/** How often a reader starts again because a newer version replaced the one that it was about to read. */
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

/** Reads what the latest lease wrote. `undefined`: there is no version yet. */
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

/** Adds a version, durably, and resolves to the greatest fence in the folder then: a greater one than `fence` means refused. */
export async function addVersion(folder: string, fence: bigint, data?: string | Uint8Array): Promise<bigint> {
  const own = fileOf(fence);
  if (data === undefined) await touch(join(folder, own));
  else await put(folder, own, data);
  await syncFolder(folder);
  const { versions, drafts } = await list(folder);
  const greatest = versions.at(-1) ?? own;
  if (greatest !== own) {
    // Ours may go only once the greater name survives a power cut: otherwise both might be gone.
    await syncFolder(folder);
    await remove(folder, [own]);
    return BigInt(greatest);
  }
  await remove(folder, [...versions.slice(0, -1), ...drafts.filter((draft) => versionOf(draft) < own)]);
  return fence;
}

/** The greatest fence in the folder, `undefined` when there is none, or no folder. */
export async function latestVersion(folder: string): Promise<bigint | undefined> {
  const greatest = await list(folder).catch((error: unknown) => {
    if (isMissing(error)) return undefined;
    throw error;
  });
  const name = greatest?.versions.at(-1);
  return name === undefined ? undefined : BigInt(name);
}

function isMissing(error: unknown): boolean {
  return error instanceof Error && "code" in error && error.code === "ENOENT";
}

function isForbidden(error: unknown): boolean {
  return error instanceof Error && "code" in error && (error.code === "EACCES" || error.code === "EPERM");
}

function fileOf(fence: bigint): string {
  return fence.toString().padStart(19, "0");
}

/** The folders whose path from the root is durable, as far as this process knows, each with its inode. */
const durable = new Map<string, number>();
const DURABLE_MAX = 10_000;

/**
 * Makes the folder and its missing parents, durably. Resolves to whether any was missing. A folder that exists may have
 * been made just now by a process that has not synced it yet, or never will: so each process syncs it once.
 */
export async function makeFolder(path: string): Promise<boolean> {
  const folder = resolve(path);
  const first = await mkdir(folder, { recursive: true });
  const { ino } = await stat(folder);
  if (durable.get(folder) === ino) return false;
  for (let above = dirname(folder); ; above = dirname(above)) {
    await syncFolder(above).catch((error: unknown) => {
      // A folder that we may not read is one in which this library made nothing.
      if (!isForbidden(error)) throw error;
    });
    if (above === dirname(above)) break;
  }
  if (durable.size >= DURABLE_MAX) durable.clear();
  durable.set(folder, ino);
  return first !== undefined;
}

async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/**
 * Writes a whole file or none: a crash leaves a draft, which no reader reads and the next greater version removes. Writes
 * nothing if a greater version came meanwhile.
 */
async function put(folder: string, name: string, data: string | Uint8Array): Promise<void> {
  const draft = `draft-${name}-${randomUUID()}`;
  const path = join(folder, draft);
  try {
    await writeFile(path, data, { flag: "wx", flush: true });
    await rename(path, join(folder, name));
  } catch (error) {
    await remove(folder, [draft]);
    const latest = isMissing(error) ? await latestVersion(folder) : undefined;
    if (latest === undefined || latest <= BigInt(name)) throw error;
  }
}

async function touch(path: string): Promise<void> {
  const handle = await open(path, TOUCH);
  await handle.close();
}

interface Found {
  /** Fences as file names, smallest first. */
  readonly versions: readonly string[];
  readonly drafts: readonly string[];
}

/** Other entries are left alone, and so are those that have the name of a version but are not a file or not a fence. */
async function list(folder: string): Promise<Found> {
  const files = (await readdir(folder, { withFileTypes: true })).filter((entry) => entry.isFile());
  const names = files.map(({ name }) => name);
  return {
    versions: names.filter((name) => NAME.test(name) && parseFence(BigInt(name).toString()) !== undefined).toSorted(),
    drafts: names.filter((name) => DRAFT.test(name)),
  };
}

/** The name of the version that a draft would have become. */
function versionOf(draft: string): string {
  return DRAFT.exec(draft)?.[1] ?? "";
}

async function remove(folder: string, names: readonly string[]): Promise<void> {
  // What cannot be removed now is harmless, and a later writer removes it.
  await Promise.allSettled(names.map((name) => unlink(join(folder, name))));
}
