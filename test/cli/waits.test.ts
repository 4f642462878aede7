/** What `holdfast top --by wait` makes of looking at a store now and then: exact numbers, and what cannot be seen. */
import { describe, expect, test } from "vitest";

import { type WaitRow, WaitSamples } from "../../src/core/wait-samples.ts";
import { waitTable } from "../../src/cli/top/waits-view.ts";
import type { Snapshot } from "../../src/cli/format-lock.ts";
import type { LockHolder, LockWaiter } from "../../src/core/api.ts";

const common = { name: "a", mode: "exclusive", limit: 1, sinceMs: 0, processWaiters: 0 } as const;

function holder(fields: Partial<LockHolder> & { readonly heldMs: number }): LockHolder {
  return { ...common, holder: "web:1", fence: 1n, remainingMs: 1000, processHolders: 1, meta: {}, ...fields };
}

function waiter(fields: Partial<LockWaiter> & { readonly waitingMs: number }): LockWaiter {
  return { ...common, holder: "job:1", position: 1, id: "w1", meta: {}, ...fields };
}

const seen = (held: readonly LockHolder[], pending: readonly LockWaiter[]): Snapshot => ({ held, pending, forced: [] });

/** Looks at these, each at its time. */
function rows(...looks: readonly (readonly [number, Snapshot])[]): readonly WaitRow[] {
  const samples = new WaitSamples();
  for (const [atMs, snapshot] of looks) samples.look(snapshot, atMs);
  return samples.rows();
}

const parts = (row: WaitRow | undefined): Record<string, number> =>
  Object.fromEntries((row?.holders ?? []).map(({ holder: who, reason, waitMs }) => [`${who} ${reason ?? ""}`, waitMs]));

describe("a single snapshot", () => {
  test("a wait is the holder's for as long as that has held the lock; before, it is not known whose", () => {
    const [row] = rows([
      10_000,
      seen([holder({ heldMs: 3000, meta: { reason: "import" } })], [waiter({ waitingMs: 8000 })]),
    ]);
    expect(row).toMatchObject({ name: "a", waiting: 1, waitMs: 8000, unknownMs: 5000 });
    expect(parts(row)).toEqual({ "web:1 import": 3000 });
  });

  test("no claim waits: there is nothing to show", () => {
    expect(rows([0, seen([holder({ heldMs: 3000 })], [])])).toEqual([]);
  });
});

describe("several looks", () => {
  test("each wait goes on between them, and is split where the holder changed", () => {
    const first = seen([holder({ heldMs: 500 })], [waiter({ waitingMs: 100 }), waiter({ id: "w2", waitingMs: 0 })]);
    const second = seen([holder({ holder: "job:1", fence: 2n, heldMs: 300 })], [waiter({ id: "w2", waitingMs: 1000 })]);
    const [row] = rows([1000, first], [2000, second]);
    // w1 was last seen at 1000: that it went on is not counted. w2: 700 for web, 300 for job.
    expect(row).toMatchObject({ waiting: 1, waitMs: 100 + 1000, unknownMs: 0 });
    expect(parts(row)).toEqual({ "web:1 ": 100 + 700, "job:1 ": 300 });
  });

  test("a lock that is free again is remembered", () => {
    const [row] = rows([1000, seen([holder({ heldMs: 500 })], [waiter({ waitingMs: 400 })])], [2000, seen([], [])]);
    expect(row).toMatchObject({ waiting: 0, waitMs: 400 });
  });

  test("those behind others in their process count from when they are first seen", () => {
    const look = (waitingMs: number): Snapshot =>
      seen([holder({ heldMs: 9000, processWaiters: 2 })], [waiter({ waitingMs, processWaiters: 3 })]);
    expect(rows([1000, look(100)])).toMatchObject([{ waiting: 6, waitMs: 100 }]);
    expect(rows([1000, look(100)], [1500, look(600)])).toMatchObject([{ waiting: 6, waitMs: 100 + 6 * 500 }]);
  });

  test("waiters without an id are known by their order", () => {
    const look = (...waits: readonly number[]): Snapshot =>
      seen(
        [holder({ heldMs: 9000 })],
        waits.map((waitingMs) => waiter({ id: undefined, waitingMs })),
      );
    expect(rows([1000, look(100, 50)], [1100, look(200, 150)])).toMatchObject([{ waiting: 2, waitMs: 350 }]);
  });
});

test("of many locks those with the greatest wait are kept", () => {
  const samples = new WaitSamples();
  for (let index = 0; index < 1200; index++) {
    const name = `lock ${index}`;
    const waitingMs = index === 7 ? 9000 : 10;
    samples.look(seen([holder({ name, heldMs: 10_000 })], [waiter({ name, waitingMs, id: name })]), index);
  }
  const kept = samples.rows();
  expect(kept.length).toBeLessThanOrEqual(512);
  expect(kept[0]).toMatchObject({ name: "lock 7", waitMs: 9000 });
});

test("of many that are in a single snapshot, too, however often others take their place", () => {
  const samples = new WaitSamples();
  for (let look = 0; look < 5; look++) {
    const names = Array.from({ length: 1200 }, (_, index) => `lock ${look} ${index}`);
    const waitMs = (name: string): number => (name === "lock 1 7" ? 9000 : 10);
    samples.look(
      seen(
        names.map((name) => holder({ name, heldMs: 10_000 })),
        names.map((name) => waiter({ name, waitingMs: waitMs(name), id: name })),
      ),
      look * 1000,
    );
    expect(samples.rows().length).toBeLessThanOrEqual(512);
  }
  expect(samples.rows()[0]).toMatchObject({ name: "lock 1 7", waitMs: 9000 });
});

test("what others wrote cannot drive the terminal, and lines are cut to its width", () => {
  const waits = rows([
    9000,
    seen(
      [holder({ heldMs: 3000, holder: "web\u001b[2J:1", meta: { reason: "\u202e".repeat(90) } })],
      [waiter({ waitingMs: 4000 })],
    ),
  ]);
  const lines = waitTable({ waits, filter: "", descending: true, offset: 0 }, 60, 10);
  expect(lines[1]).toMatch(/^a +1 +4 s +75 % web\\x1b\[2J:1 /u);
  expect(lines.every((line) => line.length <= 60)).toBe(true);
  // oxlint-disable-next-line no-control-regex
  expect(lines.join("")).not.toMatch(/[\u001b\u202e]/u);
  expect(waitTable({ waits, filter: "nothing", descending: true, offset: 0 }, 60, 10)).toHaveLength(1);
});
