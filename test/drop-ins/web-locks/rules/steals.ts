/** Rules about steal. */
import assert from "node:assert/strict";
import { hold, isSettled, modes, rejectsWith, type Rule } from "./rule.ts";

const steal = { steal: true } as const;

export const stealRules: readonly Rule[] = [
  {
    rule: "a free lock can be stolen, too",
    async run(locks, name) {
      assert.deepEqual(await locks.request(name, steal, (lock) => [lock?.name, lock?.mode]), [name, "exclusive"]);
    },
  },
  {
    rule: "a thief gets the lock while its holder's callback goes on, and that request rejects with an AbortError",
    async run(locks, name) {
      const robbed = await hold(locks, name);
      const thief = await hold(locks, name, steal);
      await rejectsWith("AbortError", robbed.request);
      assert.deepEqual(modes((await locks.query()).held, name), ["exclusive"]);
      // What the robbed callback comes to does not matter, and takes nothing from the thief.
      robbed.reject(new Error("too late"));
      assert.equal(await locks.request(name, { ifAvailable: true }, (lock) => lock), null);
      thief.release("stolen");
      assert.equal(await thief.request, "stolen");
      assert.ok(await locks.request(name, { ifAvailable: true }, (lock) => lock !== null));
    },
  },
  {
    rule: "the robbed request rejects before the thief's callback is called",
    async run(locks, name) {
      const order: string[] = [];
      const robbed = await hold(locks, name);
      const rejected = robbed.request.catch(() => order.push("robbed"));
      await locks.request(name, steal, () => void order.push("thief"));
      await rejected;
      assert.deepEqual(order, ["robbed", "thief"]);
    },
  },
  {
    rule: "a request of the same moment is granted first, and robbed then",
    async run(locks, name) {
      const robbed = locks.request(name, () => new Promise(() => {}));
      const rejected = rejectsWith("AbortError", robbed);
      assert.equal(await locks.request(name, steal, () => "stolen"), "stolen");
      await rejected;
    },
  },
  {
    rule: "all who share the lock are robbed",
    async run(locks, name) {
      const readers = await Promise.all([1, 2, 3].map(() => hold(locks, name, { mode: "shared" })));
      const rejected = readers.map(({ request }) => rejectsWith("AbortError", request));
      assert.equal(await locks.request(name, steal, () => "stolen"), "stolen");
      await Promise.all(rejected);
    },
  },
  {
    rule: "a thief comes before all who wait, and these keep their places",
    async run(locks, name) {
      const robbed = await hold(locks, name);
      robbed.request.catch(() => {});
      const order: string[] = [];
      const waits = ["first", "second"].map((who) => locks.request(name, () => void order.push(who)));
      const thief = await hold(locks, name, steal);
      assert.deepEqual(order, []);
      assert.equal(modes((await locks.query()).pending, name).length, 2);
      thief.release();
      await Promise.all([thief.request, ...waits]);
      assert.deepEqual(order, ["first", "second"]);
    },
  },
  {
    rule: "a request that is made after a steal comes after it, though neither is granted yet",
    async run(locks, name) {
      const order: string[] = [];
      const thief = locks.request(name, steal, () => void order.push("thief"));
      const next = locks.request(name, () => void order.push("next"));
      const tried = locks.request(
        name,
        { ifAvailable: true },
        (lock) => void order.push(lock === null ? "none" : "try"),
      );
      await Promise.all([thief, next, tried]);
      assert.equal(order.indexOf("thief") < order.indexOf("next"), true, order.join());
      assert.equal(order.includes("none"), true, order.join());
    },
  },
  {
    rule: "the last of several thieves has the lock, and the others were robbed",
    async run(locks, name) {
      const never = (): Promise<never> => new Promise(() => {});
      const robbed = [locks.request(name, never), locks.request(name, steal, never), locks.request(name, steal, never)];
      const rejected = robbed.map((one) => rejectsWith("AbortError", one));
      assert.equal(await locks.request(name, steal, () => "stolen"), "stolen");
      await Promise.all(rejected);
    },
  },
  {
    rule: "a thief that holds the lock can be robbed by the same client",
    async run(locks, name) {
      const first = await hold(locks, name, steal);
      const rejected = rejectsWith("AbortError", first.request);
      const second = await hold(locks, name, steal);
      await rejected;
      assert.equal(await isSettled(second.request), false);
      second.release();
      await second.request;
    },
  },
  {
    rule: "a lock of another name is not robbed",
    async run(locks, name) {
      const other = await hold(locks, `${name} 2`);
      await locks.request(name, steal, () => {});
      assert.equal(await isSettled(other.request), false);
      other.release("kept");
      assert.equal(await other.request, "kept");
    },
  },
];
