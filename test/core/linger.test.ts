/** `linger`: a hold that no request here wants is kept for a moment, and the next one takes it in memory. */
import { describe, expect, test } from "vitest";
import { memory, memoryStore } from "../../src/backends/memory/index.ts";
import type { Backend, Claim } from "../../src/contract/backend.ts";
import { createLocks } from "../../src/core/locks.ts";
import type { Locks, LocksOptions } from "../../src/core/api.ts";
import { FakeClock } from "../../src/testing/fake-clock.ts";

const LINGER: LocksOptions = { linger: 50, ttl: 1000 };

interface World {
  readonly clock: FakeClock;
  readonly asked: string[];
  open(options?: LocksOptions, change?: (backend: Backend) => Partial<Backend>): Locks;
}

function world(run?: number): World {
  const clock = new FakeClock();
  const store = memoryStore({ clock, ...(run !== undefined && { run }) });
  const asked: string[] = [];
  const open: World["open"] = (options = LINGER, change = () => ({})) => {
    const backend = memory({ store, clock });
    const noted = (verb: "attempt" | "release" | "swap") => ({
      [verb]: (...args: unknown[]) => {
        asked.push(verb);
        return (backend[verb] as (...all: unknown[]) => unknown).apply(backend, args);
      },
    });
    const seen = new Proxy(backend, {
      get: (target, key) => {
        const own = { ...noted("attempt"), ...noted("release"), ...noted("swap"), ...change(backend) };
        const value: unknown = key in own ? own[key as never] : Reflect.get(target, key);
        return typeof value === "function" ? value.bind(target) : value;
      },
    });
    return createLocks(seen, { clock, ...options });
  };
  return { clock, asked, open };
}

async function cycle(locks: Locks, name = "a", options = {}): Promise<bigint> {
  const lease = await locks.acquire(name, options);
  lease.assertHeld();
  expect(await lease.release()).toBe("released");
  return lease.fence;
}

describe("the next local claim", () => {
  test("takes a lingering hold in memory, with the next fence", async () => {
    const { open, asked } = world();
    const locks = open();
    const fences = [await cycle(locks), await cycle(locks), await cycle(locks)];
    expect(fences).toEqual([fences[0], fences[0]! + 1n, fences[0]! + 2n]);
    expect(asked).toEqual(["attempt"]);
    await locks.close();
    expect(asked).toEqual(["attempt", "release"]);
  });
});
