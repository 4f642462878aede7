/**
 * A folder whose file names are fences: the greatest name is the present one, and an older one can never replace it.
 *
 * Adding a name and then looking for the greatest is a compare-and-advance without any lock: of two writers at once,
 * whoever looks last sees both. So it holds between processes of one machine; network file systems promise less.
 */
import { randomUUID } from "node:crypto";
import { constants } from "node:fs";
import { mkdir, open, readdir, rename, stat, unlink, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";

import { parseFence } from "../fenced.ts";

const NAME = /^\d{19}$/;
/** A draft is named after the fence that it is for: once a greater one is there, nobody needs it. */
const DRAFT = /^draft-(\d{19})-[-0-9a-f]{36}$/;
/** Neither waits for the other end of a pipe nor follows a link that somebody put there. */
const TOUCH =
  constants.O_WRONLY |
  constants.O_CREAT |
  constants.O_APPEND |
  (constants.O_NONBLOCK ?? 0) |
  (constants.O_NOFOLLOW ?? 0);

/** Adds a version, durably, and resolves to the greatest fence then there: another than `fence` means refused. */
export async function addVersion(folder: string, fence: bigint, data?: string | Uint8Array): Promise<bigint> {
  const own = fileOf(fence);
  if (data === undefined) await touch(join(folder, own));
  else await put(folder, own, data);
  await syncFolder(folder);
  const { versions, drafts } = await list(folder);
  const greatest = versions.at(-1) ?? own;
  if (greatest !== own) {
    // Only once the greater name is sure to survive a power cut may ours go: else both might be gone.
    await syncFolder(folder);
    await remove(folder, [own]);
    return BigInt(greatest);
  }
  await remove(folder, [...versions.slice(0, -1), ...drafts.filter((draft) => isFor(draft) < own)]);
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

export function isMissing(error: unknown): boolean {
  return error instanceof Error && "code" in error && error.code === "ENOENT";
}

function isForbidden(error: unknown): boolean {
  return error instanceof Error && "code" in error && (error.code === "EACCES" || error.code === "EPERM");
}

export function fileOf(fence: bigint): string {
  return fence.toString().padStart(19, "0");
}

/** The folders whose way from the root is durable, as far as this process knows, and which folder was meant. */
const durable = new Map<string, number>();
const DURABLE_MAX = 10_000;

/**
 * Makes the folder, durably, and those above it that are missing. Resolves to whether any was. One that is there may
 * have been made a moment ago by a process that has not synced it yet, or never will: so each process does it once.
 */
export async function makeFolder(path: string): Promise<boolean> {
  const folder = resolve(path);
  const first = await mkdir(folder, { recursive: true });
  const { ino } = await stat(folder);
  if (durable.get(folder) === ino) return false;
  for (let above = dirname(folder); ; above = dirname(above)) {
    await syncFolder(above).catch((error: unknown) => {
      // What we may not read, nobody of ours has made anything in.
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
 * Writes a whole file or none: a crash leaves a draft that no reader looks at, and that the next greater version removes.
 * Where that came meanwhile, nothing is written.
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

/** Whatever else lies in the folder is left alone, and so is what has the name of a version and is no file, or no fence. */
async function list(folder: string): Promise<Found> {
  const files = (await readdir(folder, { withFileTypes: true })).filter((entry) => entry.isFile());
  const names = files.map(({ name }) => name);
  return {
    versions: names.filter((name) => NAME.test(name) && parseFence(BigInt(name).toString()) !== undefined).toSorted(),
    drafts: names.filter((name) => DRAFT.test(name)),
  };
}

/** The name of the version that a draft would have become. */
function isFor(draft: string): string {
  return DRAFT.exec(draft)?.[1] ?? "";
}

async function remove(folder: string, names: readonly string[]): Promise<void> {
  // What cannot be removed now is removed by a later writer, and does no harm meanwhile.
  await Promise.allSettled(names.map((name) => unlink(join(folder, name))));
}
