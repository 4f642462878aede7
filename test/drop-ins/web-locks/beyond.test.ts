/** What a distributed lock adds to the standard: fences, losses, stores that cannot steal, closing, and the names of Holdfast. */
import "../../fixed-seed.ts";
import { setTimeout as pause } from "node:timers/promises";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { memory } from "../../../src/backends/memory/index.ts";
import type { Backend } from "../../../src/contract/backend.ts";
import { LockBackendError, LockClosedError, LockLostError } from "../../../src/contract/errors.ts";
import type { Locks, LocksOptions } from "../../../src/core/api.ts";
import { createLocks } from "../../../src/core/locks.ts";
import { subscribe } from "../../../src/core/subscribe.ts";
import { webLocks, type WebLockManager } from "../../../src/drop-ins/web-locks/index.ts";
import { fromLockName, toLockName } from "../../../src/drop-ins/web-locks/names.ts";
import { eventually } from "../../../src/testing/eventually.ts";
import { hold, isSettled, modes, rejectsWith, unreached } from "./rules/rule.ts";

let locks: Locks;
let manager: WebLockManager;

beforeEach(() => {
  locks = createLocks(memory());
  manager = webLocks(locks);
});

afterEach(() => locks.close({ grace: 0, force: true }));

function over(backend: Backend, options?: LocksOptions): WebLockManager {
  const made = createLocks(backend, options);
  onTestFinished(() => made.close({ grace: 0, force: true }));
  return webLocks(made);
}

describe("a lock", () => {
  test("has a fence that rises from holder to holder, and a signal", async () => {
    const first = await manager.request("a", (lock) => lock!.fence);
    const next = await hold(manager, "a");
    expect(next.lock.fence).toBeGreaterThan(first);
    expect(next.lock.signal).toBeInstanceOf(AbortSignal);
    expect(next.lock.signal.aborted).toBe(false);
    next.release();
    await next.request;
  });

  test("that is lost aborts its signal, and its request rejects with an AbortError while the callback goes on", async () => {
    const held = await hold(manager, "a");
    await locks.forceRelease("a", { fence: held.lock.fence, reason: "deploy 17 hangs" });
    const error = await held.request.catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(DOMException);
    expect(error).toMatchObject({ name: "AbortError", cause: { code: "ERR_LOCK_LOST", fence: held.lock.fence } });
    expect((error as Error).message).toContain("deploy 17 hangs");
    expect(held.lock.signal.reason).toBeInstanceOf(LockLostError);
    expect((error as Error).cause).toBe(held.lock.signal.reason);
  });

  test("that is over before its callback has ended is an AbortError, though no process has taken it", async () => {
    const short = over(memory(), { ttl: 200, renew: false });
    const held = await hold(short, "a");
    await rejectsWith("AbortError", held.request);
    expect(held.lock.signal.reason).toMatchObject({ loss: { kind: "expired", renewal: "off" } });
  });

  test("whose callback rejects after the loss keeps the AbortError, and nothing is unhandled", async () => {
    const unhandled: unknown[] = [];
    const note = (reason: unknown): void => void unhandled.push(reason);
    process.on("unhandledRejection", note);
    onTestFinished(() => void process.off("unhandledRejection", note));
    const held = await hold(manager, "a");
    await locks.forceRelease("a", { fence: held.lock.fence, reason: "test" });
    held.reject(new Error("too late"));
    await rejectsWith("AbortError", held.request);
    await new Promise((resolve) => setImmediate(resolve));
    expect(unhandled).toEqual([]);
  });
});

describe("among the locks of Holdfast", () => {
  test("a request inside a run() of the same lock is no re-entry", async () => {
    let inner: Promise<unknown> | undefined;
    await locks.run("a", async () => {
      expect(await manager.request("a", { ifAvailable: true }, (lock) => lock)).toBeNull();
      expect(await manager.request("a", { ifAvailable: true, mode: "shared" }, (lock) => lock)).toBeNull();
      inner = manager.request("a", () => "inner");
      expect(await isSettled(inner)).toBe(false);
      // Another lock is taken as ever, and so is this one by its own functions.
      expect(await manager.request("b", () => "b")).toBe("b");
      expect(await locks.run("a", () => "again")).toBe("again");
    });
    expect(await inner).toBe("inner");
  });

  test("defaults of the locks do not change what a request is", async () => {
    const other = over(memory(), { limit: 5, wait: 0, mode: "exclusive", meta: { app: "test" } });
    const held = await hold(other, "a");
    const waits = other.request("a", () => "waited");
    expect(await isSettled(waits)).toBe(false);
    held.release();
    expect(await waits).toBe("waited");
  });

  test("there is one manager for the same locks", () => {
    expect(webLocks(locks)).toBe(manager);
    expect(() => webLocks({} as Locks)).toThrow("Expected `locks`");
    expect(() => webLocks(undefined as never)).toThrow("Expected `locks`");
  });

  test("a snapshot shows others by their holder, and no name that cannot be requested", async () => {
    await locks.run("direct", async () => {
      await locks.run("\\x", async () => {
        const { held } = await manager.query();
        expect(held).toEqual([
          { name: "direct", mode: "exclusive", clientId: (await locks.query("direct")).held[0]!.holder },
        ]);
      });
    });
  });

  test("close() waits for callbacks, and requests after it are an InvalidStateError", async () => {
    const held = await hold(manager, "a");
    const waits = manager.request("a", unreached);
    const closing = locks.close();
    await rejectsWith("InvalidStateError", waits);
    expect(held.lock.signal.reason).toBeInstanceOf(LockClosedError);
    expect(await isSettled(closing)).toBe(false);
    held.release("done");
    expect(await held.request).toBe("done");
    await closing;
    await rejectsWith("InvalidStateError", manager.request("a", unreached));
    await rejectsWith("InvalidStateError", manager.request("a", { steal: true }, unreached));
  });

  test("what the store fails with is passed on", async () => {
    const broken = over({
      ...methods(memory()),
      attempt: () => Promise.reject(new LockBackendError("memory", "a", "no", { fatal: true })),
    });
    await expect(broken.request("a", unreached)).rejects.toMatchObject({ code: "ERR_LOCK_BACKEND" });
  });
});

describe("a steal", () => {
  test("is declined where the store cannot do it in one step, and nothing happens", async () => {
    const rest: Backend = { ...methods(memory()), can: undefined, steal: undefined as never };
    const plain = over({ ...rest, can: { steal: "its answer is a sentence" } });
    const held = await hold(plain, "a");
    await expect(plain.request("a", { steal: true }, unreached)).rejects.toMatchObject({
      name: "NotSupportedError",
      message: "The memory store cannot steal: its answer is a sentence",
    });
    expect(held.lock.signal.aborted).toBe(false);
    expect(
      await over(rest)
        .request("b", { steal: true }, unreached)
        .catch((error: Error) => error.name),
    ).toBe("NotSupportedError");
    const wrapped = { acquire: locks.acquire.bind(locks), query: locks.query.bind(locks) } as unknown as Locks;
    await rejectsWith("NotSupportedError", webLocks(wrapped).request("a", { steal: true }, unreached));
    expect(await webLocks(wrapped).request("a", () => "works")).toBe("works");
  });

  test("whose answer is lost is not done twice", async () => {
    const backend = memory();
    let stolen = 0;
    const lossy = over({
      ...methods(backend),
      async steal(claim, reason) {
        stolen++;
        await backend.steal!(claim, reason);
        throw new Error("the connection broke");
      },
    });
    const robbed = await hold(lossy, "a");
    const rejected = rejectsWith("AbortError", robbed.request);
    expect(await lossy.request("a", { steal: true }, () => "stolen")).toBe("stolen");
    await rejected;
    expect(stolen).toBe(1);
    expect((await backend.query("")).held).toEqual([]);
  });

  test("that the store has never heard of leaves nothing behind, and robs no one", async () => {
    const backend = memory();
    const deaf = over({ ...methods(backend), steal: () => Promise.reject(new Error("the connection broke")) });
    const held = await hold(deaf, "a");
    await expect(deaf.request("a", { steal: true }, unreached)).rejects.toMatchObject({ code: "ERR_LOCK_BACKEND" });
    expect(held.lock.signal.aborted).toBe(false);
    const next = deaf.request("a", () => "next");
    held.release();
    expect(await next).toBe("next");
    await eventually("nothing is left", async () => ((await backend.query("")).held.length === 0 ? true : undefined));
  });

  test("is an acquire and a hold to those who subscribe, and the robbed lease a loss", async () => {
    const heard: string[] = [];
    const stops = [
      subscribe("acquire", ({ outcome }) => void heard.push(outcome)),
      subscribe("hold:start", () => void heard.push("begins")),
      subscribe("lost", ({ loss }) => void heard.push(`lost: ${loss.kind}`)),
      subscribe("hold", ({ end }) => void heard.push(end)),
    ];
    onTestFinished(() => stops.forEach((stop) => stop()));
    const robbed = await hold(manager, "a");
    robbed.request.catch(() => {});
    const thief = await hold(manager, "a", { steal: true });
    thief.release();
    await thief.request;
    expect(heard).toEqual(["acquired", "begins", "lost: forced", "acquired", "begins", "released"]);
  });

  test("shows in the store who did it", async () => {
    const robbed = await hold(manager, "a");
    robbed.request.catch(() => {});
    await manager.request("a", { steal: true }, async () => {
      const { forced } = await locks.inspect("a");
      expect(forced).toMatchObject([{ fence: robbed.lock.fence, reason: "stolen by a request of Web Locks" }]);
      expect(modes((await manager.query()).held, "a")).toEqual(["exclusive"]);
    });
  });
});

describe("on a store that is slow to answer", () => {
  function slow(): WebLockManager {
    const backend = memory();
    return over({ ...methods(backend), attempt: async (claim) => (await pause(30), await backend.attempt(claim)) });
  }

  test("a snapshot waits until what was requested before it is decided", async () => {
    const late = slow();
    let release = (): void => {};
    const first = late.request("a", () => new Promise<void>((resolve) => (release = resolve)));
    const second = late.request("a", () => {});
    const { held, pending } = await late.query();
    expect([modes(held, "a"), modes(pending, "a")]).toEqual([["exclusive"], ["exclusive"]]);
    release();
    await Promise.all([first, second]);
  });

  test("a steal robs what was requested before it, though that had no answer yet", async () => {
    const late = slow();
    const rejected = rejectsWith(
      "AbortError",
      late.request("a", () => new Promise(() => {})),
    );
    expect(await late.request("a", { steal: true }, () => "stolen")).toBe("stolen");
    await rejected;
  });

  test("an abort between the grant and the callback counts: there is no callback, and the lock goes back", async () => {
    for (let turns = 0; turns < 40; turns++) {
      const giveUp = new AbortController();
      const backend = memory();
      const own = over({
        ...methods(backend),
        async attempt(claim) {
          const answer = await backend.attempt(claim);
          void (async () => {
            for (let turn = 0; turn < turns; turn++) await Promise.resolve();
            giveUp.abort("given up");
          })();
          return answer;
        },
      });
      let wasAborted: boolean | undefined;
      const request = own.request("a", { signal: giveUp.signal }, () => (wasAborted = giveUp.signal.aborted));
      await request.catch((reason: unknown) => expect(reason).toBe("given up"));
      expect(wasAborted ?? false, `after ${turns} turns`).toBe(false);
      await eventually("nothing is left", async () => ((await backend.query("")).held.length === 0 ? true : undefined));
    }
  });
});

describe("names", () => {
  test("are escaped so that no two become one, and back", () => {
    const units = fc.array(
      fc.oneof(fc.integer({ min: 0xd7fe, max: 0xe001 }), fc.constantFrom(0x5c, 0x75, 0x64, 0x38, 0x30, 0x65, 0x61)),
      { maxLength: 12 },
    );
    const text = units.map((codes) => String.fromCharCode(...codes));
    fc.assert(
      fc.property(text, text, (a, b) => {
        const [x, y] = [toLockName(a), toLockName(b)];
        expect(fromLockName(x)).toBe(a);
        expect(x).not.toBe("");
        expect(isWellFormed(x)).toBe(true);
        if (a !== b) expect(x).not.toBe(y);
        // Not every name of Holdfast is one of the standard; what is read is.
        const read = b === "" || !isWellFormed(b) ? undefined : fromLockName(b);
        if (read !== undefined) expect(toLockName(read)).toBe(b);
      }),
    );
  });

  test("stay what they are wherever they can, so that both ways lead to the same lock", () => {
    for (const name of ["a", "invoice:42", "a b/c", "\u{1F600}", "\0", "-"]) expect(toLockName(name)).toBe(name);
    expect(toLockName("\uD800")).toBe("\\ud800");
    expect(toLockName("")).toBe("\\e");
    expect(toLockName("a\\b")).toBe("a\\\\b");
  });

  test("of more than 1 KiB are not supported", async () => {
    expect(await manager.request("x".repeat(1024), (lock) => lock!.name.length)).toBe(1024);
    for (const name of ["x".repeat(1025), "é".repeat(513), "\\".repeat(513)])
      await rejectsWith("NotSupportedError", manager.request(name, unreached));
  });
});

function isWellFormed(text: string): boolean {
  return !/\p{Surrogate}/u.test(text);
}

/** A backend that can be spread: its methods lie on its class. */
function methods(backend: Backend): Backend {
  const watch = backend.watch?.bind(backend);
  const swap = backend.swap?.bind(backend);
  return {
    name: backend.name,
    can: backend.can,
    attempt: (claim) => backend.attempt(claim),
    ...(watch && { watch }),
    ...(swap && { swap }),
    renew: (claims, fences) => backend.renew(claims, fences),
    release: (claim, outcome) => backend.release(claim, outcome),
    query: (prefix) => backend.query(prefix),
    inspect: (name) => backend.inspect(name),
    forceRelease: (name, fence, by, reason) => backend.forceRelease(name, fence, by, reason),
    steal: (claim, reason) => backend.steal!(claim, reason),
    listen: (listener) => backend.listen?.(listener),
    close: async () => {},
  };
}
