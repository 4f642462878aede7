/** Rules about callbacks: what becomes of their results, and for how long the lock is held. */
import assert from "node:assert/strict";
import { hold, isSettled, rejectsExactly, type Rule } from "./rule.ts";

function thenableOf(then: (resolve: (value: string) => void) => void): object {
  const made = {};
  Reflect.set(made, "then", then);
  return made;
}

export const callbackRules: readonly Rule[] = [
  {
    rule: "the request resolves to what the callback returns: a value, a promise's, or a thenable's",
    async run(locks, name) {
      assert.equal(await locks.request(name, () => 123), 123);
      assert.equal(await locks.request(name, () => undefined), undefined);
      assert.equal(await locks.request(name, async () => "later"), "later");
      const thenable = thenableOf((resolve) => resolve("then"));
      assert.equal(await locks.request(name, () => thenable), "then");
    },
  },
  {
    rule: "the request rejects with what the callback throws or rejects with, whatever that is",
    async run(locks, name) {
      const error = { name: "mine" };
      await rejectsExactly(
        error,
        locks.request(name, () => Promise.reject(error)),
      );
      await rejectsExactly(
        undefined,
        locks.request(name, () => Promise.reject(undefined)),
      );
      const throws = (): never => {
        throw error;
      };
      await rejectsExactly(error, locks.request(name, throws));
      let called = false;
      const thenable = thenableOf(() => void (called = true));
      await rejectsExactly(
        thenable,
        locks.request(name, () => Promise.reject(thenable)),
      );
      assert.equal(called, false, "what is thrown is not waited for");
    },
  },
  {
    rule: "the lock is held until what the callback returned resolves",
    async run(locks, name) {
      const { release, request } = await hold(locks, name);
      const order: string[] = [];
      const next = locks.request(name, () => void order.push("granted"));
      assert.equal(await isSettled(next), false);
      order.push("released");
      release("value");
      assert.equal(await request, "value");
      await next;
      assert.deepEqual(order, ["released", "granted"]);
    },
  },
  {
    rule: "the lock is held until what the callback returned rejects",
    async run(locks, name) {
      const held = await hold(locks, name);
      const next = locks.request(name, () => "next");
      assert.equal(await isSettled(next), false);
      const reason = new Error("mine");
      held.reject(reason);
      await rejectsExactly(reason, held.request);
      assert.equal(await next, "next");
    },
  },
  {
    rule: "a callback that throws gives the lock back",
    async run(locks, name) {
      await locks
        .request(name, () => {
          throw new Error("mine");
        })
        .catch(() => {});
      assert.ok(await locks.request(name, { ifAvailable: true }, (lock) => lock !== null));
    },
  },
  {
    rule: "the request settles after the lock is given back",
    async run(locks, name) {
      const order: string[] = [];
      const { release, request } = await hold(locks, name);
      const settled = request.then(() => order.push("settled"));
      release();
      await settled;
      assert.ok(await locks.request(name, { ifAvailable: true }, (lock) => lock !== null), "it is free by then");
      for (let turn = 0; turn < 5; turn++) {
        await locks.request(name, { ifAvailable: true }, (lock) => assert.ok(lock));
      }
    },
  },
  {
    rule: "it is not re-entrant: a nested request for the same name waits",
    async run(locks, name) {
      const order: string[] = [];
      let inner: Promise<unknown> | undefined;
      await locks.request(name, async () => {
        inner = locks.request(name, () => order.push("inner"));
        assert.equal(await isSettled(inner), false);
        order.push("outer");
      });
      await inner;
      assert.deepEqual(order, ["outer", "inner"]);
    },
  },
  {
    rule: "it is not re-entrant for ifAvailable either",
    async run(locks, name) {
      await locks.request(name, async () => {
        assert.equal(await locks.request(name, { ifAvailable: true }, (lock) => lock), null);
        assert.equal(await locks.request(name, { ifAvailable: true, mode: "shared" }, (lock) => lock), null);
      });
    },
  },
  {
    rule: "different names do not wait for each other",
    async run(locks, name) {
      await locks.request(name, async () => {
        assert.equal(await locks.request(`${name} other`, () => "other"), "other");
      });
    },
  },
];
