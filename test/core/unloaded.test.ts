/** A process whose files were replaced while it ran: what it has not loaded by then is gone. */
import { expect, test, vi } from "vitest";
import { LockTimeoutError } from "../../src/contract/errors.ts";
import { failure, stage } from "./scripted.ts";

vi.mock("../../src/core/deadlocks.ts", () => {
  throw new Error("gone");
});

test("where the search for deadlocks cannot be loaded, those who wait go on without it", async () => {
  const { clock, other } = stage();
  const locks = other();
  const unhandled: unknown[] = [];
  const note = (error: unknown): void => void unhandled.push(error);
  process.on("unhandledRejection", note);
  await other().acquire("b");
  const waiting = failure(locks.run("a", () => locks.run("b", { wait: 3000 }, () => {})));
  for (let at = 0; at < 3500; at += 100) {
    await clock.advance(100);
    await new Promise((resolve) => setImmediate(resolve));
  }
  expect(await waiting).toBeInstanceOf(LockTimeoutError);
  // The failure to load takes real time.
  await expect(import("../../src/core/deadlocks.ts")).rejects.toThrow();
  await new Promise((resolve) => setTimeout(resolve, 50));
  process.off("unhandledRejection", note);
  expect(unhandled).toEqual([]);
});
