/**
 * Every limit at its edge: the last value that is let in, and the first that is not; and of every option what is of another type.
 * A limit that moves by one, or a check that is left out, is noticed here, whichever it is.
 */
import { describe, expect, test } from "vitest";
import type { Locks } from "../../src/core/api.ts";
import { closeOnSignals } from "../../src/core/close-on-signals.ts";
import { createLocks } from "../../src/core/locks.ts";
import { toMeta } from "../../src/core/options.ts";
import { clippedSnapshot } from "../../src/core/snapshot.ts";
import { memory } from "../../src/backends/memory/index.ts";
import { failure, stage } from "./scripted.ts";

const HOUR = 3_600_000;
const LONGEST = 30 * 24 * HOUR;
const YEAR = 366 * 24 * HOUR;
const text = (length: number): string => "x".repeat(length);
/** As JSON, with its braces, quotes and colon. */
const metaOf = (bytes: number): object => ({ a: text(bytes - 8) });

type Call = (locks: Locks, option: string, value: unknown) => unknown;
const acquire: Call = (locks, option, value) => locks.acquire("a", { [option]: value });
const attempt: Call = (locks, option, value) => locks.tryAcquire("a", { [option]: value });
const query: Call = (locks, option, value) => locks.query("a", { [option]: value });
const inspect: Call = (locks, option, value) => locks.inspect("a", { [option]: value });
const force: Call = (locks, option, value) =>
  locks.forceRelease("a", { fence: 5n, reason: "stuck", [option]: value } as never);
const forget: Call = (locks, option, value) => locks.forget("a", { fence: 5n, [option]: value } as never);
const once: Call = (locks, option, value) => locks.once("a", { keep: "1m", [option]: value }, () => 5);
const close: Call = (locks, option, value) => locks.close({ [option]: value });
const create: Call = (_, option, value) => createLocks(memory(), { [option]: value });
const onSignals: Call = (locks, option, value) => closeOnSignals(locks, { signals: ["SIGUSR2"], [option]: value })();
const extend: Call = async (locks, _, value) => await (await locks.acquire("a")).extend(value as number);

/** The verb, the option, what it takes at its edges, what it does not. */
const EDGES: readonly [Call, string, readonly unknown[], readonly unknown[]][] = [
  [acquire, "ttl", [100, 24 * HOUR, "24h"], [99, 24 * HOUR + 1, Infinity]],
  [acquire, "wait", [0, 1, Infinity, Number.MAX_SAFE_INTEGER], [-1, 0.5, Number.MAX_SAFE_INTEGER + 1]],
  [acquire, "limit", [1, 2, 1_000_000], [0, -1, 1_000_001, 1.5]],
  [acquire, "minHold", [1, LONGEST], [0, LONGEST + 1, Infinity]],
  [acquire, "maxHold", [1, LONGEST], [0, LONGEST + 1, Infinity]],
  [acquire, "lockDelay", [1, LONGEST], [0, LONGEST + 1, Infinity]],
  [acquire, "mode", ["exclusive", "shared"], ["", "Shared"]],
  [acquire, "renew", [true, false], [0, 1, "", "true"]],
  [acquire, "meta", [{}, metaOf(4096)], [metaOf(4097), [], ["a"], { a: undefined }]],
  [attempt, "timeout", [1, Infinity, "5s"], [0, -1, Number.NaN]],
  [attempt, "wait", [undefined], [0, 1, "5s"]],
  [query, "timeout", [1, Infinity], [0, -1]],
  [inspect, "timeout", [1, Infinity], [0, -1]],
  [force, "reason", ["x", text(1000)], ["", " \n", text(1001), new String("x"), { trim: () => "x", length: 1 }]],
  [force, "fence", [0n, 2n ** 63n], [5, "5", -1.5]],
  [forget, "fence", [0n, 2n ** 63n], [5, "5"]],
  [once, "keep", [1000, YEAR], [999, YEAR + 1, Infinity, undefined]],
  [once, "keepFailure", [1000, YEAR, undefined], [999, YEAR + 1, Infinity]],
  [
    once,
    "codec",
    [undefined, { encode: JSON.stringify, decode: JSON.parse }],
    [{}, { encode: JSON.stringify }, { decode: JSON.parse }],
  ],
  [close, "grace", [0, 1, Infinity, undefined], [-1, 0.5]],
  [close, "force", [true, false, undefined], [0, 1, "yes"]],
  [create, "holder", ["x", text(200), undefined], ["", text(201)]],
  [create, "ttl", [100, 24 * HOUR], [99, 24 * HOUR + 1]],
  [create, "meta", [metaOf(4096)], [metaOf(4097)]],
  [onSignals, "grace", [0, 1, Infinity], [-1, 0.5]],
  [onSignals, "signals", [["SIGUSR2"], ["SIGUSR2", "SIGUSR2"]], [[], "SIGUSR2", {}]],
  [extend, "ttl", [100, 24 * HOUR, undefined], [99, 24 * HOUR + 1]],
];

/** Of no option's type, each in its own way. `null` is "not given" for some: that is said where it is so. */
const STRANGE = [Symbol("s"), () => 5, new Date(0), Number.NaN, 5n];
const isOf = (option: string, value: unknown): boolean =>
  (option === "fence" && typeof value === "bigint") || (option === "meta" && typeof value === "object");

describe("an option takes its last value, and not the next one:", () => {
  test.each(EDGES.map((edge) => [edge[0].name || "verb", edge[1], edge] as const))(
    "%s %s",
    async (_verb, option, [call, , good, bad]) => {
      for (const value of good) {
        const { clock, locks } = stage();
        const done = Promise.resolve(call(locks, option, value));
        await clock.advance(1000);
        await expect(done, `${option}: ${String(value)}`).resolves.not.toThrow();
      }
      for (const value of [...bad, ...STRANGE.filter((each) => !isOf(option, each))]) {
        const { backend, locks } = stage();
        const error = await failure((async () => await call(locks, option, value))());
        expect(error, `${option}: ${String(value)}`).toBeInstanceOf(TypeError);
        expect(error).toMatchObject({ code: "ERR_LOCK_ARGUMENT" });
        expect(error.message).toContain(`\`${option}`);
        expect(backend.steps.filter(({ step }) => call !== extend || step !== "attempt")).toEqual([]);
      }
    },
  );

  test("names: 1,024 bytes, whatever their characters need", async () => {
    const { locks } = stage();
    for (const name of [text(1024), "é".repeat(512), "€".repeat(341), "😀".repeat(256), text(341), text(342)])
      await (await locks.acquire(name)).release();
    for (const name of [text(1025), `${"é".repeat(512)}x`, `${"€".repeat(341)}é`, `${"😀".repeat(256)}x`, ""]) {
      expect((await failure(locks.acquire(name))).message).toContain("`name`");
      expect((await failure(locks.acquire(["a", name]))).message).toContain("`name`");
    }
  });
});

test("what our own doors let in is shown whole; what is longer is cut to that, each for itself", () => {
  const shown = (holder: string, meta: object): { holder: string; meta: object } => {
    const { held } = clippedSnapshot({ held: [{ holder, meta } as never], pending: [], forced: [] });
    return held[0]!;
  };
  const fields = (count: number, size: number): object =>
    Object.fromEntries(Array.from({ length: count }, (_, at) => [`f${at}`, text(size)]));
  for (const meta of [{}, metaOf(4096), metaOf(4095), fields(3, 1300), fields(100, 30), fields(400, 0)]) {
    expect(toMeta(meta as never, undefined)).toEqual(meta);
    expect(shown("me", meta)).toEqual({ holder: "me", meta });
    expect(shown(text(200), meta)).toEqual({ holder: text(200), meta });
    expect(shown(text(201), meta)).toEqual({ holder: `${text(199)}…`, meta });
  }
  for (const meta of [metaOf(4200), fields(2, 3000), fields(100, 60), fields(1000, 0), { [text(5000)]: "" }]) {
    const cut = shown("me", meta);
    expect(cut.holder).toBe("me");
    expect(JSON.stringify(cut.meta).length).toBeLessThanOrEqual(4096 + 1);
    // Not more than it must.
    if (!(text(5000) in meta)) expect(JSON.stringify(cut.meta).length).toBeGreaterThan(3900);
    for (const field of Object.keys(cut.meta)) expect(meta).toHaveProperty(field);
  }
});
