import "../fixed-seed.ts";
import fc from "fast-check";
import { describe, expect, test } from "vitest";

import { checkFenced } from "../../src/fence/fenced.ts";
import {
  fenceCeiling,
  fenceFor,
  FenceRejectedError,
  MAX_FENCE,
  parseFence,
  readFenceHeader,
  writeFenceHeader,
} from "../../src/fence/index.ts";
import { LockError } from "../../src/contract/errors.ts";

const BEYOND_DOUBLES = 2n ** 53n + 1n;

describe("a fence in decimal", () => {
  test("is read exactly, above 2^53 too", () => {
    fc.assert(fc.property(fc.bigInt(0n, MAX_FENCE), (fence) => parseFence(fence.toString()) === fence));
  });

  test.each(["", "-1", "+1", "01", "1.0", "1e3", " 1", "1 ", "0x10", "١", "9223372036854775808", 17, 17n, null])(
    "is not %s",
    (text) => {
      expect(parseFence(text)).toBeUndefined();
    },
  );
});

describe("the ceiling for numbers from outside (S175)", () => {
  test("is a day ahead of the clock in microseconds, and parseFence() keeps to one", () => {
    const aheadUs = fenceCeiling() - BigInt(Date.now()) * 1000n;
    expect(aheadUs).toBeGreaterThan(23n * 3_600_000_000n);
    expect(aheadUs).toBeLessThanOrEqual(24n * 3_600_000_000n);
    expect(parseFence(MAX_FENCE.toString(), fenceCeiling())).toBeUndefined();
    expect(parseFence("34", 34n)).toBe(34n);
    expect(parseFence("35", 34n)).toBeUndefined();
    expect(parseFence((MAX_FENCE + 1n).toString(), 2n ** 70n)).toBeUndefined();
  });
});

describe("what a guard takes", () => {
  test("is refused before anything is sent when the number or the name cannot be right", () => {
    expect(() => checkFenced({ name: "a", fence: -1n })).toThrow(TypeError);
    expect(() => checkFenced({ name: "a", fence: MAX_FENCE + 1n })).toThrow(TypeError);
    expect(() => checkFenced({ name: "a", fence: 17 as unknown as bigint })).toThrow(/bigint/);
    expect(() => checkFenced({ name: "a\uD800", fence: 1n })).toThrow(/well-formed/);
    expect(() => checkFenced({ name: "a".repeat(1025), fence: 1n })).toThrow(/1 KiB/);
    expect(() => checkFenced({ name: undefined as unknown as string, fence: 1n })).toThrow(TypeError);
  });

  test("is one lock's fence: a lease of several must say which", () => {
    const lease = {
      name: "a, b",
      fence: 9n,
      fences: new Map([
        ["a", 3n],
        ["b", 9n],
      ]),
    };
    expect(() => checkFenced(lease)).toThrow(/fenceFor/);
    expect(fenceFor(lease, "a")).toEqual({ name: "a", fence: 3n });
    expect(() => fenceFor(lease, "c")).toThrow(TypeError);
    expect(fenceFor({ name: "a", fence: 3n }, "a")).toEqual({ name: "a", fence: 3n });
  });
});

describe("the header", () => {
  test("brings back every name and fence that it was given", () => {
    const name = fc.string({ unit: "grapheme", maxLength: 40 });
    const map = fc.array(fc.tuple(name, fc.bigInt(0n, MAX_FENCE)), { minLength: 1, maxLength: 5 });
    fc.assert(
      fc.property(map, (entries) => {
        const fences = new Map(entries);
        const text = writeFenceHeader([...fences].map(([lock, fence]) => ({ name: lock, fence })));
        expect(text).toMatch(/^[\x20-\x7e]*$/);
        expect(readFenceHeader(text)).toEqual(fences);
      }),
    );
  });

  test.each(["", "a", "a=", "a=x", "a=1=2", "a=1,", "a=1,a=2", "%zz=1", "a=-1", `a=${"9".repeat(20)}`, "a=1;b=2"])(
    "is malformed as %j",
    (text) => {
      expect(readFenceHeader(text)).toBeUndefined();
    },
  );

  test("is not read when it is absurdly long", () => {
    expect(readFenceHeader(`${"a".repeat(20_000)}=1`)).toBeUndefined();
  });
});

describe("FenceRejectedError", () => {
  const error = new FenceRejectedError("invoice:42", BEYOND_DOUBLES, BEYOND_DOUBLES - 1n);

  test("carries the facts, a stable code, and what to do", () => {
    expect(error).toBeInstanceOf(LockError);
    expect(error).toMatchObject({
      name: "FenceRejectedError",
      code: "ERR_FENCE_REJECTED",
      lock: "invoice:42",
      current: 9007199254740993n,
      offered: 9007199254740992n,
    });
    expect(error.message).toBe(
      'Fence 9007199254740992 of lock "invoice:42" is too old: fence 9007199254740993 has already been here. ' +
        "The lease was lost and another holder has the lock; nothing was written. Stop the work and start again with a new lease.",
    );
  });

  test("knows how a web framework answers it", () => {
    expect(error.statusCode).toBe(412);
    expect(error.headers).toEqual({ "fencing-token": "invoice%3A42=9007199254740993" });
  });
});
