/** One claim that two processes ask for at once: what one does between two steps of the other. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Claim } from "../../../src/contract/backend.ts";
import type { FileBackend } from "../../../src/backends/file/index.ts";
import { type Disk, disk } from "../../../src/backends/file/disk.ts";
import { FakeClock } from "../../../src/testing/fake-clock.ts";
import { claim, granted, Scratch } from "./peers.ts";

const real: Disk = { ...disk };

let scratch: Scratch;
beforeEach(() => {
  scratch = new Scratch();
});
afterEach(async () => {
  Object.assign(disk, real);
  await scratch.end();
});

/** Runs `act` once, after the n-th call of the disk that concerns the path, and returns whether there were that many. */
function afterCall(nth: number, path: string, act: () => unknown): () => boolean {
  let calls = 0;
  let acting = false;
  for (const name of Object.keys(real) as (keyof Disk)[]) {
    Object.assign(disk, {
      [name]: (...args: never[]) => {
        const answer = (real[name] as (...args: never[]) => unknown)(...args);
        if (acting || !args.some((arg) => arg === path)) return answer;
        calls++;
        if (calls !== nth) return answer;
        acting = true;
        void act();
        acting = false;
        return answer;
      },
    });
  }
  return () => calls >= nth;
}

describe.each<[string, Partial<Claim>]>([
  ["exclusive", {}],
  ["shared", { mode: "shared" }],
])("S168: one claim that two processes ask for at once (%s)", (_what, change) => {
  test.each(["nothing", "a lease that is over"])(
    "has one lease, which both can renew, wherever one is when the other asks; before it there was %s",
    async (before) => {
      for (let nth = 1; ; nth++) {
        const clock = new FakeClock();
        const open = (): FileBackend => scratch.open({ detached: true, hints: "poll", clock });
        const [first, second] = [open(), open()];
        const wish = claim({ ...change, name: `lock ${nth}` });
        if (before !== "nothing") {
          await granted(open(), wish);
          clock.block(2 * wish.ttlMs);
        }
        let other: ReturnType<FileBackend["attempt"]> | undefined;
        const happened = afterCall(nth, `${scratch.dir}/o/${wish.id}`, () => {
          clock.block(wish.ttlMs / 2);
          other = second.attempt(wish);
        });
        const { fence, fromMs } = await granted(first, wish);
        Object.assign(disk, real);
        if (!happened()) {
          expect(nth).toBeGreaterThan(3);
          return;
        }
        expect(await other, `call ${nth}`).toMatchObject({ granted: true, fence });
        // What one of them learns is what all others see.
        const [held] = (await open().query(wish.name)).held;
        expect(clock.now() + held!.remainingMs, `call ${nth}`).toBeGreaterThanOrEqual(fromMs! + wish.ttlMs);
        expect(await first.renew([wish]), `call ${nth}`).toMatchObject([{ held: true }]);
        expect(await open().renew([wish]), `call ${nth}`).toMatchObject([{ held: true }]);
        expect(await open().release(wish)).toBe("held");
        expect((await open().query(wish.name)).held).toEqual([]);
      }
    },
  );

  test("that has ended, while one of them stood still, is a new lease: the old one is not revived", async () => {
    for (let nth = 1; ; nth++) {
      const clock = new FakeClock();
      const open = (): FileBackend => scratch.open({ detached: true, hints: "poll", clock });
      const [first, second] = [open(), open()];
      const wish = claim({ ...change, name: `lock ${nth}` });
      let other: ReturnType<FileBackend["attempt"]> | undefined;
      const happened = afterCall(nth, `${scratch.dir}/o/${wish.id}`, () => {
        clock.block(2 * wish.ttlMs);
        other = second.attempt(wish);
        clock.block(2 * wish.ttlMs);
      });
      const { fence, fromMs } = await granted(first, wish);
      Object.assign(disk, real);
      if (!happened()) {
        expect(nth).toBeGreaterThan(3);
        return;
      }
      // It had the lock before it stood still, and its answer says that its time is over.
      if (fromMs! + wish.ttlMs <= clock.now()) continue;
      const ended = await other!;
      if (!ended.granted) expect.fail("no other claim wants the lock");
      expect(fence, `call ${nth}`).toBeGreaterThan(ended.fence);
      expect((await open().query(wish.name)).held, `call ${nth}`).toMatchObject([{ fence }]);
    }
  });
});
