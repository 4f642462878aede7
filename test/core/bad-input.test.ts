/** Wrong arguments: a TypeError that names the option, and nothing sent to the store. */
import { describe, expect, test } from "vitest";
import type { AcquireOptions } from "../../src/core/api.ts";
import { formatMs, toMs } from "../../src/contract/duration.ts";
import { createLocks } from "../../src/core/locks.ts";
import { openBackend } from "../../src/connect.ts";
import { memory } from "../../src/backends/memory/index.ts";
import { stage } from "./scripted.ts";

const wrong = [
  0,
  -1,
  1.5,
  NaN,
  Infinity,
  2 ** 53,
  "",
  "5",
  "5 s",
  "-5s",
  "1.5s",
  "5d",
  null,
  true,
  {},
  "99999999999999999s",
];

describe("durations", () => {
  test.each([
    [250, 250],
    ["250ms", 250],
    ["2s", 2000],
    ["5m", 300_000],
    ["1h", 3_600_000],
  ])("%o is %o ms", (text, ms) => expect(toMs(text, "ttl")).toBe(ms));

  test.each(wrong.map((value) => [value]))("%o is refused", (value) => {
    expect(() => toMs(value, "ttl")).toThrow(/^Expected `ttl` to be a duration above 0.*got/);
  });

  test.each([
    [0, "0 ms"],
    [850.4, "850 ms"],
    [2500, "2.5 s"],
    [200_000, "3 m 20 s"],
    [3_900_000, "1 h 5 m"],
    [Infinity, "for ever"],
  ])("%o is written %o", (ms, text) => expect(formatMs(ms)).toBe(text));
});

describe("S07: options", () => {
  const cases: [string, unknown][] = [
    ...wrong.map((value): [string, unknown] => ["ttl", value]),
    ["ttl", "25h"],
    ["wait", -1],
    ["wait", NaN],
    ["wait", "soon"],
    ["maxHold", 0],
    ["minHold", -1],
    ["lockDelay", "x"],
    ["mode", "write"],
    ["limit", 0],
    ["limit", 1.5],
    ["limit", "5"],
    ["renew", "worker"],
    ["meta", { reason: 5 }],
    ["meta", { reason: "x".repeat(5000) }],
    ["signal", {}],
  ];
  test.each(cases)("%s: %o is refused with its name, and nothing is sent", async (option, value) => {
    const { backend, locks } = stage();
    // null and undefined mean "not given", as everywhere in options.
    if (value === null) return expect(await locks.acquire("a", { [option]: value } as AcquireOptions)).toBeDefined();
    const refused = locks.acquire("a", { [option]: value } as AcquireOptions);
    await expect(refused).rejects.toThrow(TypeError);
    await expect(refused).rejects.toMatchObject({ code: "ERR_LOCK_ARGUMENT", name: "TypeError" });
    await expect(locks.acquire("a", { [option]: value } as AcquireOptions)).rejects.toThrow(option);
    expect(backend.steps).toEqual([]);
    return undefined;
  });

  test("an unknown option is refused, with the right one where other libraries use that word", async () => {
    const { locks } = stage();
    await expect(locks.acquire("a", { timeout: 5 } as AcquireOptions)).rejects.toThrow(
      /Unknown option `timeout`: did you mean `wait`/,
    );
    await expect(locks.acquire("a", { foo: 5 } as AcquireOptions)).rejects.toThrow(/Unknown option `foo`/);
  });

  test("combinations that make no sense are refused", async () => {
    const { locks } = stage();
    await expect(locks.acquire("a", { mode: "shared", limit: 3 })).rejects.toThrow(/limit/);
    await expect(locks.acquire("a", { minHold: "2m", maxHold: "1m" })).rejects.toThrow(/minHold/);
    await expect(locks.acquire("a", { renew: "thread" })).rejects.toThrow(/thread/);
    await expect(locks.acquire("a", 5 as never)).rejects.toThrow(/options/);
  });
});

describe("names", () => {
  test.each([
    [""],
    [5],
    [null],
    [undefined],
    [{}],
    ["x".repeat(1025)],
    ["é".repeat(513)],
    ["\ud800"],
    [[]],
    [["a", ""]],
    [["a", 5]],
  ])("%o is refused", async (name) => {
    const { backend, locks } = stage();
    await expect(locks.acquire(name as string)).rejects.toThrow(TypeError);
    expect(backend.steps).toEqual([]);
  });

  test.each([["x".repeat(1024)], ["é".repeat(512)], ["a/b:c{d}\n\0 e"], ["__proto__"], ["😀"]])(
    "%o is a name like any other",
    async (name) => {
      const { locks } = stage();
      await locks.run(name, () => {});
    },
  );
});

describe("verbs", () => {
  test("run and elect want a function", async () => {
    const { backend, locks } = stage();
    await expect(locks.run("a", {} as never)).rejects.toThrow(/function/);
    await expect(locks.elect("a", "work" as never)).rejects.toThrow(/function/);
    // The order of 0.1.
    await expect(locks.elect("a", (() => {}) as never, {} as never)).rejects.toThrow(/options before the function/);
    expect(backend.steps).toEqual([]);
  });

  test("forceRelease wants a bigint fence and a reason", async () => {
    const { locks } = stage();
    await expect(locks.forceRelease("a", { fence: 5 as never, reason: "x" })).rejects.toThrow(/fence/);
    await expect(locks.forceRelease("a", { fence: 5n, reason: "" })).rejects.toThrow(/reason/);
  });

  test("query wants a string", async () => {
    const { locks } = stage();
    await expect(locks.query(5 as never)).rejects.toThrow(/prefix/);
  });

  test("createLocks wants a backend, and defaults that make sense", () => {
    expect(() => createLocks("redis://localhost" as never)).toThrow(/connect/);
    expect(() => createLocks(memory(), { ttl: -1 })).toThrow(/ttl/);
    expect(() => createLocks(memory(), { url: "x" } as never)).toThrow(/url/);
    expect(() => createLocks(memory(), { holder: "" })).toThrow(/holder/);
    expect(() => createLocks(memory(), null as never)).toThrow(/defaults/);
  });

  test("connect names the schemes it knows and repeats no password", async () => {
    await expect(openBackend("mysql://root:secret@host")).rejects.toThrow(/redis:.*got mysql:$/);
    await expect(openBackend("secret")).rejects.toThrow(/without a scheme/);
    await expect(openBackend(5 as never)).rejects.toThrow(TypeError);
  });
});
