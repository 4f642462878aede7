/**
 * Random and mutated answers for everything that reads from Postgres: grants, refusals, outcomes, what query() shows, what a process
 * says of itself, and rows of ShedLock's table. Seeded. Only what could be is believed, and only expected errors are thrown.
 */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import * as records from "../../../src/backends/postgres/records.ts";
import { toReleased } from "../../../src/backends/postgres/release-batches.ts";
import { toDetail, toWho } from "../../../src/backends/postgres/who.ts";
import * as rows from "../../../src/backends/shedlock/rows.ts";
import { LockBackendError } from "../../../src/contract/errors.ts";

const RUNS = { seed: 20_261_116, numRuns: 1000 } as const;
const FENCE_MAX = 2n ** 63n - 1n;
const ID = "AAAAAAAAAAAAAAAAAAAAAA";
const DETAIL = toDetail({
  id: ID,
  name: "a",
  mode: "exclusive",
  limit: 1,
  ttlMs: 1000,
  lockDelayMs: 0,
  minHoldMs: 0,
  holder: "web-3:812",
  meta: { job: "é" },
  queues: true,
  local: { waiters: 2, users: 1, holds: [{ name: "b", fence: 7n }], holdsMore: false },
});
const HOLDING = { shared: false, most: 1, fence: "12", held: 5, left: 900, detail: DETAIL, id: ID };
const ANSWERS = [
  "granted 1794846975432064 64 w",
  "queued 1794846975432064 300",
  `refused ${JSON.stringify({ place: 2, young: 0, ahead: 30, last: "12", now: "1794846975432064", held: [HOLDING] })}`,
  `outcome ${JSON.stringify({ age: 3, left: 1000, fence: "12", value: "7631", detail: DETAIL })}`,
  "held",
  "absent",
] as const;

/** A text as it should be, with some of it changed, cut off, doubled or put in between. */
function mutated(good: readonly string[]): fc.Arbitrary<string> {
  const parts = [
    "-1",
    "1e999",
    "9223372036854775808",
    "null",
    "{}",
    "[]",
    '"',
    "\0",
    " ",
    "99999999999999999999",
    "\u{d800}",
    "ff",
  ];
  const change = fc.record({
    at: fc.nat(400),
    drop: fc.nat(12),
    put: fc.oneof(fc.constantFrom(...parts), fc.string({ maxLength: 6 })),
  });
  return fc
    .tuple(fc.constantFrom(...good), fc.array(change, { minLength: 1, maxLength: 3 }))
    .map(([start, changes]) => {
      let text = start;
      for (const { at, drop, put } of changes) {
        const index = at % (text.length + 1);
        text = text.slice(0, index) + put + text.slice(index + drop);
      }
      return text;
    });
}

const anyText = fc.oneof(fc.string({ maxLength: 60 }), mutated(ANSWERS), mutated([DETAIL, JSON.stringify(HOLDING)]));

/** An object like a good one, in which some fields are anything. */
function changed(good: Readonly<Record<string, unknown>>): fc.Arbitrary<Record<string, unknown>> {
  const odd = fc.oneof(
    fc.anything(),
    fc.constantFrom(
      -1,
      0,
      Infinity,
      -Infinity,
      Number.NaN,
      1e300,
      "0",
      "-1",
      "9223372036854775807",
      "9223372036854775808",
      "1.5",
    ),
    anyText,
  );
  return fc
    .array(fc.tuple(fc.constantFrom(...Object.keys(good)), odd), { maxLength: 3 })
    .map((changes) => ({ ...good, ...Object.fromEntries(changes) }));
}

/** Calls the reader. An answer that cannot be is refused with an error of ours, or with `undefined`. */
function read<T>(reader: () => T): T | undefined {
  try {
    return reader();
  } catch (error) {
    expect(error).toBeInstanceOf(LockBackendError);
    return undefined;
  }
}

function expectFence(fence: bigint | undefined): void {
  if (fence !== undefined) expect(fence > 0n && fence <= FENCE_MAX).toBe(true);
}

function expectTimes(found: object | undefined): void {
  for (const [field, value] of Object.entries(found ?? {})) {
    if (typeof value === "number") expect(value >= 0 && Number.isFinite(value), `${field} is ${value}`).toBe(true);
  }
}

describe("answers of the functions", () => {
  test("the good ones are read", () => {
    expect(records.toRun(ANSWERS[0])).toMatchObject({ fence: 1794846975432064n, run: 64, wanted: true });
    expect(records.toRefusal("a", ANSWERS[2]).refused).toMatchObject({
      position: 2,
      heldBy: [{ holder: "web-3:812" }],
    });
    expect(records.toDone("a", ANSWERS[3])?.outcome).toMatchObject({ value: "v1", fence: 12n });
    expect(toReleased("a", ANSWERS[4])).toBe("held");
  });

  test("whatever comes, a grant has a fence that can be, and a refusal times that can be", () => {
    fc.assert(
      fc.property(fc.oneof(anyText, fc.anything()), (answer) => {
        const run = read(() => records.toRun(answer));
        expectFence(run?.fence);
        if (run !== undefined) expect(Number.isSafeInteger(run.run) && run.run >= 1).toBe(true);
        const learned = read(() => records.toLearned(answer));
        expectTimes(learned);
        expect(["held", "queued", "absent", undefined]).toContain(read(() => toReleased("a", answer)));
        if (typeof answer !== "string") return;
        const refusal = read(() => records.toRefusal("a", answer));
        expectTimes(refusal?.refused);
        for (const holding of refusal?.refused.heldBy ?? []) {
          expectFence(holding.fence);
          expectTimes(holding);
        }
        expectFence(read(() => records.toDone("a", answer))?.outcome?.fence);
      }),
      RUNS,
    );
  });
});

describe("what is shown", () => {
  test("records of holders, waiters, forced leases and outcomes are right, or there are none", () => {
    const good = {
      ...HOLDING,
      waiting: 3,
      place: 1,
      ago: 9,
      who: '{"by":"ops","reason":"stuck"}',
      age: 3,
      value: "7631",
    };
    fc.assert(
      fc.property(changed(good), (value) => {
        const found = [
          records.toHolding("a", value),
          records.toWaiting("a", value),
          records.toForced("a", value),
          records.toOutcome(value),
        ];
        for (const one of found) {
          expectTimes(one);
          if (one !== undefined && "fence" in one) expectFence(one.fence);
        }
      }),
      RUNS,
    );
  });

  test("what a process says of itself is text for people, whatever was written", () => {
    fc.assert(
      fc.property(fc.oneof(anyText, fc.anything(), fc.json()), (detail) => {
        const { holder, meta, local } = toWho(detail);
        expect(typeof holder).toBe("string");
        for (const text of Object.values(meta)) expect(typeof text).toBe("string");
        expectTimes(local);
        expect(local?.holds.length ?? 0).toBeLessThanOrEqual(16);
      }),
      RUNS,
    );
  });
});

describe("rows of ShedLock's table", () => {
  test("are holders or forced leases with times and fences that can be, or nothing", () => {
    const good = { name: "a", by: `web-3:812 +500 ${ID}`, fence: "1794846975432064", held: 5, left: 900 };
    const forced = { ...good, by: `${rows.forcedBy("ops", "stuck")} !${ID}`, left: -3 };
    expect(rows.toHolding(good)).toMatchObject({ holder: "web-3:812", id: ID });
    expect(rows.toForced(forced)).toMatchObject({ by: "ops", reason: "stuck" });
    fc.assert(
      fc.property(fc.oneof(changed(good), changed(forced)), (row) => {
        for (const found of [rows.toHolding(row), rows.toForced(row)]) {
          expectTimes(found);
          expectFence(found?.fence);
        }
      }),
      RUNS,
    );
  });

  test("a long `locked_by` is read in time of its length", () => {
    for (const by of [
      "ended by force: ".repeat(20_000),
      `${" +1".repeat(100_000)} x`,
      `${"~".repeat(300_000)} ${ID}`,
    ]) {
      rows.toHolding({ name: "a", by, fence: "1", held: 1, left: 1 });
      rows.toForced({ name: "a", by, fence: "1", held: 1, left: 1 });
    }
  });
});
