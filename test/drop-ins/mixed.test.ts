/** Real processes of redlock and redis-semaphore, and of the drop-ins in their place, on one lock, with kills and pauses. */
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, test } from "vitest";
import { ROOT } from "../dist.ts";

interface Found {
  readonly ours: number;
  readonly theirs: number;
  readonly fewest: number;
  readonly overlaps: number;
  readonly kills: number;
  readonly errors: readonly string[];
}

interface Judges {
  readonly node: (file: string) => string[];
  readonly onServers: (terms: object) => Promise<Found>;
}

const { node, onServers } = (await import(pathToFileURL(join(ROOT, "judges/plain.mjs")).href)) as unknown as Judges;

test.each([
  ["redlock", 1],
  ["redlock", 3],
  ["redis-semaphore", 1],
  ["redis-semaphore", 3],
])(
  "four processes of %s and four of its drop-in on %i servers never overlap, and each gets its turns",
  { timeout: 180_000 },
  async (library, servers) => {
    const sides = { ours: node(`drop-in-${library}.mjs`), theirs: node(`${library}.mjs`) };
    const found = await onServers({ servers, ...sides, seconds: 3, events: false });
    expect(found.overlaps).toBe(0);
    expect(found.errors).toEqual([]);
    expect(found.kills).toBe(4);
    expect(found.fewest).toBeGreaterThan(0);
    expect(Math.min(found.ours, found.theirs)).toBeGreaterThan(4);
  },
);
