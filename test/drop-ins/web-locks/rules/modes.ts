/** Rules about modes, and the order in which requests for one name are served. */
import assert from "node:assert/strict";
import { hold, isSettled, modes, type Rule } from "./rule.ts";

export const modeRules: readonly Rule[] = [
  {
    rule: "requests for one name are served in the order in which they were made",
    async run(locks, name) {
      const served: number[] = [];
      await Promise.all(Array.from({ length: 20 }, (_, at) => locks.request(name, () => void served.push(at))));
      assert.deepEqual(served, [...served.keys()]);
    },
  },
  {
    rule: "shared locks of one name are held together",
    async run(locks, name) {
      await locks.request(name, { mode: "shared" }, async () => {
        const inner = await locks.request(name, { mode: "shared" }, (lock) => lock?.mode);
        assert.equal(inner, "shared");
      });
      const readers = await Promise.all([1, 2, 3].map(() => hold(locks, name, { mode: "shared" })));
      for (const { release } of readers) release();
      await Promise.all(readers.map(({ request }) => request));
    },
  },
  {
    rule: "an exclusive request waits for all who share, and who shares waits for it",
    async run(locks, name) {
      const readers = await Promise.all([1, 2].map(() => hold(locks, name, { mode: "shared" })));
      const order: string[] = [];
      const writer = locks.request(name, () => void order.push("exclusive"));
      const later = locks.request(name, { mode: "shared" }, () => void order.push("shared"));
      assert.deepEqual([await isSettled(writer), await isSettled(later)], [false, false]);
      readers[0]?.release();
      await readers[0]?.request;
      assert.equal(await isSettled(writer), false);
      readers[1]?.release();
      await Promise.all([writer, later]);
      assert.deepEqual(order, ["exclusive", "shared"]);
    },
  },
  {
    rule: "the release of an exclusive lock grants all who share up to the next exclusive request",
    async run(locks, name) {
      const first = await hold(locks, name);
      const readers = [1, 2, 3].map(() => hold(locks, name, { mode: "shared" }));
      const writer = hold(locks, name);
      const last = hold(locks, name, { mode: "shared" });
      let snapshot = await locks.query();
      assert.deepEqual(modes(snapshot.held, name), ["exclusive"]);
      assert.deepEqual(modes(snapshot.pending, name), ["shared", "shared", "shared", "exclusive", "shared"]);
      first.release();
      await first.request;
      snapshot = await locks.query();
      assert.deepEqual(modes(snapshot.held, name), ["shared", "shared", "shared"]);
      assert.deepEqual(modes(snapshot.pending, name), ["exclusive", "shared"]);
      for (const reader of readers) {
        const { release, request } = await reader;
        release();
        await request;
      }
      snapshot = await locks.query();
      assert.deepEqual(modes(snapshot.held, name), ["exclusive"]);
      (await writer).release();
      await (
        await writer
      ).request;
      snapshot = await locks.query();
      assert.deepEqual(modes(snapshot.held, name), ["shared"]);
      (await last).release();
      await (
        await last
      ).request;
    },
  },
  {
    rule: "grants of different names come in the order of their requests",
    declined: "each name has a queue of its own in the store, and nothing orders the grants of two of them",
    async run(locks, name) {
      const served: number[] = [];
      const request = (at: number, which: string): Promise<unknown> =>
        locks.request(`${name} ${which}`, { mode: "shared" }, () => void served.push(at));
      await Promise.all(["a", "b", "c", "a", "b", "c"].map((which, at) => request(at, which)));
      assert.deepEqual(served, [0, 1, 2, 3, 4, 5]);
    },
  },
];
