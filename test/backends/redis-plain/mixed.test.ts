/** Real processes of redlock and of Holdfast on one lock, with kills and pauses. `npm run judges -- plain` has more libraries, and more time. */
import { describe, expect, test } from "vitest";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { ROOT } from "../../dist.ts";

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

describe("two processes of redlock and two of ours on one lock, one of each killed,", () => {
  test.each([
    ["on one server", 1],
    ["on three servers", 3],
  ])("%s never overlap, and each gets its turns", { timeout: 180_000 }, async (_, servers) => {
    const few = { side: 2, strikes: 1, seconds: 1, duels: false, terms: { thinkMs: 60 } };
    const found = await onServers({ servers, theirs: node("redlock.mjs"), events: true, ...few });
    expect(found.overlaps).toBe(0);
    expect(found.errors).toEqual([]);
    expect(found.kills).toBe(2);
    expect(found.fewest).toBeGreaterThan(0);
    expect(Math.min(found.ours, found.theirs)).toBeGreaterThan(4);
  });
});
