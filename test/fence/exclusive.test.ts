/** Guards are for exclusive holders of a lock with limit 1: what they do with other leases, as docs/fencing.md says. */
import { afterEach, describe, expect, test } from "vitest";

import { admit, FenceRejectedError, memoryMarks } from "../../src/fence/index.ts";
import { createLocks, type Lease, type Locks } from "../../src/index.ts";
import { memory } from "../../src/backends/memory/index.ts";

const opened: Locks[] = [];

/** Two processes, so to speak: leases of each come from the store. */
function open(): [Locks, Locks] {
  const store = memory();
  const both: [Locks, Locks] = [createLocks(store), createLocks(store)];
  opened.push(...both);
  return both;
}

afterEach(async () => {
  await Promise.all(opened.splice(0).map((locks) => locks.close({ force: true })));
});

async function isAdmitted(marks: ReturnType<typeof memoryMarks>, lease: Lease): Promise<boolean> {
  try {
    await admit(marks, lease);
    return true;
  } catch (error) {
    expect(error).toBeInstanceOf(FenceRejectedError);
    return false;
  }
}

describe("guards are for exclusive holders", () => {
  test("with limit 1, the current holder is admitted every time, and every earlier one is refused", async () => {
    const [a, b] = open();
    const marks = memoryMarks();
    const first = await a.acquire("invoice:42");
    expect(await isAdmitted(marks, first)).toBe(true);
    await first.release();
    const second = await b.acquire("invoice:42");
    expect([await isAdmitted(marks, second), await isAdmitted(marks, second)]).toEqual([true, true]);
    expect(await isAdmitted(marks, first)).toBe(false);
  });

  test("with several holders at once, only the one with the greatest fence is admitted, though all hold", async () => {
    const [a, b] = open();
    const marks = memoryMarks();
    const [first, second] = [await a.acquire("import", { limit: 2 }), await b.acquire("import", { limit: 2 })];
    expect(second.fence).toBeGreaterThan(first.fence);
    expect(await isAdmitted(marks, first)).toBe(true);
    expect(await isAdmitted(marks, second)).toBe(true);
    expect(await isAdmitted(marks, first)).toBe(false);
    for (const lease of [first, second]) lease.assertHeld();
  });

  test("a guard does not distinguish shared holders, so all of them may write until the next exclusive holder does", async () => {
    const [a, b] = open();
    const marks = memoryMarks();
    const readers = [await a.acquire("catalog", { mode: "shared" }), await b.acquire("catalog", { mode: "shared" })];
    for (const reader of readers) expect(await isAdmitted(marks, reader)).toBe(true);
    for (const reader of readers) await reader.release();
    const writer = await a.acquire("catalog");
    expect(await isAdmitted(marks, writer)).toBe(true);
    for (const reader of readers) expect(await isAdmitted(marks, reader)).toBe(false);
  });
});
