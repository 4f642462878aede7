/** Real processes of redis-semaphore and of the drop-in in its place, on one semaphore, with kills and pauses. */
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, test } from "vitest";
import { ROOT } from "../dist.ts";

interface Found {
  readonly ours: number;
  readonly theirs: number;
  readonly fewest: number;
  readonly kills: number;
  readonly errors: readonly string[];
  readonly sections: readonly { readonly from: bigint; readonly to: bigint }[];
}

interface Judges {
  readonly node: (file: string) => string[];
  readonly onServers: (terms: object) => Promise<Found>;
}

interface Crowd {
  readonly crowd: (sections: Found["sections"], limit: number) => { readonly most: number; readonly tooMany: number };
}

async function load<T>(file: string): Promise<T> {
  return (await import(pathToFileURL(join(ROOT, file)).href)) as T;
}

const { node, onServers } = await load<Judges>("judges/plain.mjs");
const { crowd } = await load<Crowd>("judges/plain/crowd.mjs");

test("crowd() counts who is inside at once, and not who comes as another goes", () => {
  const section = (from: number, to: number): Found["sections"][number] => ({ from: BigInt(from), to: BigInt(to) });
  expect(crowd([section(0, 5), section(5, 9), section(2, 7)], 2)).toEqual({ most: 2, tooMany: 0 });
  expect(crowd([section(0, 5), section(4, 9), section(2, 7)], 2)).toEqual({ most: 3, tooMany: 1 });
});

test.each([2, 3])(
  "four processes of redis-semaphore and four of its drop-in: at most %i inside, and each gets its turns",
  { timeout: 180_000 },
  async (limit) => {
    const sides = { ours: node("drop-in-semaphore.mjs"), theirs: node("semaphore.mjs") };
    const found = await onServers({ servers: 1, ...sides, seconds: 3, events: false, limit });
    expect(crowd(found.sections, limit)).toEqual({ most: limit, tooMany: 0 });
    expect(found.errors).toEqual([]);
    expect(found.kills).toBe(4);
    expect(found.fewest).toBeGreaterThan(0);
    expect(Math.min(found.ours, found.theirs)).toBeGreaterThan(4);
  },
);
