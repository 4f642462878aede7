import { describe, expect, test } from "vitest";
import { FakeClock } from "../../src/testing/index.ts";

describe("FakeClock", () => {
  test("fires timers in order of time, then of setting, each at its own instant", async () => {
    const clock = new FakeClock({ nowMs: 0 });
    const fired: string[] = [];
    const at = (name: string, ms: number): unknown => clock.setTimer(() => fired.push(`${name}@${clock.now()}`), ms);
    at("b", 20);
    at("a", 10);
    at("c", 20);
    clock.clearTimer(at("cleared", 15));
    at("late", 31);
    await clock.advance(30);
    expect(fired).toEqual(["a@10", "b@20", "c@20"]);
    expect([clock.now(), clock.timers, clock.nextDueMs]).toEqual([30, 1, 31]);
  });

  test("lets promises settle between timers, so that a timer set by one of them is in time", async () => {
    const clock = new FakeClock({ nowMs: 0 });
    const steps: number[] = [];
    const walk = async (): Promise<void> => {
      for (let step = 0; step < 3; step++) {
        await new Promise<void>((resolve) => clock.setTimer(resolve, 10));
        await Promise.resolve();
        steps.push(clock.now());
      }
    };
    void walk();
    await clock.advance(100);
    expect(steps).toEqual([10, 20, 30]);
  });

  test("block() makes timers late, as a blocked event loop does, and time never goes back", async () => {
    const clock = new FakeClock({ nowMs: 0 });
    let firedMs = 0;
    clock.setTimer(() => (firedMs = clock.now()), 10);
    clock.block(50);
    expect([clock.now(), firedMs]).toEqual([50, 0]);
    await clock.advance(0);
    expect([clock.now(), firedMs]).toEqual([50, 50]);
  });

  test("suspend() moves the wall clock only", async () => {
    const clock = new FakeClock({ nowMs: 0, wallMs: 1000 });
    clock.suspend(500);
    await clock.advance(10);
    expect([clock.now(), clock.wall()]).toEqual([10, 1510]);
  });

  test("step() fires one timer, and says whether there was one", async () => {
    const clock = new FakeClock({ nowMs: 0 });
    const fired: number[] = [];
    for (const ms of [20, 10]) clock.setTimer(() => fired.push(clock.now()), ms);
    expect([await clock.step(), await clock.step(), await clock.step()]).toEqual([true, true, false]);
    expect(fired).toEqual([10, 20]);
  });

  test("sleep() moves the clock by itself, and several sleepers share the time", async () => {
    const clock = new FakeClock({ nowMs: 0 });
    const woken: number[] = [];
    await Promise.all([30, 10, 20].map((ms) => clock.sleep(ms).then(() => woken.push(clock.now()))));
    expect(woken).toEqual([10, 20, 30]);
    await clock.sleep(5);
    expect([clock.now(), clock.timers]).toEqual([35, 0]);
  });

  test("knows whose timers are left", () => {
    const clock = new FakeClock();
    const [a, b] = [clock.owned("a"), clock.owned("b")];
    const timer = a.setTimer(() => undefined, 10);
    b.setTimer(() => undefined, 10);
    clock.setTimer(() => undefined, 10);
    expect([clock.timers, clock.timersOf("a"), clock.timersOf("b")]).toEqual([3, 1, 1]);
    a.clearTimer(timer);
    expect([clock.timers, clock.timersOf("a")]).toEqual([2, 0]);
    expect(a.now()).toBe(clock.now());
  });

  test("says when all is quiet: after every promise, before the next timer", async () => {
    const clock = new FakeClock({ nowMs: 0 });
    const seen: string[] = [];
    const stop = clock.whenQuiet(() => seen.push(`quiet@${clock.now()}`));
    clock.setTimer(() => void Promise.resolve().then(() => seen.push("promise")), 5);
    await clock.step();
    stop();
    await clock.settle();
    expect(seen).toEqual(["promise", "quiet@5"]);
  });
});
