/** Every rule of the standard that one client can see, over each store. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { WebLockManager } from "../../../src/drop-ins/web-locks/index.ts";
import { webLocks } from "../../../src/drop-ins/web-locks/index.ts";
import { eventually } from "../../../src/testing/eventually.ts";
import { RULES } from "./rules/all.ts";
import { type Store, STORES } from "./stores.ts";

describe.each(Object.entries(STORES))("on %s", (_, start) => {
  let store: Store;
  let locks: WebLockManager;

  beforeAll(async () => {
    store = await start();
    locks = webLocks(await store.client());
  });

  afterAll(() => store.stop());

  for (const [at, { rule, run }] of RULES.filter(({ declined }) => declined === undefined).entries()) {
    test(rule, async () => {
      await run(locks, `rule ${at}`);
      await eventually("nothing is held or waited for any more", async () => {
        const { held, pending } = await locks.query();
        return held.length + pending.length === 0 ? true : undefined;
      });
    });
  }
});

test("what is declined is the order of different names, and nothing else", () => {
  expect(RULES.filter(({ declined }) => declined !== undefined).map(({ rule }) => rule)).toEqual([
    "grants of different names come in the order of their requests",
  ]);
  expect(new Set(RULES.map(({ rule }) => rule)).size).toBe(RULES.length);
});
