import { describe, expect, test } from "vitest";

import { parseDurationMs } from "../../src/cli/duration-flag.ts";
import { nearest } from "../../src/cli/suggest.ts";
import { fit, table, width } from "../../src/cli/format-text.ts";
import { ordinal, snapshotJson } from "../../src/cli/format-lock.ts";
import { hostAndPid } from "../../src/core/read-snapshot.ts";
import { printable } from "../../src/contract/foreign.ts";

describe("durations at the prompt", () => {
  test.each([
    ["500ms", 500],
    ["90s", 90_000],
    ["1m30s", 90_000],
    ["1.5h", 5_400_000],
    ["2d", 172_800_000],
    ["10", 10_000],
    ["0.25", 250],
    ["0", 0],
    ["forever", Infinity],
  ])("%s", (text, ms) => {
    expect(parseDurationMs(text)).toBe(ms);
  });

  test.each(["", "5 m", "-1s", "1e3", "s", "1s!", "99999999999999999999h", "0x10", "NaN"])("%j is none", (text) => {
    expect(parseDurationMs(text)).toBeUndefined();
  });
});

describe("foreign text cannot drive the terminal", () => {
  test("control characters, escapes and direction marks are shown, not sent", () => {
    expect(printable("a\u001b[2J\nb\u0007\u009b\u202e\u2066c")).toBe("a\\x1b[2J\\x0ab\\x07\\x9b\\u{202e}\\u{2066}c");
  });

  test("letters of all scripts stay as they are", () => {
    expect(printable("naïve 日本 ключ 🔒")).toBe("naïve 日本 ключ 🔒");
  });
});

describe("columns", () => {
  test("wide characters count twice, combining ones not at all, colours neither", () => {
    expect([width("日本"), width("é"), width("\u001b[31mred\u001b[39m")]).toEqual([4, 1, 3]);
  });

  test("what does not fit ends with an ellipsis and never exceeds its cells", () => {
    expect([fit("abcdef", 4), fit("日本語", 4), fit("abc", 3), fit("abc", 0)]).toEqual(["abc…", "日…", "abc", ""]);
  });

  test("a table lines up", () => {
    expect(
      table(
        [{ title: "A" }, { title: "N", right: true }],
        [
          ["日本", "1"],
          ["x", "10"],
        ],
      ),
    ).toEqual(["A      N", "日本   1", "x     10"]);
  });
});

test("the nearest word is suggested, and none when nothing is near", () => {
  const words = ["run", "release", "renew", "show", "--wait"];
  expect(["rnu", "relase", "rel", "--wat", "xyzzy"].map((word) => nearest(word, words))).toEqual([
    "run",
    "release",
    "release",
    "--wait",
    undefined,
  ]);
});

test("places in a queue are counted as people count", () => {
  expect([1, 2, 3, 4, 11, 12, 13, 21, 112].map(ordinal)).toEqual([
    "1st",
    "2nd",
    "3rd",
    "4th",
    "11th",
    "12th",
    "13th",
    "21st",
    "112th",
  ]);
});

test("a holder is taken apart into host and pid", () => {
  expect(hostAndPid("web-3:812")).toEqual({ host: "web-3", pid: 812 });
  expect(hostAndPid("other")).toEqual({ host: "other", pid: undefined });
});

test.each([Infinity, Number.NaN, 1e300])(
  "a time from a store that is none (%d) is no time of day, and stops no list",
  (ms) => {
    const common = {
      name: "a",
      mode: "exclusive",
      limit: 1,
      holder: "web:1",
      meta: {},
      sinceMs: 0,
      processWaiters: 0,
    } as const;
    const json = snapshotJson({
      held: [{ ...common, fence: 1n, heldMs: ms, remainingMs: 1, processHolders: 1 }],
      pending: [{ ...common, waitingMs: ms, position: 1 }],
      forced: [{ name: "a", fence: 1n, by: "ops", reason: "stuck", agoMs: ms }],
    });
    expect(json).toMatchObject({
      held: [{ since: undefined }],
      pending: [{ since: undefined }],
      forced: [{ at: undefined }],
    });
  },
);
