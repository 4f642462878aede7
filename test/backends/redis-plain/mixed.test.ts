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

describe("four processes of redlock and four of ours on one lock", () => {
  test.each([
    ["on one server", 1],
    ["on three servers", 3],
  ])("%s never overlap, and each gets its turns", { timeout: 180_000 }, async (_, servers) => {
    const found = await onServers({ servers, theirs: node("redlock.mjs"), seconds: 3, events: true });
    expect(found.overlaps).toBe(0);
    expect(found.errors).toEqual([]);
    expect(found.kills).toBe(4);
    expect(found.fewest).toBeGreaterThan(0);
    expect(Math.min(found.ours, found.theirs)).toBeGreaterThan(4);
  });
});
