/** Rules about the signal of a request. */
import assert from "node:assert/strict";
import { hold, modes, rejectsExactly, rejectsWith, type Rule, unreached } from "./rule.ts";

export const signalRules: readonly Rule[] = [
  {
    rule: "a signal that has aborted rejects the request with its reason, and the callback is not called",
    async run(locks, name) {
      const plain = AbortSignal.abort();
      await rejectsWith("AbortError", locks.request(name, { signal: plain }, unreached));
      await rejectsExactly(plain.reason, locks.request(name, { signal: plain }, unreached));
      await rejectsExactly("given up", locks.request(name, { signal: AbortSignal.abort("given up") }, unreached));
    },
  },
  {
    rule: "an abort while it waits rejects the request with the reason of the signal",
    async run(locks, name) {
      const { release, request } = await hold(locks, name);
      for (const reason of [undefined, "given up", new Error("mine"), null, 0]) {
        const giveUp = new AbortController();
        const waits = locks.request(name, { signal: giveUp.signal }, unreached);
        assert.equal(modes((await locks.query()).pending, name).length, 1);
        giveUp.abort(reason);
        await rejectsExactly(giveUp.signal.reason, waits);
      }
      release();
      await request;
    },
  },
  {
    rule: "an abort in the moment of the request counts, though the lock is free",
    async run(locks, name) {
      const giveUp = new AbortController();
      const request = locks.request(name, { signal: giveUp.signal }, unreached);
      giveUp.abort();
      await rejectsWith("AbortError", request);
      assert.equal(await locks.request(name, () => "next"), "next");
    },
  },
  {
    rule: "an abort lets the next request in",
    async run(locks, name) {
      const { release, request } = await hold(locks, name, { mode: "shared" });
      const giveUp = new AbortController();
      const writer = locks.request(name, { signal: giveUp.signal }, unreached);
      const reader = locks.request(name, { mode: "shared" }, () => "read");
      await locks.query();
      giveUp.abort("given up");
      await rejectsExactly("given up", writer);
      assert.equal(await reader, "read", "while the first reader still holds it");
      release();
      await request;
    },
  },
  {
    rule: "an abort of the first in the moment of its request lets the second in",
    async run(locks, name) {
      const giveUp = new AbortController();
      const first = locks.request(name, { signal: giveUp.signal }, unreached);
      const second = locks.request(name, () => "second");
      giveUp.abort();
      await rejectsExactly(giveUp.signal.reason, first);
      assert.equal(await second, "second");
    },
  },
  {
    rule: "an abort after the grant changes nothing, before and after the release",
    async run(locks, name) {
      const giveUp = new AbortController();
      const held = await hold(locks, name, { signal: giveUp.signal });
      giveUp.abort();
      assert.deepEqual(modes((await locks.query()).held, name), ["exclusive"]);
      held.release("value");
      assert.equal(await held.request, "value");
      const later = new AbortController();
      const next = await hold(locks, name, { signal: later.signal });
      next.release("value");
      later.abort();
      assert.equal(await next.request, "value");
    },
  },
  {
    rule: "a signal that does not abort changes nothing",
    async run(locks, name) {
      const { signal } = new AbortController();
      assert.equal(await locks.request(name, { signal }, () => "value"), "value");
    },
  },
  {
    rule: "one signal stops any number of requests, each with the same reason",
    async run(locks, name) {
      const { release, request } = await hold(locks, name);
      const giveUp = new AbortController();
      const waits = Array.from({ length: 20 }, (_, at) =>
        locks.request(at % 2 ? name : `${name} 2`, { signal: giveUp.signal }, unreached),
      );
      giveUp.abort("all");
      for (const one of waits) await rejectsExactly("all", one);
      release();
      await request;
    },
  },
];
