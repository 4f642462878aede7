/** Names and numbers: what holds for all of them. */
import "../../fixed-seed.ts";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { fromDirectory, toDirectory } from "../../../src/backends/file/epochs.ts";
import { AHEAD_MAX_US, ENTRIES_MAX, firstRange, nextRange } from "../../../src/backends/file/fences.ts";

describe("names", () => {
  const anything = fc.oneof(
    fc.string({ unit: "binary" }),
    fc.string({ unit: "grapheme" }),
    fc.string({ minLength: 150 }),
  );

  test("two different names never share a directory", () => {
    fc.assert(fc.property(anything, anything, (a, b) => a === b || toDirectory(a) !== toDirectory(b)));
    expect(toDirectory("\ud800")).not.toBe(toDirectory("\ud801"));
  });

  test("a directory is one safe file name on every system, whatever case it ignores", () => {
    fc.assert(
      fc.property(anything, (name) => {
        expect(toDirectory(name)).toMatch(/^[_~][-_%a-z0-9]*$/);
        expect(toDirectory(name).length).toBeLessThan(200);
      }),
    );
  });

  test("a readable directory gives its name, and nothing else is taken for one", () => {
    fc.assert(
      fc.property(anything, (name) => {
        const directory = toDirectory(name);
        expect(fromDirectory(directory)).toBe(directory.startsWith("_") ? name : undefined);
      }),
    );
    for (const foreign of ["..", "_%2", "_A", "_%41%zz", "_%ff", "notes.txt", ""])
      expect(fromDirectory(foreign)).toBeUndefined();
    expect(toDirectory("invoice:42")).toBe("_invoice%3a42");
  });
});

describe("fences", () => {
  const step = fc.record({
    seq: fc.integer({ min: 1, max: ENTRIES_MAX }),
    passedUs: fc.integer({ min: -5_000_000, max: 5_000_000 }),
  });

  test("of later epochs are greater, also when the clock goes back", () => {
    fc.assert(
      fc.property(fc.array(step), (steps) => {
        let wallMs = 1_790_000_000_000;
        let numbers = firstRange(wallMs, 0);
        for (const { seq, passedUs } of steps) {
          wallMs += passedUs / 1000;
          const next = nextRange(numbers, seq, ENTRIES_MAX, wallMs);
          const last = numbers.base + (seq + 1) * numbers.stride - 1;
          expect(next.base + next.stride).toBeGreaterThan(last);
          expect(next.stride).toBeGreaterThanOrEqual(1);
          expect(Number.isSafeInteger(next.base)).toBe(true);
          numbers = next;
        }
      }),
    );
  });

  test("are never ahead of the clock by more than what a fresh directory waits for, at a microsecond per entry", () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: 3000 })), (pausesUs) => {
        let wallUs = 1_790_000_000_000_000;
        let numbers = firstRange(wallUs / 1000, 0);
        for (const pauseUs of pausesUs) {
          const greatest = numbers.base + (ENTRIES_MAX + 1) * numbers.stride - 1;
          wallUs += ENTRIES_MAX + 2 + pauseUs;
          expect(greatest - wallUs).toBeLessThanOrEqual(AHEAD_MAX_US);
          // The system's clock has only milliseconds.
          numbers = nextRange(numbers, ENTRIES_MAX, ENTRIES_MAX, Math.floor(wallUs / 1000));
        }
      }),
    );
  });
});
