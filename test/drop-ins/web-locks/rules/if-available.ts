/** Rules about ifAvailable. */
import assert from "node:assert/strict";
import type { WebLockMode } from "../../../../src/drop-ins/web-locks/api.ts";
import { hold, rejectsExactly, type Rule } from "./rule.ts";

const MODES: readonly WebLockMode[] = ["exclusive", "shared"];

export const ifAvailableRules: readonly Rule[] = [
  {
    rule: "ifAvailable grants a free lock",
    async run(locks, name) {
      assert.equal(await locks.request(name, { ifAvailable: true }, (lock) => lock?.name), name);
    },
  },
  {
    rule: "ifAvailable calls the callback with null where the lock is held, and passes its result on",
    async run(locks, name) {
      const { release, request } = await hold(locks, name);
      assert.equal(await locks.request(name, { ifAvailable: true }, (lock) => (lock === null ? 123 : 0)), 123);
      const error = { name: "mine" };
      const throws = (): never => {
        throw error;
      };
      await rejectsExactly(error, locks.request(name, { ifAvailable: true }, throws));
      await rejectsExactly(
        error,
        locks.request(name, { ifAvailable: true }, () => Promise.reject(error)),
      );
      release();
      await request;
    },
  },
  ...MODES.flatMap((held) =>
    MODES.map((asked): Rule => {
      const fits = held === "shared" && asked === "shared";
      return {
        rule: `a lock that is held ${held} is ${fits ? "" : "not "}available ${asked}`,
        async run(locks, name) {
          const { release, request } = await hold(locks, name, { mode: held });
          const got = await locks.request(name, { mode: asked, ifAvailable: true }, (lock) => lock?.mode ?? null);
          assert.equal(got, fits ? asked : null);
          release();
          await request;
        },
      };
    }),
  ),
  {
    rule: "a lock that others wait for is not available, also where it would fit beside its holders",
    async run(locks, name) {
      const reader = await hold(locks, name, { mode: "shared" });
      const writer = locks.request(name, () => "written");
      assert.equal(await locks.request(name, { mode: "shared", ifAvailable: true }, (lock) => lock), null);
      reader.release();
      assert.equal(await writer, "written");
    },
  },
  {
    rule: "ifAvailable behind a request of the same moment is refused",
    async run(locks, name) {
      let release = (): void => {};
      const first = locks.request(name, () => new Promise<void>((resolve) => (release = resolve)));
      assert.equal(await locks.request(name, { ifAvailable: true }, (lock) => lock), null);
      release();
      await first;
    },
  },
  {
    rule: "of two with ifAvailable in the same moment the first gets the lock",
    async run(locks, name) {
      const others: Promise<boolean>[] = [];
      const first = locks.request(name, { ifAvailable: true }, async (lock) => {
        await Promise.resolve();
        // Held until the other was answered.
        await others[0];
        return lock !== null;
      });
      others.push(locks.request(name, { ifAvailable: true }, (lock) => lock !== null));
      assert.deepEqual([await first, await others[0]], [true, false]);
    },
  },
  {
    rule: "a lock is available as soon as its request has settled, also inside another callback",
    async run(locks, name) {
      await locks.request(name, async () => {
        await locks.request(`${name} 2`, () => {});
        assert.ok(await locks.request(`${name} 2`, { ifAvailable: true }, (lock) => lock !== null));
      });
    },
  },
];
