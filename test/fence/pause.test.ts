/** Why guards exist: a lock, a pause, and a write that comes too late. */
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterEach, beforeEach, expect, test } from "vitest";

import type { Lease, Locks } from "../../src/core/api.ts";
import { readFileFenced, writeFileFenced } from "../../src/fence/file/index.ts";
import { FenceRejectedError } from "../../src/fence/index.ts";
import { createLocks } from "../../src/core/locks.ts";
import { memory, memoryStore } from "../../src/backends/memory/index.ts";

let folder: string;
let ada: Locks;
let ben: Locks;

beforeEach(async () => {
  const store = memoryStore();
  [ada, ben] = [createLocks(memory({ store })), createLocks(memory({ store }))];
  folder = await mkdtemp(join(tmpdir(), "holdfast-pause-"));
});

afterEach(async () => {
  await Promise.all([ada.close(), ben.close()]);
  await rm(folder, { recursive: true });
});

/** Ada checks that she holds the lock, and is paused right after it, until her lease is over and ben has written. */
async function checkThenPause(writeBen: (lease: Lease) => Promise<void>): Promise<Lease> {
  const lease = await ada.acquire("report", { ttl: 150, renew: false });
  lease.assertHeld();
  await once(lease.signal, "abort");
  await ben.run("report", writeBen);
  return lease;
}

test("without a guard, a holder that checked and then paused destroys what the next one wrote (S03, S04)", async () => {
  const file = join(folder, "plain");
  const write = (text: string): Promise<void> => writeFile(file, text);
  await checkThenPause(() => write("ben"));
  await write("ada, too late");
  expect(await readFile(file, "utf8")).toBe("ada, too late");
});

test("with a guard, its write is refused and the next one's stays (S03, S04)", async () => {
  const file = join(folder, "fenced");
  const paused = await checkThenPause((lease) => writeFileFenced(file, lease, "ben"));
  await expect(writeFileFenced(file, paused, "ada, too late")).rejects.toThrow(FenceRejectedError);
  expect((await readFileFenced(file))?.data.toString()).toBe("ben");
});

test("successive holders of one process, which share one lease of the store, are distinguished too", async () => {
  const file = join(folder, "fenced");
  const fences: bigint[] = [];
  let first: Lease | undefined;
  const turn = (): Promise<void> =>
    ada.run("report", async (lease) => {
      first ??= lease;
      fences.push(lease.fence);
      await writeFileFenced(file, lease, String(lease.fence));
    });
  await Promise.all([turn(), turn(), turn()]);
  expect(new Set(fences).size).toBe(3);
  await expect(writeFileFenced(file, first as Lease, "late")).rejects.toMatchObject({ current: fences[2] });
});
