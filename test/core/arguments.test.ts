/** S145, S147: what people pass in by mistake, and the error that they get. */
import { describe, expect, test, vi } from "vitest";

import { connect, openBackend } from "../../src/connect.ts";
import { got } from "../../src/contract/argument-error.ts";
import { LockClosedError, messageOf } from "../../src/contract/errors.ts";
import { createLocks } from "../../src/core/locks.ts";
import { memory } from "../../src/backends/memory/index.ts";
import { toBackendError } from "../../src/backends/redis/errors.ts";
import { checkOptions } from "../../src/core/options.ts";

describe("S145: an empty URL is a mistake, not a lock of this machine alone", () => {
  test.each([[undefined], [""], [" "], [null]])("connect(%j)", async (url) => {
    await expect(connect(url as unknown as string)).rejects.toThrow(
      /Expected `url` to be a text such as.*leave it out/,
    );
    await expect(openBackend(url as unknown as string)).rejects.toThrow(TypeError);
    await expect(connect(url as unknown as string, { ttl: "1s" })).rejects.toThrow(TypeError);
  });

  test("types refuse what may be undefined", () => {
    const unset = process.env["NO_SUCH_VARIABLE"];
    const refused = [
      // @ts-expect-error: it may be undefined
      (): unknown => connect(unset),
      // @ts-expect-error: it may be undefined
      (): unknown => openBackend(unset),
      // @ts-expect-error: it is undefined
      (): unknown => connect(undefined, {}),
    ];
    expect(refused).toHaveLength(3);
  });

  test.each(["", " "])("HOLDFAST_URL=%j", async (url) => {
    vi.stubEnv("HOLDFAST_URL", url);
    try {
      await expect(connect()).rejects.toThrow(/HOLDFAST_URL.*empty/);
      await expect(connect({ holder: "me" })).rejects.toThrow(/HOLDFAST_URL.*empty/);
    } finally {
      vi.unstubAllEnvs();
    }
  });

  test("connect(options) has defaults and no URL, and checks them before it opens anything", async () => {
    vi.stubEnv("HOLDFAST_URL", "memory:arguments");
    try {
      const locks = await connect({ holder: "me" });
      await locks.acquire("a");
      expect((await locks.query()).held).toMatchObject([{ holder: "me" }]);
      await locks.close();
      await expect(connect({ url: "memory:" } as object)).rejects.toThrow("Unknown option `url`");
      await expect(connect("redis://127.0.0.1:1", { no: 1 } as object)).rejects.toThrow("Unknown option `no`");
    } finally {
      vi.unstubAllEnvs();
    }
  });
});

describe("S147: what was got is said as it was given", () => {
  test.each([
    ["3", '"3"'],
    [3, "3"],
    [null, "null"],
    [undefined, "undefined"],
    [3n, "3"],
    [{}, "an object"],
    [[], "an array"],
    [() => {}, "a function"],
    ["a\u001b[2J\u202e", '"a\\u001b[2J\\u{202e}"'],
    ["x".repeat(100), `"${"x".repeat(39)}…" (100 characters)`],
  ])("%#: %s", (value, text) => {
    expect(got(value)).toBe(text);
  });

  const locks = createLocks(memory());
  test.each([
    [{ limit: "3" }, 'Expected `limit` to be a whole number from 1 to 1000000, got "3"'],
    [{ signal: 1 }, "Expected `signal` to be an AbortSignal, got 1"],
    [{ ttl: "soon" }, 'such as 250, "250ms", "2s", "5m" or "1h", got "soon"'],
    [{ ttl: {} }, "got an object"],
    [{ meta: "x" }, 'Expected `meta` to be an object of texts, such as { job: "42" }, got "x"'],
    [{ meta: ["x"] }, "got an array"],
    [{ meta: { a: 1 } }, "Expected `meta.a` to be a string, got 1"],
    [{ mode: { toString: () => "shared" } }, "got an object"],
  ])("%j", async (options, message) => {
    const checked = (): unknown => checkOptions(options as object, {});
    expect(checked).toThrow(message);
    await expect(locks.acquire("a", options as object)).rejects.toThrow(message);
  });

  test("a name", async () => {
    await expect(locks.acquire(null as unknown as string)).rejects.toThrow();
    expect(() => createLocks(null as never)).toThrow("got null without attempt()");
    expect(() => createLocks(memory(), { holder: "x".repeat(201) })).toThrow("(201 characters)");
  });

  test("tryAcquire() takes no wait", async () => {
    for (const wait of ["1s", 0]) {
      await expect(locks.tryAcquire("a", { wait } as object)).rejects.toThrow("use acquire(name, { wait })");
    }
  });

  test.each(["memory:x?no=1", "memory:#x", "file:?no=1", "file:///tmp/x?no=1", "file:///tmp/x#no"])(
    "unknown parameters of %s are refused",
    async (url) => {
      await expect(openBackend(url)).rejects.toThrow(/Expected no options after \? or #/);
    },
  );

  test.each(["zk://h:1/?no=1", "redlock://h:1,i:1,j:1?no=1", "redis://h?no=1", "redis+cluster://h?no=1"])(
    "and of %s",
    async (url) => {
      await expect(openBackend(url)).rejects.toThrow(/Expected .*no\W/);
    },
  );
});

describe("S147: messages", () => {
  test("a holder does not get the error that its lock was not acquired", () => {
    const { message, code } = LockClosedError.whileHeld("a");
    expect(code).toBe("ERR_LOCK_CLOSED");
    expect(message).not.toContain("not acquired");
    expect(message).toContain("end the work");
  });

  test("an error without a message still says what it is", () => {
    const refused = Object.assign(new Error(""), { code: "ECONNREFUSED" });
    expect(messageOf(refused)).toBe("ECONNREFUSED");
    expect(messageOf(new AggregateError([refused, new Error("no route"), refused]))).toBe("ECONNREFUSED; no route");
    expect(messageOf(new TypeError(""))).toBe("TypeError");
    expect(toBackendError(new AggregateError([refused]), "a").message).toContain("gave no answer (ECONNREFUSED)");
  });
});
