/** The high-water mark in files, for guards in front of something else, such as an HTTP middleware. */
import { createHash } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";

import { checkFenced } from "../fenced.ts";
import type { MarkStore } from "../marks.ts";
import { addVersion, latestVersion, makeFolder } from "./versions.ts";

/** Forgetting a mark costs one more write, so the map is simply cleared when it is full. */
const MAX_REMEMBERED = 10_000;

/**
 * Keeps marks in `folder`, safe through crashes and power cuts. Several processes of one machine may share it;
 * several machines may not.
 */
export function fileMarks(folder: string): MarkStore {
  /** The mark that this process last made durable, per lock: repeating it needs no write. */
  const durable = new Map<string, bigint>();
  /** One step at a time per lock, so a thousand requests don't open a thousand files. */
  const queues = new Map<string, Promise<unknown>>();

  async function step(lock: string, fence: bigint): Promise<bigint> {
    const marks = join(folder, createHash("sha256").update(lock).digest("hex"));
    if (durable.get(lock) === fence) {
      const latest = await latestVersion(marks);
      if (latest !== undefined && latest >= fence) return latest;
    }
    // For people: the folder's own name is a digest.
    if (await makeFolder(marks)) await writeFile(join(marks, "lock"), lock);
    const current = await addVersion(marks, fence);
    if (durable.size >= MAX_REMEMBERED) durable.clear();
    durable.set(lock, current);
    return current;
  }

  return {
    async advance(name, offered) {
      const { name: lock, fence } = checkFenced({ name, fence: offered });
      const turn = (queues.get(lock) ?? Promise.resolve()).then(() => step(lock, fence));
      const settled = turn.catch(() => undefined);
      queues.set(lock, settled);
      try {
        return await turn;
      } finally {
        if (queues.get(lock) === settled) queues.delete(lock);
      }
    },
  };
}
