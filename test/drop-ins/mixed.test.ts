/** Real processes of redlock and redis-semaphore, and of the drop-ins in their place, on one lock. `npm run judges -- drop-ins` has more, and more time. */
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
  readonly besideItsLibrary: (terms: object) => Promise<Found>;
}

const { besideItsLibrary } = (await import(pathToFileURL(join(ROOT, "judges/drop-ins.mjs")).href)) as unknown as Judges;

test.each([
  ["redlock", 3, 1],
  ["redis-semaphore", 1, 1],
  ["redis-semaphore", 1, 2],
])(
  "two processes of %s and two of its drop-in, one of each killed, on %i servers: at most %i inside, and each gets its turns",
  async (library, servers, limit) => {
    const terms = { thinkMs: 60 };
    const found = await besideItsLibrary({
      library,
      servers,
      limit,
      terms,
      side: 2,
      strikes: 1,
      seconds: 1,
      duels: false,
    });
    expect(found.overlaps).toBe(0);
    expect(found.errors).toEqual([]);
    expect(found.kills).toBe(2);
    expect(found.fewest).toBeGreaterThan(0);
    expect(Math.min(found.ours, found.theirs)).toBeGreaterThan(4);
  },
);
