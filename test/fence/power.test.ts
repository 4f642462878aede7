/** Power cuts: what a guard in files has answered is still so afterwards. Every fsync that is left out makes this red. */
import { expect, test, vi } from "vitest";

import { seeded } from "../../src/testing/seeded-random.ts";
import { PowerSupply } from "./power.ts";

let supply: PowerSupply;

vi.mock("node:fs/promises", () => {
  const names = ["mkdir", "open", "readdir", "rename", "stat", "unlink", "writeFile", "readFile"] as const;
  // Whichever supply there is when it is called.
  return Object.fromEntries(
    names.map((name) => [name, (...args: never[]) => (supply.api[name] as (...all: never[]) => unknown)(...args)]),
  );
});

const { addVersion, latestVersion, makeFolder, readFileFenced, writeFileFenced } =
  await import("../../src/fence/file/versions.ts");

const FOLDER = "/var/lib/app/marks";
const SEEDS = 400;

/** Several writers at once, a power cut in the middle of it, and then a check of what is left. */
async function disaster(
  seed: number,
  write: (fence: bigint) => Promise<boolean>,
  check: (accepted: readonly bigint[]) => Promise<void>,
): Promise<void> {
  const chance = seeded(seed);
  supply = new PowerSupply(() => chance.fraction());
  const accepted: bigint[] = [];
  let answered = 0;
  const writer = async (): Promise<void> => {
    for (;;) {
      // The same fence more than once, as from several processes that act for one lease.
      const fence = BigInt(30 + Math.floor(chance.fraction() * 2) + Math.floor(answered / 8));
      if (await write(fence)) accepted.push(fence);
      answered++;
    }
  };
  supply.cutAfter(Math.floor(chance.fraction() * 120));
  for (let count = 0; count < 3; count++) void writer();
  // When nothing is answered any more, nothing moves any more.
  for (let turns = 0; turns < 40; turns++) await new Promise((resolve) => setImmediate(resolve));
  supply.restore();
  await check(accepted);
}

test("S143: a mark that was answered survives every power cut, and so do the folders above it", async () => {
  let cuts = 0;
  for (let seed = 1; seed <= SEEDS; seed++) {
    const write = async (fence: bigint): Promise<boolean> => {
      await makeFolder(FOLDER);
      return (await addVersion(FOLDER, fence)) === fence;
    };
    await disaster(seed, write, async (accepted) => {
      const mark = (await latestVersion(FOLDER)) ?? -1n;
      for (const fence of accepted) expect(mark, `seed ${seed}: ${fence} was accepted`).toBeGreaterThanOrEqual(fence);
      if (accepted.length > 0) cuts++;
    });
  }
  expect(cuts).toBeGreaterThan(SEEDS / 4);
});

test("S143: a mark that gives way to a greater one is not lost with it", async () => {
  for (let seed = 1; seed <= 40; seed++) {
    const chance = seeded(seed);
    supply = new PowerSupply(() => chance.fraction());
    await makeFolder(FOLDER);
    expect(await addVersion(FOLDER, 34n)).toBe(34n);
    // The greater one comes just before the others are listed, and its process stands still before it has synced.
    let greater: Promise<bigint> | undefined;
    let stalled = false;
    supply.gate = async (call) => {
      if (call === "readdir" && greater === undefined) {
        greater = addVersion(FOLDER, 35n);
        await vi.waitUntil(() => stalled, 120_000);
      } else if (call === "sync" && greater !== undefined && !stalled) {
        stalled = true;
        await new Promise(() => {});
      }
    };
    expect(await addVersion(FOLDER, 34n)).toBe(35n);
    supply.restore();
    expect(await latestVersion(FOLDER), `seed ${seed}`).toBeGreaterThanOrEqual(34n);
  }
});

test("S143: a file that was written survives every power cut, whole", async () => {
  let found = 0;
  const text = (fence: bigint): string => `${fence} `.repeat(50);
  for (let seed = 1; seed <= SEEDS; seed++) {
    const write = (fence: bigint): Promise<boolean> =>
      writeFileFenced(FOLDER, { name: "report", fence }, text(fence)).then(
        () => true,
        () => false,
      );
    await disaster(seed, write, async (accepted) => {
      const file = await readFileFenced(FOLDER);
      for (const fence of accepted)
        expect(file?.fence ?? -1n, `seed ${seed}: ${fence} was written`).toBeGreaterThanOrEqual(fence);
      if (file === undefined) return;
      expect(file.data.toString(), `seed ${seed}`).toBe(text(file.fence));
      found++;
    });
  }
  expect(found).toBeGreaterThan(SEEDS / 4);
});
