/** Those who wait beside others of their process who only try: they are served, whatever the tries do. */
import { expect, test } from "vitest";
import { memory } from "../../src/backends/memory/index.ts";
import { createLocks } from "../../src/core/locks.ts";
import { faulty } from "../../src/testing/faulty.ts";
import { stage } from "./scripted.ts";

test.each(["exclusive", "shared"] as const)(
  "S169: a waiter (%s) is asked for though readers' tries with terms of their own overlap without end",
  async (mode) => {
    const { clock, store } = stage();
    // Answers come in another order than they were asked for: a question of a try is always out.
    let asked = 0;
    const decide = (call: string): { fault: "delay"; requestMs: number; replyMs: number } | undefined =>
      call === "attempt" ? { fault: "delay", requestMs: 2, replyMs: 1 + (++asked % 7) } : undefined;
    const locks = createLocks(faulty(memory({ store }), { clock, without: ["swap"], decide }), { clock });
    let over = false;
    const trying = [0, 1, 2].map(async (reader) => {
      while (!over) {
        const lease = await locks.tryAcquire("a", { mode: "shared", meta: { reader: String(reader) } });
        if (lease === null) await new Promise<void>((resolve) => void clock.setTimer(resolve, 1));
        await lease?.release();
      }
    });
    await clock.advance(20);
    const waiting = locks.acquire("a", { mode, wait: "10s" }).then((lease) => lease.release());
    await clock.advance(2000);
    expect(await waiting).toBe("released");
    over = true;
    await clock.advance(1000);
    await Promise.all(trying);
  },
);

test("S169: a waiter behind a try whose question was lost is asked for when that counts as lost", async () => {
  const { clock, store } = stage();
  const at = [{ operation: "attempt", nth: 1, fault: { fault: "hang" } }] as const;
  const locks = createLocks(faulty(memory({ store }), { clock, at }), { clock });
  const trying = locks.tryAcquire("a", { timeout: "1m" }).catch(() => null);
  const waiting = locks.acquire("a", { wait: "4s" });
  await clock.advance(3000);
  const lease = await waiting;
  await lease.release();
  await clock.advance(60_000);
  await (await trying)?.release();
});
