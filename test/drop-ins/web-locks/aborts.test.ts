/** An abort takes its place in the order of what one client does: what was asked for before it is decided before it. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { memory } from "../../../src/backends/memory/index.ts";
import type { Locks } from "../../../src/core/api.ts";
import { createLocks } from "../../../src/core/locks.ts";
import { webLocks, type WebLockManager } from "../../../src/drop-ins/web-locks/index.ts";
import { hold, rejectsWith, unreached } from "./rules/rule.ts";

let locks: Locks;
let manager: WebLockManager;

beforeEach(() => {
  locks = createLocks(memory());
  manager = webLocks(locks);
});

afterEach(() => locks.close({ grace: 0, force: true }));

test("a request behind one that is given up after a steal is not robbed by that steal", async () => {
  const reader = await hold(manager, "a", { mode: "shared" });
  const giveUp = new AbortController();
  const writer = manager.request("a", { signal: giveUp.signal }, unreached);
  const next = manager.request("a", { mode: "shared" }, () => thief.then(() => "read"));
  const thief: Promise<string> = manager.request("a", { steal: true }, () => "stolen");
  giveUp.abort("given up");
  const robbed = rejectsWith("AbortError", reader.request);
  await expect(writer).rejects.toBe("given up");
  expect(await thief).toBe("stolen");
  expect(await next).toBe("read");
  await robbed;
});

test("a try that came after a waiting writer gets nothing, though the writer gives up right after it", async () => {
  const reader = await hold(manager, "a", { mode: "shared" });
  const giveUp = new AbortController();
  const writer = manager.request("a", { signal: giveUp.signal }, unreached);
  const tried = manager.request("a", { mode: "shared", ifAvailable: true }, (lock) => lock);
  giveUp.abort("given up");
  await expect(writer).rejects.toBe("given up");
  expect(await tried).toBeNull();
  expect(await manager.request("a", { mode: "shared", ifAvailable: true }, (lock) => lock?.mode)).toBe("shared");
  reader.release();
  await reader.request;
});
