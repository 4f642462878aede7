/** For whom it was waited, against a model that looks at every millisecond; and who holds a lock beside whom. */
import { describe, expect, test } from "vitest";
import type { Holding, Mode } from "../../src/contract/backend.ts";
import { type Beginning, type OwnLease, WaitShares } from "../../src/core/wait-shares.ts";
import { seeded } from "../../src/testing/index.ts";

const lease = (holder: string, fence: bigint, change: Partial<Beginning> = {}): Beginning => ({
  holder,
  meta: {},
  mode: "exclusive",
  limit: 1,
  fence,
  remains: false,
  ...change,
});
const holding = (holder: string, fence: bigint, change: Partial<Holding> = {}): Holding => ({
  name: "a",
  mode: "exclusive",
  limit: 1,
  holder,
  fence,
  meta: {},
  heldMs: 0,
  remainingMs: 1000,
  ...change,
});
const waitedFor = (shares: WaitShares): Record<string, readonly [number, number]> =>
  Object.fromEntries(shares.show().holders.map(({ holder, waitMs, waits }) => [holder, [waitMs, waits]]));

describe("when a lease begins here, another one that the store has named goes on only where both may hold the lock", () => {
  const kinds: readonly { readonly mode: Mode; readonly limit: number }[] = [
    { mode: "exclusive", limit: 1 },
    { mode: "exclusive", limit: 2 },
    { mode: "shared", limit: 1 },
    { mode: "shared", limit: 2 },
  ];
  const together = (a: (typeof kinds)[number], b: (typeof kinds)[number]): boolean => {
    if (a.mode === "shared" && b.mode === "shared") return true;
    return a.mode === "exclusive" && b.mode === "exclusive" && a.limit === 2 && b.limit === 2;
  };
  test.each(kinds.flatMap((theirs) => kinds.map((mine) => [theirs, mine] as const)))("%j, %j", (theirs, mine) => {
    const shares = new WaitShares();
    shares.enter(0, 0);
    shares.hear([holding("there", 1n, theirs)], 0, true);
    shares.begin(lease("here", 2n, mine), 100);
    expect(shares.hasOthers).toBe(together(theirs, mine));
    shares.leave(200);
    expect(waitedFor(shares)).toEqual(
      together(theirs, mine) ? { there: [150, 1], here: [50, 1] } : { there: [100, 1], here: [100, 1] },
    );
  });

  test("and the same lease is not another one", () => {
    const shares = new WaitShares();
    shares.enter(0, 0);
    shares.hear([holding("here", 7n, { mode: "shared" })], 0, true);
    shares.begin(lease("here", 7n, { mode: "shared" }), 100);
    expect(shares.hasOthers).toBe(false);
  });
});

describe("what the store says of leases that are over", () => {
  test("is not believed of an exclusive lock whose later lease has ended here", () => {
    const shares = new WaitShares();
    const mine = shares.begin(lease("here", 5n), 0);
    shares.end(mine, 10);
    shares.enter(10, 10);
    for (const [fence, isAnother] of [
      [4n, false],
      [5n, false],
      [6n, true],
    ] as const) {
      shares.hear([holding("there", fence)], 10, true);
      expect([fence, shares.hasOthers]).toEqual([fence, isAnother]);
    }
  });

  test("is believed where the lock may stay taken after an end, or where others may hold it too", () => {
    const heard = (remains: boolean, change: Partial<Holding>): boolean => {
      const shares = new WaitShares();
      shares.end(shares.begin(lease("here", 5n, { remains }), 0), 10);
      shares.enter(10, 10);
      shares.hear([holding("there", 5n, change)], 10, true);
      return shares.hasOthers;
    };
    expect([heard(false, {}), heard(true, {})]).toEqual([false, true]);
    expect([heard(false, { limit: 2 }), heard(false, { mode: "shared" })]).toEqual([true, true]);
  });

  test("an older word counts only where nothing is known", () => {
    const shares = new WaitShares();
    shares.enter(0, 0);
    shares.hear([holding("first", 1n)], 0, false);
    shares.hear([holding("second", 2n)], 0, false);
    shares.hear([], 0, true);
    shares.leave(10);
    expect(waitedFor(shares)).toEqual({ first: [10, 1] });
  });
});

test("what a holder is said to have held already is its own time, of those who waited then, and no more", () => {
  const shares = new WaitShares();
  shares.enter(0, 0);
  shares.hear([holding("first", 1n)], 0, true);
  shares.hear([holding("second", 2n, { heldMs: 40 })], 100, true);
  // What cannot be is no time at all.
  shares.hear([holding("third", 3n, { heldMs: Number.NaN })], 150, true);
  shares.hear([holding("fourth", 4n, { heldMs: -5 })], 160, true);
  shares.leave(200);
  expect(waitedFor(shares)).toEqual({ first: [60, 1], second: [90, 1], third: [10, 1], fourth: [40, 1] });
});

test("of several that came since, the time of all is from where the last of them began", () => {
  const shares = new WaitShares();
  const reader = (holder: string, fence: bigint, heldMs: number): Holding =>
    holding(holder, fence, { heldMs, mode: "shared" });
  shares.enter(0, 0);
  shares.hear([reader("a", 1n, 0)], 0, true);
  shares.hear([reader("b", 2n, 60), reader("c", 3n, 40)], 100, true);
  shares.leave(100);
  expect(waitedFor(shares)).toEqual({ a: [60, 1], b: [20, 1], c: [20, 1] });
});

test("a reset forgets all that was counted, and goes on with who waits and who holds", () => {
  const shares = new WaitShares();
  shares.enter(0, 0);
  for (let at = 1; at <= 20; at++) shares.end(shares.begin(lease(`h${at}`, BigInt(at)), at * 10), at * 10 + 5);
  const now = shares.begin(lease("now", 30n), 300);
  expect([shares.waitMs, shares.show().unknownMs > 0, shares.show().otherHolders.waits > 0]).toEqual([300, true, true]);
  shares.reset(400);
  expect([shares.waitMs, shares.waiting]).toEqual([0, 1]);
  expect(shares.show()).toEqual({
    holders: [{ holder: "now", reason: undefined, waitMs: 0, waits: 1 }],
    otherHolders: { waitMs: 0, waits: 0 },
    unknownMs: 0,
  });
  shares.leave(450);
  expect(waitedFor(shares)).toEqual({ now: [50, 1] });
  // Who holds it while none waits was not waited for.
  shares.reset(450);
  expect(waitedFor(shares)).toEqual({});
  shares.end(now, 450);
});

describe("sixteen holders are kept apart", () => {
  test("and of more, the one with the least wait goes to the others, unless it holds the lock now", () => {
    const shares = new WaitShares();
    shares.enter(0, 0);
    let nowMs = 0;
    for (let at = 1; at <= 16; at++) {
      const one = shares.begin(lease(`h${at}`, BigInt(at)), nowMs);
      nowMs += at === 1 ? 3 : 5;
      shares.end(one, nowMs);
    }
    expect(shares.show()).toMatchObject({ otherHolders: { waitMs: 0, waits: 0 } });
    expect(shares.show().holders).toHaveLength(16);
    // It has waited for no time yet, and is not the one to go.
    const now = shares.begin(lease("h17", 17n), nowMs);
    expect(shares.show().otherHolders).toEqual({ waitMs: 3, waits: 1 });
    shares.begin(lease("h18", 18n, { mode: "shared" }), nowMs);
    expect(shares.show().otherHolders).toEqual({ waitMs: 8, waits: 2 });
    expect(Object.keys(waitedFor(shares))).toEqual(expect.arrayContaining(["h17", "h18"]));
    shares.end(now, nowMs);
  });
});

describe("leases that are held at once for more reasons than are kept", () => {
  test("are one, and their time is counted all the same", () => {
    const shares = new WaitShares();
    shares.enter(0, 0);
    const all = Array.from({ length: 70 }, (_, at) =>
      shares.begin(lease("here", BigInt(at + 1), { limit: 70, meta: { reason: `r${at}` } }), 0),
    );
    shares.settle(7000);
    const { holders, otherHolders } = shares.show();
    const sum = holders.reduce((total, { waitMs }) => total + waitMs, otherHolders.waitMs);
    expect(Math.round(sum)).toBe(7000);
    for (const one of all) shares.end(one, 7000);
    shares.leave(7000);
    expect(shares.idle).toBe(true);
    // Those that have ended make room.
    shares.enter(7000, 7000);
    const late = shares.begin(lease("late", 100n), 7000);
    shares.leave(7010);
    shares.end(late, 7010);
    expect(waitedFor(shares)["late"]).toEqual([10, 1]);
  });
});

/** The same by brute force: at each millisecond, each who waits gives it in equal parts to those who hold. */
class Model {
  waiting = 0;
  readonly holding: { readonly holder: string; readonly fence: bigint }[] = [];
  readonly shares = new Map<string, number>();
  unknownMs = 0;

  tick(): void {
    if (this.holding.length === 0) this.unknownMs += this.waiting;
    for (const { holder } of this.holding)
      this.shares.set(holder, (this.shares.get(holder) ?? 0) + this.waiting / this.holding.length);
  }
}

test.each(Array.from({ length: 40 }, (_, at) => at + 1))("any mixture of waits and leases, seed %i", (seed) => {
  const chance = seeded(seed);
  const shares = new WaitShares();
  const model = new Model();
  const leases: { readonly own: OwnLease; readonly fence: bigint }[] = [];
  let fence = 0n;
  for (let nowMs = 0; nowMs < 300; nowMs++) {
    const dice = chance.fraction();
    if (dice < 0.2) {
      shares.enter(nowMs, nowMs);
      model.waiting++;
    } else if (dice < 0.35 && model.waiting > 0) {
      shares.leave(nowMs);
      model.waiting--;
    } else if (dice < 0.5 && leases.length < 5) {
      fence++;
      const holder = `h${Math.floor(chance.fraction() * 4)}`;
      leases.push({ own: shares.begin(lease(holder, fence, { limit: 5 }), nowMs), fence });
      model.holding.push({ holder, fence });
    } else if (dice < 0.65 && leases.length > 0) {
      const [gone] = leases.splice(Math.floor(chance.fraction() * leases.length), 1);
      shares.end(gone!.own, nowMs);
      model.holding.splice(
        model.holding.findIndex((one) => one.fence === gone!.fence),
        1,
      );
    }
    expect([shares.waiting, shares.idle]).toEqual([model.waiting, model.waiting === 0 && leases.length === 0]);
    model.tick();
  }
  shares.settle(300);
  const shown = shares.show();
  expect(shown.unknownMs).toBeCloseTo(model.unknownMs, 2);
  for (const [holder, waitMs] of model.shares)
    expect(shown.holders.find((one) => one.holder === holder)?.waitMs ?? 0).toBeCloseTo(waitMs, 2);
  expect(shares.waitMs).toBeCloseTo(
    [...model.shares.values()].reduce((sum, each) => sum + each, model.unknownMs),
    2,
  );
});
