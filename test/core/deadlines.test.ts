/** Many deadlines behind one timer: none of them may keep the others from theirs. */
import { expect, test } from "vitest";
import { type Deadline, Deadlines } from "../../src/contract/deadlines.ts";
import { FakeClock } from "../../src/testing/fake-clock.ts";

test("one that throws does not stop those that are due with it, nor later ones", () => {
  const clock = new FakeClock();
  const rung: Deadline[] = [];
  const deadlines = new Deadlines<Deadline>(clock, false, (nowMs) => {
    for (let entry = deadlines.take(nowMs); entry !== undefined; entry = deadlines.take(nowMs)) {
      rung.push(entry);
      if (rung.length === 1) throw new Error("boom");
    }
  });
  const entries = [100, 100, 200].map((ms): [Deadline, number] => [{ atMs: 0, heapIndex: -1 }, ms]);
  for (const [entry, ms] of entries) deadlines.set(entry, clock.now() + ms);
  expect(() => clock.fireNext()).toThrow("boom");
  expect(rung).toHaveLength(1);
  expect(clock.fireNext()).toBe(true);
  expect(rung).toHaveLength(2);
  expect(clock.fireNext()).toBe(true);
  expect(new Set(rung)).toEqual(new Set(entries.map(([entry]) => entry)));
  expect(clock.fireNext()).toBe(false);
});
