/** Rules about query(). */
import assert from "node:assert/strict";
import { hold, modes, type Rule } from "./rule.ts";

export const queryRules: readonly Rule[] = [
  {
    rule: "a snapshot has two lists, and of each lock its name, its mode and whose it is",
    async run(locks, name) {
      const held = await hold(locks, name);
      const waits = locks.request(name, { mode: "shared" }, () => {});
      const snapshot = await locks.query();
      assert.deepEqual(Object.keys(snapshot).toSorted(), ["held", "pending"]);
      assert.ok(Array.isArray(snapshot.held) && Array.isArray(snapshot.pending));
      for (const list of [snapshot.held, snapshot.pending]) {
        const [info] = list.filter((one) => one.name === name);
        assert.deepEqual(Object.keys(info as object).toSorted(), ["clientId", "mode", "name"]);
        assert.equal(typeof info?.clientId, "string");
        assert.notEqual(info?.clientId, "");
      }
      held.release();
      await Promise.all([held.request, waits]);
    },
  },
  {
    rule: "what is neither held nor waited for is not in a snapshot",
    async run(locks, name) {
      await locks.request(name, () => {});
      const { held, pending } = await locks.query();
      assert.deepEqual([modes(held, name), modes(pending, name)], [[], []]);
    },
  },
  {
    rule: "a snapshot shows each lock that is held, with its mode, also several of one name",
    async run(locks, name) {
      await locks.request(name, async () => {
        await locks.request(`${name} 2`, { mode: "shared" }, async () => {
          await locks.request(`${name} 2`, { mode: "shared" }, async () => {
            const { held } = await locks.query();
            assert.deepEqual(modes(held, name), ["exclusive"]);
            assert.deepEqual(modes(held, `${name} 2`), ["shared", "shared"]);
          });
        });
      });
    },
  },
  {
    rule: "a snapshot shows all who wait, in the order in which they asked",
    async run(locks, name) {
      const { release, request } = await hold(locks, name);
      const asked = ["shared", "exclusive", "shared", "shared", "exclusive"] as const;
      const waiting = asked.map((mode) => locks.request(name, { mode }, () => {}));
      const { held, pending } = await locks.query();
      assert.deepEqual(modes(held, name), ["exclusive"]);
      assert.deepEqual(modes(pending, name), asked);
      release();
      await Promise.all([request, ...waiting]);
    },
  },
  {
    rule: "a snapshot shows what was requested before it, though no callback was called yet",
    async run(locks, name) {
      let release = (): void => {};
      const until = new Promise<void>((resolve) => (release = resolve));
      const requests = [1, 2, 3].map(() => locks.request(name, () => until));
      const tried = locks.request(`${name} 2`, { ifAvailable: true }, () => until);
      const { held, pending } = await locks.query();
      assert.deepEqual([modes(held, name), modes(pending, name)], [["exclusive"], ["exclusive", "exclusive"]]);
      assert.deepEqual([modes(held, `${name} 2`), modes(pending, `${name} 2`)], [["exclusive"], []]);
      release();
      await Promise.all([...requests, tried]);
    },
  },
  {
    rule: "a snapshot does not show who has given up",
    async run(locks, name) {
      const { release, request } = await hold(locks, name);
      const giveUp = new AbortController();
      const waits = locks.request(name, { signal: giveUp.signal }, () => {});
      assert.equal(modes((await locks.query()).pending, name).length, 1);
      giveUp.abort();
      await waits.catch(() => {});
      assert.deepEqual(modes((await locks.query()).pending, name), []);
      release();
      await request;
    },
  },
  {
    rule: "all requests of one client have one clientId",
    async run(locks, name) {
      const [a, b] = [await hold(locks, name), await hold(locks, `${name} 2`)];
      const waits = locks.request(name, () => {});
      const { held, pending } = await locks.query();
      const ids = [...held, ...pending].filter((one) => one.name.startsWith(name)).map(({ clientId }) => clientId);
      assert.deepEqual([ids.length, new Set(ids).size], [3, 1]);
      for (const { release } of [a, b]) release();
      await Promise.all([a.request, b.request, waits]);
    },
  },
  {
    rule: "a snapshot is a copy: to change it changes nothing",
    async run(locks, name) {
      const { release, request } = await hold(locks, name);
      const first = await locks.query();
      first.held.length = 0;
      assert.deepEqual(modes((await locks.query()).held, name), ["exclusive"]);
      release();
      await request;
    },
  },
];
